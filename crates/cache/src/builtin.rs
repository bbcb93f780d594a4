//! The built-in classes: from file-system structures, with the steps of file sizes of Differentiated Storage Services
//! (SOSP 2011, Table 3), and from the pattern of the requests.

use nitro_units::ClassId;

const fn class(number: u8) -> ClassId {
    match ClassId::new(number) {
        Some(class) => class,
        None => ClassId::UNCLASSIFIED,
    }
}

/// Metadata of a file system: superblocks, bitmaps, inodes, trees.
pub const METADATA: ClassId = class(1);
/// The journal of a file system.
pub const JOURNAL: ClassId = class(2);
/// Directories.
pub const DIRECTORY: ClassId = class(3);
/// Data of files up to 4 KiB; each next class has four times the size, and the last one is for files of more than 1
/// GiB.
const SMALLEST_FILE: u8 = 4;
/// Size of the smallest files in bytes.
const SMALLEST_BYTES: u64 = 4 << 10;
/// Data read or written in a sequential run ([`RunDetector`](crate::pattern::RunDetector)).
pub const SCAN: ClassId = class(29);
/// Data read outside of such runs, and not used before, as far as the cache remembers.
pub const READ_ONCE: ClassId = class(30);
/// Data used outside of such runs: written, or read more than once.
pub const RANDOM: ClassId = class(31);
/// The classes that the pattern of the requests gives, and their names.
const OF_PATTERNS: [(ClassId, &str); 3] = [(SCAN, "scan"), (READ_ONCE, "read-once"), (RANDOM, "random")];
/// The names of the built-in classes of file-system structures, from number 0 on.
const NAMES: [&str; 15] = [
    "unclassified",
    "metadata",
    "journal",
    "directory",
    "file-4k",
    "file-16k",
    "file-64k",
    "file-256k",
    "file-1m",
    "file-4m",
    "file-16m",
    "file-64m",
    "file-256m",
    "file-1g",
    "file-large",
];

/// The class of the data of a file of `bytes`.
#[must_use]
pub const fn of_file(bytes: u64) -> ClassId {
    let mut number = SMALLEST_FILE;
    let mut most = SMALLEST_BYTES;
    while bytes > most && (number as usize) < NAMES.len() - 1 {
        number += 1;
        most *= 4;
    }
    class(number)
}

/// Whether the pattern of the requests gives this class.
#[must_use]
pub fn is_of_pattern(class: ClassId) -> bool {
    OF_PATTERNS.iter().any(|(known, _)| *known == class)
}

/// The class of data of `class` after a further read that has the class `by` according to its pattern: outside of a
/// sequential run, a further use makes it [`RANDOM`].
#[must_use]
pub fn used_again(class: ClassId, by: ClassId) -> ClassId {
    if by == READ_ONCE && (class == READ_ONCE || class == SCAN) { RANDOM } else { class }
}

/// The name of a built-in class.
#[must_use]
pub fn name(class: ClassId) -> Option<&'static str> {
    let of_pattern = || OF_PATTERNS.iter().find(|(known, _)| *known == class).map(|(_, name)| *name);
    NAMES.get(class.index()).copied().or_else(of_pattern)
}

/// The class of that name.
#[must_use]
pub fn named(name: &str) -> Option<ClassId> {
    ClassId::all().find(|class| self::name(*class) == Some(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_get_the_class_of_their_size() {
        for (bytes, expected) in [
            (0, "file-4k"),
            (4096, "file-4k"),
            (4097, "file-16k"),
            (16 << 10, "file-16k"),
            (1 << 20, "file-1m"),
            (1 << 30, "file-1g"),
            ((1 << 30) + 1, "file-large"),
            (u64::MAX, "file-large"),
        ] {
            assert_eq!(name(of_file(bytes)), Some(expected), "{bytes}");
        }
        assert!(ClassId::all().take(NAMES.len()).all(|class| name(class).and_then(named) == Some(class)));
        assert_eq!((name(DIRECTORY), named("scam")), (Some("directory"), None));
    }

    #[test]
    fn patterns_have_classes_of_their_own() {
        assert_eq!(["scan", "read-once", "random"].map(named), [SCAN, READ_ONCE, RANDOM].map(Some));
        assert_eq!([SCAN, READ_ONCE, RANDOM].map(|class| used_again(class, READ_ONCE)), [RANDOM; 3]);
        assert_eq!([SCAN, READ_ONCE, RANDOM].map(|class| used_again(class, SCAN)), [SCAN, READ_ONCE, RANDOM]);
        assert_eq!(
            [METADATA, ClassId::UNCLASSIFIED].map(|class| used_again(class, READ_ONCE)).map(is_of_pattern),
            [false; 2]
        );
        let of_patterns: Vec<_> = ClassId::all().filter(|class| is_of_pattern(*class)).collect();
        assert_eq!(of_patterns, [SCAN, READ_ONCE, RANDOM]);
    }
}
