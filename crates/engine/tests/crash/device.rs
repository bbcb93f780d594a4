//! A device that takes a seeded while for everything, so that operations overlap and overtake each other; that loses what
//! was not flushed when the power fails; and that errs or lies if told to.

use crate::medium::{Medium, SECTOR, Ticket, sector_of};
use crate::power::Power;
use bytes::Bytes;
use nitro_port::buf::BufMut;
use nitro_port::{Clock, Device, DeviceError, ErrorKind, Geometry, Operation};
use nitro_testkit::{Rng, VirtualTime, trace};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How a device misbehaves. Numbers are "one in so many operations"; 0: never.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Faults {
    pub read_errors: u64,
    /// A failed write may have been done in part.
    pub write_errors: u64,
    pub flush_errors: u64,
    pub no_space: u64,
    /// There is no room: no write is done, until that changes.
    pub full: bool,
    /// An answer takes minutes; what was asked for is done by then, sooner or later.
    pub hangs: u64,
    /// Bits of up to so many sectors flip while the device is at rest.
    pub rot_at_rest: u64,
    /// A bit of a sector flips on its way to the medium.
    pub rot: u64,
    /// A write lands elsewhere.
    pub misdirected: u64,
    /// A power failure may cut a sector in two: its front new, its back old.
    pub torn_sectors: bool,
    /// Flushes return without having done anything.
    pub lying_flush: bool,
}

impl Faults {
    /// Whether what is on the device may be something else than what was written and flushed.
    pub fn corrupt(&self) -> bool {
        self.rot > 0 || self.misdirected > 0 || self.lying_flush
    }
}

/// What of a device outlives a crash.
pub type Platter = Arc<Mutex<Medium>>;

/// A device that is switched on.
#[derive(Clone)]
pub struct CrashDevice {
    name: u64,
    platter: Platter,
    block_bytes: u32,
    clock: VirtualTime,
    power: Power,
    rng: Arc<Mutex<Rng>>,
    faults: Arc<Mutex<Faults>>,
    delay_us_max: u64,
    stalls: bool,
}

/// A device that stalls does so once in so many steps, for up to so long.
const STALL_STEPS: u64 = 1000;
const STALL_US_MAX: u64 = 8_000_000;
const HANG_US_MAX: u64 = 200_000_000;

/// What a device is switched on with.
pub struct Wiring {
    /// Tells devices apart in traces.
    pub name: u64,
    pub block_bytes: u32,
    pub clock: VirtualTime,
    pub power: Power,
    pub seed: u64,
    pub delay_us_max: u64,
    /// Now and then a step takes seconds, while others overtake it.
    pub stalls: bool,
}

impl CrashDevice {
    pub fn new(platter: &Platter, wiring: Wiring) -> Self {
        let Wiring { name, block_bytes, clock, power, seed, delay_us_max, stalls } = wiring;
        let (platter, rng) = (platter.clone(), Arc::new(Mutex::new(Rng::new(seed))));
        Self { name, platter, block_bytes, clock, power, rng, faults: Arc::default(), delay_us_max, stalls }
    }

    /// Begins or ends to misbehave.
    pub fn misbehave(&self, faults: Faults) {
        *self.faults.lock().unwrap() = faults;
    }

    fn is_full(&self) -> bool {
        self.faults.lock().unwrap().full
    }

    fn below(&self, n: u64) -> u64 {
        self.rng.lock().unwrap().below(n)
    }

    fn strikes(&self, fault: impl Fn(&Faults) -> u64) -> bool {
        let one_in = fault(&self.faults.lock().unwrap());
        one_in > 0 && self.below(one_in) == 0
    }

    /// A step that the power may fail at, after a while.
    async fn step(&self, what: Operation, offset: u64, len: u64) {
        let slow = if self.below(40) == 0 { 20 } else { 1 };
        let stalls = self.stalls && self.below(STALL_STEPS) == 0;
        let us_max = match self.strikes(|f| f.hangs) {
            true => HANG_US_MAX,
            false if stalls => STALL_US_MAX,
            false => self.delay_us_max * slow,
        };
        let us = self.below(us_max);
        self.clock.sleep(Duration::from_micros(us)).await;
        self.power.step((self.name << 8 | what as u64, offset, len)).await;
    }

    /// Checks a request, and ends its first step.
    async fn begin(&self, what: Operation, offset: u64, len: u64) -> Result<(), DeviceError> {
        DeviceError::check(&self.geometry(), what, offset, len)?;
        self.step(what, offset, len).await;
        trace(|| format!("{:?} device {}: {what} of {len} at {offset}", self.clock.now(), self.name));
        Ok(())
    }

