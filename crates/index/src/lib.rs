//! Hash tables on flash for more entries than RAM can hold, with keys and values of fixed sizes.
//!
//! - [`bufferhash`]: *Cheap and Large CAMs for High Performance Data-Intensive Networked Systems* (Anand et al., NSDI
//!   2010). Inserts are buffered in RAM and written in large sequential pieces; the oldest entries are discarded for
//!   new ones.
//! - [`silt`]: *SILT: A Memory-Efficient, High-Performance Key-Value Store* (Lim et al., SOSP 2011). No entry is
//!   discarded; entries move to denser and denser stores, down to less than a byte of RAM each.
//!
//! Both use the engine's [`Device`](nitro_port::Device) interface, so they work on a file or block device, in RAM, or
//! on a modelled SSD. Their common interface is [`FlashIndex`].
#![forbid(unsafe_code)]

pub mod bufferhash;
mod error;
mod hash;
mod shape;
pub mod silt;
mod superblock;

pub use error::Error;
pub use shape::{Options, Shape};
pub use superblock::{Kind, kind_of};

use futures_util::future::try_join_all;
use nitro_port::DeviceError;
use smallvec::SmallVec;
use std::future::Future;

/// Bytes of a page, the smallest unit of reads and writes: every on-flash structure consists of pages.
pub const PAGE_BYTES: usize = 4096;

/// A value of [`Shape::value_bytes`] bytes.
pub type Value = SmallVec<[u8; 16]>;

/// Counters of an index since it was opened, and its RAM.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// The number of entries inserted, removals included.
    pub inserts: u64,
    /// The number of look-ups that found their key.
    pub hits: u64,
    /// The number of look-ups that did not find their key.
    pub misses: u64,
    /// Pages read by look-ups that found their key.
    pub hit_reads: u64,
    /// Pages read by look-ups that did not find their key.
    pub miss_reads: u64,
    /// Bytes written to the flash, for any reason.
    pub written_bytes: u64,
    /// Bytes read from the flash in the background.
    pub background_read_bytes: u64,
    /// The number of pages that failed their checksum. Their entries count as absent.
    pub corrupt_pages: u64,
    /// The number of entries, as far as known: an overwritten entry may count until its page is rewritten.
    pub entries: u64,
    /// RAM in use in bytes.
    pub ram_bytes: u64,
}

/// A hash table on flash.
pub trait FlashIndex {
    /// Sizes of keys and values.
    fn shape(&self) -> Shape;

    /// The value of `key`. Only pages that the index cannot exclude are read.
    ///
    /// # Errors
    /// [`Error::KeySize`], or an error of the device. A page that fails its checksum is not an error: its entries count
    /// as absent.
    fn get(&self, key: &[u8]) -> impl Future<Output = Result<Option<Value>, Error>>;

    /// The values of many keys, in their order; pages on the flash are read concurrently. This is cheaper than the same
    /// number of [`get`](Self::get) calls if most keys are absent.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    fn get_many(&self, keys: &[impl AsRef<[u8]>]) -> impl Future<Output = Result<Vec<Option<Value>>, Error>> {
        try_join_all(keys.iter().map(|key| self.get(key.as_ref())))
    }

    /// Inserts `key`, or replaces its value. Durable after the next [`sync`](Self::sync).
    ///
    /// # Errors
    /// [`Error::KeySize`], [`Error::ValueSize`], [`Error::Full`] in an index that discards no entries, or an error of
    /// the device.
    fn insert(&self, key: &[u8], value: &[u8]) -> impl Future<Output = Result<(), Error>>;

    /// Removes `key`; no effect if it is absent. Durable after the next [`sync`](Self::sync).
    ///
    /// # Errors
    /// [`Error::KeySize`], or an error of the device.
    fn remove(&self, key: &[u8]) -> impl Future<Output = Result<(), Error>>;

    /// Makes all earlier insertions and removals durable.
    ///
    /// # Errors
    /// An error of the device. Changes that were not durable before may then be lost in a crash.
    fn sync(&self) -> impl Future<Output = Result<(), Error>>;

    /// The counters of the index.
    fn counters(&self) -> Counters;
}

/// Writes the correct checksum into a page or superblock of either index; for tests and fuzzing.
#[doc(hidden)]
pub fn reseal(page: &mut [u8], offset: u64, seed: u64) {
    if offset < superblock::SUPERBLOCKS_BYTES { nitro_log::seal(page) } else { hash::seal(page, offset, seed) }
}

impl From<DeviceError> for Error {
    fn from(source: DeviceError) -> Self {
        Self::Device(source)
    }
}
