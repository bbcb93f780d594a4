//! A cache keeps what it writes to the SSD within its budget, and its hot content cached.

use crate::any::Erased;
use nitro_device::RamDevice;
use nitro_engine::manager::Settings;
use nitro_engine::{Cache, Endurance, EngineSettings, Volume, VolumeOptions, WriteMode};
use nitro_port::Clock;
use nitro_port::codec::Compression;
use nitro_testkit::{Rng, Simulation, VirtualTime};
use nitro_units::ObjectId;
use std::sync::Arc;
use std::time::Duration;

const MIB: u64 = 1 << 20;
const EXTENT: u64 = 32 << 10;
const EXTENTS: u64 = 16_384;
const HOT: u64 = 400;
const DAY: u64 = 1440;

/// Reads 32 extents a minute, every third of them a hot one. Returns the bytes written to the SSD by day, and how many of the last
/// thousand hot reads the origin was not asked for.
fn run(endurance: Option<Endurance>, days: u64) -> (Vec<u64>, usize) {
    let sim = Simulation::new(7);
    let manager = Settings { extent_bytes: EXTENT as u32, weu_bytes: 512 << 10, ..Settings::new(32 * MIB) };
    let settings = EngineSettings {
        endurance,
        compression: Compression::None,
        ram_cache_bytes: 0,
        staging_bytes: MIB,
        ..EngineSettings::new(manager)
    };
    let cache = sim
        .run(Cache::format(Erased::new(RamDevice::new(64 * MIB, 512)), sim.clock.clone(), settings, [1; 16], 9))
        .unwrap();
    let options = VolumeOptions { object: ObjectId(0), read_only: false, mode: WriteMode::WriteThrough };
    let origin = Erased::new(RamDevice::new(EXTENTS * EXTENT, 512));
    let volume: Arc<Volume<_, _, VirtualTime>> = Volume::new(cache.clone(), origin, options);
    let (inserting, journaling) = (cache.clone(), cache.clone());
    sim.spawn(async move { inserting.insertion_worker().await });
    sim.spawn(async move { journaling.journal_worker().await });
    let clock = sim.clock.clone();
    sim.run(async move {
        let (mut rng, mut by_day, mut hot) = (Rng::new(3), Vec::new(), Vec::new());
        // What the origin holds is one word for each extent, so that no content is like another.
        for index in 0..EXTENTS {
            let word = bytes::Bytes::copy_from_slice(&[(index + 1).to_le_bytes(); 64].concat());
            volume.write(index * EXTENT, word, false).await.unwrap();
        }
        let written = || cache.metrics.snapshot().ssd_written_bytes();
        let mut before = written();
        for minute in 1..=days * DAY {
            for n in 0..32 {
                let is_hot = n % 3 == 0;
                let index = rng.below(if is_hot { HOT } else { EXTENTS });
                let origin_reads = cache.status().engine.ssd_reads + cache.status().engine.pending_hits;
                volume.read(index * EXTENT, EXTENT).await.unwrap();
                if is_hot {
                    hot.push(cache.status().engine.ssd_reads + cache.status().engine.pending_hits > origin_reads);
                }
            }
            clock.sleep(Duration::from_secs(60)).await;
            if minute % DAY == 0 {
                by_day.push(written() - before);
                before = written();
            }
        }
        cache.close();
        (by_day, hot.iter().rev().take(1000).filter(|hit| **hit).count())
    })
}

#[test]
fn a_budget_of_writes_is_kept_and_hot_content_stays_cached() {
    let endurance = Endurance { bytes_per_day: 150 * MIB, rated_bytes: 1 << 40 };
    let (without, hits_without) = run(None, 1);
    let (by_day, hits) = run(Some(endurance), 4);
    println!("without a budget {without:?}, {hits_without} hits of 1000; with one {by_day:?}, {hits}");
    assert!(without[0] > 4 * endurance.bytes_per_day, "{without:?} would be too little to be held up");
    assert!(by_day.iter().sum::<u64>() <= 5 * endurance.bytes_per_day + 4 * MIB, "{by_day:?}");
    let (last, day) = (by_day[3] as f64, endurance.bytes_per_day as f64);
    assert!((0.85..1.15).contains(&(last / day)), "{by_day:?}");
    assert!(hits_without > 900 && hits > 850, "{hits_without} and {hits} of 1000");
}
