//! BufferHash, the data structure of a CLAM (cheap and large CAM).
//!
//! Keys are spread over *super tables*. Each has a *buffer* in RAM; a full one is written to the flash as an
//! *incarnation*, with one sequential write. A look-up searches the buffer, then the few incarnations that may hold the
//! key according to Bloom filters in RAM, newest first. It nearly always reads one page for a key that is present, and
//! none for an absent key. Updates and removals are *lazy*: newer incarnations hide older ones.
//!
//! Differences from the paper: An incarnation is ordered by hash and its pages are full, so that it needs no slack, and
//! a look-up reads exactly one page of it. Four bytes of RAM for each page select that page. All incarnations are in
//! one circular log, so that the whole flash is written in sequence. The index survives crashes:
//! [`sync`](FlashIndex::sync) writes the content of the buffers to a small journal, unless the journal already holds
//! it.

mod buffer;
mod epoch;
mod filters;
mod incarnation;
mod journal;
mod log;
mod page;
mod plan;
mod recover;
mod table;

pub use plan::{BUFFER_BYTES, BUFFER_BYTES_MAX, BUFFER_BYTES_MIN, Plan, best_buffers_bytes};

use crate::hash::hash_of;
use crate::superblock::{Kind, Superblock};
use crate::{Counters, Error, FlashIndex, PAGE_BYTES, Shape, Value};
use epoch::Epoch;
use event_listener::Event;
use filters::Filters;
use futures_util::future::try_join_all;
use futures_util::lock::Mutex as AsyncMutex;
use incarnation::Labels;
use journal::Journal;
use log::Log;
use nitro_port::Device;
use page::Page;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use table::{Candidate, NONE, Probe, SuperTable};

/// Returns whether an entry is kept when its incarnation is discarded. Called with key and value.
pub type Keep = dyn Fn(&[u8], &[u8]) -> bool + Send + Sync;

/// What happens to entries when the flash is full.
#[derive(Clone, Default)]
pub enum Eviction {
    /// The oldest incarnation is discarded whole (the paper's *full discard*).
    #[default]
    Fifo,
    /// As [`Fifo`](Self::Fifo); but an entry found in the older half of the incarnations is inserted again.
    Lru,
    /// The entries that this function keeps are inserted again before their incarnation is discarded (*partial
    /// discard*), as far as their buffer has room. For this, one incarnation is read for each incarnation that is
    /// written.
    Priority(Arc<Keep>),
}

#[derive(Default)]
struct Tally {
    /// The number of look-ups that read pages.
    flash_hits: AtomicU64,
    flash_misses: AtomicU64,
    hit_reads: AtomicU64,
    miss_reads: AtomicU64,
    written_bytes: AtomicU64,
    background_read_bytes: AtomicU64,
    corrupt_pages: AtomicU64,
    kept: AtomicU64,
}

fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}

/// A BufferHash on a device.
pub struct BufferHash<D> {
    device: D,
    plan: Plan,
    epoch: Epoch,
    eviction: Eviction,
    tables: Box<[Mutex<SuperTable>]>,
    /// The filters of the super tables, to be prefetched without a lock.
    filters: Box<[Arc<Filters>]>,
    log: Mutex<Log>,
    journal: AsyncMutex<Journal>,
    /// Notified when an incarnation is on the flash, or could not be written.
    settled: Event,
    tally: Tally,
}

impl<D: Device> BufferHash<D> {
    /// Creates an index on `device`. The previous content of the device is lost. `seed` should be random.
    ///
    /// # Errors
    /// [`Error::Setting`] if the device is too small for `plan`; or an error of the device.
    pub async fn create(device: D, plan: Plan, eviction: Eviction, seed: u64) -> Result<Self, Error> {
        let plan = Plan { seed, ..plan };
        check_size(&device, &plan)?;
        let superblock = Superblock { kind: Kind::BufferHash, shape: plan.shape, seed, settings: plan.settings() };
        let epoch = Epoch { number: 1, from: 0 };
        epoch.write(&device, seed).await?;
        superblock.write(&device).await?;
        Ok(Self::empty(device, plan, eviction, epoch))
    }

