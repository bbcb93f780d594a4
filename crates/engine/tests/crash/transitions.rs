//! Transitions of volumes and caches while clients use them: a volume leaves its cache and comes back, its origin grows, it
//! is removed and added again. The program may be killed in each of them.

use crate::system::{CachedDisk, TestCache, TestVolume, text};
use bytes::Bytes;
use futures_util::future::{AbortHandle, abortable};
use nitro_engine::{DedupDomain, Error, Volume, VolumeEntry, VolumeOptions, WriteMode};
use nitro_port::{Clock, Device, DeviceError, Geometry};
use nitro_testkit::{CrashingDevice, Rng, Simulation, trace};
use nitro_units::ObjectId;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How often to look whether all requests have ended.
const LOOK: Duration = Duration::from_millis(1);
/// The longest that a volume stays without its cache, in milliseconds.
const DETACHED_MS_MAX: u64 = 500;

/// An origin: the beginning of a device, of a size that outlives crashes, and grows.
#[derive(Clone)]
pub struct Growing {
    device: CrashingDevice,
    size_bytes: Arc<AtomicU64>,
}

impl Growing {
    pub fn new(device: CrashingDevice, size_bytes: Arc<AtomicU64>) -> Self {
        Self { device, size_bytes }
    }

    fn grow(&self, rng: &mut Rng) -> u64 {
        let (whole, block) = (self.device.geometry().size_bytes, self.device.geometry().block_bytes.into());
        let now = self.size_bytes.load(Ordering::SeqCst);
        let more = if rng.one_in(2) { 20 * 512 } else { whole };
        let grown = (now + 1 + rng.below(more)).next_multiple_of(block).min(whole);
        self.size_bytes.store(grown, Ordering::SeqCst);
        grown
    }
}

impl Device for Growing {
    fn geometry(&self) -> Geometry {
        Geometry { size_bytes: self.size_bytes.load(Ordering::SeqCst), ..self.device.geometry() }
    }

    async fn read(&self, offset: u64, len: usize) -> Result<Bytes, DeviceError> {
        self.device.read(offset, len).await
    }

    async fn write(&self, offset: u64, data: Bytes) -> Result<(), DeviceError> {
        self.device.write(offset, data).await
    }

    async fn flush(&self) -> Result<(), DeviceError> {
        self.device.flush().await
    }

    async fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.device.discard(offset, len).await
    }

    async fn write_zeroes(&self, offset: u64, len: u64, may_unmap: bool) -> Result<(), DeviceError> {
        self.device.write_zeroes(offset, len, may_unmap).await
    }
}

nitro_port::plain_origin!(Growing, keeps_writes: |origin| origin.device.keeps_writes(), unit_bytes: |origin| origin.device.unit_bytes());

/// What transitions happened.
#[derive(Default)]
pub struct Transitions {
    pub detached: AtomicU64,
    pub grown: AtomicU64,
    pub reloaded: AtomicU64,
    /// Starts that found an origin larger than it was registered.
    pub found_grown: AtomicU64,
}

/// Which requests are under way, and whether further ones wait.
#[derive(Default)]
pub struct Gate {
    shut: Cell<bool>,
    inside: Cell<u32>,
    /// A transition is under way.
    turn: Cell<bool>,
}

/// A request under way.
pub struct Inside<'a>(&'a Gate);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.inside.set(self.0.inside.get() - 1);
    }
}

/// A change of how a volume is served; there is one at a time.
pub struct Turn<'a>(&'a Gate);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.turn.set(false);
        self.0.shut.set(false);
    }
}

impl Gate {
    /// Enters as soon as it is open; at once if it is open.
    pub async fn enter(&self, clock: &impl Clock) -> Inside<'_> {
        while self.shut.get() {
            clock.sleep(LOOK).await;
        }
        self.inside.set(self.inside.get() + 1);
        Inside(self)
    }

    /// Begins a change of how the volume is served, if none is under way.
    pub fn turn(&self) -> Option<Turn<'_>> {
        (!self.turn.replace(true)).then(|| Turn(self))
    }
}

