//! SILT: *A Memory-Efficient, High-Performance Key-Value Store* (Lim, Fan, Andersen and Kaminsky, SOSP 2011).
//!
//! Keys are divided into *partitions* by their hash. A partition has, from new to old:
//!
//! - a *log* ([`cuckoo`]): entries in order of arrival; RAM has a cuckoo table of partial keys, about 4.4 bytes for
//!   each entry;
//! - *hash stores* ([`filter`]): logs that were sorted by hash ("conversion"); RAM has 2.13 bytes for each entry;
//! - a *sorted store* ([`trie`]): all older entries, by hash; RAM has entropy-coded tries whose leaves are pages. When
//!   there are too many hash stores, those of the partition with the most are merged into it.
//!
//! A look-up searches them in this order, and reads a page where the structures in RAM show that the key may be. For a
//! key that is present, it reads one page, except for a few keys in a thousand. A removal is an entry, which is dropped
//! when it is merged into the sorted store.
//!
//! Conversions and merges are done by [`Silt::run_background`], in step with inserts ([`debt`]), or, if that is not running, by inserts
//! that find no room. All stores consist of whole *segments* of the flash, which the [`manifest`] lists; [`page`] has the format of
//! their pages. [`Silt::open`] reads the whole index once to rebuild the structures in RAM.

mod background;
mod convert;
mod cursor;
mod debt;
mod hashed;
mod install;
mod io;
mod log;
mod merge;
mod pace;
mod plan;
mod recover;
mod run;
mod space;
mod stores;
mod usage;

mod codes;
pub mod cuckoo;
pub mod filter;
pub mod manifest;
pub mod page;
pub mod trie;

pub use pace::Rates;
pub use plan::Plan;
pub use usage::{StoreUsage, Usage};

use crate::superblock::{Kind, Superblock};
use crate::{Counters, Error, FlashIndex, Shape, Value};
use debt::Debt;
use event_listener::Event;
use futures_util::future::try_join_all;
use futures_util::lock::Mutex as AsyncMutex;
use hashed::Hashed;
use install::{Change, Partition};
use io::Io;
use log::{Append, Log};
use nitro_port::Device;
use space::Space;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed};

/// A SILT on a device.
pub struct Silt<D> {
    io: Io<D>,
    plan: Plan,
    rates: Rates,
    space: Arc<Space>,
    partitions: Box<[Partition]>,
    next_id: AtomicU64,
    /// The number of entries in all stores, including those that were replaced.
    held: AtomicI64,
    /// Locks for one conversion and one merge at a time, which bounds their buffers.
    converting: AsyncMutex<()>,
    merging: AsyncMutex<()>,
    /// The generation of the manifest on the flash.
    manifest: AsyncMutex<u64>,
    /// The number of inserts that wait for room.
    waiting: AtomicU32,
    debt: Debt,
    /// Notified when there may be a log to convert or stores to merge.
    work: Event,
    stopped: AtomicBool,
    keep: Option<Arc<Keep>>,
}

/// Returns whether an entry is kept in merges. Called with key and value.
pub type Keep = dyn Fn(&[u8], &[u8]) -> bool + Send + Sync;

/// Counts an insert that waits for room.
struct Waiting<'a>(&'a AtomicU32);

impl<'a> Waiting<'a> {
    fn new(count: &'a AtomicU32) -> Self {
        count.fetch_add(1, Relaxed);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

fn check_size(device: &impl Device, plan: &Plan) -> Result<(), Error> {
    let given = device.geometry().size_bytes;
    if given >= plan.flash_bytes {
        return Ok(());
    }
    let why = format!("{} entries need more", plan.entries);
    Err(Error::Setting { what: "flash of the index in bytes", given, why, nearest: plan.flash_bytes })
}

impl<D: Device> Silt<D> {
    /// Creates an index on `device`. The previous content of the device is lost. `seed` should be random.
    ///
    /// # Errors
    /// [`Error::Setting`] if the device is too small for `plan`; or an error of the device.
    pub async fn create(device: D, plan: Plan, rates: Rates, seed: u64) -> Result<Self, Error> {
        check_size(&device, &plan)?;
        let space = Space::new(plan.segments_at(), plan.segment_bytes(), plan.segments);
        let silt =
            Self::with_partitions(device, plan, rates, seed, space, async |silt: &Self| silt.new_partitions().await)
                .await?;
        silt.write_manifest(0, None).await?;
        let superblock = Superblock { kind: Kind::Silt, shape: plan.shape, seed, settings: plan.settings() };
        superblock.write(&silt.io.device).await?;
        Ok(silt)
    }

    /// Opens the index on `device`, which holds everything that was made durable. Reads the whole index to rebuild the
    /// structures in RAM.
    ///
    /// # Errors
    /// [`Error::NotAnIndex`], [`Error::Version`], [`Error::Damaged`], or an error of the device.
    pub async fn open(device: D, rates: Rates) -> Result<Self, Error> {
        let superblock = Superblock::read(&device).await?;
        if superblock.kind != Kind::Silt {
            return Err(Error::NotAnIndex("the device holds an index of another kind".to_owned()));
        }
        let plan = Plan::restored(superblock.shape, superblock.settings)?;
        check_size(&device, &plan)?;
        recover::open(device, plan, rates, superblock.seed).await
    }

    fn empty(device: D, plan: Plan, rates: Rates, seed: u64, space: Arc<Space>) -> Self {
        Self {
            io: Io::new(device, seed),
            plan,
            rates,
            space,
            partitions: Box::default(),
            next_id: AtomicU64::new(1),
            held: AtomicI64::new(0),
            converting: AsyncMutex::new(()),
            merging: AsyncMutex::new(()),
            manifest: AsyncMutex::new(0),
            waiting: AtomicU32::new(0),
            debt: Debt::default(),
            work: Event::new(),
            stopped: AtomicBool::new(false),
            keep: None,
        }
    }

    /// Lets merges drop the entries for which `keep` returns false. Until they are merged, look-ups may still find
    /// them.
    #[must_use]
    pub fn keeping(mut self, keep: Arc<Keep>) -> Self {
        self.keep = Some(keep);
        self
    }

    fn keeps(&self, key: &[u8], value: &[u8]) -> bool {
        self.keep.as_ref().is_none_or(|keep| keep(key, value))
    }

    /// The sizes of the index.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The device.
    pub fn device(&self) -> &D {
        &self.io.device
    }

    fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Relaxed)
    }

