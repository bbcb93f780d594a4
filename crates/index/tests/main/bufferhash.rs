//! BufferHash against a naive map, with crashes, damage and evictions.

use crate::model::{Model, doom, failed, for_seeds, key, opened, replay};
use futures_executor::block_on;
use nitro_device::RamDevice;
use nitro_index::bufferhash::{BufferHash, Eviction, Plan};
use nitro_index::{Error, FlashIndex, Kind, Options, Shape, kind_of};
use nitro_testkit::{CrashingDevice, Rng};
use std::sync::Arc;

/// Three entries a page, so that incarnations fill soon.
const BIG: Shape = Shape { key_bytes: 20, value_bytes: 1000 };
const SMALL: Shape = Shape { key_bytes: 20, value_bytes: 12 };

fn plan(shape: Shape, entries: u64, ram_bytes: u64) -> Plan {
    Plan::new(&Options { shape, entries, ram_bytes }).unwrap()
}

/// Fails power again and again, or takes the room that the device has, and compares what is left. Returns how many keys are.
fn crash(seed: u64, entries: u64, keys: u64, evicts: bool, eviction: &Eviction) -> usize {
    let _seed = replay(seed);
    let mut rng = Rng::new(seed);
    let plan = plan(BIG, entries, 3 << 20);
    let mut device = Arc::new(CrashingDevice::new(plan.flash_bytes, 512, seed));
    let mut model = Model::new(BIG, evicts);
    block_on(BufferHash::create(Arc::clone(&device), plan, eviction.clone(), seed)).unwrap();
    for _ in 0..6 {
        let Some(index) = opened(block_on(BufferHash::open(Arc::clone(&device), eviction.clone()))) else {
            device = failed(device, &mut rng);
            continue;
        };
        block_on(model.check_crashed(&index));
        let within = [3, 30, 100][rng.below(3) as usize];
        doom(&device, &mut rng, within);
        loop {
            if block_on(model.change(&index, &mut rng, keys)).is_err() {
                break;
            }
            if rng.below(6) == 0 && block_on(model.sync(&index)).is_err() {
                break;
            }
        }
        device = failed(device, &mut rng);
    }
    model.len()
}

#[test]
fn what_was_synced_survives_failures_of_the_device() {
    for_seeds(150, |seed| crash(seed, 4000, 1500, false, &Eviction::Fifo));
}

#[test]
fn failures_while_entries_give_way_bring_nothing_old_back() {
    let policies = [Eviction::Fifo, Eviction::Lru, Eviction::Priority(Arc::new(|key, _| key[7] % 4 == 0))];
    for_seeds(150, |seed| crash(seed, 800, 2000, true, &policies[(seed % 3) as usize]));
}

fn number(n: u64) -> [u8; 12] {
    let mut value = [0; 12];
    value[..8].copy_from_slice(&n.to_le_bytes());
    value
}

/// An index with room for 100,000 small entries, and so many entered.
fn filled(entries: u64, ram_bytes: u64, eviction: Eviction) -> (Arc<RamDevice>, BufferHash<Arc<RamDevice>>) {
    let plan = plan(SMALL, 100_000, ram_bytes);
    let device = Arc::new(RamDevice::new(plan.flash_bytes, 4096));
    let index = block_on(BufferHash::create(Arc::clone(&device), plan, eviction, 1)).unwrap();
    for n in 0..entries {
        block_on(index.insert(&key(SMALL, n), &number(n))).unwrap();
    }
    (device, index)
}

fn found(index: &impl FlashIndex, keys: impl Iterator<Item = u64>) -> usize {
    keys.filter(|n| match block_on(index.get(&key(SMALL, *n))).unwrap() {
        Some(value) => {
            assert_eq!(value[..], number(*n));
            true
        }
        None => false,
    })
    .count()
}

#[test]
fn a_hit_reads_one_page_and_a_miss_as_many_as_the_formula_says() {
    let (_, index) = filled(100_000, 2 << 20, Eviction::Fifo);
    assert_eq!(found(&index, 0..100_000), 100_000);
    let hits = index.counters();
    assert!(hits.hit_reads <= 102_000, "{hits:?}");
    assert_eq!(found(&index, 1_000_000..1_200_000), 0);
    let misses = index.counters();
    let (reads, formula) = (misses.miss_reads as f64 / 200_000.0, index.plan().reads_per_miss);
    assert!(reads < formula * 1.1 + 0.0005, "{reads} where {formula} is due");
    assert!(reads > formula * 0.5 - 0.0005, "{reads} where {formula} is due");
    // Nothing is written twice, and pages are full.
    assert!(misses.written_bytes <= 100_000 * 33, "{misses:?}");
}

