//! A file whose data are cached: its slots, its version, and the order of its changes.
//!
//! Changes through the mount go one after the other: before one, the file is looked at, and if it is not as the last change
//! left it, it was changed behind the mount's back; after it, the file is looked at again, and this version is the
//! mount's own. Reads wait for none of this.

use crate::address::{SPAN_BYTES, Slot, parts};
use crate::table::{Slots, Table};
use crate::version::{FileKey, Seen, Version, look};
use parking_lot::{Mutex, RwLock};
use rustix::fd::AsFd;
use smallvec::SmallVec;
use std::fs::File;
use std::io;
use std::sync::{Arc, Weak};

/// A run of addresses of the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) address: u64,
    pub(crate) len: u64,
}

/// The runs of a request: more than one where it reaches over the end of a span.
pub(crate) type Runs = SmallVec<[Run; 1]>;

#[derive(Debug)]
struct State {
    version: Version,
    slots: Slots,
    /// What the table has.
    noted: Option<Version>,
    /// It was changed behind the mount's back since it was last opened: the kernel's pages of it may be old.
    has_old_pages: bool,
}

/// The open descriptors of a file, by their handles.
#[derive(Debug, Default)]
struct Descriptors {
    readers: Vec<(u64, Arc<File>)>,
    writers: Vec<(u64, Arc<File>)>,
}

/// Finds files by their slots.
pub(crate) type BySlot = RwLock<std::collections::HashMap<Slot, Weak<CachedFile>>>;

/// A file of the tree, as long as the kernel knows it.
#[derive(Debug)]
pub struct CachedFile {
    key: FileKey,
    table: Arc<Table>,
    by_slot: Arc<BySlot>,
    /// Held during a change, and while slots are given to the file.
    changing: Mutex<()>,
    state: RwLock<State>,
    descriptors: RwLock<Descriptors>,
}

impl CachedFile {
    /// A file as it was seen, with the slots that the table has of this version.
    pub(crate) fn new(seen: Seen, table: Arc<Table>, by_slot: Arc<BySlot>) -> Arc<Self> {
        let slots = table.find(seen.key, seen.version);
        let noted = (!slots.is_empty()).then_some(seen.version);
        let state = State { version: seen.version, slots: slots.clone(), noted, has_old_pages: false };
        let file = Arc::new(Self {
            key: seen.key,
            table,
            by_slot,
            changing: Mutex::new(()),
            state: RwLock::new(state),
            descriptors: RwLock::default(),
        });
        let mut all = file.by_slot.write();
        slots.iter().for_each(|(_, slot)| drop(all.insert(*slot, Arc::downgrade(&file))));
        drop(all);
        file
    }

    /// Its size in bytes, as far as the mount knows.
    pub(crate) fn size(&self) -> u64 {
        self.state.read().version.size
    }

    /// Adds a descriptor. `reads`, `writes`: what it is open for.
    pub(crate) fn add(&self, handle: u64, file: &Arc<File>, (reads, writes): (bool, bool)) {
        let mut all = self.descriptors.write();
        if reads {
            all.readers.push((handle, Arc::clone(file)));
        }
        if writes {
            all.writers.push((handle, Arc::clone(file)));
        }
    }

    /// Removes a descriptor.
    pub(crate) fn remove(&self, handle: u64) {
        let mut all = self.descriptors.write();
        all.readers.retain(|(other, _)| *other != handle);
        all.writers.retain(|(other, _)| *other != handle);
    }

    /// Whether there is a descriptor.
    pub(crate) fn is_open(&self) -> bool {
        let all = self.descriptors.read();
        !all.readers.is_empty() || !all.writers.is_empty()
    }

    /// A descriptor for reading, if there is one.
    pub(crate) fn reader(&self) -> Option<Arc<File>> {
        self.descriptors.read().readers.first().map(|(_, file)| Arc::clone(file))
    }

    /// A descriptor for writing, if there is one.
    pub(crate) fn writer(&self) -> Option<Arc<File>> {
        self.descriptors.read().writers.first().map(|(_, file)| Arc::clone(file))
    }

    /// Compares the file with what the mount knows, as it is opened. Returns whether the kernel's pages are still right.
    ///
    /// # Errors
    /// The file cannot be looked at.
    pub(crate) fn open(&self, file: impl AsFd) -> io::Result<bool> {
        let _changing = self.changing.lock();
        self.compare(look(file)?.version);
        let mut state = self.state.write();
        Ok(!std::mem::take(&mut state.has_old_pages))
    }

    /// Compares the file with what the mount knows, without opening it.
    ///
    /// # Errors
    /// The file cannot be looked at.
    pub(crate) fn refresh(&self, file: impl AsFd) -> io::Result<()> {
        let _changing = self.changing.lock();
        self.compare(look(file)?.version);
        Ok(())
    }

