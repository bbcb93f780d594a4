//! The built-in classes, from file-system structures, with the steps of file sizes of Differentiated Storage Services
//! (SOSP 2011, Table 3).

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
/// The names of the built-in classes, from number 0 on.
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

/// The name of a built-in class.
#[must_use]
pub fn name(class: ClassId) -> Option<&'static str> {
    NAMES.get(class.index()).copied()
}

/// The class of that name.
#[must_use]
pub fn named(name: &str) -> Option<ClassId> {
    NAMES.iter().position(|known| *known == name).and_then(|number| u8::try_from(number).ok()).and_then(ClassId::new)
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
        assert_eq!((name(DIRECTORY), named("scan")), (Some("directory"), None));
    }
}