#[test]
fn the_oldest_give_way() {
    let (_, index) = filled(300_000, 2 << 20, Eviction::Fifo);
    assert_eq!(found(&index, 200_000..300_000), 100_000);
    let left = found(&index, 0..200_000);
    let in_buffers = index.plan().buffers_bytes / 32;
    assert!(left as u64 <= in_buffers + 3 * 4032, "{left} of the older ones");
    assert!(index.counters().entries <= 100_000 + in_buffers + 3 * 4032);
}

#[test]
fn what_is_used_stays() {
    let (_, index) = filled(50_000, 2 << 20, Eviction::Lru);
    for n in 50_000..400_000 {
        block_on(index.insert(&key(SMALL, n), &number(n))).unwrap();
        if n % 100 == 0 {
            found(&index, 0..100);
        }
    }
    assert_eq!(found(&index, 0..100), 100);
    assert!(found(&index, 100..50_000) < 20_000);
    assert!(index.kept() >= 100);
}

#[test]
fn what_has_priority_stays() {
    let keep = Arc::new(|key: &[u8], _: &[u8]| key[6] == 0 && key[7] < 200);
    let (_, index) = filled(400_000, 2 << 20, Eviction::Priority(keep));
    assert!(found(&index, 0..200) >= 190);
    assert!(found(&index, 1000..50_000) < 5000);
}

#[test]
fn damaged_pages_hide_entries_and_show_no_wrong_ones() {
    let (device, index) = filled(60_000, 2 << 20, Eviction::Fifo);
    for n in (0..60_000).step_by(2) {
        block_on(index.insert(&key(SMALL, n), &number(n + 1_000_000))).unwrap();
    }
    block_on(index.sync()).unwrap();
    let newest = |n: u64| if n.is_multiple_of(2) { number(n + 1_000_000) } else { number(n) };
    let flash_bytes = index.plan().flash_bytes;
    let mut rng = Rng::new(3);
    let mut lost = 0;
    for _ in 0..30 {
        use nitro_port::Device as _;
        let at = flash_bytes / 2 + rng.below(flash_bytes / 2 / 4096) * 4096;
        let good = block_on(device.read(at, 4096)).unwrap();
        let mut bad = good.to_vec();
        bad[rng.below(4096) as usize] ^= 1 << rng.below(8);
        block_on(device.write(at, bad.into())).unwrap();
        for reopened in [false, true] {
            let anew;
            let index = if reopened {
                anew = block_on(BufferHash::open(Arc::clone(&device), Eviction::Fifo)).unwrap();
                &anew
            } else {
                &index
            };
            for n in (0..60_000).step_by(37) {
                match block_on(index.get(&key(SMALL, n))).unwrap() {
                    Some(value) => assert_eq!(value[..], newest(n), "key {n}"),
                    None => lost += 1,
                }
            }
        }
        block_on(device.write(at, good)).unwrap();
    }
    assert!(lost > 0);
    assert!(index.counters().corrupt_pages > 0);
}

#[test]
fn what_cannot_be_used_is_refused() {
    let (device, index) = filled(10, 2 << 20, Eviction::Fifo);
    assert_eq!(block_on(kind_of(&device)).unwrap(), Kind::BufferHash);
    assert!(matches!(block_on(index.get(&[1; 19])), Err(Error::KeySize { given: 19, wanted: 20 })));
    let short = block_on(index.insert(&[1; 20], &[1; 11]));
    assert!(matches!(short, Err(Error::ValueSize { given: 11, wanted: 12 })));
    let tiny = Arc::new(RamDevice::new(1 << 20, 4096));
    let refused = block_on(BufferHash::create(Arc::clone(&tiny), *index.plan(), Eviction::Fifo, 1));
    assert!(matches!(refused, Err(Error::Setting { nearest, .. }) if nearest == index.plan().flash_bytes));
    assert!(matches!(block_on(BufferHash::open(tiny, Eviction::Fifo)), Err(Error::NotAnIndex(_))));
    assert!(matches!(Shape::new(7, 0), Err(Error::Setting { nearest: 8, .. })));
}
