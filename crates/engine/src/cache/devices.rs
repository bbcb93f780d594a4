//! The loss of one of several devices: what it held is dropped, and what of it was dirty is lost.

use super::Cache;
use crate::error::Error;
use crate::health::Access;
use crate::recovery::State;
use crate::write_log::MissingLog;
use nitro_cache::weu::Space;
use nitro_cache::{LostDevices, Retirement};
use nitro_port::yielding::yield_now;
use nitro_port::{Clock, Device, DeviceError};
use nitro_units::{ExtentIndex, ObjectId, WeuId};
use std::collections::HashMap;
use std::sync::atomic::Ordering;

/// Dirty extents that are examined under one lock of the manager.
const EXTENTS_PER_LOCK: usize = 64;
/// Write-evict units that are examined under one lock of the manager.
const WEUS_PER_LOCK: u32 = 1024;

/// See [`Cache::set_loss_witness`].
pub(super) type LossWitness = Box<dyn Fn(u32) + Send + Sync>;

/// Losses of dirty extents that their volumes' clients do not know of yet.
#[derive(Default)]
pub(super) struct Losses(HashMap<ObjectId, Loss>);

#[derive(Clone, Copy)]
struct Loss {
    /// How often dirty extents were lost.
    times: u64,
    /// Of these, those that a FLUSH has reported.
    reported: u64,
    /// One of the extents.
    extent: ExtentIndex,
}

impl<F: Device, C: Clock> Cache<F, C> {
    /// Sets a function that is called with the lost ones among several devices, one bit each, whenever another one is
    /// lost. It has to record them durably outside the cache's devices: a device that was lost, and is later given
    /// without the others, does not know that it is outdated.
    pub fn set_loss_witness(&self, witness: impl Fn(u32) + Send + Sync + 'static) {
        let lost = self.flash.lost().lost;
        if lost != 0 {
            witness(lost);
        }
        *self.loss_witness.lock() = Some(Box::new(witness));
    }

    /// Notes an access of a unit that succeeded.
    pub(crate) fn succeeded(&self, access: Access, weu: WeuId) {
        self.device_health.succeeded(access);
        self.flash.succeeded(access, weu);
    }

    /// Notes a failed access of a unit. Where its device fails again and again, it is not used any more.
    pub(crate) fn failed(&self, access: Access, weu: WeuId, error: &DeviceError) {
        if self.flash.is_lost(weu) {
            return;
        }
        match self.flash.failed(access, weu, error) {
            true => self.ledger.ask(),
            false if self.flash.is_alone() => self.device_health.failed(access, error),
            false => {}
        }
    }

    /// Refuses a start without devices that hold dirty data, unless their loss is allowed. Those that were lost while
    /// the cache served are no reason: their loss is known.
    pub(crate) fn judge_missing(&self, state: &State, missing: MissingLog) -> Result<(), Error> {
        let lost = self.flash.lost();
        let unknown = LostDevices { lost: lost.lost & !self.flash.lost_before(), ..lost };
        if unknown.lost == 0 || missing == MissingLog::Discard {
            return Ok(());
        }
        let dirty = state.dirty().filter_map(|(_, _, target)| target);
        match dirty.filter(|(weu, ..)| unknown.has(*weu)).count() as u64 {
            0 => Ok(()),
            dirty_extents => Err(Error::DevicesMissing {
                numbers: (0..lost.devices).filter(|number| unknown.lost >> number & 1 == 1).collect(),
                devices: lost.devices,
                dirty_extents,
            }),
        }
    }

