//! A device in RAM that simulates power failures: it knows which writes are durable, and which may be lost, torn or
//! reordered. It can also inject errors and silent faults.
//!
//! It has three paces. In a [simulation](CrashingDevice::on), each step of a request takes a random virtual time from a
//! seed, and the power of all devices fails at a chosen step. [On any executor](CrashingDevice::new), a request takes a
//! few turns, and requests fail once the power is off. [With a history](CrashingDevice::recorded), requests are
//! executed at once, and a power failure can be simulated at any of them later.

mod control;
mod faults;
mod history;
mod medium;
mod power;
mod room;

pub use faults::Faults;
pub use medium::{FlushMark, Loss, Medium, SECTOR_BYTES, Ticket, sector_of};
pub use power::Power;

use crate::{Rng, VirtualTime, trace};
use bytes::Bytes;
use history::History;
use nitro_port::buf::BufMut;
use nitro_port::yielding::yield_now;
use nitro_port::{Clock, Device, DeviceError, ErrorKind, Geometry, Operation};
use parking_lot::Mutex;
use room::Room;
use std::sync::Arc;
use std::time::Duration;

/// Upper bound (exclusive) of the turns of one step, on a device that takes turns.
const TURNS: u64 = 4;
/// A device that stalls does so once in this many steps, for up to `STALL_US_MAX` microseconds.
const STALL_STEPS: u64 = 1000;
const STALL_US_MAX: u64 = 8_000_000;
const HANG_US_MAX: u64 = 200_000_000;

/// The part of a device that outlives a crash.
pub type Platter = Arc<Mutex<Medium>>;

/// How long requests take.
enum Pace {
    /// Each step takes virtual time, so that requests overlap and overtake each other, and a write may be half done for
    /// some time. A request whose future is dropped is executed nevertheless.
    Time { clock: VirtualTime, delay_us_max: u64, stalls: bool },
    /// Each step takes a few turns of the executor. A request whose future is dropped before it takes effect stays
    /// under way until [`settle`](CrashingDevice::settle).
    Turns,
    /// Requests are executed at once.
    Instant,
}

/// The settings of a device of a simulation.
pub struct Wiring {
    /// Identifies the device in traces.
    pub name: u64,
    /// Bytes of a block: offsets and lengths are multiples of this.
    pub block_bytes: u32,
    /// The simulation's clock.
    pub clock: VirtualTime,
    /// The power supply, which devices may share.
    pub power: Power,
    /// Determines all random choices.
    pub seed: u64,
    /// The usual upper bound of the time of a step, in microseconds.
    pub delay_us_max: u64,
    /// Sometimes a step takes seconds, and other requests overtake it.
    pub stalls: bool,
    /// As an origin, it keeps unflushed writes if the program is killed.
    pub keeps_writes: bool,
    /// As an origin, it stores whole units of this size.
    pub unit_bytes: Option<u32>,
}

struct State {
    name: u64,
    medium: Platter,
    block_bytes: u32,
    keeps_writes: bool,
    unit_bytes: Option<u32>,
    pace: Pace,
    power: Power,
    random: Mutex<Rng>,
    faults: Mutex<Faults>,
    /// The storage of a sparse file; `None`: all blocks have storage.
    room: Mutex<Option<Room>>,
    history: Mutex<Option<History>>,
    /// One request fails after this many others.
    fails_once_after: Mutex<Option<u64>>,
}

/// A device that is switched on; clones are the same device.
#[derive(Clone)]
pub struct CrashingDevice(Arc<State>);

impl CrashingDevice {
    fn below(&self, bound: u64) -> u64 {
        self.0.random.lock().below(bound)
    }

    fn strikes(&self, fault: impl Fn(&Faults) -> u64) -> bool {
        let one_in = fault(&self.0.faults.lock());
        one_in > 0 && self.below(one_in) == 0
    }

    fn is_full(&self) -> bool {
        self.0.faults.lock().full
    }

    fn takes_time(&self) -> bool {
        matches!(self.0.pace, Pace::Time { .. })
    }

    /// Waits for the random duration of a step.
    async fn delay(&self) {
        match &self.0.pace {
            Pace::Time { clock, delay_us_max, stalls } => {
                let slow = if self.below(40) == 0 { 20 } else { 1 };
                let stalls = *stalls && self.below(STALL_STEPS) == 0;
                let us_max = match self.strikes(|f| f.hangs) {
                    true => HANG_US_MAX,
                    false if stalls => STALL_US_MAX,
                    false => delay_us_max * slow,
                };
                let us = self.below(us_max);
                clock.sleep(Duration::from_micros(us)).await;
            }
            Pace::Turns => {
                for _ in 0..self.below(TURNS) {
                    yield_now().await;
                }
            }
            Pace::Instant => {}
        }
    }

