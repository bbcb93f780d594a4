//! The superblock: the sizes and settings of a store. There are two copies, in the device's first two blocks, written
//! when the store is created, and when it grows.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | magic `NITROCOS` |
//! | 8 | 4 | format version: 1; 2: the store may have a directory, see pages of the directory; 3: it has grown, and may have one |
//! | 12 | 4 | bytes of a container |
//! | 16 | 4 | bytes of a chunk of new volumes |
//! | 20 | 4 | bytes of a region before compression |
//! | 24 | 4 | compression: 0 none, 1 LZ4, 2 Zstandard |
//! | 28 | 4 | slots of containers; in version 3 with those that journals, summary vector and index take |
//! | 32 | 8 | seed: random for each store, mixed into all checksums |
//! | 40 | 8 | bytes of each of the two journals |
//! | 48 | 8 | bytes of the summary vector |
//! | 56 | 8 | entries of the fingerprint index |
//! | 64 | 8 | bytes of the fingerprint index |
//! | 72 | 8 | RAM in bytes that the fingerprint index was planned with |
//! | 80 | 8 | the store's identity |
//! | 88 | 8 | bytes of the device up to which the store grows by itself; 0: it does not |
//! | 96 | 8 | where slot 0 begins, in version 3; else zero |
//! | 104 | 4 | the slot from which on journals, summary vector and index are, in version 3; else zero |
//! | 108 | 4 | the slots that they take, in version 3; else zero |
//! | 112 | 3976 | reserved, zero |
//! | 4088 | 8 | checksum of the 4088 bytes before |

use super::{BLOCK_BYTES, VERSION, checksum, u32_at, u64_at};
use crate::Error;
use nitro_port::Device;
use nitro_port::buf::BufMut;
use nitro_port::codec::Compression;

const MAGIC: [u8; 8] = *b"NITROCOS";
/// The version of stores without a directory.
const VERSION_WITHOUT: u32 = 1;
/// The version of stores that may have a directory, and have not grown.
const VERSION_DIRECTORY: u32 = 2;
const SUM_AT: usize = BLOCK_BYTES - 8;
/// The offsets of the copies.
const COPIES_AT: [u64; 2] = [0, BLOCK_BYTES as u64];
/// Bytes of both copies.
pub(crate) const SUPERBLOCKS_BYTES: u64 = 2 * BLOCK_BYTES as u64;

/// Where journals, summary vector and index of a store are that has grown: in slots, which have no containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moved {
    /// Where slot 0 begins on the device, in bytes.
    pub(crate) containers_at: u64,
    pub(crate) first: u32,
    pub(crate) slots: u32,
}

/// The sizes and settings of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Superblock {
    pub(crate) container_bytes: u32,
    pub(crate) chunk_bytes: u32,
    pub(crate) region_bytes: u32,
    pub(crate) compression: Compression,
    /// The slots of containers, with those in [`moved`](Self::moved).
    pub(crate) containers: u32,
    pub(crate) seed: u64,
    pub(crate) journal_bytes: u64,
    pub(crate) summary_bytes: u64,
    pub(crate) index_entries: u64,
    pub(crate) index_bytes: u64,
    pub(crate) index_ram_bytes: u64,
    pub(crate) identity: u64,
    /// Whether objects may be in a directory; programs that know no directory must not open the store then.
    pub(crate) directory: bool,
    /// Bytes of the device up to which the store grows by itself; 0: it does not.
    pub(crate) grows_to: u64,
    /// `None`: it has never grown.
    pub(crate) moved: Option<Moved>,
}

impl Superblock {
    const fn version(&self) -> u32 {
        match (self.moved, self.directory) {
            (Some(_), _) => VERSION,
            (None, true) => VERSION_DIRECTORY,
            (None, false) => VERSION_WITHOUT,
        }
    }

    pub(crate) fn encode(&self) -> BufMut {
        let mut page = BufMut::zeroed(BLOCK_BYTES);
        let compression: u32 = match self.compression {
            Compression::None => 0,
            Compression::Lz4 => 1,
            Compression::Zstd => 2,
        };
        page[..8].copy_from_slice(&MAGIC);
        let small =
            [self.version(), self.container_bytes, self.chunk_bytes, self.region_bytes, compression, self.containers];
        for (number, at) in small.iter().zip((8..).step_by(4)) {
            page[at..at + 4].copy_from_slice(&number.to_le_bytes());
        }
        let large = [
            self.seed,
            self.journal_bytes,
            self.summary_bytes,
            self.index_entries,
            self.index_bytes,
            self.index_ram_bytes,
            self.identity,
            self.grows_to,
            self.moved.map_or(0, |moved| moved.containers_at),
        ];
        for (number, at) in large.iter().zip((32..).step_by(8)) {
            page[at..at + 8].copy_from_slice(&number.to_le_bytes());
        }
        if let Some(Moved { first, slots, .. }) = self.moved {
            page[104..108].copy_from_slice(&first.to_le_bytes());
            page[108..112].copy_from_slice(&slots.to_le_bytes());
        }
        let sum = checksum(&page[..SUM_AT], 0, 0);
        page[SUM_AT..].copy_from_slice(&sum.to_le_bytes());
        page
    }