    /// Drops the slots if the file is not as this mount left it. To be called during a change.
    fn compare(&self, now: Version) {
        let mut state = self.state.write();
        if state.version == now {
            return;
        }
        state.version = now;
        state.has_old_pages = true;
        self.drop_slots(&mut state, |_| true);
    }

    /// Gives up slots: they are used never again.
    fn drop_slots(&self, state: &mut State, mut which: impl FnMut(u32) -> bool) {
        let mut all = self.by_slot.write();
        state.slots.retain(|(span, slot)| {
            let goes = which(*span);
            if goes {
                all.remove(slot);
            }
            !goes
        });
        state.noted = None;
    }

    /// Makes a change: `change` is done while no other one is, and must be what changes the file.
    ///
    /// # Errors
    /// Those of `change`, or the file cannot be looked at.
    pub(crate) fn change<T>(&self, file: impl AsFd, change: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let _changing = self.changing.lock();
        self.compare(look(&file)?.version);
        let changed = change();
        // Also after a failure: a part may have been done.
        match look(&file) {
            Ok(seen) => self.state.write().version = seen.version,
            Err(_) => self.drop_slots(&mut self.state.write(), |_| true),
        }
        changed
    }

    /// Where a range is on the disk, as far as it has slots.
    pub(crate) fn runs(&self, offset: u64, len: u64) -> Runs {
        let state = self.state.read();
        let of = |span| state.slots.iter().find(|(other, _)| *other == span).map(|(_, slot)| *slot);
        let found = parts(offset, len).filter_map(|part| Some((of(part.number)?, part)));
        found.map(|(slot, part)| Run { address: slot.address(part.within), len: part.len }).collect()
    }

    /// The offset of the span that a slot holds.
    pub(crate) fn span_of(&self, slot: Slot) -> Option<u64> {
        let state = self.state.read();
        let found = state.slots.iter().find(|(_, other)| *other == slot);
        found.map(|(span, _)| u64::from(*span) * SPAN_BYTES)
    }

    /// Whether a range has slots as a whole.
    fn has(&self, offset: u64, len: u64) -> bool {
        self.runs(offset, len).iter().map(|run| run.len).sum::<u64>() == len
    }

    /// As [`runs`](Self::runs), with slots for what has none. `None`: there are none left, and the file is to be read itself.
    ///
    /// # Errors
    /// The file cannot be looked at.
    pub(crate) fn runs_to_read(self: &Arc<Self>, offset: u64, len: u64) -> io::Result<Option<Runs>> {
        if !self.has(offset, len) && !self.give_slots(offset, len)? {
            return Ok(None);
        }
        let runs = self.runs(offset, len);
        // Another thread may have found a change meanwhile.
        Ok(Some(runs).filter(|runs| runs.iter().map(|run| run.len).sum::<u64>() == len))
    }

    fn give_slots(self: &Arc<Self>, offset: u64, len: u64) -> io::Result<bool> {
        let Some(reader) = self.reader() else { return Ok(false) };
        // A write that is under way to the file itself would not be seen by the cache.
        let _changing = self.changing.lock();
        self.compare(look(&reader)?.version);
        for part in parts(offset, len) {
            if self.state.read().slots.iter().any(|(span, _)| *span == part.number) {
                continue;
            }
            let Some(slot) = self.table.take_slot() else { return Ok(false) };
            self.by_slot.write().insert(slot, Arc::downgrade(self));
            let mut state = self.state.write();
            state.slots.push((part.number, slot));
            state.noted = None;
        }
        Ok(true)
    }

    /// Gives up the slots of the spans that a range touches. To be called during a change.
    pub(crate) fn forget(&self, offset: u64, len: u64) {
        let spans: SmallVec<[u32; 4]> = parts(offset, len).map(|part| part.number).collect();
        self.drop_slots(&mut self.state.write(), |span| spans.contains(&span));
    }

    /// Gives up the slots of all spans behind the first one that a position is in. To be called during a change.
    pub(crate) fn forget_from(&self, offset: u64) {
        let first = offset.div_ceil(SPAN_BYTES);
        self.drop_slots(&mut self.state.write(), |span| u64::from(span) >= first);
    }

    /// Tells the table the present version, unless a change is under way.
    pub(crate) fn note(&self) {
        if self.changing.is_locked() || self.is_noted() {
            return;
        }
        let Some(_changing) = self.changing.try_lock() else { return };
        let mut state = self.state.write();
        self.table.note(self.key, state.version, &state.slots);
        state.noted = Some(state.version);
    }