/// Opens a volume as a server does: it is registered, durably, and forgotten first if its origin is not the same.
pub async fn open(
    (cache, sim): (&Arc<TestCache>, &Simulation),
    name: &str,
    origin: &Growing,
    mode: WriteMode,
    happened: &Transitions,
) -> Result<(Arc<TestVolume>, AbortHandle), Error> {
    let known = cache.volumes().into_iter().find(|(_, entry)| entry.name == name);
    if let Some((object, entry)) = known.filter(|(_, entry)| entry.origin_bytes != origin.geometry().size_bytes) {
        happened.found_grown.fetch_add(1, Ordering::Relaxed);
        let options = VolumeOptions { object, read_only: true, mode: WriteMode::WriteThrough };
        match Volume::new(cache.clone(), origin.clone(), options).dirty_extents() {
            0 => cache.forget_volume(object).await?,
            // A server refuses to start; the operator makes the origin what it was.
            _ => origin.size_bytes.store(entry.origin_bytes, Ordering::SeqCst),
        }
    }
    let object = register(cache, name, origin.geometry().size_bytes).await?;
    let volume = Volume::new(cache.clone(), origin.clone(), VolumeOptions { object, read_only: false, mode });
    let [ahead, destaging] = [0; 2].map(|_| volume.clone());
    let (working, handle) = abortable(async move {
        futures_util::join!(ahead.readahead_worker(), destaging.destage_worker());
    });
    sim.spawn(async move {
        let _ = working.await;
    });
    Ok((volume, handle))
}

async fn register(cache: &TestCache, name: &str, origin_bytes: u64) -> Result<ObjectId, Error> {
    let entry = VolumeEntry {
        name: name.into(),
        origin_bytes,
        stamp: [0; 16],
        mode: 0,
        domain: DedupDomain::SHARED,
        identity: Vec::new(),
    };
    let object = cache.remember_volume(entry).unwrap();
    cache.sync().await?;
    Ok(object)
}

impl CachedDisk {
    /// One transition, if none is under way.
    pub async fn transit(&self, rng: &mut Rng) -> Result<(), String> {
        let Some(turn) = self.gate.turn() else { return Ok(()) };
        let choice = rng.below(8);
        trace(|| format!("begins transition {choice}"));
        let done = match choice {
            0..4 => text(self.detach_for_a_while(rng).await),
            4..6 if self.is_growing => text(self.grow(rng).await),
            _ => self.reload(&turn).await,
        };
        trace(|| format!("ends transition {choice}, {done:?}"));
        done
    }

    async fn detach_for_a_while(&self, rng: &mut Rng) -> Result<(), Error> {
        let _inside = self.gate.enter(&self.sim.clock).await;
        let (volume, mode) = (self.volume(), self.volume().mode());
        volume.detach().await?;
        self.happened.detached.fetch_add(1, Ordering::Relaxed);
        // In a quarter of the cases until the program ends, unless it is attached by another request.
        if !rng.one_in(4) {
            self.sim.clock.sleep(Duration::from_millis(rng.below(DETACHED_MS_MAX))).await;
        } else if rng.one_in(2) {
            return Ok(());
        }
        volume.attach();
        volume.set_mode(mode).await
    }

    async fn grow(&self, rng: &mut Rng) -> Result<(), Error> {
        let _inside = self.gate.enter(&self.sim.clock).await;
        let volume = self.volume();
        let grown = volume.origin().grow(rng);
        let growing = volume.begin_growing(grown).await?;
        register(volume.cache(), &self.name, grown).await?;
        growing.finish();
        self.happened.grown.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Removes the volume and adds it again, while its clients wait.
    async fn reload(&self, _turn: &Turn<'_>) -> Result<(), String> {
        if self.volume().cache().settings().origin_timeout.is_some() || self.pinned.is_some() {
            return Ok(());
        }
        self.gate.shut.set(true);
        while self.gate.inside.get() > 0 {
            self.sim.clock.sleep(LOOK).await;
        }
        let old = self.volume();
        text(old.destage_all().await)?;
        text(old.flush().await)?;
        text(old.close_regions(true).await)?;
        if old.dirty_extents() > 0 {
            return Ok(());
        }
        text(old.remove().await)?;
        self.workers.borrow().abort();
        let opened = open((old.cache(), &*self.sim), &self.name, old.origin(), old.mode(), &self.happened).await;
        let (volume, workers) = text(opened)?;
        volume.set_class(old.class());
        volume.set_write_policy(old.write_policy());
        self.set_volume(volume, workers);
        self.happened.reloaded.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}
