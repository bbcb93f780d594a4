//! Which slots hold which files, over restarts: an index in RAM and a file to which records are appended.
//!
//! A record says that a slot holds a span of a file as long as the file has the record's version. Once written, that
//! stays true: a slot is never given to another file, and a file does not get an earlier version again, as nothing but
//! the clock can set its time of change back. Records may therefore be lost or late, which costs what is cached of
//! their files, and need not be durable. Only that slots are given away is made durable before it is done, for many at a time.

mod record;

use crate::address::{SLOTS, Slot};
use crate::version::{FileKey, Version};
use lru::LruCache;
use nitro_files::{Links, write_durably};
use parking_lot::Mutex;
use record::{RECORD_BYTES, Record, head, id_of};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use smallvec::SmallVec;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::num::NonZeroUsize;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Maximum number of files in the table; those that were not used for the longest time are dropped.
pub(crate) const FILES_MAX: usize = 1 << 20;
/// RAM of a file in the table, in bytes, with the index.
pub(crate) const FILE_BYTES: u64 = 160;
/// Slots that are noted as given away at once.
const BATCH: u32 = 4096;
/// At the start, a table of which more slots are used up begins anew.
const USED_MAX: u32 = SLOTS / 4 * 3;
/// Records beyond twice those of the files for which the file is not rewritten.
const SURPLUS: usize = 4096;

/// The slots of a file, by its spans.
pub(crate) type Slots = SmallVec<[(u32, Slot); 1]>;

#[derive(Debug, Clone)]
struct Known {
    version: Version,
    slots: Slots,
}

struct Inner {
    files: LruCache<FileKey, Known>,
    /// The next slot to give away.
    next: u32,
    /// Slots below this one are noted as given away, durably.
    reserved: u32,
    file: File,
    /// Records that are not written yet.
    pending: Vec<u8>,
    /// The file cannot be written any more.
    failed: bool,
}

/// Why a table cannot be used.
#[derive(Debug)]
pub enum TableError {
    /// Another process has it.
    InUse,
    /// It cannot be read or written.
    Io(io::Error),
}

impl From<io::Error> for TableError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// The table.
pub struct Table {
    id: [u8; 16],
    inner: Mutex<Inner>,
    /// Held as long as the table is used.
    _lock: File,
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let inner = self.inner.lock();
        f.debug_struct("Table").field("files", &inner.files.len()).field("next", &inner.next).finish()
    }
}

/// What a file of a table says.
struct Loaded {
    id: [u8; 16],
    files: LruCache<FileKey, Known>,
    reserved: u32,
    records: usize,
}

fn empty() -> LruCache<FileKey, Known> {
    LruCache::new(NonZeroUsize::new(FILES_MAX).unwrap_or(NonZeroUsize::MIN))
}

fn load(path: &Path) -> io::Result<Option<Loaded>> {
    let mut file = match File::open(path) {
        Ok(file) => io::BufReader::with_capacity(1 << 20, file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut bytes = [0; RECORD_BYTES];
    let mut next = || match file.read_exact(&mut bytes) {
        Ok(()) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    };
    let Some(id) = next()?.and_then(|head| id_of(&head)) else { return Ok(None) };
    let mut loaded = Loaded { id, files: empty(), reserved: 0, records: 0 };
    while let Some(bytes) = next()? {
        loaded.records += 1;
        match Record::decode(&bytes) {
            Some(Record::Reserved(slots)) => loaded.reserved = loaded.reserved.max(slots),
            Some(Record::Held { key, version, span, slot }) => {
                let known = loaded.files.get_or_insert_mut(key, || Known { version, slots: Slots::new() });
                if known.version != version {
                    *known = Known { version, slots: Slots::new() };
                }
                known.slots.retain(|(other, _)| *other != span);
                known.slots.push((span, slot));
            }
            None => {}
        }
    }
    // What was not reserved was not given away: such a slot is not one of this table.
    let reserved = loaded.reserved;
    loaded.files.iter_mut().for_each(|(_, known)| known.slots.retain(|(_, slot)| slot.0 < reserved));
    Ok(Some(loaded))
}

fn records_of<'a>(files: impl Iterator<Item = (&'a FileKey, &'a Known)>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (key, known) in files {
        append(&mut bytes, *key, known);
    }
    bytes
}

