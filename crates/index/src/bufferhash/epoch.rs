//! Openings of an index. After a crash has torn an incarnation, a later opening may write to the same slot, and a
//! second crash may leave exactly the sectors that the first one lost. The torn incarnation must not become complete in
//! this way. Therefore each opening has its own number, which is made durable before it is used.
//!
//! There are two copies, in the pages after the superblocks; openings write them alternately.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | checksum of the rest: CRC-64/NVME, mixed with the page's offset and the index's seed |
//! | 8 | 4 | epoch: number of the opening; the higher one is used |
//! | 12 | 4 | reserved, zero |
//! | 16 | 8 | next sequence number at the opening: incarnations from this one on are used only if they have this epoch |
//! | 24 | 4072 | reserved, zero |

use crate::hash::{is_sealed, seal};
use crate::superblock::SUPERBLOCKS_BYTES;
use crate::{Error, PAGE_BYTES};
use nitro_port::Device;
use nitro_port::buf::BufMut;

/// Bytes of both copies.
pub(super) const EPOCHS_BYTES: u64 = 2 * PAGE_BYTES as u64;

/// An opening of the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Epoch {
    pub(super) number: u32,
    /// The first sequence number that it assigns.
    pub(super) from: u64,
}

impl Epoch {
    fn offset(copy: u32) -> u64 {
        SUPERBLOCKS_BYTES + u64::from(copy) * PAGE_BYTES as u64
    }

    /// Whether an incarnation was written before this epoch began, or in it.
    pub(super) fn admits(&self, sequence: u64, epoch: u32) -> bool {
        sequence < self.from || epoch == self.number
    }

    /// The opening after this one.
    pub(super) fn next(&self, from: u64) -> Result<Self, Error> {
        let number = self.number.checked_add(1);
        let number = number.ok_or_else(|| Error::Damaged("it was opened 2^32 times".to_owned()))?;
        Ok(Self { number, from })
    }

    /// Makes the opening durable, in the copy of the opening before the previous one.
    pub(super) async fn write(&self, device: &impl Device, seed: u64) -> Result<(), Error> {
        let offset = Self::offset(self.number % 2);
        let mut page = BufMut::zeroed(PAGE_BYTES);
        page[8..12].copy_from_slice(&self.number.to_le_bytes());
        page[16..24].copy_from_slice(&self.from.to_le_bytes());
        seal(&mut page, offset, seed);
        device.write(offset, page.freeze()).await?;
        Ok(device.flush().await?)
    }

    /// Reads the newest copy.
    pub(super) async fn read(device: &impl Device, seed: u64) -> Result<Self, Error> {
        let mut newest: Option<Self> = None;
        for copy in 0..2 {
            let page = device.read(Self::offset(copy), PAGE_BYTES).await?;
            if !is_sealed(&page, Self::offset(copy), seed) {
                continue;
            }
            let number = page[8..12].try_into().map_or(0, u32::from_le_bytes);
            let from = page[16..24].try_into().map_or(0, u64::from_le_bytes);
            if newest.is_none_or(|n| n.number < number) {
                newest = Some(Self { number, from });
            }
        }
        newest.ok_or_else(|| Error::Damaged("both copies of its epoch fail their checksums".to_owned()))
    }
}
