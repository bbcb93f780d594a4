//! Which objects of several traces are the same disk.
//!
//! Formats number their objects within a file, so that equal numbers in two files say nothing. What identifies a disk is
//! its [name](ObjectName), as far as the format has names, and otherwise the file.

use crate::{ErrorKind, Place, TraceError};
use hashbrown::HashMap;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// Most objects of several traces, in about 100 bytes each.
const OBJECTS_MAX: usize = 1 << 20;

/// The kind of the names of recorded volumes.
const VOLUME: &str = "volume";

/// What a trace calls an object, and where that name is valid.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum ObjectName {
    /// It has no name, only a number within its file.
    #[default]
    Number,
    /// A name within a machine, such as a device number: valid in all parts of one trace.
    Local(String),
    /// A name that no other disk has, such as host and disk, or the identity of a recorded volume.
    Global(String),
}

impl ObjectName {
    /// The global name of a volume that a server recorded: its UUID, and what it was called then.
    #[must_use]
    pub fn of_volume(uuid: &str, name: &str) -> Self {
        Self::Global(format!("{VOLUME}:{uuid}/{name}"))
    }

    /// The name for people: without its kind, and without the UUID of a volume.
    #[must_use]
    pub fn short(&self) -> Option<&str> {
        match self {
            Self::Number => None,
            Self::Local(name) => Some(name),
            Self::Global(name) => Some(match name.split_once(':') {
                Some((VOLUME, volume)) => volume.split_once('/').map_or(volume, |(_, name)| name),
                Some((_, name)) => name,
                None => name,
            }),
        }
    }
}

/// The part of a global name that identifies the disk: a volume may be renamed.
fn identity(name: &str) -> &str {
    match name.split_once(':') {
        Some((VOLUME, _)) => name.split_once('/').map_or(name, |(identity, _)| identity),
        _ => name,
    }
}

/// The rule by which objects of several traces are the same disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum SameDisks {
    /// Those that the traces name the same: global names in any file, local names in the parts of one trace.
    #[default]
    Named,
    /// Those with the same name, or the same number if they have no name, in any file.
    Numbered,
    /// Those of the same file only.
    OfFile,
}

/// Where a reader's objects are from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Origin {
    /// The number of the file. The same file has the same number.
    pub file: u32,
    /// The number of the trace that the file is a part of.
    pub trace: u32,
}

/// The origins of several files in order. Files are parts of one trace if their paths differ only in a number between
/// dots and in the compression, as `sda.blktrace.0` and `sda.blktrace.1`, or `web.1.blkparse` and `web.2.blkparse.gz`.
/// `-` is standard input.
#[must_use]
pub fn origins(paths: &[PathBuf]) -> Vec<Origin> {
    fn first<T: PartialEq>(things: &[T], thing: &T) -> u32 {
        things.iter().position(|other| other == thing).unwrap_or_default() as u32
    }
    let files: Vec<_> = paths.iter().map(|path| file_of(path)).collect();
    let traces: Vec<_> = paths.iter().map(|path| trace_of(path)).collect();
    let both = files.iter().zip(&traces);
    both.map(|(file, trace)| Origin { file: first(&files, file), trace: first(&traces, trace) }).collect()
}

/// What identifies a file: device and inode, or the path of a file that cannot be examined.
fn file_of(path: &Path) -> Result<(u64, u64), &Path> {
    fs::metadata(path).map(|found| (found.dev(), found.ino())).map_err(|_| path)
}

/// The path that all parts of a trace share.
fn trace_of(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut items: Vec<&str> = name.split('.').collect();
    if items.len() > 1 && items.last().is_some_and(|end| ["gz", "zst", "bz2", "xz"].contains(end)) {
        items.pop();
    }
    let is_number = |item: &str| !item.is_empty() && item.bytes().all(|byte| byte.is_ascii_digit());
    // Several numbers are an address or a version rather than the number of a part.
    if items.iter().filter(|item| is_number(item)).count() == 1 && !is_number(items[0]) {
        items.retain(|item| !is_number(item));
    }
    let folder = path.parent().unwrap_or(Path::new(""));
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned()).join(items.join("."))
}

/// What identifies an object.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    /// A number within a file, or in any file.
    Number(Option<u32>, u32),
    /// A name within a trace, within a file, or anywhere.
    OfTrace(u32, String),
    OfFile(u32, String),
    Anywhere(String),
}

/// The objects of several traces, with numbers that differ if the objects do.
#[derive(Debug, Default)]
pub(crate) struct Objects {
    rule: SameDisks,
    numbers: HashMap<Key, u32>,
    names: HashMap<u32, ObjectName>,
    taken: BTreeSet<u32>,
    /// The first object that another trace also has a number or a local name for, which was not taken for the same.
    apart: Arc<OnceLock<String>>,
    /// Where each number and local name was seen first.
    seen: HashMap<ObjectKey, Origin>,
}

/// A number or a local name, wherever it is from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum ObjectKey {
    Number(u32),
    Local(String),
}

impl Objects {
    pub(crate) fn new(rule: SameDisks) -> Self {
        Self { rule, ..Self::default() }
    }

    /// The first object of several files that was not taken for the same disk although its number, or its local name, is
    /// the same; empty until it occurs.
    pub(crate) fn apart(&self) -> Arc<OnceLock<String>> {
        Arc::clone(&self.apart)
    }

    /// What an object that [`number`](Self::number) returned is called.
    pub(crate) fn name(&self, number: u32) -> ObjectName {
        self.names.get(&number).cloned().unwrap_or_default()
    }

