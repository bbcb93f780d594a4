//! RAM per cached extent.

use nitro_cache::weu::Stored;
use nitro_cache::{Append, CacheManager, Settings};
use nitro_units::{ExtentIndex, ExtentKey, Fingerprint, ObjectId};

fn fingerprint(n: u64) -> Fingerprint {
    let mut state = n;
    Fingerprint(std::array::from_fn(|_| {
        state = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9).wrapping_add(0x9E37_79B9_7F4A_7C15);
        (state >> 56) as u8
    }))
}

/// Inserts `count` different extents; the cache has room for all.
fn filled(count: u64, dedup: bool, percent: u8, stored: Stored) -> CacheManager {
    let bytes = count * u64::from(stored.payload_bytes()) * 11 / 10;
    let settings = Settings { what_if: false, dedup, fingerprint_index_percent: percent, ..Settings::new(bytes) };
    let mut manager = CacheManager::new(settings).unwrap();
    let mut open = manager.open_weu().unwrap().0;
    for n in 0..count {
        let key = ExtentKey::new(ObjectId(1), ExtentIndex(n * 3));
        while manager.append(open, key, dedup.then(|| fingerprint(n)).as_ref(), stored) == Append::Full {
            manager.seal(open);
            manager.stored(open);
            open = manager.open_weu().unwrap().0;
        }
    }
    manager
}

#[test]
fn a_million_extents_take_at_most_52_bytes_each_the_ghost_included() {
    let packed = Stored::Packed(4000);
    let raw = Stored::Raw { bytes: 8192, crc: 7 };
    for (dedup, percent, stored, bytes_max) in [
        (true, 100, packed, 51),
        (true, 75, packed, 44),
        (true, 50, packed, 37),
        (false, 100, packed, 24),
        (true, 100, raw, 52),
        (false, 100, raw, 26),
    ] {
        let manager = filled(1_000_000, dedup, percent, stored);
        let stats = manager.stats();
        assert_eq!((stats.cached_extents, stats.weus_evicted), (1_000_000, 0));
        assert_eq!(stats.fingerprints, if dedup { 10_000 * u64::from(percent) } else { 0 });
        let per_extent = manager.index_ram_bytes() as f64 / 1e6;
        println!("dedup {dedup}, fingerprint index ratio {percent} %, {stored:?}: {per_extent:.1} bytes an extent");
        assert!(per_extent <= f64::from(bytes_max), "{per_extent} bytes an extent at {percent} %");
        let promised = manager.settings().index_ram_bytes(1_000_000, 0) + manager.settings().policy_ram_bytes(0);
        assert!(manager.index_ram_bytes() as u64 <= promised, "more than the announced {promised}");
    }
}
