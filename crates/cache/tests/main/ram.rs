//! RAM per cached extent.

use nitro_cache::weu::Stored;
use nitro_cache::{Append, CacheManager, IndexKind, Settings};
use nitro_units::{ExtentIndex, ExtentKey, Fingerprint, ObjectId};

fn fingerprint(n: u64) -> Fingerprint {
    let mut state = n;
    Fingerprint(std::array::from_fn(|_| {
        state = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9).wrapping_add(0x9E37_79B9_7F4A_7C15);
        (state >> 56) as u8
    }))
}

/// Inserts `count` different extents at random in 2^27, a TiB; the cache has room for all.
fn filled(count: u64, settings: Settings, stored: Stored) -> CacheManager {
    let cache_bytes = count * u64::from(stored.payload_bytes()) * 11 / 10;
    let dedup = settings.dedup;
    let mut manager = CacheManager::new(Settings { what_if: false, cache_bytes, ..settings }).unwrap();
    let mut open = manager.open_weu().unwrap().0;
    for n in 0..count {
        let key = ExtentKey::new(ObjectId(1), ExtentIndex(n.wrapping_mul(0x5851_F42D_4C95_7F2D) % (1 << 27)));
        while manager.append(open, key, dedup.then(|| fingerprint(n)).as_ref(), stored) == Append::Full {
            manager.seal(open);
            manager.stored(open);
            open = manager.open_weu().unwrap().0;
        }
    }
    manager
}

#[test]
fn a_million_extents_take_at_most_52_bytes_each_or_20_the_ghost_included() {
    let packed = Stored::Packed(4000);
    let raw = Stored::Raw { bytes: 8192, crc: 7 };
    for (index, dedup, percent, stored, bytes_max) in [
        (IndexKind::Exact, true, 100, packed, 51.0),
        (IndexKind::Exact, true, 75, packed, 44.0),
        (IndexKind::Exact, true, 50, packed, 37.0),
        (IndexKind::Exact, false, 100, packed, 24.0),
        (IndexKind::Exact, true, 100, raw, 52.0),
        (IndexKind::Exact, false, 100, raw, 26.0),
        (IndexKind::Lean, true, 100, packed, 20.0),
        (IndexKind::Lean, false, 100, packed, 13.1),
        (IndexKind::Lean, true, 100, raw, 26.0),
        (IndexKind::Lean, false, 100, raw, 19.0),
    ] {
        let settings = Settings { index, dedup, fingerprint_index_percent: percent, ..Settings::new(0) };
        let manager = filled(1_000_000, settings, stored);
        let stats = manager.stats();
        assert_eq!((stats.cached_extents, stats.weus_evicted), (1_000_000, 0));
        assert_eq!(stats.fingerprints, if dedup { 10_000 * u64::from(percent) } else { 0 });
        let per_extent = manager.index_ram_bytes() as f64 / 1e6;
        println!(
            "{index}, dedup {dedup}, fingerprint index ratio {percent} %, {stored:?}: {per_extent:.1} bytes an extent"
        );
        assert!(per_extent <= bytes_max, "{per_extent} bytes an extent, {index} at {percent} %");
        let settings = manager.settings();
        for promised in [settings.index_ram_bytes(1_000_000, 0), settings.usual_index_ram_bytes(1_000_000, 0)] {
            let promised = promised + settings.policy_ram_bytes(0);
            assert!(manager.index_ram_bytes() as u64 <= promised, "more than the announced {promised}");
        }
        if index == IndexKind::Lean && dedup {
            check_tags(&manager);
        }
    }
}

/// Of contents that are new, at most 0.5 % have a candidate, and no content that is stored lacks one.
fn check_tags(manager: &CacheManager) {
    const LOOKUPS: u64 = 200_000;
    let has_candidate = |n: &u64| !manager.candidates(&fingerprint(*n)).is_empty();
    let falsely = (1_000_000..1_000_000 + LOOKUPS).filter(has_candidate).count();
    println!("{falsely} of {LOOKUPS} new contents have a candidate");
    assert!(falsely as u64 * 1000 <= LOOKUPS * 5);
    let lacking = (0..LOOKUPS).filter(|n| !has_candidate(n) && !manager.has_fingerprint(&fingerprint(*n))).count();
    assert_eq!(lacking, 0);
}
