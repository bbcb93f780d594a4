//! The sender.

use super::refuse;
use crate::access::Access;
use crate::chunks::compress;
use crate::format::increment::content_of;
use crate::format::record::Kind;
use crate::format::transfer::{LIST_MAX, List, Listed, Message, Offer, RAW_BYTES_MAX};
use crate::{Error, Store, Volume};
use nitro_port::Device;
use nitro_port::buf::BufMut;
use std::ops::Range;
use std::sync::Arc;

/// Chunks of a volume that are looked at together for ones that are no holes.
const LOOKED_AT: u64 = 16 * LIST_MAX as u64;

/// An object that is being sent. It must not be written to meanwhile.
pub struct Sending<D> {
    volume: Volume<D>,
    offer: Offer,
    at: u64,
}

impl<D: Device> Store<D> {
    /// Begins to send an object.
    ///
    /// # Errors
    /// [`Error::NoObject`]; [`Error::WrongKind`] if its import was interrupted; or an error of the device.
    pub async fn send(self: &Arc<Self>, name: &str) -> Result<Sending<D>, Error> {
        let volume = self.open_volume(name).await?;
        let object = volume.object();
        self.flush_tree(object).await?;
        let record = object.state.lock().record.clone();
        let offer = Offer {
            kind: record.kind,
            chunk_bytes: record.chunk_bytes,
            size_bytes: record.size_bytes,
            content: content_of(record.root),
            name: name.to_owned(),
        };
        Ok(Sending { volume, offer, at: 0 })
    }
}

impl<D: Device> Sending<D> {
    /// What is sent.
    pub fn offer(&self) -> &Offer {
        &self.offer
    }

    /// Begins where the receiver wants to.
    ///
    /// # Errors
    /// [`Error::Transfer`]: no chunk begins there.
    pub fn begin_at(&mut self, position: u64) -> Result<(), Error> {
        let is_chunk = match self.offer.kind {
            Kind::Volume => position.is_multiple_of(self.offer.chunk_bytes.into()),
            Kind::Stream => position == 0,
        };
        if !is_chunk || position > self.offer.size_bytes.next_multiple_of(self.offer.chunk_bytes.max(1).into()) {
            return refuse("the receiver wants to begin where no chunk does");
        }
        self.at = position;
        Ok(())
    }

    /// The next chunks; `None`: there are no more.
    ///
    /// # Errors
    /// The recipe cannot be read.
    pub async fn next_list(&mut self) -> Result<Option<List>, Error> {
        let list = match self.offer.kind {
            Kind::Volume => self.next_of_volume().await?,
            Kind::Stream => self.next_of_stream().await?,
        };
        Ok(list.inspect(|list| self.at = list.end()))
    }

    /// Holes before and behind chunks are not listed.
    async fn next_of_volume(&mut self) -> Result<Option<List>, Error> {
        let bytes = self.offer.chunk_bytes;
        while self.at < self.offer.size_bytes {
            let len = (LOOKED_AT * u64::from(bytes)).min(self.offer.size_bytes - self.at);
            let found = self.volume.fingerprints(self.at, len).await?;
            let Some(first) = found.iter().position(Option::is_some) else {
                self.at += len;
                continue;
            };
            let some = &found[first..found.len().min(first + LIST_MAX)];
            let count = some.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
            let chunks = some[..count].iter().map(|fingerprint| Listed { fingerprint: *fingerprint, bytes }).collect();
            return Ok(Some(List { offset: self.at + first as u64 * u64::from(bytes), chunks }));
        }
        Ok(None)
    }

    async fn next_of_stream(&mut self) -> Result<Option<List>, Error> {
        let root = self.volume.object().state.lock().record.root;
        // About as many as a list takes: sizes differ around their mean.
        let len = LIST_MAX as u64 / 2 * u64::from(self.offer.chunk_bytes.max(1));
        let range = self.at..self.offer.size_bytes.min(self.at.saturating_add(len));
        if range.is_empty() {
            return Ok(None);
        }
        let entries = self.volume.store().resolve_stream(root, range, Access::Sequential).await?;
        let listed = entries.into_iter().take(LIST_MAX).map(|(_, entry)| Listed {
            fingerprint: Some(entry.reference.fingerprint),
            bytes: u32::try_from(entry.bytes).unwrap_or(u32::MAX),
        });
        let chunks: Vec<Listed> = listed.collect();
        match chunks.is_empty() {
            true => {
                Err(Error::Damaged { what: format!("the recipe of {:?} has no chunk at {}", self.offer.name, self.at) })
            }
            false => Ok(Some(List { offset: self.at, chunks })),
        }
    }

    /// Reads chunks of a list, given by their numbers there, see [`List::wanted`].
    ///
    /// # Errors
    /// As [`Volume::read_range`].
    pub async fn chunks(&self, list: &List, numbers: &[usize]) -> Result<Message, Error> {
        let places = list.places();
        let wanted: Vec<&Range<u64>> = numbers.iter().filter_map(|number| places.get(*number)).collect();
        let total: u64 = wanted.iter().map(|place| place.end - place.start).sum();
        let mut raw = BufMut::zeroed(total as usize);
        let mut at = 0;
        for run in wanted.chunk_by(|one, next| one.end == next.start) {
            let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
            // The last chunk of a volume extends beyond its end with zeroes.
            let len = last.end.min(self.offer.size_bytes).saturating_sub(first.start) as usize;
            raw[at..at + len].copy_from_slice(&self.volume.read_range(first.start, len).await?);
            at += (last.end - first.start) as usize;
        }
        let raw = raw.freeze();
        let (encoding, payload) = compress(self.volume.store().superblock.compression, &raw);
        Ok(Message::Chunks(encoding, raw.len() as u32, payload))
    }
}

impl List {
    /// The offset of its first chunk in the object.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The end of its last chunk in the object.
    #[must_use]
    pub fn end(&self) -> u64 {
        let bytes: u64 = self.chunks.iter().map(|chunk| u64::from(chunk.bytes)).sum();
        self.offset.saturating_add(bytes)
    }

    fn places(&self) -> Vec<Range<u64>> {
        let mut at = self.offset;
        let place = |chunk: &Listed| {
            let start = at;
            at += u64::from(chunk.bytes);
            start..at
        };
        self.chunks.iter().map(place).collect()
    }

    /// The numbers of the chunks that a receiver lacks, in groups that are sent together.
    ///
    /// # Errors
    /// [`Error::Transfer`]: it says so of what is no chunk.
    pub fn wanted(&self, lacks: &[bool]) -> Result<Vec<Vec<usize>>, Error> {
        let mut groups: Vec<Vec<usize>> = Vec::new();
        let mut group_bytes = usize::MAX;
        for (number, _) in lacks.iter().enumerate().filter(|(_, lacks)| **lacks) {
            let Some(chunk) = self.chunks.get(number).filter(|chunk| chunk.fingerprint.is_some()) else {
                return refuse("the receiver lacks a chunk that was not listed");
            };
            let bytes = chunk.bytes as usize;
            group_bytes = group_bytes.saturating_add(bytes);
            match groups.last_mut().filter(|_| group_bytes <= RAW_BYTES_MAX / 2) {
                Some(group) => group.push(number),
                None => {
                    groups.push(vec![number]);
                    group_bytes = bytes;
                }
            }
        }
        Ok(groups)
    }
}