    async fn has_power(&self, is_first: bool, what: Operation, offset: u64, len: u64) -> Result<(), DeviceError> {
        match self.0.power.step(is_first, (self.0.name, what, offset, len)).await {
            true => Ok(()),
            false => Err(DeviceError::new(ErrorKind::Io, what, offset, len)),
        }
    }

    /// A later step of a request, at which the power may fail.
    async fn step(&self, what: Operation, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.delay().await;
        self.has_power(false, what, offset, len).await
    }

    /// Checks a request, and ends its first step.
    async fn begin(&self, what: Operation, offset: u64, len: u64) -> Result<(), DeviceError> {
        DeviceError::check(&self.geometry(), what, offset, len)?;
        if self.fails_now() {
            return Err(DeviceError::new(ErrorKind::Io, what, offset, len));
        }
        if self.takes_time() {
            self.delay().await;
        }
        self.has_power(true, what, offset, len).await?;
        trace(|| match &self.0.pace {
            Pace::Time { clock, .. } => {
                format!("{:?} device {}: {what} of {len} at {offset}", clock.now(), self.0.name)
            }
            _ => format!("device {}: {what} of {len} at {offset}", self.0.name),
        });
        Ok(())
    }

    fn fails_now(&self) -> bool {
        let mut after = self.0.fails_once_after.lock();
        let fails = *after == Some(0);
        *after = if fails { None } else { after.map(|n| n - 1) };
        fails
    }

    /// The step of a request before its effect, on a device that does not take time.
    async fn before_effect(&self, what: Operation, offset: u64, len: u64) -> Result<(), DeviceError> {
        if self.takes_time() { Ok(()) } else { self.step(what, offset, len).await }
    }

    /// The step of a request after its effect, on a device that takes time.
    async fn after_effect(&self, what: Operation, offset: u64, len: u64) -> Result<(), DeviceError> {
        if self.takes_time() { self.step(what, offset, len).await } else { Ok(()) }
    }

    /// Writes data to the medium; a device that takes time may do so in two steps.
    async fn put(&self, what: Operation, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        let (len, sectors) = (data.len() as u64, (data.len() / SECTOR_BYTES) as u64);
        // A medium does not keep the memory of the program that wrote to it.
        let ticket = self.0.medium.lock().begin(offset / SECTOR_BYTES as u64, data.to_vec().into());
        let _guard = Unfinished { device: self, ticket };
        if self.takes_time() && sectors > 1 && self.below(2) == 0 {
            self.step(what, offset, len).await?;
            let part = 1 + self.below(sectors);
            self.0.medium.lock().apply(ticket, part);
        }
        let done = self.step(what, offset, len).await;
        self.0.medium.lock().end(ticket, false);
        done
    }

    /// Writes a random front part of the data.
    fn put_some(&self, offset: u64, data: &[u8]) {
        let sectors = self.below((data.len() / SECTOR_BYTES) as u64 + 1);
        let mut medium = self.0.medium.lock();
        let ticket = medium.begin(offset / SECTOR_BYTES as u64, data.to_vec().into());
        medium.apply(ticket, sectors);
        medium.end(ticket, true);
    }

    /// A random offset at which `len` bytes fit.
    fn elsewhere(&self, len: u64) -> u64 {
        let blocks = (self.geometry().size_bytes - len) / u64::from(self.0.block_bytes);
        self.below(blocks + 1) * u64::from(self.0.block_bytes)
    }

    /// Assigns storage to a range; returns how many bytes from its start have storage.
    fn back(&self, offset: u64, len: u64) -> u64 {
        self.0.room.lock().as_mut().map_or(len, |room| room.back(offset, len))
    }

    /// Sets all or some of the sectors of a range to zeroes.
    fn zero_some(&self, offset: u64, len: u64) {
        let zero = Bytes::from_static(&[0; SECTOR_BYTES]);
        let first = offset / SECTOR_BYTES as u64;
        let whole = self.below(2) == 0;
        for sector in first..first + len / SECTOR_BYTES as u64 {
            if whole || self.below(2) == 0 {
                let mut medium = self.0.medium.lock();
                let ticket = medium.begin(sector, zero.clone());
                medium.end(ticket, false);
            }
        }
    }
}

/// Guard of a write whose future may be dropped: on a device that takes time, the write is then completed.
struct Unfinished<'a> {
    device: &'a CrashingDevice,
    ticket: Ticket,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        let State { power, medium, .. } = &*self.device.0;
        if self.device.takes_time() && !power.is_off() {
            medium.lock().end(self.ticket, false);
        }
    }
}

