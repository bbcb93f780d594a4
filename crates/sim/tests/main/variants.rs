//! What the variants have in common, and what sets them apart.

use crate::{run, zipf};
use nitro_cache::IndexKind;
use nitro_cache::admission::AdmissionKind;
use nitro_sim::policies::PolicyKind;
use nitro_sim::{Outcome, PartialWrites, Settings, Variant, Warmup};

fn settings(variant: Variant) -> Settings {
    let plain = !variant.has_weus() && !variant.has_places() || matches!(variant, Variant::Extent { ways: 1.. });
    Settings { variant, dedup: !plain, compress: false, ..Settings::new(32 << 20) }
}

fn hit_ratio(outcome: &Outcome) -> f64 {
    outcome.measured.read_hit_ratio
}

#[test]
fn every_variant_counts_the_same_requests_and_stays_within_its_size() {
    let workload = zipf();
    for name in [
        "weu",
        "weu-lru-mod",
        "weu-lru-trim",
        "extent",
        "direct-mapped",
        "4-way",
        "extent-lru-mod",
        "extent-lru-trim",
        "naive",
        "lru",
        "slru",
        "mru",
        "fifo",
        "clock",
        "arc",
        "s3-fifo",
        "belady",
        "none",
    ] {
        let outcome = run(&workload, &settings(name.parse().unwrap()));
        let measured = &outcome.measured;
        assert_eq!((measured.requests, measured.reads + measured.writes), (60_000, 60_000), "{name}");
        assert!(measured.cached_extents * 8192 <= outcome.usable_bytes, "{name}: {}", measured.cached_extents);
        assert_eq!(measured.read_hits == 0, name == "none", "{name}");
        let on_ssd = outcome.settings.variant.has_weus() || outcome.settings.variant.has_places();
        assert_eq!(measured.ssd_bytes_written > 0, on_ssd, "{name}");
        assert!(measured.write_amplification >= 1.0, "{name}");
        let missed =
            if outcome.settings.variant.has_weus() { measured.read_extents - measured.read_extent_hits } else { 0 };
        assert_eq!(measured.missed.all(), missed, "{name}: {:?}", measured.missed);
    }
}

#[test]
fn a_place_may_hold_the_content_of_many_extents() {
    // 65,536 extents with 2048 contents, in a cache of 4096 places.
    let reads = nitro_trace::synth::RandomReads {
        working_set_bytes: 512 << 20,
        dedup_ratio: 32.0,
        request_bytes: 8192,
        requests: 200_000,
        interval_ns: 1000,
        seed: 6,
    };
    let workload = nitro_sim::workload::stored(&|| Ok(Box::new(reads.reader()?)), 8192).unwrap();
    let outcome = run(&workload, &settings(Variant::Extent { ways: 0 }));
    // All of them, but those that were never read.
    assert!(outcome.measured.cached_extents > 60_000, "{}", outcome.measured.cached_extents);
    assert!(outcome.measured.ssd_bytes_written <= 2048 * 8192, "{}", outcome.measured.ssd_bytes_written);
    let seen = 200_000 - outcome.measured.cached_extents;
    assert_eq!(outcome.measured.read_hits, seen, "each extent is missed once");
}

#[test]
fn the_more_places_an_extent_can_be_in_the_more_hits() {
    let workload = zipf();
    let ratio = |variant: Variant| hit_ratio(&run(&workload, &Settings { dedup: false, ..settings(variant) }));
    let [one, four, all] = [1, 4, 0].map(|ways| ratio(Variant::Extent { ways }));
    assert!(one < four && four < all, "{one} {four} {all}");
    // In place, an overwritten extent keeps its place: exactly LRU, in which writes are uses, too.
    let lru = ratio(Variant::Policy(PolicyKind::Lru));
    assert!((lru - all).abs() < 1e-9, "{lru} {all}");
    assert!(ratio(Variant::Belady) > lru);
}

