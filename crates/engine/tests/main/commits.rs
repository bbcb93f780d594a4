//! When a commit flushes the SSD: whenever somebody wants it durable, or its records refer to data; else not. What outlives
//! the program without.

use crate::any::{Erased, Slow, jittery};
use crate::jittery::Jittery;
use bytes::Bytes;
use nitro_device::RamDevice;
use nitro_engine::manager::Settings;
use nitro_engine::{Cache, CrashMemory, EngineSettings, Error, Volume, VolumeOptions, WriteMode};
use nitro_port::{Clock, Device};
use nitro_testkit::{Simulation, VirtualTime};
use nitro_units::ObjectId;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub type TestVolume = Arc<Volume<Erased, Erased, VirtualTime>>;

pub const WEU_BYTES: u64 = 512 << 10;
pub const MIB: u64 = 1 << 20;

/// What outlives the program.
pub struct Machine {
    pub settings: EngineSettings,
    pub flash: Arc<RamDevice>,
    pub origin: Arc<RamDevice>,
    /// An operation of the SSD takes up to twice as long.
    pub flash_us: u64,
    pub formatted: bool,
    /// The origin loses unflushed writes with the program.
    pub forgets: bool,
}

impl Machine {
    pub fn new() -> Self {
        let manager = Settings { weu_bytes: WEU_BYTES as u32, extent_bytes: 4096, ..Settings::new(16 * WEU_BYTES) };
        let words: &'static [AtomicU64] = Vec::leak((0..4096).map(|_| AtomicU64::new(0)).collect());
        let settings = EngineSettings {
            dirty_age: Duration::from_secs(10_000),
            crash_memory: Some(CrashMemory { words, identity: [1; 16] }),
            ..EngineSettings::new(manager)
        };
        let overhead_bytes = Cache::<Erased, VirtualTime>::overhead_bytes(&settings);
        let [flash, origin] =
            [settings.manager.cache_bytes + overhead_bytes, 4 * MIB].map(|bytes| Arc::new(RamDevice::new(bytes, 512)));
        Self { settings, flash, origin, flash_us: 50, formatted: false, forgets: false }
    }

    pub fn start(&mut self, mode: WriteMode) -> (Rc<Simulation>, TestVolume) {
        self.try_start(mode).unwrap()
    }

    /// As [`start`](Self::start), which may be refused.
    pub fn try_start(&mut self, mode: WriteMode) -> Result<(Rc<Simulation>, TestVolume), Error> {
        let (sim, settings) = (Simulation::new(1), self.settings);
        let clock = sim.clock.clone();
        let flash = jittery(self.flash.clone(), &clock, 1, self.flash_us);
        let cache = match std::mem::replace(&mut self.formatted, true) {
            false => sim.run(Cache::format(flash, clock.clone(), settings, [7; 16], 1)).unwrap(),
            true => sim.run(Cache::open(flash, clock.clone(), settings))?.0,
        };
        let options = VolumeOptions { object: ObjectId(1), read_only: false, mode };
        let mut origin = Jittery::new(self.origin.clone(), &clock, 1, 50);
        origin.keeps_writes = !self.forgets;
        let volume = Volume::new(cache.clone(), Erased::new(origin), options);
        let (destaging, journaling) = (volume.clone(), cache.clone());
        sim.spawn(async move { destaging.destage_worker().await });
        sim.spawn(async move { cache.insertion_worker().await });
        sim.spawn(async move { journaling.journal_worker().await });
        Ok((sim, volume))
    }
}

/// Commits, and flushes of the SSD.
fn counts(volume: &TestVolume) -> (u64, u64) {
    (volume.cache().status().engine.commits, volume.cache().flash().of::<Slow>().flushes.load(Ordering::Relaxed))
}

#[test]
fn what_was_only_written_is_flushed_for_who_wants_it_durable() {
    let (sim, volume) = Machine::new().start(WriteMode::WriteThrough);
    let clock = sim.clock.clone();
    let unflushed = sim.run(async move {
        let mut unflushed = 0;
        for round in 0..20 {
            volume.write(0, Bytes::from(vec![round + 1; MIB as usize]), false).await.unwrap();
            volume.cache().settled().await;
            volume.cache().sync().await.unwrap();
            volume.write(0, Bytes::from(vec![100; MIB as usize]), false).await.unwrap();
            let (commits, flushes) = counts(&volume);
            while counts(&volume).0 == commits {
                clock.sleep(Duration::from_millis(1)).await;
            }
            if counts(&volume).1 == flushes {
                unflushed += 1;
                volume.cache().sync().await.unwrap();
                assert!(counts(&volume).1 > flushes, "round {round}");
            }
        }
        unflushed
    });
    assert!(unflushed > 0, "every commit was flushed");
    sim.end();
}