    fn empty(device: D, plan: Plan, eviction: Eviction, epoch: Epoch) -> Self {
        let tables: Vec<_> = (0..plan.super_tables).map(|_| SuperTable::new(&plan)).collect();
        Self {
            filters: tables.iter().map(SuperTable::filters).collect(),
            tables: tables.into_iter().map(Mutex::new).collect(),
            log: Mutex::new(Log::new(plan.slots, epoch.from)),
            journal: AsyncMutex::new(Journal::new(0, epoch)),
            settled: Event::new(),
            tally: Tally::default(),
            device,
            plan,
            epoch,
            eviction,
        }
    }

    /// Opens the index on `device`, which holds everything that was made durable. Reads the whole index to rebuild the
    /// filters.
    ///
    /// # Errors
    /// [`Error::NotAnIndex`], [`Error::Version`], [`Error::Damaged`], or an error of the device.
    pub async fn open(device: D, eviction: Eviction) -> Result<Self, Error> {
        let superblock = Superblock::read(&device).await?;
        if superblock.kind != Kind::BufferHash {
            return Err(Error::NotAnIndex("the device holds an index of another kind".to_owned()));
        }
        let plan = Plan::restored(superblock.shape, superblock.seed, superblock.settings)?;
        check_size(&device, &plan)?;
        recover::open(device, plan, eviction).await
    }

    /// The sizes of the index.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The number of entries that [`Eviction::Lru`] and [`Eviction::Priority`] inserted again.
    pub fn kept(&self) -> u64 {
        self.tally.kept.load(Ordering::Relaxed)
    }

    /// Reads a page of an incarnation. `None`: the page was overwritten, or fails its checksum.
    async fn read_page<T>(
        &self,
        sequence: u64,
        number: usize,
        find: impl FnOnce(&Page<'_>) -> T,
    ) -> Result<Option<T>, Error> {
        let offset = self.plan.slot_offset(sequence) + (number * PAGE_BYTES) as u64;
        let bytes = self.device.read(offset, PAGE_BYTES).await?;
        let Some(page) = Page::open(&bytes, self.plan.shape, offset, self.plan.seed) else {
            // A page that is being overwritten is not damaged.
            if self.log.lock().next() <= sequence + u64::from(self.plan.slots) {
                add(&self.tally.corrupt_pages, 1);
            }
            return Ok(None);
        };
        let header = page.header();
        Ok((header.number == sequence && !header.in_journal).then(|| find(&page)))
    }

    /// Searches the flash for a key.
    async fn find_on_flash(&self, key: &[u8], hash: u128, candidates: &[Candidate]) -> Result<Option<Value>, Error> {
        let mut reads = 0;
        let mut found = None;
        'search: for candidate in candidates {
            for number in candidate.pages.clone() {
                reads += 1;
                let entry = self
                    .read_page(candidate.sequence, number, |page| {
                        page.find(key).map(|e| (Value::from_slice(&e.bytes[key.len()..]), e.removed))
                    })
                    .await?;
                match entry {
                    Some(None) => {}
                    // An older entry of the key may be out of date.
                    None => break 'search,
                    Some(Some((_, true))) => break 'search,
                    Some(Some((value, false))) => {
                        if candidate.is_old && matches!(self.eviction, Eviction::Lru) {
                            self.keep(key, &value, hash, candidate.sequence);
                        }
                        found = Some(value);
                        break 'search;
                    }
                }
            }
        }
        let (looked, read) = match found {
            Some(_) => (&self.tally.flash_hits, &self.tally.hit_reads),
            None => (&self.tally.flash_misses, &self.tally.miss_reads),
        };
        add(looked, 1);
        add(read, reads);
        Ok(found)
    }

    /// Inserts an entry of an old incarnation again, if nothing newer may hold the key and the buffer has room.
    fn keep(&self, key: &[u8], value: &[u8], hash: u128, sequence: u64) {
        let mut table = self.tables[self.plan.super_table_of(hash)].lock();
        if !table.may_supersede(key, hash, sequence, &self.plan)
            && table.buffer.put(hash as u64, key, value, false, false).is_ok()
        {
            add(&self.tally.kept, 1);
        }
    }