fn append(bytes: &mut Vec<u8>, key: FileKey, known: &Known) {
    for (span, slot) in &known.slots {
        let record = Record::Held { key, version: known.version, span: *span, slot: *slot };
        bytes.extend_from_slice(&record.encode());
    }
}

impl Table {
    /// Opens the table in a file, or makes a new one if there is none, or if it is used up: with another identity.
    ///
    /// # Errors
    /// [`TableError`].
    pub fn open(path: &Path) -> Result<Self, TableError> {
        let private = |options: &mut OpenOptions| options.mode(0o600).open(path.with_extension("lock"));
        let lock = private(OpenOptions::new().write(true).create(true).truncate(false))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(TableError::InUse),
            Err(error) => return Err(io::Error::from(error).into()),
        }
        let loaded = load(path)?.filter(|loaded| loaded.reserved <= USED_MAX);
        let is_new = loaded.is_none();
        let loaded = match loaded {
            Some(loaded) => loaded,
            None => {
                let mut id = [0; 16];
                getrandom::fill(&mut id).map_err(io::Error::other)?;
                Loaded { id, files: empty(), reserved: 0, records: 0 }
            }
        };
        let Loaded { id, files, reserved, records } = loaded;
        let len = std::fs::metadata(path).map_or(0, |found| found.len());
        let is_torn = !len.is_multiple_of(RECORD_BYTES as u64);
        if is_new || is_torn || records > files.len() * 2 + SURPLUS {
            let mut bytes = head(id).to_vec();
            bytes.extend_from_slice(&Record::Reserved(reserved).encode());
            // From the one that was not used for the longest time on, so that they come back in this order.
            bytes.extend(records_of(files.iter().rev()));
            write_durably(path, Links::Followed, &bytes)?;
        }
        let file = OpenOptions::new().append(true).open(path)?;
        let inner = Inner { files, next: reserved, reserved, file, pending: Vec::new(), failed: false };
        Ok(Self { id, inner: Mutex::new(inner), _lock: lock })
    }

    /// A random number that only this table has: slots of another one mean something else.
    #[must_use]
    pub fn id(&self) -> [u8; 16] {
        self.id
    }

    /// The slots of a file that are right if it has this version; without any, the file is not known in this state.
    pub(crate) fn find(&self, key: FileKey, version: Version) -> Slots {
        let mut inner = self.inner.lock();
        match inner.files.get(&key) {
            Some(known) if known.version == version => known.slots.clone(),
            _ => Slots::new(),
        }
    }

    /// Whether the table has the file, in whatever state.
    pub(crate) fn has(&self, key: FileKey) -> bool {
        self.inner.lock().files.contains(&key)
    }

    /// A slot that no file has had. `None`: all are used up, or the table cannot be written.
    pub(crate) fn take_slot(&self) -> Option<Slot> {
        let mut inner = self.inner.lock();
        if inner.next == inner.reserved {
            let reserved = inner.reserved.checked_add(BATCH).filter(|reserved| *reserved <= SLOTS)?;
            inner.pending.extend_from_slice(&Record::Reserved(reserved).encode());
            inner.write();
            if inner.failed {
                return None;
            }
            if let Err(error) = inner.file.sync_data() {
                inner.fail(&error);
                return None;
            }
            inner.reserved = reserved;
        }
        inner.next += 1;
        Some(Slot(inner.next - 1))
    }

    /// Notes the slots of a file, and the version for which they are right.
    pub(crate) fn note(&self, key: FileKey, version: Version, slots: &Slots) {
        let mut inner = self.inner.lock();
        if slots.is_empty() {
            inner.files.pop(&key);
            return;
        }
        let known = Known { version, slots: slots.clone() };
        append(&mut inner.pending, key, &known);
        inner.files.push(key, known);
    }

    /// Writes what was noted.
    pub(crate) fn write(&self) {
        self.inner.lock().write();
    }
}

