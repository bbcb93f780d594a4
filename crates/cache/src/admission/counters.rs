//! Counters of accesses, one byte for each extent, for [`TwoLevel`](super::TwoLevel). Azor has one for each 4 KiB of the
//! disks, 256 MB a TB. Here, they are either those of all extents of a volume, or only those of accessed extents and
//! their neighbours.

use nitro_units::{ExtentKey, ObjectId};
use std::collections::{BTreeMap, HashMap, VecDeque};

/// Extents whose numbers differ only in this many low bits have their counters in one chunk.
const CHUNK_BITS: u32 = 12;
const CHUNK: usize = 1 << CHUNK_BITS;
/// RAM of a chunk in addition to its counters, in bytes.
const CHUNK_OVERHEAD: u64 = 80;
/// Maximum number of dynamic counters for each extent that the cache holds.
const DYNAMIC_PER_EXTENT: u64 = 16;
/// Number of accesses after which counts are halved, for each extent that the cache holds.
const HALVED_AFTER: u64 = 4;
/// Maximum number of static counters of an object: beyond this, extents share counters.
const STATIC_MAX: u64 = 1 << 32;
/// Maximum number of static counters of an object whose size is not known.
const STATIC_GROWN_MAX: u64 = 1 << 27;

/// The counters of adjacent extents, and the epoch up to which they were halved.
#[derive(Debug)]
struct Chunk {
    epoch: u32,
    counts: Box<[u8; CHUNK]>,
}

impl Chunk {
    fn new(epoch: u32) -> Self {
        Self { epoch, counts: Box::new([0; CHUNK]) }
    }

    /// The accesses of an extent.
    fn count(&self, key: ExtentKey, epoch: u32) -> u8 {
        self.counts[key.raw() as usize % CHUNK].checked_shr(epoch - self.epoch).unwrap_or(0)
    }

    /// Counts an access of an extent.
    fn note(&mut self, key: ExtentKey, epoch: u32) {
        if self.epoch != epoch {
            let halvings = epoch - self.epoch;
            self.counts.iter_mut().for_each(|count| *count = count.checked_shr(halvings).unwrap_or(0));
            self.epoch = epoch;
        }
        let count = &mut self.counts[key.raw() as usize % CHUNK];
        *count = count.saturating_add(1);
    }
}

/// Static counters of an object, to be allocated and freed without a lock.
#[derive(Debug)]
pub struct ObjectCounters(Vec<Chunk>);

impl ObjectCounters {
    /// Counters for this number of extents.
    #[must_use]
    pub fn new(extents: u64) -> Self {
        Self((0..chunks_of(extents)).map(|_| Chunk::new(0)).collect())
    }

    /// RAM in bytes of the static counters of an object of this number of extents.
    #[must_use]
    pub const fn ram_bytes(extents: u64) -> u64 {
        chunks_of(extents) * (CHUNK as u64 + CHUNK_OVERHEAD)
    }
}

const fn chunks_of(extents: u64) -> u64 {
    let extents = if extents < STATIC_MAX { extents } else { STATIC_MAX };
    extents.div_ceil(CHUNK as u64)
}

/// Which extents have counters.
#[derive(Debug)]
enum Kept {
    /// Accessed ones and their neighbours, in at most `chunks_max` chunks. `order`: the numbers of the chunks, from the
    /// oldest one.
    Dynamic { chunks: HashMap<u64, Chunk>, order: VecDeque<u64>, chunks_max: usize },
    /// All extents of each object.
    Static(BTreeMap<ObjectId, Vec<Chunk>>),
}

/// The counters of a cache.
#[derive(Debug)]
pub(super) struct Counters {
    kept: Kept,
    /// Number of times that counts were halved.
    epoch: u32,
    accesses: u64,
    halved_after: u64,
}

impl Counters {
    /// Dynamic counters for a cache of `extents`.
    pub(super) fn dynamic(extents: u64) -> Self {
        let chunks_max = dynamic_chunks(extents).max(1) as usize;
        Self::with(Kept::Dynamic { chunks: HashMap::new(), order: VecDeque::new(), chunks_max }, extents)
    }