    /// Decodes a block.
    pub(crate) fn decode(page: &[u8]) -> Result<Self, Error> {
        if page.len() != BLOCK_BYTES || page[..8] != MAGIC {
            return Err(Error::NotAStore("the device does not begin with the magic number of a store".to_owned()));
        }
        let version = u32_at(page, 8);
        // A later version may have another checksum.
        if version > VERSION {
            return Err(Error::Version(version));
        }
        if version == 0 || u64_at(page, SUM_AT) != checksum(&page[..SUM_AT], 0, 0) {
            return Err(Error::Damaged { what: "the superblock fails its checksum".to_owned() });
        }
        let compression = match u32_at(page, 24) {
            0 => Compression::None,
            1 => Compression::Lz4,
            2 => Compression::Zstd,
            other => {
                return Err(Error::Damaged { what: format!("the superblock has the unknown compression {other}") });
            }
        };
        Ok(Self {
            container_bytes: u32_at(page, 12),
            chunk_bytes: u32_at(page, 16),
            region_bytes: u32_at(page, 20),
            compression,
            containers: u32_at(page, 28),
            seed: u64_at(page, 32),
            journal_bytes: u64_at(page, 40),
            summary_bytes: u64_at(page, 48),
            index_entries: u64_at(page, 56),
            index_bytes: u64_at(page, 64),
            index_ram_bytes: u64_at(page, 72),
            identity: u64_at(page, 80),
            directory: version > VERSION_WITHOUT,
            grows_to: u64_at(page, 88),
            moved: (version > VERSION_DIRECTORY).then(|| Moved {
                containers_at: u64_at(page, 96),
                first: u32_at(page, 104),
                slots: u32_at(page, 108),
            }),
        })
    }

    /// Writes magic, checksum, and a version if it has none that is known into a block; for tests and fuzzing.
    pub(crate) fn reseal(page: &mut [u8]) {
        page[..8].copy_from_slice(&MAGIC);
        if !(1..=VERSION).contains(&u32_at(page, 8)) {
            page[8..12].copy_from_slice(&VERSION.to_le_bytes());
        }
        let sum = checksum(&page[..SUM_AT], 0, 0);
        page[SUM_AT..].copy_from_slice(&sum.to_le_bytes());
    }

    /// Writes both copies, one after the other, and makes each durable.
    pub(crate) async fn write(&self, device: &impl Device) -> Result<(), Error> {
        Ok(nitro_log::write_both(device, COPIES_AT, &self.encode()).await?)
    }

    /// Reads the first valid copy.
    pub(crate) async fn read(device: &impl Device) -> Result<Self, Error> {
        if device.geometry().size_bytes < SUPERBLOCKS_BYTES {
            return Err(Error::NotAStore("the device is too small for a store".to_owned()));
        }
        nitro_log::read_first_whole(device, COPIES_AT, BLOCK_BYTES, Self::decode).await
    }

    /// Writes both copies again if they differ: power may have failed between the two when the store grew, and the second one
    /// leads to a journal that is used no more.
    pub(crate) async fn repair(&self, device: &impl Device) -> Result<(), Error> {
        for at in COPIES_AT {
            let copy = device.read(at, BLOCK_BYTES).await.map_err(Error::from);
            if copy.and_then(|page| Self::decode(&page)).ok() != Some(*self) {
                return self.write(device).await;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn superblocks_come_back_and_no_byte_goes_unnoticed() {
        let superblock = Superblock {
            container_bytes: 1,
            chunk_bytes: 2,
            region_bytes: 3,
            compression: Compression::Zstd,
            containers: 4,
            seed: 5,
            journal_bytes: 6,
            summary_bytes: 7,
            index_entries: 8,
            index_bytes: 9,
            index_ram_bytes: 10,
            identity: 11,
            directory: true,
            grows_to: 12,
            moved: Some(Moved { containers_at: 13, first: 14, slots: 15 }),
        };
        for (moved, directory, version) in [(None, false, 1), (None, true, 2), (superblock.moved, true, 3)] {
            let other = Superblock { moved, directory, ..superblock };
            assert_eq!((Superblock::decode(&other.encode()).unwrap(), other.version()), (other, version));
        }
        let mut page = superblock.encode();
        for at in (0..BLOCK_BYTES).step_by(7) {
            page[at] ^= 1;
            assert!(Superblock::decode(&page).is_err());
            page[at] ^= 1;
        }
    }
}