#[test]
fn sets_may_have_any_number_of_ways_that_divides_the_cache() {
    // 3000 places.
    let workload = zipf();
    let at = |ways| {
        let settings = Settings { cache_bytes: 3000 * 8192, ..settings(Variant::Extent { ways }) };
        run(&workload, &Settings { dedup: false, ..settings })
    };
    let all = at(0);
    for ways in [1, 2, 3, 5, 24, 250, 300, 1500] {
        let outcome = at(ways);
        assert!((2980..=3000).contains(&outcome.measured.cached_extents), "{ways}-way: sets are full");
        let told = outcome.ram_bytes_per_extent;
        let expected = if ways == 1 {
            8.0..8.5
        } else if ways <= 256 {
            9.0..9.5
        } else {
            20.0..64.0
        };
        assert!(expected.contains(&told), "{ways}-way: {told} bytes an extent");
        assert!(hit_ratio(&outcome) <= hit_ratio(&all) * 1.01, "{ways}-way");
    }
    assert!(hit_ratio(&at(1)) < hit_ratio(&at(3)) && hit_ratio(&at(3)) < hit_ratio(&at(24)));
    // One set is LRU over all places.
    assert_eq!(at(3000).measured.read_hits, all.measured.read_hits);
}

#[test]
fn an_ssd_made_for_it_gives_the_cache_what_it_does_not_reserve() {
    let workload = zipf();
    let [sold, made] = [Variant::Weu, Variant::WeuLruMod].map(|variant| run(&workload, &settings(variant)));
    assert!(made.usable_bytes as f64 > sold.usable_bytes as f64 * 1.1);
    assert!(hit_ratio(&made) > hit_ratio(&sold), "{} {}", hit_ratio(&made), hit_ratio(&sold));
    assert_eq!(made.measured.write_amplification, 1.0);
}

#[test]
fn weus_wear_the_ssd_less_than_extents_that_are_replaced_one_by_one() {
    let workload = zipf();
    let erasures = |variant| run(&workload, &settings(variant)).measured.erasures;
    let weu = erasures(Variant::Weu);
    assert!(erasures(Variant::ExtentLruTrim) > weu);
    assert!(erasures(Variant::Naive) > weu * 2);
}

#[test]
fn warm_up_and_periods_divide_the_trace() {
    let workload = zipf();
    let whole = run(&workload, &settings(Variant::Weu));
    let warm = run(&workload, &Settings { warmup: Warmup::Requests(20_000), ..settings(Variant::Weu) });
    assert_eq!((warm.warmup_requests, warm.measured.requests), (20_000, 40_000));
    assert!(hit_ratio(&warm) > hit_ratio(&whole), "a warm cache hits more");
    // A request each 100 us.
    let divided = Settings { warmup: Warmup::Time(1_000_000_000), period_ns: 1_500_000_000, ..settings(Variant::Weu) };
    let divided = run(&workload, &divided);
    let periods: Vec<_> = divided.periods.iter().map(|period| period.requests).collect();
    assert_eq!((divided.warmup_requests, &periods[..]), (10_000, &[15_000, 15_000, 15_000, 5_000][..]));
    let sum = |get: fn(&nitro_sim::Measures) -> u64| divided.periods.iter().map(get).sum::<u64>();
    let measured = &divided.measured;
    assert_eq!(sum(|m| m.read_hits), measured.read_hits);
    assert_eq!(sum(|m| m.erasures), measured.erasures);
    assert_eq!(sum(|m| m.inserted_bytes), measured.inserted_bytes);
    let late = run(&workload, &Settings { warmup: Warmup::Requests(1 << 40), ..settings(Variant::Weu) });
    assert_eq!((late.measured.requests, late.warmup_requests), (0, 60_000));
}

#[test]
fn a_smaller_fingerprint_index_finds_fewer_duplicates_in_less_ram() {
    let workload = crate::duplicates(60_000);
    let at = |percent| run(&workload, &Settings { fingerprint_index_percent: percent, ..Settings::new(16 << 20) });
    let [none, half, all] = [0, 50, 100].map(at);
    let dedup = |outcome: &Outcome| outcome.measured.dedup_ratio;
    assert!(dedup(&none) == 1.0 && dedup(&none) < dedup(&half) && dedup(&half) < dedup(&all));
    assert!(none.ram_bytes < half.ram_bytes && half.ram_bytes < all.ram_bytes);
    assert!(half.measured.fingerprints_evicted > 0 && all.measured.fingerprints_evicted == 0);
}

#[test]
fn a_lean_index_finds_as_many_duplicates_in_less_ram() {
    let workload = crate::duplicates(60_000);
    let at = |index| run(&workload, &Settings { index, ..Settings::new(64 << 20) });
    let [exact, lean] = [IndexKind::Exact, IndexKind::Lean].map(at);
    let hits = |outcome: &Outcome| outcome.measured.read_hits;
    assert_eq!((hits(&lean), lean.measured.dedup_ratio), (hits(&exact), exact.measured.dedup_ratio));
    // In a cache this small, much of the RAM is that of empty shards.
    assert!(lean.ram_bytes * 5 < exact.ram_bytes * 4, "{} and {}", lean.ram_bytes, exact.ram_bytes);
}

