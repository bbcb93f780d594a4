//! The sizes of the parts of a store.

use crate::Error;
use crate::format::region::{CHUNK_BYTES, CHUNKS_MAX, HEADER_BYTES};
use crate::format::superblock::{Moved, SUPERBLOCKS_BYTES, Superblock};
use crate::format::{BLOCK_BYTES, SECTOR_BYTES};
use crate::place::Place;
use nitro_index::silt;
use nitro_index::{Options, Shape};
use nitro_port::codec::Compression;
use std::ops::Range;

/// Sizes of the index's keys (fingerprints) and values (places).
const INDEX_SHAPE: Shape = Shape { key_bytes: 20, value_bytes: Place::BYTES as u16 };
/// The assumed ratio of compressed to uncompressed size, for planning.
const STORED_SHARE: f64 = 0.4;
/// Bits of the summary vector for each chunk: with 10, about one in a hundred new chunks needs a look-up in the index.
const SUMMARY_BITS: u64 = 10;
const JOURNAL_BYTES_DEFAULT_MIN: u64 = 1 << 20;
/// The maximum size of a half of the journal without the records of containers.
const JOURNAL_OBJECTS_BYTES: u64 = 16 << 20;
const JOURNAL_BYTES_A_SLOT: u64 = 64;
/// The minimum number of containers: enough for the open containers of one lane and of the collector.
pub(crate) const CONTAINERS_MIN: u32 = 12;

/// Options of a new store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreOptions {
    /// Bytes of the device that the store may use.
    pub size_bytes: u64,
    /// Bytes of a chunk of new volumes: a power of two from 4 KiB to 128 KiB.
    pub chunk_bytes: u32,
    /// Bytes that are compressed together: at least `chunk_bytes`.
    pub region_bytes: u32,
    /// Bytes of a container: a power of two from 64 KiB to 4 MiB.
    pub container_bytes: u32,
    /// The compression of regions.
    pub compression: Compression,
    /// Bytes of each half of the journal for objects and changes, from [`JOURNAL_BYTES_MIN`](Self::JOURNAL_BYTES_MIN)
    /// to 16 MiB; 64 bytes for each container are added. `None`: chosen by the store's size. It bounds the number of
    /// objects, and the number of overwritten chunks that are not in recipes yet.
    pub journal_bytes: Option<u64>,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            size_bytes: 1 << 40,
            chunk_bytes: 8192,
            region_bytes: 64 << 10,
            container_bytes: 4 << 20,
            compression: Compression::Zstd,
            journal_bytes: None,
        }
    }
}

impl StoreOptions {
    /// The minimum of [`journal_bytes`](Self::journal_bytes).
    pub const JOURNAL_BYTES_MIN: u64 = 64 << 10;
    /// The minimum and maximum size of chunks, in bytes.
    pub const CHUNK_BYTES: std::ops::RangeInclusive<u32> = 4096..=128 << 10;
    /// The minimum and maximum size of containers, in bytes.
    pub const CONTAINER_BYTES: std::ops::RangeInclusive<u32> = 64 << 10..=4 << 20;

    fn check(&self) -> Result<(), Error> {
        let refuse =
            |what, given: u32, why: &str| Err(Error::Setting { what, given: given.into(), why: why.to_owned() });
        if !Self::CHUNK_BYTES.contains(&self.chunk_bytes) || !self.chunk_bytes.is_power_of_two() {
            return refuse("bytes of a chunk", self.chunk_bytes, "it must be a power of two from 4096 to 131072");
        }
        if !Self::CONTAINER_BYTES.contains(&self.container_bytes) || !self.container_bytes.is_power_of_two() {
            return refuse(
                "bytes of a container",
                self.container_bytes,
                "it must be a power of two from 64 KiB to 4 MiB",
            );
        }
        let region_max = region_bytes_max(self.container_bytes);
        if self.region_bytes < self.chunk_bytes || self.region_bytes > region_max {
            let why = format!("it must be from {} (a chunk) to {region_max}", self.chunk_bytes);
            return refuse("bytes of a region", self.region_bytes, &why);
        }
        Ok(())
    }
}

/// The offsets of the parts of a store on its device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) journals_at: u64,
    pub(crate) summary_at: u64,
    pub(crate) index_at: u64,
    /// The end of the index.
    pub(crate) metadata_end: u64,
    pub(crate) containers_at: u64,
    pub(crate) end: u64,
}

