//! The locality-preserved cache (Zhu, Li and Patterson, FAST 2008, §4.3): the fingerprints of whole containers in RAM. Chunks
//! that were written together are asked for together, so that one container's metadata answers for a thousand chunks.

use crate::format::container::ContainerChunk;
use crate::place::Place;
use hashbrown::HashMap;
use lru::LruCache;
use nitro_engine::manager::Fingerprint;
use std::hash::{BuildHasherDefault, Hasher};

/// Fingerprints are uniform already.
#[derive(Default)]
pub(crate) struct FingerprintHasher(u64);

impl Hasher for FingerprintHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        if let Some(first) = bytes.first_chunk() {
            self.0 = u64::from_le_bytes(*first);
        }
    }
}

/// A map by fingerprint.
pub(crate) type FingerprintMap<T> = HashMap<Fingerprint, T, BuildHasherDefault<FingerprintHasher>>;

/// The fingerprints of some containers.
pub(crate) struct Locality {
    places: FingerprintMap<u64>,
    /// Sealed containers, least recently useful first to go.
    sealed: LruCache<u32, Vec<Fingerprint>>,
    /// Open containers, which never go.
    open: HashMap<u32, Vec<Fingerprint>>,
    containers_max: usize,
    /// The container that was useful last.
    last: u32,
}

impl Locality {
    pub(crate) fn new(containers_max: usize) -> Self {
        Self {
            places: FingerprintMap::default(),
            sealed: LruCache::unbounded(),
            open: HashMap::new(),
            containers_max: containers_max.max(1),
            last: u32::MAX,
        }
    }

    pub(crate) fn get(&mut self, fingerprint: &Fingerprint) -> Option<Place> {
        let place = Place::unpack(*self.places.get(fingerprint)?);
        if place.slot != self.last {
            self.last = place.slot;
            self.sealed.promote(&place.slot);
        }
        Some(place)
    }

    /// Whether the chunk of that place is known to be of that content.
    pub(crate) fn holds(&self, place: Place, fingerprint: &Fingerprint) -> bool {
        let listed = self.sealed.peek(&place.slot).or_else(|| self.open.get(&place.slot));
        listed.and_then(|l| l.get(usize::from(place.number))) == Some(fingerprint)
    }

    /// A content is in a sealed container. What is in an open one too stays known to be there: the index does not know that yet.
    pub(crate) fn prefer(&mut self, fingerprint: &Fingerprint, place: Place) {
        let known = self.places.entry(*fingerprint).or_insert(place.pack());
        if !self.open.contains_key(&Place::unpack(*known).slot) {
            *known = place.pack();
        }
    }

    pub(crate) fn has(&self, slot: u32) -> bool {
        self.sealed.contains(&slot) || self.open.contains_key(&slot)
    }

    /// A chunk was put into an open container.
    pub(crate) fn put_open(&mut self, fingerprint: Fingerprint, place: Place) {
        self.places.insert(fingerprint, place.pack());
        self.open.entry(place.slot).or_default().push(fingerprint);
    }

    /// An open container was sealed: it may give way from now on.
    pub(crate) fn sealed(&mut self, slot: u32) {
        if let Some(fingerprints) = self.open.remove(&slot) {
            self.sealed.push(slot, fingerprints);
            self.shrink();
        }
    }

    /// A sealed container's metadata was read.
    pub(crate) fn load(&mut self, slot: u32, chunks: &[ContainerChunk]) {
        for (number, chunk) in (0..).zip(chunks) {
            self.prefer(&chunk.fingerprint, chunk.place(slot, number));
        }
        self.sealed.push(slot, chunks.iter().map(|c| c.fingerprint).collect());
        self.shrink();
    }

    fn shrink(&mut self) {
        while self.sealed.len() > self.containers_max {
            let Some((slot, fingerprints)) = self.sealed.pop_lru() else { return };
            self.drop_places(slot, &fingerprints);
        }
    }

    fn drop_places(&mut self, slot: u32, fingerprints: &[Fingerprint]) {
        for fingerprint in fingerprints {
            if self.places.get(fingerprint).is_some_and(|place| Place::unpack(*place).slot == slot) {
                self.places.remove(fingerprint);
            }
        }
    }

    /// A container is no more, or is to be no more.
    pub(crate) fn forget(&mut self, slot: u32) {
        for fingerprints in [self.sealed.pop(&slot), self.open.remove(&slot)].into_iter().flatten() {
            self.drop_places(slot, &fingerprints);
        }
    }

    /// RAM in use in bytes, about.
    pub(crate) fn ram_bytes(&self) -> u64 {
        let fingerprints: usize = self.sealed.iter().map(|(_, f)| f.capacity()).sum();
        let open: usize = self.open.values().map(Vec::capacity).sum();
        (self.places.capacity() * 33 + (fingerprints + open) * 20) as u64
    }
}
