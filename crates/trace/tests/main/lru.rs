//! LRU over one real trace, against the misses that were published for it.

use crate::samples::{CLOUD_PHYSICS, reader};
use nitro_trace::{Reader, Request};
use std::collections::{BTreeMap, HashMap};

/// A plain LRU cache of unit-size objects: names by their last use.
struct Lru {
    capacity: usize,
    clock: u64,
    used_at: HashMap<u64, u64>,
    by_use: BTreeMap<u64, u64>,
}

impl Lru {
    fn new(capacity: usize) -> Self {
        Self { capacity, clock: 0, used_at: HashMap::new(), by_use: BTreeMap::new() }
    }

    /// Whether `name` was there; it is now.
    fn access(&mut self, name: u64) -> bool {
        self.clock += 1;
        let before = self.used_at.insert(name, self.clock);
        if let Some(before) = before {
            self.by_use.remove(&before);
        }
        self.by_use.insert(self.clock, name);
        if self.used_at.len() > self.capacity {
            let (_, oldest) = self.by_use.pop_first().unwrap();
            self.used_at.remove(&oldest);
        }
        before.is_some()
    }
}

#[test]
fn all_encodings_have_the_published_misses() {
    let published = [99_411, 96_397, 95_652, 95_370, 95_182, 94_997, 94_891, 94_816];
    for file in CLOUD_PHYSICS {
        let Some(mut reader) = reader(file) else { return };
        let mut caches: Vec<_> = (1..=8).map(|n| (Lru::new(128 * n), 0)).collect();
        let mut request = Request::default();
        while reader.next(&mut request).unwrap() {
            for (cache, misses) in &mut caches {
                *misses += u64::from(!cache.access(request.offset));
            }
        }
        let misses: Vec<u64> = caches.iter().map(|(_, misses)| *misses).collect();
        assert_eq!(misses, published, "{file}");
    }
}