    /// Drops what devices held that are out since the last call. When this returns, dirty extents that they held are
    /// lost, and it is known for the next FLUSH of their volumes. Called by the committer, before anything that
    /// was committed since counts as durable.
    pub(crate) async fn retire_lost(&self) {
        let lost = self.flash.lost();
        if lost.lost == self.retired.load(Ordering::SeqCst) {
            return;
        }
        // First on the other devices: the record outside them must not name a device that these do not name.
        if let Err(error) = self.flash.record_losses().await {
            return self.fail(&error);
        }
        if self.manager.lock().lost_devices() != lost {
            self.manager.lock().lose_devices(lost);
            if let Some(witness) = &*self.loss_witness.lock() {
                witness(lost.lost);
            }
        }
        self.lose_open(lost);
        let objects = self.manager.lock().dirty_objects();
        for object in objects {
            self.lose_dirty_of(object).await;
        }
        let mut is_done = true;
        for weu in (0..self.weu_count()).map(WeuId).filter(|weu| lost.has(*weu)) {
            let retirement = self.manager.lock().retire_lost(weu);
            match retirement {
                Retirement::Done => {}
                Retirement::Emptying => {
                    self.empty(weu);
                    yield_now().await;
                }
                Retirement::Busy => is_done = false,
            }
        }
        self.seal_wanted.notify(usize::MAX);
        self.room.notify(usize::MAX);
        if is_done {
            self.retired.store(lost.lost, Ordering::SeqCst);
        }
    }

    /// Whether slots of lost devices are not retired yet.
    pub(crate) fn has_unretired(&self) -> bool {
        self.flash.lost().lost != self.retired.load(Ordering::SeqCst)
    }

    /// Gives up units for dirty extents that are not written, and never will be.
    fn lose_open(&self, lost: LostDevices) {
        let gone = self.dirty_open.lock().take_lost(lost);
        for weu in gone {
            self.lose_unwritten(weu);
        }
    }

    /// Gives up a unit for dirty extents that could not be written, since its device is lost. They are lost with the
    /// next [`retire_lost`](Self::retire_lost).
    pub(crate) fn lose_unwritten(&self, weu: WeuId) {
        // Its dirty extents still name it: they are found by `lose_dirty_of`.
        self.manager.lock().begin_retiring(weu);
        self.empty(weu);
        self.resident.close(weu);
    }

    async fn lose_dirty_of(&self, object: ObjectId) {
        let mut next = Some(ExtentIndex(0));
        while let Some(from) = next {
            let (count, first, rest) = self.manager.lock().lose_dirty(object, from, EXTENTS_PER_LOCK);
            if let Some(extent) = first {
                self.metrics.device_lost_extents.add(count);
                let mut losses = self.losses.lock();
                let loss = losses.0.entry(object).or_insert(Loss { times: 0, reported: 0, extent });
                (loss.times, loss.extent) = (loss.times + 1, extent);
            }
            next = rest;
            yield_now().await;
        }
    }

    /// How often dirty extents of a volume were lost with a device, at the beginning of a FLUSH.
    pub(crate) fn losses(&self, object: ObjectId) -> u64 {
        if self.flash.is_striped() { self.losses.lock().0.get(&object).map_or(0, |loss| loss.times) } else { 0 }
    }

    /// Ends a FLUSH of a volume, which began with `before` [`losses`](Self::losses).
    ///
    /// # Errors
    /// [`Error::Lost`]: dirty extents were lost meanwhile, or earlier, and no FLUSH has reported it.
    pub(crate) fn report_losses(&self, object: ObjectId, before: u64) -> Result<(), Error> {
        if !self.flash.is_striped() {
            return Ok(());
        }
        let mut losses = self.losses.lock();
        let Some(loss) = losses.0.get_mut(&object) else { return Ok(()) };
        if loss.times == before && loss.reported == loss.times {
            return Ok(());
        }
        loss.reported = loss.times;
        let len = u64::from(self.settings.manager.extent_bytes);
        Err(Error::Lost { offset: loss.extent.offset(len), len })
    }

    /// The use of the space of the write-evict units of each device.
    pub(super) fn space_by_device(&self) -> Vec<Space> {
        let mut spaces = vec![Space::default(); self.flash.devices() as usize];
        if !self.flash.is_striped() {
            return spaces;
        }
        let weus = self.weu_count();
        for first in (0..weus).step_by(WEUS_PER_LOCK as usize) {
            self.manager.lock().add_space_by_device(first..(first + WEUS_PER_LOCK).min(weus), &mut spaces);
        }
        spaces
    }
}