    async fn put(&self, key: &[u8], value: &[u8], removed: bool, replaying: bool) -> Result<(), Error> {
        let hash = hash_of(key, self.plan.seed);
        let at = self.plan.super_table_of(hash);
        loop {
            let settled = self.settled.listen();
            match self.try_put(at, hash, key, value, removed, replaying) {
                Room::Entered => return Ok(()),
                Room::Write => self.write_sealed(at).await?,
                Room::Wait => settled.await,
            }
        }
    }

    /// Inserts a key, or returns what must be done first.
    fn try_put(&self, at: usize, hash: u128, key: &[u8], value: &[u8], removed: bool, replaying: bool) -> Room {
        let table = &mut *self.tables[at].lock();
        if table.buffer.put(hash as u64, key, value, removed, replaying).is_ok() {
            table.inserts += 1;
            return Room::Entered;
        }
        if table.sealed.is_none() {
            self.seal(table, at, replaying);
        }
        match &mut table.sealed {
            Some(sealed) if !sealed.is_written => {
                sealed.is_written = true;
                Room::Write
            }
            _ => Room::Wait,
        }
    }

    /// Seals a full buffer, if a slot is available.
    fn seal(&self, table: &mut SuperTable, at: usize, replaying: bool) {
        let (sequence, durable) = {
            let mut log = self.log.lock();
            (log.give(), log.durable)
        };
        if let Some(sequence) = sequence {
            let labels =
                Labels { sequence, before: NONE, durable, super_table: at as u32, replaying, epoch: self.epoch.number };
            table.seal(labels, &self.plan);
        }
    }

    /// Writes the sealed buffer; the caller has set `is_written`.
    async fn write_sealed(&self, at: usize) -> Result<(), Error> {
        let writing = Writing { index: self, at };
        let sealed = self.tables[at].lock().sealed.as_ref().map(|s| (s.incarnation.sequence, s.pages.clone()));
        let Some((sequence, pages)) = sealed else { return Ok(()) };
        let victim = self.log.lock().victim(sequence);
        if let Some((owner, victim)) = victim {
            if let Eviction::Priority(keep) = &self.eviction {
                self.keep_some(victim, keep).await?;
            }
            self.tables[owner].lock().retire(victim);
        }
        let bytes = pages.len() as u64;
        self.device.write(self.plan.slot_offset(sequence), pages).await?;
        add(&self.tally.written_bytes, bytes);
        {
            let table = &mut *self.tables[at].lock();
            table.settle(&self.plan);
            self.log.lock().settle(sequence, at);
        }
        drop(writing);
        Ok(())
    }

    /// Inserts those entries of a discarded incarnation again that `keep` returns true for.
    async fn keep_some(&self, victim: u64, keep: &Arc<Keep>) -> Result<(), Error> {
        let (offset, len) = (self.plan.slot_offset(victim), self.plan.incarnation_bytes() as usize);
        let bytes = self.device.read(offset, len).await?;
        add(&self.tally.background_read_bytes, len as u64);
        for (page, at) in bytes.chunks(PAGE_BYTES).zip((offset..).step_by(PAGE_BYTES)) {
            let Some(page) = Page::open(page, self.plan.shape, at, self.plan.seed) else { continue };
            if page.header().number != victim {
                continue;
            }
            for entry in page.entries().filter(|e| !e.removed) {
                let (key, value) = self.plan.shape.split(entry.bytes);
                if keep(key, value) {
                    self.keep(key, value, hash_of(key, self.plan.seed), victim);
                }
            }
        }
        Ok(())
    }
}

/// Result of inserting a key.
enum Room {
    Entered,
    /// The buffer is full, and the caller must write the sealed buffer.
    Write,
    /// The buffer is full, and another task is writing the sealed buffer.
    Wait,
}

/// The task that writes the sealed buffer. When it ends, also by failure or cancellation, another task may write it.
struct Writing<'a, D: Device> {
    index: &'a BufferHash<D>,
    at: usize,
}