impl Layout {
    /// `None` if the sizes in the superblock are not valid.
    pub(crate) fn of(superblock: &Superblock) -> Option<Self> {
        let Superblock { chunk_bytes, region_bytes, container_bytes, compression, .. } = *superblock;
        StoreOptions { size_bytes: 0, chunk_bytes, region_bytes, container_bytes, compression, journal_bytes: None }
            .check()
            .ok()?;
        let container_bytes = u64::from(container_bytes);
        let journals_at = match superblock.moved {
            None => SUPERBLOCKS_BYTES,
            Some(Moved { containers_at, first, .. }) => {
                let is_aligned = containers_at.is_multiple_of(BLOCK_BYTES as u64) && containers_at >= SUPERBLOCKS_BYTES;
                containers_at.checked_add(u64::from(first) * container_bytes).filter(|_| is_aligned)?
            }
        };
        let (summary_at, index_at, metadata_end) = Self::metadata(superblock, journals_at)?;
        let containers_at = match superblock.moved {
            None => metadata_end,
            Some(Moved { containers_at, first, slots }) => {
                let is_within = first.checked_add(slots)? <= superblock.containers;
                let is_right = metadata_end - journals_at == u64::from(slots) * container_bytes;
                Some(containers_at).filter(|_| is_within && is_right)?
            }
        };
        let end = containers_at.checked_add(u64::from(superblock.containers) * container_bytes)?;
        Some(Self { journals_at, summary_at, index_at, metadata_end, containers_at, end })
    }

    /// Where the summary vector and the index begin, and the index ends, if the journals begin there.
    fn metadata(superblock: &Superblock, journals_at: u64) -> Option<(u64, u64, u64)> {
        let align = |at: u64| at.checked_next_multiple_of(superblock.container_bytes.max(BLOCK_BYTES as u32).into());
        // What has moved is aligned to containers from where slot 0 begins.
        let base = superblock.moved.map_or(0, |_| journals_at);
        let summary_at = superblock.journal_bytes.checked_mul(2)?.checked_add(journals_at)?;
        let index_at = align(summary_at.checked_add(superblock.summary_bytes)? - base)?.checked_add(base)?;
        let end = align(index_at.checked_add(superblock.index_bytes)? - base)?.checked_add(base)?;
        Some((summary_at, index_at, end))
    }

    /// The parts of the device that have neither containers nor room for them.
    pub(crate) fn parts(&self) -> [Range<u64>; 2] {
        [0..SUPERBLOCKS_BYTES, self.journals_at..self.metadata_end]
    }
}

/// The sizes of a store, and its need for RAM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    pub(crate) superblock: Superblock,
}

impl Plan {
    /// Plans a store.
    ///
    /// # Errors
    /// [`Error::Setting`] for an option that is not valid.
    pub fn new(options: &StoreOptions, seed: u64, identity: u64) -> Result<Self, Error> {
        options.check()?;
        let mut containers =
            (options.size_bytes / u64::from(options.container_bytes)).min(Place::SLOTS_MAX.into()) as u32;
        // The sizes of the other parts depend on the number of containers.
        loop {
            let superblock = Self::with(options, containers, seed, identity);
            if containers < CONTAINERS_MIN {
                let least = Self::with(options, CONTAINERS_MIN, seed, identity)?;
                let least = Layout::of(&least).map_or(u64::MAX, |l| l.end);
                let why = format!("a store needs {least} bytes at least");
                return Err(Error::Setting { what: "size of the store in bytes", given: options.size_bytes, why });
            }
            let superblock = superblock.map_err(|error| Error::Setting {
                what: "size of the store in bytes",
                given: options.size_bytes,
                why: format!("no index can hold all its chunks ({error}); choose a smaller store, or larger chunks"),
            })?;
            match Layout::of(&superblock) {
                Some(layout) if layout.end <= options.size_bytes => return Ok(Self { superblock }),
                _ => containers -= (containers / 256).max(1),
            }
        }
    }

    /// Plans the growth of a store to `size_bytes` of its device: journals, summary vector and index move to the first of the
    /// new slots, in the sizes that they then have. `None`: that would give no more room.
    ///
    /// # Errors
    /// [`Error::Setting`] if no index can hold that many chunks.
    pub(crate) fn grown(old: &Superblock, size_bytes: u64) -> Result<Option<Superblock>, Error> {
        let Some(layout) = Layout::of(old) else { return Ok(None) };
        let container_bytes = u64::from(old.container_bytes);
        let slots = size_bytes.saturating_sub(layout.containers_at) / container_bytes;
        let containers = slots.min(Place::SLOTS_MAX.into()) as u32;
        // The part of the journal for objects does not shrink.
        let objects_bytes = old.journal_bytes.saturating_sub(u64::from(old.containers) * JOURNAL_BYTES_A_SLOT);
        let by_size = JOURNAL_OBJECTS_BYTES.min(u64::from(containers) * container_bytes / 64);
        let options = StoreOptions {
            size_bytes,
            chunk_bytes: old.chunk_bytes,
            region_bytes: old.region_bytes,
            container_bytes: old.container_bytes,
            compression: old.compression,
            journal_bytes: Some(objects_bytes.max(by_size)),
        };
        let planned = Self::with(&options, containers, old.seed, old.identity).map_err(|error| Error::Setting {
            what: "size of the store in bytes",
            given: size_bytes,
            why: format!("no index can hold all its chunks ({error})"),
        })?;
        let moved = Moved { containers_at: layout.containers_at, first: old.containers, slots: 0 };
        let planned = Superblock { directory: old.directory, grows_to: old.grows_to, moved: Some(moved), ..planned };
        let Some((_, _, end)) = Layout::metadata(&planned, layout.end) else { return Ok(None) };
        let slots = u32::try_from((end - layout.end) / container_bytes).unwrap_or(u32::MAX);
        let grown = Superblock { moved: Some(Moved { slots, ..moved }), ..planned };
        let room = |superblock: &Superblock| {
            superblock.containers.saturating_sub(superblock.moved.map_or(0, |moved| moved.slots))
        };
        let is_larger = containers > old.containers && room(&grown) > room(old);
        Ok(Some(grown).filter(|grown| is_larger && Layout::of(grown).is_some()))
    }