    fn is_noted(&self) -> bool {
        let state = self.state.read();
        state.noted == Some(state.version) || state.slots.is_empty() && !self.table.has(self.key)
    }
}

impl Drop for CachedFile {
    fn drop(&mut self) {
        self.note();
        let state = self.state.get_mut();
        let mut all = self.by_slot.write();
        for (_, slot) in &state.slots {
            // The same file may be known again already.
            if all.get(slot).is_some_and(|file| file.strong_count() == 0) {
                all.remove(slot);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Tree;
    use std::os::unix::fs::FileExt;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    struct Fixture {
        folder: tempfile::TempDir,
        tree: Tree,
    }

    fn fixture() -> Fixture {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("tree")).unwrap();
        std::fs::write(folder.path().join("tree/f"), [1; 10_000]).unwrap();
        let table = Table::open(&folder.path().join("table")).unwrap();
        let tree = Tree::open(&folder.path().join("tree"), table).unwrap();
        Fixture { folder, tree }
    }

    impl Fixture {
        fn open(&self) -> (Arc<CachedFile>, Arc<File>) {
            let path = self.folder.path().join("tree/f");
            let file = Arc::new(std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap());
            let cached = self.tree.file(look(&file).unwrap()).unwrap();
            cached.add(1, &file, (true, true));
            (cached, file)
        }
    }

    #[test]
    fn addresses_lead_to_the_file_and_to_zeroes_behind_its_end() {
        let fixture = fixture();
        let (cached, file) = fixture.open();
        let runs = cached.runs_to_read(8_000, 1_000).unwrap().unwrap();
        let mut bytes = [9; 4_096];
        fixture.tree.read_at(runs[0].address, &mut bytes).unwrap();
        assert!(bytes[..2_000] == [1; 2_000] && bytes[2_000..] == [0; 2_096]);
        fixture.tree.write_at(runs[0].address, &[7; 3]).unwrap();
        let mut at = [0; 4];
        file.read_exact_at(&mut at, 8_000).unwrap();
        assert_eq!(at, [7, 7, 7, 1]);
        fixture.tree.flush().unwrap();
        // Another slot is no file's.
        assert!(fixture.tree.read_at(runs[0].address + SPAN_BYTES, &mut bytes).is_err());
        cached.remove(1);
        assert!(fixture.tree.read_at(runs[0].address, &mut bytes).is_err(), "nobody has it open");
    }

    #[test]
    fn a_change_that_is_not_the_mounts_own_costs_the_slots() {
        let fixture = fixture();
        let (cached, file) = fixture.open();
        let first = cached.runs_to_read(0, 1).unwrap().unwrap();
        cached.change(&file, || file.write_all_at(b"own", 0)).unwrap();
        assert!(cached.open(&file).unwrap());
        assert_eq!(cached.runs(0, 1), first);
        file.set_len(20_000).unwrap();
        assert!(!cached.open(&file).unwrap(), "the kernel's pages are old");
        assert!(cached.runs(0, 1).is_empty());
        let second = cached.runs_to_read(0, 1).unwrap().unwrap();
        assert!(second != first && cached.open(&file).unwrap());
        // What follows the first failed look at it: a change in between is not absorbed.
        file.set_len(30_000).unwrap();
        cached.change(&file, || file.write_all_at(b"own", 0)).unwrap();
        assert!(cached.runs(0, 1).is_empty() && cached.size() == 30_000);
    }

    #[test]
    fn a_slot_is_given_after_the_write_that_is_under_way() {
        let fixture = fixture();
        let (cached, file) = fixture.open();
        let (go, wait) = channel();
        let writing = {
            let (cached, file) = (Arc::clone(&cached), Arc::clone(&file));
            let (begun, has_begun) = channel();
            let thread = std::thread::spawn(move || {
                let write = || {
                    begun.send(()).unwrap();
                    wait.recv().unwrap();
                    file.write_all_at(&[2; 10_000], 0)
                };
                cached.change(&file, write).unwrap();
            });
            has_begun.recv().unwrap();
            thread
        };
        let (given, is_given) = channel();
        let reading = {
            let cached = Arc::clone(&cached);
            std::thread::spawn(move || {
                let runs = cached.runs_to_read(0, 10_000).unwrap().unwrap();
                given.send(runs).unwrap();
            })
        };
        assert!(is_given.recv_timeout(Duration::from_millis(50)).is_err(), "a slot beside a write");
        go.send(()).unwrap();
        writing.join().unwrap();
        let runs = is_given.recv().unwrap();
        reading.join().unwrap();
        let mut bytes = [0; 10_000];
        fixture.tree.read_at(runs[0].address, &mut bytes).unwrap();
        assert!(bytes == [2; 10_000]);
    }
}