    /// Static counters for a cache of `extents`.
    pub(super) fn of_all(extents: u64) -> Self {
        Self::with(Kept::Static(BTreeMap::new()), extents)
    }

    fn with(kept: Kept, extents: u64) -> Self {
        Self { kept, epoch: 0, accesses: 0, halved_after: (extents * HALVED_AFTER).max(1) }
    }

    /// The maximum RAM in bytes of dynamic counters for a cache of `extents`.
    pub(super) const fn dynamic_ram_bytes_max(extents: u64) -> u64 {
        dynamic_chunks(extents) * (CHUNK as u64 + CHUNK_OVERHEAD)
    }

    /// The accesses of an extent.
    pub(super) fn count(&self, key: ExtentKey) -> u8 {
        let chunk = match &self.kept {
            Kept::Dynamic { chunks, .. } => chunks.get(&(key.raw() >> CHUNK_BITS)),
            Kept::Static(objects) => {
                let chunks = objects.get(&key.object()).filter(|chunks| !chunks.is_empty());
                chunks.and_then(|chunks| chunks.get(place(key) % chunks.len()))
            }
        };
        chunk.map_or(0, |chunk| chunk.count(key, self.epoch))
    }

    /// Counts an access of an extent.
    pub(super) fn note(&mut self, key: ExtentKey) {
        self.accesses += 1;
        if self.accesses >= self.halved_after {
            (self.accesses, self.epoch) = (0, self.epoch + 1);
        }
        let epoch = self.epoch;
        match &mut self.kept {
            Kept::Dynamic { chunks, order, chunks_max } => {
                let number = key.raw() >> CHUNK_BITS;
                if !chunks.contains_key(&number) {
                    if let Some(oldest) = order.pop_front_if(|_| chunks.len() >= *chunks_max) {
                        chunks.remove(&oldest);
                    }
                    order.push_back(number);
                }
                chunks.entry(number).or_insert_with(|| Chunk::new(epoch)).note(key, epoch);
            }
            Kept::Static(objects) => {
                let chunks = objects.entry(key.object()).or_default();
                let grown = place(key).min(chunks_of(STATIC_GROWN_MAX) as usize - 1) + 1;
                if chunks.len() < grown {
                    chunks.resize_with(grown, || Chunk::new(epoch));
                }
                let place = place(key) % chunks.len();
                chunks[place].note(key, epoch);
            }
        }
    }

    /// Number of extents of an object of `extents` that have no static counters yet; 0 for dynamic ones.
    pub(super) fn missing(&self, object: ObjectId, extents: u64) -> u64 {
        let Kept::Static(objects) = &self.kept else { return 0 };
        let known = objects.get(&object).map_or(0, Vec::len) as u64;
        chunks_of(extents).saturating_sub(known) * CHUNK as u64
    }

    /// Adds static counters of an object.
    pub(super) fn add(&mut self, object: ObjectId, more: ObjectCounters) {
        if let Kept::Static(objects) = &mut self.kept {
            objects.entry(object).or_default().extend(more.0);
        }
    }

    /// Gives up the static counters of an object.
    pub(super) fn take(&mut self, object: ObjectId) -> Option<ObjectCounters> {
        match &mut self.kept {
            Kept::Dynamic { .. } => None,
            Kept::Static(objects) => objects.remove(&object).map(ObjectCounters),
        }
    }

    /// RAM in bytes.
    pub(super) fn ram_bytes(&self) -> usize {
        match &self.kept {
            // Not the table's capacity, which depends on the random seed of its hash function.
            Kept::Dynamic { chunks, .. } => chunks.len() * (CHUNK + CHUNK_OVERHEAD as usize),
            Kept::Static(objects) => {
                objects.values().map(|chunks| chunks.capacity() * size_of::<Chunk>() + chunks.len() * CHUNK).sum()
            }
        }
    }
}

const fn dynamic_chunks(extents: u64) -> u64 {
    (extents * DYNAMIC_PER_EXTENT).div_ceil(CHUNK as u64)
}