    /// Lets the store grow by itself up to `size_bytes` of its device; 0: it does not.
    #[must_use]
    pub fn growing_to(mut self, size_bytes: u64) -> Self {
        self.superblock.grows_to = size_bytes;
        self
    }

    fn with(options: &StoreOptions, containers: u32, seed: u64, identity: u64) -> Result<Superblock, Error> {
        let stored = u64::from(containers) * u64::from(options.container_bytes);
        let chunks = (stored as f64 / (f64::from(options.chunk_bytes) * STORED_SHARE)) as u64;
        let index_entries = chunks.max(1 << 10);
        let (index_bytes, index_ram_bytes) = index_needs(index_entries)?;
        let objects_bytes = match options.journal_bytes {
            Some(bytes) => bytes.clamp(StoreOptions::JOURNAL_BYTES_MIN, JOURNAL_OBJECTS_BYTES),
            None => JOURNAL_OBJECTS_BYTES.min(stored / 64).max(JOURNAL_BYTES_DEFAULT_MIN),
        };
        let journal_bytes =
            (objects_bytes + u64::from(containers) * JOURNAL_BYTES_A_SLOT).next_multiple_of(BLOCK_BYTES as u64);
        Ok(Superblock {
            container_bytes: options.container_bytes,
            chunk_bytes: options.chunk_bytes,
            region_bytes: options.region_bytes,
            compression: options.compression,
            containers,
            seed,
            journal_bytes,
            summary_bytes: (index_entries * SUMMARY_BITS / 8).next_multiple_of(BLOCK_BYTES as u64),
            index_entries,
            index_bytes,
            index_ram_bytes,
            identity,
            directory: false,
            grows_to: 0,
            moved: None,
        })
    }

    /// RAM of the store's index and summary vector in bytes, independent of its content.
    #[must_use]
    pub fn ram_bytes(&self) -> u64 {
        self.superblock.index_ram_bytes + self.superblock.summary_bytes
    }

    /// The number of chunks that the store is planned for.
    #[must_use]
    pub fn chunks(&self) -> u64 {
        self.superblock.index_entries
    }

    /// Bytes of all containers.
    #[must_use]
    pub fn content_bytes(&self) -> u64 {
        u64::from(self.superblock.containers) * u64::from(self.superblock.container_bytes)
    }

    /// Bytes of the device up to which the store grows by itself; `None`: it does not.
    #[must_use]
    pub fn grows_to(&self) -> Option<u64> {
        Some(self.superblock.grows_to).filter(|bytes| *bytes > 0)
    }

    /// Bytes of the device that the store uses.
    #[must_use]
    pub fn device_bytes(&self) -> u64 {
        Layout::of(&self.superblock).map_or(u64::MAX, |l| l.end)
    }
}

/// The maximum number of bytes that are compressed together.
pub(crate) fn region_bytes_max(container_bytes: u32) -> u32 {
    (usize::from(Place::REGION_SECTORS_MAX) * SECTOR_BYTES - HEADER_BYTES - CHUNKS_MAX * CHUNK_BYTES)
        .min(container_bytes as usize / 4) as u32
}

/// The flash and the minimum RAM of an index of `entries` entries, in bytes.
fn index_needs(entries: u64) -> Result<(u64, u64), Error> {
    let options = Options { shape: INDEX_SHAPE, entries, ram_bytes: u64::MAX };
    let ram_bytes = match silt::Plan::new(&Options { ram_bytes: 0, ..options }) {
        Err(nitro_index::Error::Setting { nearest, .. }) => nearest.saturating_mul(2),
        Err(error) => return Err(error.into()),
        Ok(plan) => plan.ram_bytes,
    };
    let plan = silt::Plan::new(&Options { ram_bytes, ..options })?;
    Ok((plan.flash_bytes, ram_bytes))
}

/// The plan of a store's fingerprint index.
pub(crate) fn index_plan(superblock: &Superblock) -> Result<silt::Plan, Error> {
    let options =
        Options { shape: INDEX_SHAPE, entries: superblock.index_entries, ram_bytes: superblock.index_ram_bytes };
    Ok(silt::Plan::new(&options)?)
}