    /// Puts data where it belongs, in two steps.
    async fn put(&self, what: Operation, offset: u64, data: Bytes) {
        let (len, sectors) = (data.len() as u64, (data.len() / SECTOR) as u64);
        let ticket = self.platter.lock().unwrap().begin(offset / SECTOR as u64, data);
        let _guard = Unfinished { device: self, ticket };
        if sectors > 1 && self.below(2) == 0 {
            self.step(what, offset, len).await;
            self.platter.lock().unwrap().apply(ticket, 1 + self.below(sectors));
        }
        self.step(what, offset, len).await;
        self.platter.lock().unwrap().end(ticket, false);
    }

    /// Does the front part of a write.
    fn put_some(&self, offset: u64, data: Bytes) {
        let sectors = self.below((data.len() / SECTOR) as u64 + 1);
        let mut medium = self.platter.lock().unwrap();
        let ticket = medium.begin(offset / SECTOR as u64, data);
        medium.apply(ticket, sectors);
        medium.end(ticket, true);
    }

    /// Another place for as many bytes.
    fn elsewhere(&self, len: u64) -> u64 {
        let blocks = (self.geometry().size_bytes - len) / u64::from(self.block_bytes);
        self.below(blocks + 1) * u64::from(self.block_bytes)
    }
}

/// A request whose future is dropped is done nevertheless, unless the power failed.
struct Unfinished<'a> {
    device: &'a CrashDevice,
    ticket: Ticket,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if !self.device.power.is_off() {
            self.device.platter.lock().unwrap().end(self.ticket, false);
        }
    }
}

impl Device for CrashDevice {
    fn geometry(&self) -> Geometry {
        let size_bytes = self.platter.lock().unwrap().size_bytes();
        Geometry { size_bytes, block_bytes: self.block_bytes, preferred_bytes: 4096, rotational: false }
    }

    async fn read(&self, offset: u64, len: usize) -> Result<Bytes, DeviceError> {
        self.begin(Operation::Read, offset, len as u64).await?;
        if self.strikes(|f| f.read_errors) {
            return Err(DeviceError::new(ErrorKind::Io, Operation::Read, offset, len as u64));
        }
        let mut out = BufMut::with_len(len);
        self.platter.lock().unwrap().read(offset / SECTOR as u64, &mut out);
        self.step(Operation::Read, offset, len as u64).await;
        Ok(out.freeze())
    }

    async fn write(&self, offset: u64, data: Bytes) -> Result<(), DeviceError> {
        let len = data.len() as u64;
        self.begin(Operation::Write, offset, len).await?;
        if self.is_full() || self.strikes(|f| f.no_space) {
            return Err(DeviceError::new(ErrorKind::NoSpace, Operation::Write, offset, len));
        }
        if self.strikes(|f| f.write_errors) {
            self.put_some(offset, data);
            return Err(DeviceError::new(ErrorKind::Io, Operation::Write, offset, len));
        }
        let place = if self.strikes(|f| f.misdirected) { self.elsewhere(len) } else { offset };
        self.put(Operation::Write, place, data).await;
        if len > 0 && self.strikes(|f| f.rot) {
            let (sector, bit) = (self.below(len / SECTOR as u64), self.below(SECTOR as u64 * 8));
            self.platter.lock().unwrap().rot(place / SECTOR as u64 + sector, bit as usize);
        }
        Ok(())
    }

    async fn flush(&self) -> Result<(), DeviceError> {
        let mark = self.platter.lock().unwrap().flush_begins();
        self.begin(Operation::Flush, 0, 0).await?;
        if self.strikes(|f| f.flush_errors) {
            return Err(DeviceError::new(ErrorKind::Io, Operation::Flush, 0, 0));
        }
        if !self.faults.lock().unwrap().lying_flush {
            self.platter.lock().unwrap().flush_ends(&mark);
        }
        self.step(Operation::Flush, 0, 0).await;
        Ok(())
    }

    /// Turns some sectors to zeroes and leaves the others.
    async fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.begin(Operation::Discard, offset, len).await?;
        let zero = Bytes::from_static(&[0; SECTOR]);
        let first = offset / SECTOR as u64;
        let whole = self.below(2) == 0;
        for sector in first..first + len / SECTOR as u64 {
            if whole || self.below(2) == 0 {
                let mut medium = self.platter.lock().unwrap();
                let ticket = medium.begin(sector, sector_of(&zero, 0));
                medium.end(ticket, false);
            }
        }
        self.step(Operation::Discard, offset, len).await;
        Ok(())
    }

    async fn write_zeroes(&self, offset: u64, len: u64, may_unmap: bool) -> Result<(), DeviceError> {
        self.begin(Operation::WriteZeroes, offset, len).await?;
        if !may_unmap {
            return Err(DeviceError::new(ErrorKind::Unsupported, Operation::WriteZeroes, offset, len));
        }
        if self.is_full() {
            return Err(DeviceError::new(ErrorKind::NoSpace, Operation::WriteZeroes, offset, len));
        }
        self.put(Operation::WriteZeroes, offset, BufMut::zeroed(len as usize).freeze()).await;
        Ok(())
    }
}

nitro_port::plain_origin!(CrashDevice);