/// The place of an extent's chunk among those of its object.
const fn place(key: ExtentKey) -> usize {
    (key.index().0 >> CHUNK_BITS) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use nitro_units::ExtentIndex;

    fn key(object: u16, number: u64) -> ExtentKey {
        ExtentKey::new(ObjectId(object), ExtentIndex(number))
    }

    #[test]
    fn both_kinds_count_alike_and_halve_from_time_to_time() {
        for mut counters in [Counters::dynamic(1000), Counters::of_all(1000)] {
            (0..10).for_each(|number| (0..number).for_each(|_| counters.note(key(1, number))));
            assert_eq!([0, 4, 9].map(|number| counters.count(key(1, number))), [0, 4, 9]);
            assert_eq!((counters.count(key(2, 9)), counters.count(key(1, 1 << 40))), (0, 0));
            (0..4000).for_each(|_| counters.note(key(1, 700)));
            assert_eq!((counters.count(key(1, 9)), counters.epoch), (4, 1));
            assert!((128..255).contains(&counters.count(key(1, 700))), "halved, and accessed since");
        }
    }

    #[test]
    fn dynamic_counters_are_bounded_and_static_ones_forget_nothing() {
        let (mut dynamic, mut of_all) = (Counters::dynamic(1000), Counters::of_all(1000));
        for number in 0..1000 {
            dynamic.note(key(1, number << CHUNK_BITS));
            of_all.note(key(1, number << CHUNK_BITS));
        }
        let known =
            |counters: &Counters| (0..1000).filter(|number| counters.count(key(1, number << CHUNK_BITS)) == 1).count();
        // The oldest are dropped first: the same requests always leave the same counters.
        assert_eq!((known(&dynamic), known(&of_all)), (4, 1000));
        assert!((996..1000).all(|number| dynamic.count(key(1, number << CHUNK_BITS)) == 1));
        assert!(dynamic.ram_bytes() as u64 <= Counters::dynamic_ram_bytes_max(1000) * 2, "{}", dynamic.ram_bytes());
    }

    #[test]
    fn static_counters_take_a_byte_for_each_extent_of_the_origin() {
        // A TB of extents of 4 KiB takes 256 MB, as in the paper; of those of 8 KiB half of it.
        let of_terabyte = |extent_bytes: u64| ObjectCounters::ram_bytes((1 << 40) / extent_bytes);
        assert!((256 << 20..262 << 20).contains(&of_terabyte(4096)), "{}", of_terabyte(4096));
        assert!((128 << 20..131 << 20).contains(&of_terabyte(8192)), "{}", of_terabyte(8192));
        let mut counters = Counters::of_all(1000);
        assert_eq!(counters.missing(ObjectId(1), 1 << 20), 1 << 20);
        counters.add(ObjectId(1), ObjectCounters::new(1 << 20));
        assert_eq!((counters.missing(ObjectId(1), 1 << 20), counters.missing(ObjectId(1), 3 << 19)), (0, 1 << 19));
        assert!(counters.ram_bytes() as u64 <= ObjectCounters::ram_bytes(1 << 20));
        counters.note(key(1, 5));
        let before = counters.ram_bytes();
        counters.note(key(1, (1 << 20) - 1));
        assert_eq!((counters.ram_bytes(), counters.count(key(1, 5))), (before, 1));
        assert!(counters.take(ObjectId(1)).is_some() && counters.take(ObjectId(1)).is_none());
        assert_eq!((counters.ram_bytes(), counters.count(key(1, 5))), (0, 0));
        assert_eq!(Counters::dynamic(1000).missing(ObjectId(1), 1 << 20), 0);
    }

    #[test]
    fn the_size_of_an_object_that_is_not_known_is_bounded() {
        let mut counters = Counters::of_all(1000);
        counters.note(key(1, ExtentIndex::MAX.0));
        assert!(counters.ram_bytes() as u64 <= 2 * ObjectCounters::ram_bytes(STATIC_GROWN_MAX));
        assert_eq!(counters.count(key(1, ExtentIndex::MAX.0)), 1);
    }
}
