//! The slots of a cache device, read without a cache.

use crate::format::duplicate::Duplicate;
use crate::format::stored::{Place, payload_range};
use crate::format::superblock::Superblock;
use crate::format::weu::{Entry, Head};
use crate::format::{FormatError, crc32c};
use crate::recovery::READS_AT_ONCE;
use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use nitro_cache::weu::layout::HEAD_BYTES;
use nitro_port::buf::BufMut;
use nitro_port::codec::{Encoding, decode};
use nitro_port::{Device, DeviceError};
use nitro_units::{Generation, WeuId};
use std::collections::{BTreeSet, HashMap};

/// A kind of damage on the device.
#[derive(Debug, Clone, thiserror::Error)]
pub(super) enum Damage {
    #[error("{0}")]
    Device(#[from] DeviceError),
    #[error("{0}")]
    Format(#[from] FormatError),
    #[error("stored extent: checksum mismatch")]
    Checksum,
    #[error("stored extent: does not decompress")]
    Encoding,
    #[error("stored extent: outside its write-evict unit")]
    Outside,
    #[error("neither a header nor the journal says where it is")]
    Nowhere,
}

/// One filling of a slot.
#[derive(Debug, Clone, Copy)]
pub(super) struct Filling {
    pub(super) weu: WeuId,
    pub(super) generation: Generation,
    pub(super) start: u32,
}

/// The content found at the position of a WEU's head.
pub(super) enum Found {
    /// No head of this cache.
    Nothing,
    Damaged(Damage),
    Head(Head),
}

/// WEU headers by slot.
pub(super) type Headers = HashMap<WeuId, (Head, Vec<Entry>)>;

/// The slots of a device.
pub(super) struct Slots<'a, F> {
    flash: &'a F,
    pub(super) superblock: Superblock,
    /// How many of them the device has room for.
    pub(super) count: u32,
}

impl<'a, F: Device> Slots<'a, F> {
    pub(super) fn new(flash: &'a F, superblock: Superblock) -> Self {
        let room = flash.geometry().size_bytes.saturating_sub(superblock.data_offset);
        let fit = room / u64::from(superblock.weu_bytes);
        let count = u64::from(superblock.weu_count).min(fit) as u32;
        Self { flash, superblock, count }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = WeuId> + use<F> {
        (0..self.count).map(WeuId)
    }

    /// The offset on the device of a byte of a WEU.
    pub(super) fn offset(&self, weu: WeuId, within: u32) -> u64 {
        self.superblock.data_offset + u64::from(weu.0) * u64::from(self.superblock.weu_bytes) + u64::from(within)
    }

    /// Reads bytes of a WEU, aligned to the device's blocks or not.
    pub(super) async fn read(&self, weu: WeuId, within: u32, len: u32) -> Result<Bytes, DeviceError> {
        let block = u64::from(self.flash.geometry().block_bytes);
        let offset = self.offset(weu, within);
        let from = offset / block * block;
        let end = (offset + u64::from(len)).next_multiple_of(block);
        let bytes = self.flash.read(from, (end - from) as usize).await?;
        let skipped = (offset - from) as usize;
        Ok(bytes.slice(skipped..skipped + len as usize))
    }

    pub(super) async fn head(&self, weu: WeuId) -> Found {
        let bytes = match self.read(weu, 0, HEAD_BYTES).await {
            Ok(bytes) => bytes,
            Err(error) => return Found::Damaged(error.into()),
        };
        match Head::decode(&bytes, self.superblock.weu_bytes) {
            Ok(head) if head.epoch != self.superblock.epoch => Found::Nothing,
            Ok(head) if head.weu == weu => Found::Head(head),
            Ok(head) => {
                let (structure, field, value) = ("WEU head", "WEU number", head.weu.0.into());
                Found::Damaged(FormatError::Field { structure, field, value }.into())
            }
            Err(FormatError::Magic { .. }) => Found::Nothing,
            Err(error) => Found::Damaged(error.into()),
        }
    }

    pub(super) async fn table(&self, head: &Head) -> Result<Vec<Entry>, Damage> {
        let bytes = self.read(head.weu, head.table_offset, head.table_bytes() as u32).await?;
        Ok(head.decode_table(&bytes, self.superblock.weu_bytes)?)
    }

    /// The records of duplicates that a head describes.
    pub(super) async fn duplicates(&self, head: &Head) -> Result<Vec<Duplicate>, Damage> {
        let bytes = self.read(head.weu, head.duplicates_offset(), head.duplicates_bytes() as u32).await?;
        Ok(head.decode_duplicates(&bytes)?)
    }

    async fn header(&self, weu: WeuId) -> Option<(Head, Vec<Entry>)> {
        let Found::Head(head) = self.head(weu).await else { return None };
        let entries = self.table(&head).await.ok()?;
        Some((head, entries))
    }

    /// The whole headers of some slots.
    pub(super) async fn headers(&self, wanted: BTreeSet<WeuId>) -> Headers {
        let known = wanted.into_iter().filter(|weu| weu.0 < self.count);
        let reads = known.map(async |weu| (weu, self.header(weu).await));
        let mut reads = stream::iter(reads).buffer_unordered(READS_AT_ONCE);
        let mut headers = Headers::new();
        while let Some((weu, header)) = reads.next().await {
            if let Some(header) = header {
                headers.insert(weu, header);
            }
        }
        headers
    }

    /// The extent that an entry of a filling names.
    pub(super) async fn content(&self, filling: &Filling, entry: &Entry) -> Result<Bytes, Damage> {
        let weu_bytes = self.superblock.weu_bytes;
        let end = entry.offset.checked_add(entry.stored_bytes).filter(|end| *end <= weu_bytes);
        if filling.weu.0 >= self.count || end.is_none() {
            return Err(Damage::Outside);
        }
        let bytes = match entry.stored_bytes {
            0 => Bytes::new(),
            len => self.read(filling.weu, entry.offset, len).await?,
        };
        self.unpack(filling, entry, bytes)
    }

    /// Decodes an extent from its stored bytes.
    pub(super) fn unpack(&self, filling: &Filling, entry: &Entry, stored: Bytes) -> Result<Bytes, Damage> {
        let extent_bytes = self.superblock.extent_bytes as usize;
        if entry.stored_bytes == 0 {
            return Ok(BufMut::zeroed(extent_bytes).freeze());
        }
        let Filling { weu, generation, start } = *filling;
        let place = Place { epoch: self.superblock.epoch, start, weu, generation, offset: entry.offset };
        if entry.raw {
            let intact = place.mix(crc32c(&stored)) == entry.checksum;
            return if intact {
                decode(Encoding::Raw, stored, extent_bytes).ok_or(Damage::Encoding)
            } else {
                Err(Damage::Checksum)
            };
        }
        let Some((encoding, payload)) = payload_range(&place, &stored) else { return Err(Damage::Checksum) };
        if payload.end != stored.len() || stored[..4] != entry.checksum.to_le_bytes() {
            return Err(Damage::Checksum);
        }
        decode(encoding, stored.slice(payload), extent_bytes).ok_or(Damage::Encoding)
    }
}
