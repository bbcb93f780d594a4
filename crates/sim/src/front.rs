//! RAM in front of the SSD, as in the server: a cache of extents that were read from the SSD, and extents of sequential
//! streams, which are read ahead and bypass the SSD until they are read a second time.

use crate::model::Model;
use crate::settings::Settings;
use crate::workload::{Piece, runs};
use hashbrown::HashMap;
use nitro_cache::pattern::{Access, StreamDetector, StreamSettings};
use nitro_cache::ram::{Ahead, OVERHEAD_BYTES, RamCache};
use nitro_port::buf::held_bytes;
use nitro_units::{ExtentIndex, ExtentKey, ObjectId};

/// RAM in bytes that neighbouring extents of one request keep in use: an extent that was read alone has a buffer of its own,
/// neighbours share one.
pub(crate) fn held_together(extents: usize, extent_bytes: u32) -> u64 {
    let bytes = if extents == 1 { held_bytes(extent_bytes as usize) } else { extent_bytes.into() };
    (bytes + OVERHEAD_BYTES) * extents as u64
}

/// The kind of RAM that holds an extent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InRam {
    /// The RAM cache.
    Cached,
    /// The extents of sequential streams.
    Ahead,
    /// The extents of sequential streams, after an earlier read: the extent is to be inserted.
    Again,
}

/// The RAM in front of the SSD.
pub(crate) struct Front {
    ram: RamCache<()>,
    ahead: Ahead<()>,
    streams: StreamSettings,
    by_object: HashMap<ObjectId, StreamDetector>,
    extent_bytes: u32,
}

impl Front {
    /// `None` if there is neither a RAM cache nor detection of sequential streams.
    pub(crate) fn new(settings: &Settings) -> Option<Self> {
        let is_used = settings.ram_bytes > 0 || settings.sequential_bytes > 0;
        is_used.then(|| Self {
            ram: RamCache::new(settings.ram_bytes),
            ahead: Ahead::new(settings.readahead_ram_bytes),
            streams: settings.streams(),
            by_object: HashMap::new(),
            extent_bytes: settings.extent_bytes,
        })
    }

    /// Detects the stream that a read request continues.
    pub(crate) fn note_read(&mut self, request: &[Piece]) -> Access {
        let first = &request[0];
        let detector = self.by_object.entry(first.key.object()).or_insert_with(|| StreamDetector::new(self.streams));
        let offset = first.key.index().0 * u64::from(self.extent_bytes) + u64::from(first.offset);
        detector.read(offset, request.iter().map(|piece| u64::from(piece.len)).sum())
    }

    /// Looks up an extent for a read.
    pub(crate) fn read(&mut self, piece: &Piece) -> Option<InRam> {
        if self.ram.read(&piece.key).is_some() {
            return Some(InRam::Cached);
        }
        let ((), again) = self.ahead.take(&piece.key, piece.offset..piece.offset + piece.len)?;
        Some(if again { InRam::Again } else { InRam::Ahead })
    }

    /// Keeps extents that a request read from the SSD in the RAM cache.
    pub(crate) fn keep(&mut self, found: &[ExtentKey], model: &dyn Model) {
        if self.ram.is_used() {
            let held = held_bytes(self.extent_bytes as usize);
            found.iter().for_each(|key| self.ram.keep(*key, (), held, model.band_of(*key)));
        }
    }

    /// Keeps extents of a sequential stream that a request read from elsewhere; neighbours were read together.
    pub(crate) fn hold_back(&mut self, pieces: &[Piece]) {
        for run in runs(pieces) {
            let held = held_together(run.len(), self.extent_bytes);
            self.ahead.hold(run.iter().map(|piece| (piece.key, (), piece.offset + piece.len)), held);
        }
    }

    /// Reads bytes ahead; returns the extents that are neither here nor in the cache behind.
    pub(crate) fn read_ahead(&mut self, object: ObjectId, (from, to): (u64, u64), model: &dyn Model) -> Vec<ExtentKey> {
        let bytes = u64::from(self.extent_bytes);
        let mut read = Vec::new();
        for index in from / bytes..to.div_ceil(bytes) {
            let key = ExtentKey::new(object, ExtentIndex(index));
            if !self.ahead.has(&key) && self.ram.peek(&key).is_none() && !model.has(key) {
                self.ahead.hold([(key, (), 0)], bytes + OVERHEAD_BYTES);
                read.push(key);
            }
        }
        read
    }

    /// Whether the RAM cache holds an extent.
    pub(crate) fn has(&self, key: ExtentKey) -> bool {
        self.ram.peek(&key).is_some()
    }

    /// Whether any RAM holds an extent.
    pub(crate) fn holds(&self, key: ExtentKey) -> bool {
        self.has(key) || self.ahead.has(&key)
    }

    /// Drops extents that are written or trimmed.
    pub(crate) fn forget(&mut self, request: &[Piece]) {
        for piece in request {
            self.ram.forget(&piece.key);
            self.ahead.forget(&piece.key);
        }
    }
}