#[test]
fn commits_with_data_are_flushed_though_nobody_asks() {
    let (sim, volume) = Machine::new().start(WriteMode::WriteBack);
    let commits = sim.run(async move {
        let begun = counts(&volume);
        for round in 0..200u32 {
            let content: Vec<u8> = (0..MIB as u32 / 4).flat_map(|n| (n / 1024 * 1000 + round).to_le_bytes()).collect();
            volume.write(0, content.into(), false).await.unwrap();
            volume.cache().settled().await;
            let (commits, flushes) = counts(&volume);
            assert!(flushes - begun.1 >= commits - begun.0, "{flushes} flushes, {commits} commits, from {begun:?}");
        }
        counts(&volume).0 - begun.0
    });
    assert!(commits > 20, "{commits} commits");
    sim.end();
}

#[test]
fn what_was_overwritten_does_not_come_back_whenever_the_program_is_killed() {
    for tenths in 1..15 {
        let mut machine = Machine { flash_us: 10_000, ..Machine::new() };
        let (sim, volume) = machine.start(WriteMode::WriteThrough);
        let clock = sim.clock.clone();
        sim.run(async move {
            let noise = (0..MIB as u32 / 4).flat_map(|n| n.wrapping_mul(0x9E37_79B1).to_le_bytes());
            volume.write(0, noise.collect(), false).await.unwrap();
            volume.cache().settled().await;
            // The region is open already, and others are written to during every commit.
            for step in 0..750 + tenths * 50 {
                volume.write(MIB, Bytes::from(vec![1; 4096]), false).await.unwrap();
                if step == 750 {
                    volume.write(0, Bytes::from(vec![2; 4096]), false).await.unwrap();
                }
                clock.sleep(Duration::from_millis(2)).await;
            }
        });
        sim.end();
        let (sim, volume) = machine.start(WriteMode::WriteThrough);
        let clock = sim.clock.clone();
        sim.run(async move {
            while volume.cache().is_restoring() {
                clock.sleep(Duration::from_millis(1)).await;
            }
            assert!(
                volume.read(0, 4096).await.unwrap().concat() == [2; 4096],
                "killed after {tenths} tenths of a second"
            );
            assert!(volume.cache().status().manager.cached_extents > 0, "nothing came back");
        });
        sim.end();
    }
}

/// A volume of a store whose last writes were lost with the program: what the cache has of them would be replaced by older
/// bytes when it is evicted.
#[test]
fn what_an_origin_lost_with_the_program_is_not_read_from_the_cache() {
    for forgets in [true, false] {
        let mut machine = Machine { forgets, ..Machine::new() };
        let content =
            |seed: u32| (0..MIB as u32 / 4).flat_map(move |n| (n ^ seed).wrapping_mul(0x9E37_79B1).to_le_bytes());
        let [flushed, unflushed]: [Bytes; 2] = [1 << 20, 1 << 21].map(|seed| content(seed).collect());
        let (sim, volume) = machine.start(WriteMode::WriteThrough);
        let (clock, writes) = (sim.clock.clone(), [flushed.clone(), unflushed.clone()]);
        sim.run(async move {
            for data in writes {
                volume.flush().await.unwrap();
                volume.write(0, data, false).await.unwrap();
                volume.cache().settled().await;
            }
            volume.cache().sync().await.unwrap();
            // The region stays open, and nothing of what was written is under way any more.
            for _ in 0..750 {
                volume.write(2 * MIB, Bytes::from(vec![1; 4096]), false).await.unwrap();
                clock.sleep(Duration::from_millis(2)).await;
            }
        });
        sim.end();
        let origin = machine.origin.clone();
        let (sim, volume) = machine.start(WriteMode::WriteThrough);
        let clock = sim.clock.clone();
        sim.run(async move {
            if forgets {
                origin.write(0, flushed.clone()).await.unwrap();
            }
            while volume.cache().is_restoring() {
                clock.sleep(Duration::from_millis(1)).await;
            }
            let expected = if forgets { flushed } else { unflushed };
            assert!(volume.read(0, MIB).await.unwrap().concat() == expected, "bytes that the origin does not have");
            assert_eq!(volume.counters().read_hit_extents == 0, forgets, "hits after a kill");
        });
        sim.end();
    }
}
