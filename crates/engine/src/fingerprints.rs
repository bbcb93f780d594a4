//! The interface of fingerprint indexes that are larger than RAM. They are searched only for fingerprints that are not
//! in the manager's index in RAM. Their answers are used only if the content place that they name is still valid.

use nitro_units::{Fingerprint, Generation, WeuId};
use parking_lot::Mutex;
use std::future::Future;

/// The position where content of a fingerprint is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContentPlace {
    /// The WEU.
    pub weu: WeuId,
    /// Its entry in there.
    pub entry: u16,
    /// The filling of the WEU.
    pub generation: Generation,
    /// The start of the cache in which it was filled, modulo 2²⁴: after a crash, a generation may be used twice.
    pub start: u32,
}

impl ContentPlace {
    /// Bytes of an encoded place: WEU (3), entry (2), generation (4), start (3), little-endian.
    pub const BYTES: usize = 12;
    const START_MASK: u32 = (1 << 24) - 1;

    pub(crate) fn new(weu: WeuId, entry: u16, generation: Generation, start: u32) -> Self {
        Self { weu, entry, generation, start: start & Self::START_MASK }
    }

    /// Encodes the place as the value of an index.
    #[must_use]
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..3].copy_from_slice(&self.weu.0.to_le_bytes()[..3]);
        bytes[3..5].copy_from_slice(&self.entry.to_le_bytes());
        bytes[5..9].copy_from_slice(&self.generation.0.to_le_bytes());
        bytes[9..].copy_from_slice(&self.start.to_le_bytes()[..3]);
        bytes
    }

    /// Decodes the value of an index. Any bytes are a place.
    #[must_use]
    pub fn decode(bytes: &[u8; Self::BYTES]) -> Self {
        let [a, b, c, d, e, f, g, h, i, j, k, l] = *bytes;
        Self {
            weu: WeuId(u32::from_le_bytes([a, b, c, 0])),
            entry: u16::from_le_bytes([d, e]),
            generation: Generation(u32::from_le_bytes([f, g, h, i])),
            start: u32::from_le_bytes([j, k, l, 0]),
        }
    }
}

/// An index of fingerprints on flash. It handles its own failures: it then finds nothing.
pub trait FingerprintIndex {
    /// Whether there is an index.
    const IS_THERE: bool = true;

    /// The last known place of content with this fingerprint.
    fn find(&self, fingerprint: &Fingerprint) -> impl Future<Output = Option<ContentPlace>>;

    /// As [`find`](Self::find), for a caller that polls none of the look-ups that it has begun until it has the answer: this one waits
    /// for none of them.
    fn find_alone(&self, fingerprint: &Fingerprint) -> impl Future<Output = Option<ContentPlace>> {
        self.find(fingerprint)
    }

    /// Notes the place of content with this fingerprint.
    fn note(&self, fingerprint: &Fingerprint, place: ContentPlace) -> impl Future<Output = ()>;
}

/// Contents that were copied forward, for an index that still has their old places. Nothing is kept where there is no index.
#[derive(Debug, Default)]
pub(crate) struct Moved(Mutex<Option<Vec<(Fingerprint, ContentPlace)>>>);

impl Moved {
    /// More are not kept: the index then finds these contents no longer, until they are stored again.
    const MAX: usize = 1 << 14;

    /// There is an index.
    pub(crate) fn keep(&self) {
        self.0.lock().get_or_insert_default();
    }

    pub(crate) fn push(&self, fingerprint: &Fingerprint, place: ContentPlace) {
        if let Some(moved) = self.0.lock().as_mut().filter(|moved| moved.len() < Self::MAX) {
            moved.push((*fingerprint, place));
        }
    }

    pub(crate) fn take(&self) -> Vec<(Fingerprint, ContentPlace)> {
        self.0.lock().as_mut().map(std::mem::take).unwrap_or_default()
    }
}

/// No index on flash.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoIndex;

impl FingerprintIndex for NoIndex {
    const IS_THERE: bool = false;

    async fn find(&self, _fingerprint: &Fingerprint) -> Option<ContentPlace> {
        None
    }

    async fn note(&self, _fingerprint: &Fingerprint, _place: ContentPlace) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_come_back() {
        let place = ContentPlace::new(WeuId(0xAB_CDEF), 8191, Generation(0x1234_5678), 0xFFFF_FFFE);
        assert_eq!(ContentPlace::decode(&place.encode()), place);
        assert_eq!(place.start, 0xFF_FFFE);
    }
}