impl<D: Device> Drop for Writing<'_, D> {
    fn drop(&mut self) {
        if let Some(sealed) = &mut self.index.tables[self.at].lock().sealed {
            sealed.is_written = false;
        }
        self.index.settled.notify(usize::MAX);
    }
}

fn check_size(device: &impl Device, plan: &Plan) -> Result<(), Error> {
    let size = device.geometry().size_bytes;
    if size < plan.flash_bytes {
        let why = format!("this index takes {} bytes", plan.flash_bytes);
        return Err(Error::Setting {
            what: "size of the device in bytes",
            given: size,
            why,
            nearest: plan.flash_bytes,
        });
    }
    Ok(())
}

impl<D: Device> FlashIndex for BufferHash<D> {
    fn shape(&self) -> Shape {
        self.plan.shape
    }

    async fn get(&self, key: &[u8]) -> Result<Option<Value>, Error> {
        self.plan.shape.check_key(key)?;
        let hash = hash_of(key, self.plan.seed);
        let probe = self.tables[self.plan.super_table_of(hash)].lock().look_up(key, hash, &self.plan);
        match probe {
            Probe::Value(value) => Ok(Some(value)),
            Probe::Absent => Ok(None),
            Probe::OnFlash(candidates) => self.find_on_flash(key, hash, &candidates).await,
        }
    }

    async fn get_many(&self, keys: &[impl AsRef<[u8]>]) -> Result<Vec<Option<Value>>, Error> {
        keys.iter().try_for_each(|key| self.plan.shape.check_key(key.as_ref()))?;
        let hashes: Vec<u128> = keys.iter().map(|key| hash_of(key.as_ref(), self.plan.seed)).collect();
        let warm = |sum, hash: &u128| sum ^ self.filters[self.plan.super_table_of(*hash)].warm(*hash as u64);
        std::hint::black_box(hashes.iter().fold(0, warm));
        let mut values = vec![None; keys.len()];
        let mut on_flash = Vec::new();
        for (n, (key, hash)) in keys.iter().zip(&hashes).enumerate() {
            let key = key.as_ref();
            match self.tables[self.plan.super_table_of(*hash)].lock().look_up(key, *hash, &self.plan) {
                Probe::Value(value) => values[n] = Some(value),
                Probe::Absent => {}
                Probe::OnFlash(candidates) => on_flash.push((n, key, *hash, candidates)),
            }
        }
        let finding = on_flash.iter().map(|(_, key, hash, candidates)| self.find_on_flash(key, *hash, candidates));
        let found = try_join_all(finding).await?;
        on_flash.iter().zip(found).for_each(|((n, ..), value)| values[*n] = value);
        Ok(values)
    }

    async fn insert(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.plan.shape.check(key, value)?;
        self.put(key, value, false, false).await
    }

    async fn remove(&self, key: &[u8]) -> Result<(), Error> {
        self.plan.shape.check_key(key)?;
        self.put(key, &[], true, false).await
    }

    async fn sync(&self) -> Result<(), Error> {
        self.sync_journal().await
    }

    fn counters(&self) -> Counters {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut counters = Counters {
            hits: read(&self.tally.flash_hits),
            misses: read(&self.tally.flash_misses),
            hit_reads: read(&self.tally.hit_reads),
            miss_reads: read(&self.tally.miss_reads),
            written_bytes: read(&self.tally.written_bytes),
            background_read_bytes: read(&self.tally.background_read_bytes),
            corrupt_pages: read(&self.tally.corrupt_pages),
            ram_bytes: self.plan.ram_bytes,
            ..Counters::default()
        };
        for table in &self.tables {
            let table = table.lock();
            let sealed = table.sealed.as_ref().map_or(0, |s| u64::from(s.incarnation.len));
            counters.entries += table.entries + table.buffer.len() as u64 + sealed;
            counters.inserts += table.inserts;
            counters.hits += table.ram_hits;
            counters.misses += table.ram_misses;
        }
        counters
    }
}
