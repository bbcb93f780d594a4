//! The locality-preserved cache (Zhu, Li and Patterson, FAST 2008, §4.3): the fingerprints of whole containers in RAM.
//! Chunks that were written together are looked up together, so that reading the metadata of one container answers
//! about a thousand look-ups.

use crate::format::container::ContainerChunk;
use crate::place::Place;
use hashbrown::HashMap;
use lru::LruCache;
use nitro_units::Fingerprint;
use std::hash::{BuildHasherDefault, Hasher};

/// A hasher that uses the fingerprint's own bits, which are already uniform.
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

/// The assumed mean number of fingerprints of a container, for the bound of RAM. A container of highly compressible
/// data has many more.
const FINGERPRINTS_A_CONTAINER: usize = 1024;
/// RAM of a fingerprint in bytes: its place, with the slack of the map, and its entry in the container's list.
const FINGERPRINT_RAM_BYTES: usize = 2 * 33 + 20;

/// The fingerprints of some containers.
pub(crate) struct Locality {
    places: FingerprintMap<u64>,
    /// Sealed containers; the least recently used is discarded first.
    sealed: LruCache<u32, Vec<Fingerprint>>,
    /// Open containers, which are never discarded.
    open: HashMap<u32, Vec<Fingerprint>>,
    containers_max: usize,
    /// The number of fingerprints of sealed containers.
    fingerprints: usize,
    /// The slot of the container in which a fingerprint was last found.
    last: u32,
}

impl Locality {
    pub(crate) fn new(containers_max: usize) -> Self {
        Self {
            places: FingerprintMap::default(),
            sealed: LruCache::unbounded(),
            open: HashMap::new(),
            containers_max: containers_max.max(1),
            fingerprints: 0,
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

    /// Whether the chunk at that place is known to have this fingerprint.
    pub(crate) fn holds(&self, place: Place, fingerprint: &Fingerprint) -> bool {
        let listed = self.sealed.peek(&place.slot).or_else(|| self.open.get(&place.slot));
        listed.and_then(|l| l.get(usize::from(place.number))) == Some(fingerprint)
    }

    /// Records the place of a content in a sealed container. A place in an open container is kept instead, because the
    /// index does not have it yet.
    pub(crate) fn prefer(&mut self, fingerprint: &Fingerprint, place: Place) {
        let known = self.places.entry(*fingerprint).or_insert(place.pack());
        if !self.open.contains_key(&Place::unpack(*known).slot) {
            *known = place.pack();
        }
    }

    pub(crate) fn has(&self, slot: u32) -> bool {
        self.sealed.contains(&slot) || self.open.contains_key(&slot)
    }

    /// Adds a chunk of an open container.
    pub(crate) fn put_open(&mut self, fingerprint: Fingerprint, place: Place) {
        self.places.insert(fingerprint, place.pack());
        self.open.entry(place.slot).or_default().push(fingerprint);
    }

    /// Records that an open container was sealed: its fingerprints may be discarded from now on.
    pub(crate) fn sealed(&mut self, slot: u32) {
        if let Some(fingerprints) = self.open.remove(&slot) {
            self.put_sealed(slot, fingerprints);
        }
    }

    /// Adds the fingerprints of a sealed container whose metadata was read.
    pub(crate) fn load(&mut self, slot: u32, chunks: &[ContainerChunk]) {
        for (number, chunk) in (0..).zip(chunks) {
            self.prefer(&chunk.fingerprint, chunk.place(slot, number));
        }
        self.put_sealed(slot, chunks.iter().map(|c| c.fingerprint).collect());
    }

    /// Adds a container and discards others; the new one is kept, however many fingerprints it has.
    fn put_sealed(&mut self, slot: u32, mut fingerprints: Vec<Fingerprint>) {
        fingerprints.shrink_to_fit();
        self.fingerprints += fingerprints.len();
        if let Some((_, old)) = self.sealed.push(slot, fingerprints) {
            self.fingerprints -= old.len();
        }
        let most = self.containers_max.saturating_mul(FINGERPRINTS_A_CONTAINER);
        while self.sealed.len() > self.containers_max || (self.fingerprints > most && self.sealed.len() > 1) {
            let Some((slot, fingerprints)) = self.sealed.pop_lru() else { return };
            self.fingerprints -= fingerprints.len();
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

    /// Removes a container that was or will be freed.
    pub(crate) fn forget(&mut self, slot: u32) {
        let sealed = self.sealed.pop(&slot);
        self.fingerprints -= sealed.as_ref().map_or(0, Vec::len);
        for fingerprints in [sealed, self.open.remove(&slot)].into_iter().flatten() {
            self.drop_places(slot, &fingerprints);
        }
    }

    /// The maximum RAM in bytes of `containers` sealed containers and `open` open ones with `chunks` chunks each.
    pub(crate) fn ram_bytes_max(containers: usize, open: usize, chunks: usize) -> u64 {
        let sealed = containers.saturating_mul(FINGERPRINTS_A_CONTAINER).max(chunks) + chunks;
        ((sealed + 2 * open * chunks) * FINGERPRINT_RAM_BYTES) as u64
    }

    /// The approximate RAM in use, in bytes.
    pub(crate) fn ram_bytes(&self) -> u64 {
        let fingerprints: usize = self.sealed.iter().map(|(_, f)| f.capacity()).sum();
        let open: usize = self.open.values().map(Vec::capacity).sum();
        (self.places.capacity() * 33 + (fingerprints + open) * 20) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_of_many_chunks_give_way_sooner() {
        let mut locality = Locality::new(8);
        let chunks = |slot: u32, count: u32| -> Vec<ContainerChunk> {
            let fingerprint = |n: u32| {
                let mut bytes = [slot as u8; 20];
                bytes[..4].copy_from_slice(&(slot << 20 | n).to_le_bytes());
                Fingerprint(bytes)
            };
            (0..count).map(|n| ContainerChunk { fingerprint: fingerprint(n), sector: 0, sectors: 1 }).collect()
        };
        for slot in 0..20 {
            locality.load(slot, &chunks(slot, 5000));
            assert!(locality.has(slot));
            assert!(locality.fingerprints <= 8 * FINGERPRINTS_A_CONTAINER, "{}", locality.fingerprints);
            assert_eq!(locality.places.len(), locality.fingerprints);
            assert!(locality.ram_bytes() <= Locality::ram_bytes_max(8, 0, 5000));
        }
        // A single container is kept, however many fingerprints it has.
        locality.load(20, &chunks(20, 20_000));
        assert!(locality.has(20) && !locality.has(19));
        (0..21).for_each(|slot| locality.forget(slot));
        assert_eq!((locality.fingerprints, locality.places.len()), (0, 0));
    }
}
