//! The superblock: the kind of the index on a device. There are two copies, in the first two pages of the device; they
//! are written once, when the index is created.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | magic `NITROIDX` |
//! | 8 | 4 | format version: 1 |
//! | 12 | 4 | kind: 1 BufferHash, 2 SILT |
//! | 16 | 1 | bytes of a key |
//! | 17 | 1 | reserved, zero |
//! | 18 | 2 | bytes of a value |
//! | 20 | 4 | reserved, zero |
//! | 24 | 8 | seed: random for each index, mixed into all hashes and checksums |
//! | 32 | 64 | settings: eight numbers of 8 bytes, as the kind has it |
//! | 96 | 3996 | reserved, zero |
//! | 4092 | 4 | CRC-32C of the 4092 bytes before |

use crate::{Error, PAGE_BYTES, Shape};
use nitro_log::{is_sealed, seal, u32_at, u64_at};
use nitro_port::Device;
use nitro_port::buf::BufMut;

const MAGIC: [u8; 8] = *b"NITROIDX";
/// The newest format version that this program knows.
pub(crate) const VERSION: u32 = 1;
/// The offsets of the copies.
const COPIES_AT: [u64; 2] = [0, PAGE_BYTES as u64];
/// Bytes of both copies; the content of the index begins after them.
pub(crate) const SUPERBLOCKS_BYTES: u64 = 2 * PAGE_BYTES as u64;

/// The kind of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// [`BufferHash`](crate::bufferhash::BufferHash).
    BufferHash,
    /// [`Silt`](crate::silt::Silt).
    Silt,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Superblock {
    pub(crate) kind: Kind,
    pub(crate) shape: Shape,
    pub(crate) seed: u64,
    pub(crate) settings: [u64; 8],
}

impl Superblock {
    pub(crate) fn encode(&self, page: &mut [u8]) {
        page.fill(0);
        page[..8].copy_from_slice(&MAGIC);
        page[8..12].copy_from_slice(&VERSION.to_le_bytes());
        let kind: u32 = match self.kind {
            Kind::BufferHash => 1,
            Kind::Silt => 2,
        };
        page[12..16].copy_from_slice(&kind.to_le_bytes());
        page[16] = self.shape.key_bytes;
        page[18..20].copy_from_slice(&self.shape.value_bytes.to_le_bytes());
        page[24..32].copy_from_slice(&self.seed.to_le_bytes());
        for (number, at) in self.settings.iter().zip((32..).step_by(8)) {
            page[at..at + 8].copy_from_slice(&number.to_le_bytes());
        }
        seal(page);
    }

    pub(crate) fn decode(page: &[u8]) -> Result<Self, Error> {
        if page.len() != PAGE_BYTES || page[..8] != MAGIC {
            return Err(Error::NotAnIndex("the device does not begin with the magic number of an index".to_owned()));
        }
        if !is_sealed(page) {
            return Err(Error::Damaged("its superblock fails its checksum".to_owned()));
        }
        match u32_at(page, 8) {
            VERSION => {}
            other => return Err(Error::Version(other)),
        }
        let kind = match u32_at(page, 12) {
            1 => Kind::BufferHash,
            2 => Kind::Silt,
            other => {
                return Err(Error::NotAnIndex(format!("the index has kind {other}, which this program does not know")));
            }
        };
        let shape = Shape::new(page[16], u16::from_le_bytes([page[18], page[19]]))?;
        let settings = std::array::from_fn(|i| u64_at(page, 32 + 8 * i));
        Ok(Self { kind, shape, seed: u64_at(page, 24), settings })
    }

    /// Writes both copies, one after the other, and makes each durable.
    pub(crate) async fn write(&self, device: &impl Device) -> Result<(), Error> {
        let mut page = BufMut::zeroed(PAGE_BYTES);
        self.encode(&mut page);
        Ok(nitro_log::write_both(device, COPIES_AT, &page).await?)
    }

    /// Reads the first valid copy.
    pub(crate) async fn read(device: &impl Device) -> Result<Self, Error> {
        if device.geometry().size_bytes < SUPERBLOCKS_BYTES {
            return Err(Error::NotAnIndex("the device is too small for an index".to_owned()));
        }
        nitro_log::read_first_whole(device, COPIES_AT, PAGE_BYTES, Self::decode).await
    }
}

/// The kind of the index on a device.
///
/// # Errors
/// [`Error::NotAnIndex`], [`Error::Version`], [`Error::Damaged`], or an error of the device.
pub async fn kind_of(device: &impl Device) -> Result<Kind, Error> {
    Superblock::read(device).await.map(|s| s.kind)
}