impl Inner {
    fn write(&mut self) {
        let pending = std::mem::take(&mut self.pending);
        if pending.is_empty() || self.failed {
            return;
        }
        if let Err(error) = self.file.write_all(&pending) {
            self.fail(&error);
        }
    }

    /// From now on, no slot is given away, and what is noted counts for this process only.
    fn fail(&mut self, error: &io::Error) {
        self.failed = true;
        tracing::error!("the table of files cannot be written ({error}): further files are not cached");
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        self.write();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn key(inode: u64) -> FileKey {
        FileKey { inode, born_ns: 1 }
    }

    fn version(ns: i64) -> Version {
        Version { size: 10, mtime_ns: ns, ctime_ns: ns }
    }

    fn held(table: &Table, inode: u64, ns: i64) -> Vec<(u32, u32)> {
        table.find(key(inode), version(ns)).iter().map(|(span, slot)| (*span, slot.0)).collect()
    }

    #[test]
    fn slots_come_back_with_their_version_alone_and_are_given_away_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t");
        let table = Table::open(&path).unwrap();
        assert!(matches!(Table::open(&path), Err(TableError::InUse)));
        let slots: Slots = [(0, table.take_slot().unwrap()), (2, table.take_slot().unwrap())].into_iter().collect();
        table.note(key(7), version(1), &slots);
        table.note(key(8), version(1), &[(0, table.take_slot().unwrap())].into_iter().collect());
        table.note(key(7), version(2), &slots);
        let id = table.id();
        drop(table);
        let table = Table::open(&path).unwrap();
        assert_eq!(table.id(), id);
        assert_eq!(
            (held(&table, 7, 2), held(&table, 7, 1), held(&table, 8, 1)),
            (vec![(0, 0), (2, 1)], vec![], vec![(0, 2)])
        );
        // Not only those that files had: what was not written, or was lost, must not be given away again.
        assert_eq!(table.take_slot(), Some(Slot(BATCH)));
        table.note(key(9), version(3), &[(0, Slot(1))].into_iter().collect());
        drop(table);
        // Torn in the middle of a record, which was not durable.
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..bytes.len() - 10]).unwrap();
        let table = Table::open(&path).unwrap();
        assert_eq!((table.id(), table.take_slot()), (id, Some(Slot(2 * BATCH))));
        assert!(!table.has(key(9)) && table.has(key(7)));
        table.note(key(9), version(3), &[(0, Slot(5))].into_iter().collect());
        drop(table);
        assert_eq!(held(&Table::open(&path).unwrap(), 9, 3), [(0, 5)]);
    }

    #[test]
    fn a_lost_or_used_up_table_is_another_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t");
        let first = Table::open(&path).unwrap().id();
        fs::remove_file(&path).unwrap();
        let second = Table::open(&path).unwrap().id();
        let mut bytes = head(second).to_vec();
        bytes.extend_from_slice(&Record::Reserved(USED_MAX + 1).encode());
        fs::write(&path, bytes).unwrap();
        let third = Table::open(&path).unwrap();
        assert!(first != second && second != third.id());
        assert_eq!(third.take_slot(), Some(Slot(0)));
    }

    #[test]
    fn the_file_is_rewritten_when_most_of_it_is_old() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t");
        let table = Table::open(&path).unwrap();
        let slots: Slots = [(0, table.take_slot().unwrap())].into_iter().collect();
        (0..2 * SURPLUS as i64).for_each(|ns| table.note(key(7), version(ns), &slots));
        drop(table);
        let before = fs::metadata(&path).unwrap().len();
        let table = Table::open(&path).unwrap();
        assert_eq!(held(&table, 7, 2 * SURPLUS as i64 - 1), [(0, 0)]);
        assert!(fs::metadata(&path).unwrap().len() <= 4 * RECORD_BYTES as u64 && before > SURPLUS as u64);
    }
}
