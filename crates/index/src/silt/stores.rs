//! The stores of a partition, and look-ups in them.

use super::filter::Filter;
use super::hashed::Hashed;
use super::io::Io;
use super::log::{Entry, Log};
use super::run::{Look, Run};
use super::trie::Trie;
use crate::{Error, Value};
use nitro_port::Device;
use smallvec::SmallVec;
use std::sync::Arc;

/// A HashStore (SILT §4.2): a log, sorted by hash, with a filter.
pub(super) struct HashStore {
    pub(super) run: Run,
    pub(super) filter: Filter,
}

/// A SortedStore (SILT §4.3): all older entries in order of hash, found through tries.
pub(super) struct SortedStore {
    pub(super) run: Run,
    pub(super) trie: Trie,
}

/// The stores of a partition at one moment. There are always two logs: the active one and either the previous one,
/// which is to be converted, or the next one, which is empty.
#[derive(Clone)]
pub(super) struct Stores {
    pub(super) active: Arc<Log>,
    pub(super) closed: Option<Arc<Log>>,
    pub(super) next: Option<Arc<Log>>,
    /// Hash stores, newest first.
    pub(super) hashes: Vec<Arc<HashStore>>,
    pub(super) sorted: Option<Arc<SortedStore>>,
}

/// The places in hash stores that may hold a key: the store, and the rank; `None` if the entry cannot be read.
type Probes = SmallVec<[(u32, Option<u32>); 4]>;

impl SortedStore {
    async fn look<D: Device>(&self, io: &Io<D>, key: &[u8], hash: u64, reads: &mut u64) -> Result<Look, Error> {
        let Some(ranks) = self.trie.find(hash) else { return Ok(Look::Absent) };
        let capacity = self.run.layout.capacity() as u64;
        let (mut first, end) = (u64::from(ranks.first), u64::from(ranks.first) + u64::from(ranks.count));
        while first < end.min(self.run.entries) {
            let next = (first / capacity + 1) * capacity;
            *reads += 1;
            match self.run.look(io, key, first, (end.min(next) - first) as usize).await? {
                Look::Absent => first = next,
                found => return Ok(found),
            }
        }
        Ok(Look::Absent)
    }
}

async fn look_in_log<D: Device>(
    log: &Log,
    io: &Io<D>,
    key: &[u8],
    hashed: &Hashed,
    reads: &mut u64,
) -> Result<Look, Error> {
    let places = log.find(key, hashed.partial);
    for slot in places.probes {
        let (page, index) = log.place(slot);
        let offset = log.offset(page);
        *reads += 1;
        let bytes = io.read_page(offset).await?;
        let layout = log.layout();
        if layout.check(&bytes, log.id, offset, io.seed).is_none_or(|count| index >= count) {
            io.note_corrupt(offset);
            return Ok(Look::Lost);
        }
        let (found, value) = layout.entry(&bytes, index);
        if found == key {
            return Ok(Look::Found((!layout.is_removal(&bytes, index)).then(|| Value::from_slice(value))));
        }
    }
    Ok(places.last.map_or(Look::Absent, Look::Found))
}

impl Stores {
    /// Searches all filters together, so that the memory accesses overlap.
    fn probes(&self, hash: u64) -> Probes {
        let mut probes = Probes::new();
        for (store, number) in self.hashes.iter().zip(0..) {
            if store.filter.may_be_lost(hash) {
                probes.push((number, None));
                break;
            }
            probes.extend(store.filter.find(hash).into_iter().map(|at| (number, Some(at))));
        }
        probes
    }

    /// The value of `key` in the newest store that holds it. If a page that may have held it is damaged, the result is
    /// `None`: an older store could only have an older value.
    pub(super) async fn look<D: Device>(
        &self,
        io: &Io<D>,
        key: &[u8],
        hashed: &Hashed,
        reads: &mut u64,
    ) -> Result<Entry, Error> {
        for log in self.logs() {
            match look_in_log(log, io, key, hashed, reads).await? {
                Look::Absent => {}
                Look::Found(entry) => return Ok(entry),
                Look::Lost => return Ok(None),
            }
        }
        for (store, at) in self.probes(hashed.local) {
            let Some(at) = at else { return Ok(None) };
            *reads += 1;
            match self.hashes[store as usize].run.look(io, key, at.into(), 1).await? {
                Look::Absent => {}
                Look::Found(entry) => return Ok(entry),
                Look::Lost => return Ok(None),
            }
        }
        if let Some(store) = &self.sorted
            && let Look::Found(entry) = store.look(io, key, hashed.local, reads).await?
        {
            return Ok(entry);
        }
        Ok(None)
    }

    fn logs(&self) -> impl Iterator<Item = &Arc<Log>> {
        [&self.active].into_iter().chain(&self.closed)
    }

    /// The number of entries in all stores.
    pub(super) fn entries(&self) -> u64 {
        let hashes: u64 = self.hashes.iter().map(|s| s.run.entries).sum();
        self.log_entries() + hashes + self.sorted.as_ref().map_or(0, |s| s.run.entries)
    }

    /// The number of entries in logs.
    pub(super) fn log_entries(&self) -> u64 {
        self.logs().map(|l| l.entries().0).sum()
    }

    /// The number of removals in logs.
    pub(super) fn log_removals(&self) -> u64 {
        self.logs().map(|l| l.entries().1).sum()
    }

    /// RAM in use, in bytes.
    pub(super) fn ram_bytes(&self) -> u64 {
        let logs: u64 = self.logs().map(|l| l.ram_bytes()).sum();
        let hashes: u64 = self.hashes.iter().map(|s| s.filter.ram_bytes()).sum();
        logs + hashes + self.sorted.as_ref().map_or(0, |s| s.trie.ram_bytes())
    }
}