    /// The number of the object that a trace from `origin` calls `name` and numbers `own`: `own` if no other object has
    /// that number.
    ///
    /// # Errors
    /// There are too many objects.
    pub(crate) fn number(&mut self, origin: Origin, own: u32, name: ObjectName) -> Result<u32, TraceError> {
        let key = match (self.rule, name.clone()) {
            (SameDisks::Numbered, ObjectName::Number) => Key::Number(None, own),
            (_, ObjectName::Number) => Key::Number(Some(origin.file), own),
            (SameDisks::Named | SameDisks::Numbered, ObjectName::Global(name)) => {
                Key::Anywhere(identity(&name).to_owned())
            }
            (SameDisks::Numbered, ObjectName::Local(name)) => Key::Anywhere(name),
            (SameDisks::Named, ObjectName::Local(name)) => Key::OfTrace(origin.trace, name),
            (SameDisks::OfFile, ObjectName::Local(name)) => Key::OfFile(origin.file, name),
            (SameDisks::OfFile, ObjectName::Global(name)) => Key::OfFile(origin.file, identity(&name).to_owned()),
        };
        if let Some(number) = self.numbers.get(&key) {
            return Ok(*number);
        }
        if self.numbers.len() >= OBJECTS_MAX {
            let reason = format_args!("the traces have more than {OBJECTS_MAX} objects").to_string();
            return Err(TraceError::new(ErrorKind::Setting, Place::Whole, reason));
        }
        self.note_apart(origin, own, &name);
        let number = self.free(own);
        self.taken.insert(number);
        self.numbers.insert(key, number);
        self.names.insert(number, name);
        Ok(number)
    }

    /// `wanted`, or the next number that is free.
    fn free(&self, wanted: u32) -> u32 {
        if !self.taken.contains(&wanted) {
            return wanted;
        }
        // There are fewer objects than numbers.
        let mut free = 0;
        for &taken in &self.taken {
            if taken != free {
                break;
            }
            free = taken + 1;
        }
        free
    }

    fn note_apart(&mut self, origin: Origin, own: u32, name: &ObjectName) {
        if self.rule != SameDisks::Named || self.apart.get().is_some() {
            return;
        }
        let (key, called) = match name {
            ObjectName::Global(_) => return,
            ObjectName::Number => (ObjectKey::Number(own), format!("object {own}")),
            ObjectName::Local(name) => (ObjectKey::Local(name.clone()), format!("object {name:?}")),
        };
        if *self.seen.entry(key).or_insert(origin) != origin {
            // Set once.
            let _ = self.apart.set(called);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_trace_differ_in_one_number_between_dots() {
        let of = |paths: &[&str]| {
            let paths: Vec<_> = paths.iter().map(PathBuf::from).collect();
            origins(&paths).iter().map(|origin| origin.trace).collect::<Vec<_>>()
        };
        assert_eq!(of(&["a/sda.blktrace.0", "a/sda.blktrace.1", "b/sda.blktrace.0"]), [0, 0, 2]);
        assert_eq!(of(&["web.1.blkparse", "web.2.blkparse.gz", "./web.10.blkparse"]), [0, 0, 0]);
        assert_eq!(of(&["homes.txt", "mail.txt"]), [0, 1]);
        assert_eq!(of(&["192.168.0.1.txt", "192.168.0.2.txt"]), [0, 1], "addresses of hosts");
        assert_eq!(of(&["1.txt", "2.txt"]), [0, 1], "nothing else is the same");
        assert_eq!(of(&["hm_0.csv", "hm_1.csv", "hm_0.csv"]), [0, 1, 0]);
    }

    #[test]
    fn names_are_short_for_people() {
        let short = |name: ObjectName| name.short().map(str::to_owned);
        assert_eq!(short(ObjectName::of_volume("1-2", "a/b:c")).as_deref(), Some("a/b:c"));
        assert_eq!(short(ObjectName::Global("msr:hm,0".into())).as_deref(), Some("hm,0"));
        assert_eq!(short(ObjectName::Local("device:8:0".into())).as_deref(), Some("device:8:0"));
        assert_eq!(short(ObjectName::Number), None);
    }

    #[test]
    fn the_lowest_free_number_is_taken_if_the_own_one_is_not_free() {
        let mut objects = Objects::new(SameDisks::Named);
        let origin = |file| Origin { file, trace: file };
        let numbers = [(0, 0), (0, 2), (1, 0), (1, 2), (2, 0), (2, 7)]
            .map(|(file, own)| objects.number(origin(file), own, ObjectName::Number).unwrap());
        assert_eq!(numbers, [0, 2, 1, 3, 4, 7]);
        assert_eq!(objects.apart().get().map(String::as_str), Some("object 0"));
        assert_eq!(objects.number(origin(1), 2, ObjectName::Number).unwrap(), 3, "it keeps its number");
    }

    #[test]
    fn names_decide_where_there_are_names() {
        let local = |name: &str| ObjectName::Local(name.into());
        let global = |name: &str| ObjectName::Global(name.into());
        let numbers = |rule| {
            let mut objects = Objects::new(rule);
            let mut number = |file, trace, own, name| objects.number(Origin { file, trace }, own, name).unwrap();
            [
                number(0, 0, 0, global("hm,0")),
                number(1, 1, 0, global("hm,1")),
                number(2, 2, 5, global("hm,0")),
                number(3, 3, 8, local("8:0")),
                number(4, 3, 8, local("8:0")),
                number(5, 5, 8, local("8:0")),
                number(6, 6, 9, ObjectName::Number),
                number(7, 7, 9, ObjectName::Number),
            ]
        };
        assert_eq!(numbers(SameDisks::Named), [0, 1, 0, 8, 8, 2, 9, 3]);
        assert_eq!(numbers(SameDisks::Numbered), [0, 1, 0, 8, 8, 8, 9, 9]);
        assert_eq!(numbers(SameDisks::OfFile), [0, 1, 5, 8, 2, 3, 9, 4]);
    }
}