#[test]
fn recipes_turn_misses_of_known_contents_into_hits() {
    let workload = crate::duplicates(30_000);
    let [without, with] = [false, true].map(|recipes| run(&workload, &Settings { recipes, ..Settings::new(32 << 20) }));
    assert!(with.measured.content_hits > 0 && without.measured.content_hits == 0);
    assert!(hit_ratio(&with) > hit_ratio(&without) + 0.02, "{} {}", hit_ratio(&with), hit_ratio(&without));
}

#[test]
fn a_write_budget_is_kept_to_and_what_it_refuses_is_counted() {
    let workload = zipf();
    let free = Settings { admission: AdmissionKind::Probation, staging_bytes: 1 << 20, ..settings(Variant::Weu) };
    let without = run(&workload, &free).measured;
    assert_eq!(without.missed.refused, 0, "{:?}", without.missed);
    let requested = without.extents as f64 * 8192.0;
    for share in [0.75, 0.5, 0.25] {
        let budget = without.ssd_bytes_written as f64 * share;
        let with = run(&workload, &Settings { write_budget: Some(budget / requested), ..free }).measured;
        let kept = with.ssd_bytes_written as f64 / budget;
        assert!((0.7..1.1).contains(&kept), "{share}: {kept} of the budget");
        assert!(with.missed.refused > 0 && with.read_hit_ratio > 0.8 * without.read_hit_ratio, "{share}: {with:?}");
    }
}

#[test]
fn what_is_overwritten_in_the_buffer_is_never_written_to_the_ssd() {
    let workload = zipf();
    for name in ["weu", "weu-lru-mod", "extent", "extent-lru-mod", "extent-lru-trim", "naive"] {
        let settings = settings(name.parse().unwrap());
        let at = |staging_bytes| run(&workload, &Settings { staging_bytes, ..settings });
        let (without, with, all) = (at(0), at(2 << 20), at(1 << 30));
        let written = |outcome: &Outcome| outcome.measured.ssd_bytes_written;
        assert!(written(&with) * 20 < written(&without) * 19, "{name}: {} {}", written(&with), written(&without));
        // A buffer in addition to the cache has hits of its own.
        assert!(hit_ratio(&with) > hit_ratio(&without), "{name}");
        // Everything stays in the buffer until the end, when the newest content of each extent is written once.
        assert!(written(&all) < written(&with), "{name}: {}", written(&all));
        assert!(hit_ratio(&all) > hit_ratio(&with), "{name}");
        assert!(with.staging_ram_bytes > 0 && with.staging_ram_bytes < with.ram_bytes, "{name}");
        assert_eq!((without.staging_ram_bytes, with.measured.requests), (0, 60_000), "{name}");
    }
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let workload = crate::duplicates(10);
    for (settings, word) in [
        (Settings::new(1 << 20), "cache_size"),
        (Settings { extent_bytes: 5000, ..Settings::new(1 << 30) }, "extent_size"),
        (Settings { variant: Variant::Extent { ways: 2 }, ..Settings::new(1 << 30) }, "direct-mapped"),
        (Settings { dedup: false, recipes: true, ..Settings::new(1 << 30) }, "recipes"),
        (
            Settings { variant: Variant::Extent { ways: 3 }, dedup: false, ..Settings::new(1 << 30) },
            "choose 2-way or 4-way",
        ),
        (Settings { write_budget: Some(0.0), ..Settings::new(1 << 30) }, "write budget"),
        (
            Settings { write_budget: Some(0.5), variant: Variant::ExtentLruTrim, ..Settings::new(1 << 30) },
            "write budget",
        ),
        (Settings { staging_bytes: 1 << 20, variant: Variant::Belady, ..Settings::new(1 << 30) }, "staging"),
        (
            Settings {
                staging_bytes: 1 << 20,
                dedup: false,
                variant: Variant::Extent { ways: 1 },
                ..Settings::new(1 << 30)
            },
            "staging",
        ),
        (Settings { compression_mean: f64::NAN, ..Settings::new(1 << 30) }, "compression"),
        (Settings { partial_writes: PartialWrites::Fetch, weu_bytes: 3, ..Settings::new(1 << 30) }, "weu_size"),
    ] {
        let error = nitro_sim::simulate(&mut workload.replay(), &settings, &mut |_| true).unwrap_err();
        assert!(error.to_string().contains(word), "{error}");
    }
}