    fn held(&self) -> u64 {
        self.held.load(Relaxed).max(0) as u64
    }

    fn forget_held(&self, entries: u64) {
        self.held.fetch_sub(entries as i64, Relaxed);
    }

    async fn new_log(&self) -> Result<Log, Error> {
        let segment = self.space.take(self.held()).await?;
        Ok(self.log_at(self.next_id(), segment))
    }

    async fn put(&self, key: &[u8], value: Option<&[u8]>) -> Result<(), Error> {
        let hashed = Hashed::new(key, self.io.seed, self.plan.partition_bits());
        self.keep_step().await;
        loop {
            self.io.check()?;
            // Removals are accepted in any case: they make room.
            if value.is_some() && self.held() >= self.plan.held_max() {
                self.reclaim().await?;
            }
            let log = Arc::clone(&self.partitions[hashed.partition].stores().active);
            match log.append(key, value, hashed.partial, self.io.seed) {
                Append::Done { filled, crowd } => {
                    self.held.fetch_add(1, Relaxed);
                    self.io.tallies.inserts.fetch_add(1, Relaxed);
                    log.thin(&self.io, key, hashed.partial, &crowd).await?;
                    return if filled { log.write_out(&self.io).await } else { Ok(()) };
                }
                Append::Wait => log.write_out(&self.io).await?,
                Append::Full => self.make_room(hashed.partition, log.id).await?,
            }
        }
    }
}

impl<D: Device> FlashIndex for Silt<D> {
    fn shape(&self) -> Shape {
        self.plan.shape
    }

    async fn get(&self, key: &[u8]) -> Result<Option<Value>, Error> {
        self.plan.shape.check_key(key)?;
        let hashed = Hashed::new(key, self.io.seed, self.plan.partition_bits());
        let stores = self.partitions[hashed.partition].stores();
        let mut reads = 0;
        let value = stores.look(&self.io, key, &hashed, &mut reads).await?;
        let tallies = &self.io.tallies;
        let (count, pages) = match value {
            Some(_) => (&tallies.hits, &tallies.hit_reads),
            None => (&tallies.misses, &tallies.miss_reads),
        };
        count.fetch_add(1, Relaxed);
        pages.fetch_add(reads, Relaxed);
        Ok(value)
    }

    async fn insert(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.plan.shape.check(key, value)?;
        self.put(key, Some(value)).await
    }

    async fn remove(&self, key: &[u8]) -> Result<(), Error> {
        self.plan.shape.check_key(key)?;
        self.put(key, None).await
    }

    async fn sync(&self) -> Result<(), Error> {
        let stores: Vec<_> = self.partitions.iter().map(Partition::stores).collect();
        let logs = stores.iter().flat_map(|s| s.closed.iter().chain([&s.active]));
        let writes = logs.map(|log| {
            log.queue_rest(self.io.seed);
            log.write_out(&self.io)
        });
        try_join_all(writes).await?;
        self.io.flush().await
    }

    fn counters(&self) -> Counters {
        let tallies = &self.io.tallies;
        let mut removals = 0;
        let mut ram_bytes = self.space.ram_bytes() + tallies.buffer_bytes.load(Relaxed).max(0) as u64;
        for partition in &self.partitions {
            let stores = partition.stores();
            removals += stores.log_removals();
            ram_bytes += stores.ram_bytes();
        }
        Counters {
            inserts: tallies.inserts.load(Relaxed),
            hits: tallies.hits.load(Relaxed),
            misses: tallies.misses.load(Relaxed),
            hit_reads: tallies.hit_reads.load(Relaxed),
            miss_reads: tallies.miss_reads.load(Relaxed),
            written_bytes: tallies.written_bytes.load(Relaxed),
            background_read_bytes: tallies.background_read_bytes.load(Relaxed),
            corrupt_pages: tallies.corrupt_pages.load(Relaxed),
            entries: self.held().saturating_sub(removals),
            ram_bytes,
        }
    }
}
