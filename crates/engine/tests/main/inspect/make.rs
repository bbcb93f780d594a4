//! Makes the image: the engine at work, through a restart and a change of the journal's halves, until it is killed.

use super::image::{ALPHA, BETA, EXTENT, Ram, VOLUME_BYTES, content, image_bytes, origin, settings, steps};
use crate::any::Erased;
use nitro_engine::{Cache, DedupDomain, Volume, VolumeEntry, VolumeOptions, WriteMode};
use nitro_port::{Clock, Origin};
use nitro_testkit::{CrashingDevice, Rng, Simulation, VirtualTime};
use nitro_units::ObjectId;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

type TestVolume = Arc<Volume<Erased, Erased, VirtualTime>>;

/// One start of the cache.
struct Run {
    sim: Rc<Simulation>,
    cache: Arc<Cache<Erased, VirtualTime>>,
    alpha: TestVolume,
    beta: TestVolume,
    /// The insertion worker has ended.
    ended: Rc<Cell<bool>>,
}

/// A cache as it was when it was killed: clean and dirty extents, duplicates, a journal that went to its other half, a
/// write-evict unit without a header.
pub fn image() -> Vec<u8> {
    let origins = [origin(ALPHA, true), origin(BETA, true)];
    let run = Run::new(Ram::new(vec![0; image_bytes()]), origins, true);
    run.first();
    let run = Run::new(Ram::new(run.cache.flash().of::<Ram>().image()), run.origins(), false);
    run.second();
    for (made, object) in run.origins().iter().zip([ALPHA, BETA]) {
        assert!(made.image() == origin(object, false).image(), "{object:?}");
    }
    run.cache.flash().of::<Ram>().image()
}

/// The cache used for the first time, crashed `crashes` times: each image is what power failing at some operation of the
/// device may leave.
pub fn crashed(crashes: u64, mut judge: impl FnMut(u64, Vec<u8>)) {
    let origins = [origin(ALPHA, true), origin(BETA, true)];
    let run = Run::new(CrashingDevice::recorded(vec![0; image_bytes()], 512), origins, true);
    let flash = run.cache.flash().of::<CrashingDevice>();
    let formatting = flash.changes();
    run.first();
    for seed in 0..crashes {
        let mut rng = Rng::new(seed);
        let upto = formatting + rng.below((flash.changes() - formatting) as u64) as usize;
        judge(seed, flash.crashed_at(upto, &mut rng).image());
    }
}

impl Run {
    fn new(flash: impl Origin, [alpha, beta]: [Ram; 2], format: bool) -> Self {
        let (sim, flash) = (Simulation::new(3), Erased::new(flash));
        let clock = sim.clock.clone();
        let cache = sim.run(async move {
            match format {
                true => Cache::format(flash, clock, settings(), *b"a cache for test", 0xC0FFEE).await.unwrap(),
                false => Cache::open(flash, clock, settings()).await.unwrap().0,
            }
        });
        let ended = Rc::new(Cell::new(false));
        let (inserting, journaling, at_end) = (cache.clone(), cache.clone(), ended.clone());
        sim.spawn(async move {
            inserting.insertion_worker().await;
            at_end.set(true);
        });
        sim.spawn(async move { journaling.journal_worker().await });
        let volume = |object, mode, origin| {
            assert_eq!(cache.remember_volume(entry(object, 0)), Some(object));
            Volume::new(cache.clone(), Erased::new(origin), VolumeOptions { object, read_only: false, mode })
        };
        let alpha = volume(ALPHA, WriteMode::WriteBack, alpha);
        let beta = volume(BETA, WriteMode::WriteThrough, beta);
        Self { sim, cache, alpha, beta, ended }
    }

    fn first(&self) {
        self.read_all();
        self.write(&self.alpha, steps().destaged);
        let alpha = self.alpha.clone();
        self.sim.run(async move { alpha.destage_all().await.unwrap() });
        self.write(&self.alpha, steps().before_restart);
        let (cache, clock, ended) = (self.cache.clone(), self.sim.clock.clone(), self.ended.clone());
        self.sim.run(async move {
            cache.close();
            while !ended.get() {
                clock.sleep(Duration::from_millis(1)).await;
            }
        });
    }

    fn second(&self) {
        let (cache, clock) = (self.cache.clone(), self.sim.clock.clone());
        self.sim.run(async move {
            while cache.is_restoring() {
                clock.sleep(Duration::from_millis(1)).await;
            }
        });
        self.write(&self.alpha, steps().before_switch);
        self.write(&self.beta, steps().through);
        let (cache, beta) = (self.cache.clone(), self.beta.clone());
        self.sim.run(async move {
            beta.close_regions(true).await.unwrap();
            // Something to tell the journal until it goes to its other half.
            for mode in (0..64).cycle() {
                cache.remember_volume(entry(BETA, mode));
                cache.sync().await.unwrap();
                if cache.status().engine.journal_snapshots > 0 {
                    break;
                }
            }
        });
        let [some, more] = steps().after_switch;
        self.write(&self.alpha, some);
        self.write(&self.alpha, more);
        let cache = self.cache.clone();
        // The last batch has no data: what is damaged from here on was durable, and nobody may take it for torn.
        self.sim.run(async move {
            cache.remember_volume(entry(BETA, 0));
            cache.sync().await.unwrap();
        });
    }

    fn read_all(&self) {
        let (volumes, cache) = ([self.alpha.clone(), self.beta.clone()], self.cache.clone());
        self.sim.run(async move {
            for volume in volumes {
                for at in (0..volume.size_bytes()).step_by(EXTENT as usize) {
                    volume.read(at, (volume.size_bytes() - at).min(EXTENT)).await.unwrap();
                }
            }
            cache.settled().await;
        });
    }

    fn write(&self, volume: &TestVolume, writes: Vec<(u64, u64)>) {
        let (volume, cache) = (volume.clone(), self.cache.clone());
        self.sim.run(async move {
            for (extent, name) in writes {
                let len = (volume.size_bytes() - extent * EXTENT).min(EXTENT);
                volume.write(extent * EXTENT, content(name).slice(..len as usize), false).await.unwrap();
            }
            volume.flush().await.unwrap();
            cache.settled().await;
        });
    }

    fn origins(&self) -> [Ram; 2] {
        [&self.alpha, &self.beta].map(|volume| Ram::new(volume.origin().of::<Ram>().image()))
    }
}

fn entry(object: ObjectId, mode: u8) -> VolumeEntry {
    let name = if object == ALPHA { "alpha" } else { "beta" };
    VolumeEntry {
        name: name.into(),
        origin_bytes: VOLUME_BYTES[usize::from(object.0)],
        stamp: [0; 16],
        mode,
        domain: DedupDomain::SHARED,
        identity: Vec::new(),
    }
}