impl Device for CrashingDevice {
    fn geometry(&self) -> Geometry {
        let size_bytes = self.0.medium.lock().size_bytes();
        Geometry { size_bytes, block_bytes: self.0.block_bytes, preferred_bytes: 4096, rotational: false }
    }

    async fn read(&self, offset: u64, len: usize) -> Result<Bytes, DeviceError> {
        let bytes = len as u64;
        self.begin(Operation::Read, offset, bytes).await?;
        if self.strikes(|f| f.read_errors) {
            return Err(DeviceError::new(ErrorKind::Io, Operation::Read, offset, bytes));
        }
        self.before_effect(Operation::Read, offset, bytes).await?;
        let mut out = BufMut::with_len(len);
        self.0.medium.lock().read(offset / SECTOR_BYTES as u64, &mut out);
        self.after_effect(Operation::Read, offset, bytes).await?;
        Ok(out.freeze())
    }

    async fn write(&self, offset: u64, data: Bytes) -> Result<(), DeviceError> {
        let len = data.len() as u64;
        let error = |kind| Err(DeviceError::new(kind, Operation::Write, offset, len));
        self.begin(Operation::Write, offset, len).await?;
        if self.is_full() || self.strikes(|f| f.no_space) {
            return error(ErrorKind::NoSpace);
        }
        if self.strikes(|f| f.write_errors) {
            self.put_some(offset, &data);
            return error(ErrorKind::Io);
        }
        let place = if self.strikes(|f| f.misdirected) { self.elsewhere(len) } else { offset };
        // As on a file system, the part that has storage is written.
        let room = self.back(place, len);
        if let Some(history) = &mut *self.0.history.lock() {
            history.write(place, data.clone());
        }
        self.put(Operation::Write, place, &data[..room as usize]).await?;
        if len > 0 && self.strikes(|f| f.rot) {
            let (sector, bit) = (self.below(len / SECTOR_BYTES as u64), self.below(SECTOR_BYTES as u64 * 8));
            self.0.medium.lock().rot(place / SECTOR_BYTES as u64 + sector, bit as usize);
        }
        if room < len { error(ErrorKind::NoSpace) } else { Ok(()) }
    }

    async fn flush(&self) -> Result<(), DeviceError> {
        let mark = self.0.medium.lock().flush_begins();
        self.begin(Operation::Flush, 0, 0).await?;
        if self.strikes(|f| f.flush_errors) {
            return Err(DeviceError::new(ErrorKind::Io, Operation::Flush, 0, 0));
        }
        self.before_effect(Operation::Flush, 0, 0).await?;
        if !self.0.faults.lock().lying_flush {
            self.0.medium.lock().flush_ends(&mark);
        }
        if let Some(history) = &mut *self.0.history.lock() {
            history.flush();
        }
        self.after_effect(Operation::Flush, 0, 0).await
    }

    /// With a limit on storage, the storage is released, and the range reads as zeroes, also after a power failure.
    /// Without one, a device that takes time sets some of the sectors to zeroes, and other devices return
    /// `Unsupported`.
    async fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        let releases = self.0.room.lock().is_some();
        if !releases && !self.takes_time() {
            return Err(DeviceError::new(ErrorKind::Unsupported, Operation::Discard, offset, len));
        }
        self.begin(Operation::Discard, offset, len).await?;
        match &mut *self.0.room.lock() {
            Some(room) => {
                room.release(offset, len);
                let first = offset / SECTOR_BYTES as u64;
                self.0.medium.lock().discard(first..first + len / SECTOR_BYTES as u64);
            }
            None => self.zero_some(offset, len),
        }
        self.after_effect(Operation::Discard, offset, len).await
    }

    async fn reserve(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        DeviceError::check(&self.geometry(), Operation::Reserve, offset, len)?;
        match self.back(offset, len) < len {
            true => Err(DeviceError::new(ErrorKind::NoSpace, Operation::Reserve, offset, len)),
            false => Ok(()),
        }
    }

    /// Supported only by a device that takes time, and only if storage may be released.
    async fn write_zeroes(&self, offset: u64, len: u64, may_unmap: bool) -> Result<(), DeviceError> {
        let unsupported = DeviceError::new(ErrorKind::Unsupported, Operation::WriteZeroes, offset, len);
        if !self.takes_time() {
            return Err(unsupported);
        }
        self.begin(Operation::WriteZeroes, offset, len).await?;
        if !may_unmap {
            return Err(unsupported);
        }
        if self.is_full() {
            return Err(DeviceError::new(ErrorKind::NoSpace, Operation::WriteZeroes, offset, len));
        }
        self.put(Operation::WriteZeroes, offset, &vec![0; len as usize]).await
    }
}

nitro_port::plain_origin!(CrashingDevice, keeps_writes: |device| device.0.keeps_writes, unit_bytes: |device| device.0.unit_bytes);
