//! The devices of a cache, as one.
//!
//! A cache has one device, or several. With several, write-evict unit *n* is on device *n* modulo their number, so that
//! units that are filled one after the other are on different devices. What comes before the units (superblock, journal,
//! index of fingerprints) is on each of them at the same place, and is written to all of them.
//!
//! A device that fails is *out* from then on: it is neither read nor written. Its loss is recorded in the superblocks
//! of the others before anything that only they have counts as durable; otherwise a restart could take the journal of
//! the device that is out, which ends earlier, for the newest one.

mod assemble;
mod journal;
mod record;
mod status;

pub(crate) use assemble::superblock_of;
pub use status::{DeviceCounters, DeviceState, DeviceStatus};

use crate::format::superblock::{SUPERBLOCK_BYTES, Superblock, superblock_offsets};
use crate::health::{Access, ErrorsInARow};
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::{Either, join_all};
use nitro_cache::LostDevices;
use nitro_port::{Device, DeviceError, ErrorKind, Geometry, Operation, Urgency};
use nitro_units::WeuId;
use parking_lot::Mutex;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// One of the devices.
struct Member<F> {
    /// `None`: it was not given, or is not used.
    device: Option<F>,
    /// Failed accesses of its units.
    errors: ErrorsInARow,
    /// Why it is out.
    reason: OnceLock<String>,
    /// Whether the superblock's copy at its start is valid, and not older than the other copy.
    first_copy_whole: AtomicBool,
    counters: Counters,
}

/// Counters of one device since the start.
#[derive(Default)]
struct Counters {
    reads: AtomicU64,
    read_bytes: AtomicU64,
    writes: AtomicU64,
    written_bytes: AtomicU64,
    errors: AtomicU64,
}

impl<F> Member<F> {
    fn new(device: Option<F>) -> Self {
        Self {
            device,
            errors: ErrorsInARow::default(),
            reason: OnceLock::new(),
            first_copy_whole: AtomicBool::new(false),
            counters: Counters::default(),
        }
    }

    fn note<T>(&self, count: &AtomicU64, bytes: &AtomicU64, len: u64, result: &Result<T, DeviceError>) {
        count.fetch_add(1, Ordering::Relaxed);
        match result {
            Ok(_) => bytes.fetch_add(len, Ordering::Relaxed),
            Err(_) => self.counters.errors.fetch_add(1, Ordering::Relaxed),
        };
    }
}

/// How the units are spread over several devices.
#[derive(Debug, Clone, Copy)]
struct Stripes {
    /// The offset of the first unit on each device.
    data_offset: u64,
    weu_bytes: u64,
}

/// A place on the devices.
enum At {
    /// On the device with this number, at this offset.
    One(usize, u64),
    /// At the same offset on each device.
    Each,
    /// This many bytes into the last block of each device.
    Last(u64),
}

/// The devices of a cache. As a [`Device`] it has the layout of a cache on one device.
pub struct Flash<F> {
    members: Vec<Member<F>>,
    /// `None`: there is one device.
    stripes: Option<Stripes>,
    block_bytes: u32,
    /// Devices that are out, and those that were not given: one bit each.
    out: AtomicU32,
    /// Those of them that the superblocks of the others name.
    recorded: AtomicU32,
    /// What the superblocks were written with; `None`: not since the start.
    written: Mutex<Option<Superblock>>,
    /// Held while superblocks are written.
    recording: futures_util::lock::Mutex<()>,
    /// The superblock that was found, if the devices were put together from those of a cache.
    found: Option<Superblock>,
    /// Devices that were missing, and that the superblocks of the others did not name before.
    missing: u32,
    /// The position of each device among those that were given.
    positions: Vec<Option<usize>>,
    /// Why devices that were given are not used, by their position among those that were given.
    left_out: Vec<(usize, String)>,
}

impl<F: Device> Flash<F> {
    /// One device, whatever it holds.
    pub fn one(device: F) -> Self {
        Self::new(vec![Some(device)], None)
    }

    /// Devices for a new cache: in this order from now on. With several, the smallest one counts: units beyond its end
    /// would have no peers on it.
    ///
    /// # Panics
    /// If there is none.
    pub fn several(devices: Vec<F>, data_offset: u64, weu_bytes: u32) -> Self {
        let stripes = (devices.len() > 1).then(|| Stripes { data_offset, weu_bytes: weu_bytes.into() });
        Self::new(devices.into_iter().map(Some).collect(), stripes)
    }

    fn new(devices: Vec<Option<F>>, stripes: Option<Stripes>) -> Self {
        let present = devices.iter().flatten();
        let block_bytes = present.map(|device| device.geometry().block_bytes).max();
        Self {
            block_bytes: block_bytes.expect("a cache has a device"),
            positions: (0..devices.len()).map(Some).collect(),
            members: devices.into_iter().map(Member::new).collect(),
            stripes,
            out: AtomicU32::new(0),
            recorded: AtomicU32::new(0),
            written: Mutex::new(None),
            recording: futures_util::lock::Mutex::new(()),
            found: None,
            missing: 0,
            left_out: Vec::new(),
        }
    }

    /// Number of devices, including those that are out.
    pub fn devices(&self) -> u32 {
        self.members.len() as u32
    }

    /// Whether units are spread over several devices.
    pub fn is_striped(&self) -> bool {
        self.stripes.is_some()
    }

    /// A device by its number; `None`: there is none, or it is not used since the start.
    pub fn device(&self, number: u32) -> Option<&F> {
        self.members.get(number as usize)?.device.as_ref()
    }

    /// The first device that is there.
    pub(crate) fn first(&self) -> &F {
        let present = self.members.iter().find_map(|member| member.device.as_ref());
        present.expect("a cache has a device")
    }

    /// The devices that are out.
    pub fn lost(&self) -> LostDevices {
        LostDevices { devices: self.devices(), lost: self.out.load(Ordering::SeqCst) }
    }

    /// The devices that were lost according to the superblocks that were found: one bit each.
    pub fn lost_before(&self) -> u32 {
        self.found.map_or(0, |found| found.place.lost.into())
    }

    /// The devices that were missing at the start, though the others had been used with them until then: one bit each.
    pub fn missing(&self) -> u32 {
        self.missing
    }

    /// Why devices that were given are not used, by their position among those that were given.
    pub fn left_out(&self) -> &[(usize, String)] {
        &self.left_out
    }

    /// The position of a device among those that were given; `None`: it is not there.
    pub fn position(&self, number: u32) -> Option<usize> {
        *self.positions.get(number as usize)?
    }

    /// The unit of reads and writes in bytes.
    pub(crate) const fn block_bytes(&self) -> u32 {
        self.block_bytes
    }

    /// The devices that are in use, with their numbers.
    fn in_use(&self) -> impl Iterator<Item = (usize, &Member<F>, &F)> {
        let out = self.out.load(Ordering::SeqCst);
        let used = self.members.iter().enumerate().filter(move |(number, _)| out >> number & 1 == 0);
        used.filter_map(|(number, member)| Some((number, member, member.device.as_ref()?)))
    }

    fn is_in_use(&self, number: usize) -> bool {
        self.out.load(Ordering::Relaxed) >> number & 1 == 0
    }

    fn at(&self, offset: u64) -> At {
        let Some(Stripes { data_offset, weu_bytes }) = self.stripes else { return At::One(0, offset) };
        let Some(within) = offset.checked_sub(data_offset) else { return At::Each };
        let (weu, devices) = (within / weu_bytes, u64::from(self.devices()));
        let end = self.units_each(data_offset, weu_bytes) * devices;
        if weu >= end {
            return At::Last(within - end * weu_bytes);
        }
        At::One((weu % devices) as usize, data_offset + weu / devices * weu_bytes + within % weu_bytes)
    }

    /// Units for which each device has room: as many as the smallest one.
    fn units_each(&self, data_offset: u64, weu_bytes: u64) -> u64 {
        let present = self.members.iter().filter_map(|member| member.device.as_ref());
        let sizes = present.map(|device| superblock_offsets(device.geometry().size_bytes)[1]);
        sizes.map(|last| last.saturating_sub(data_offset) / weu_bytes).min().unwrap_or(0)
    }

    fn note_read<T>(&self, member: &Member<F>, len: usize, result: &Result<T, DeviceError>) {
        if self.is_striped() {
            member.note(&member.counters.reads, &member.counters.read_bytes, len as u64, result);
        }
    }

    fn note_write<T>(&self, member: &Member<F>, len: u64, result: &Result<T, DeviceError>) {
        if self.is_striped() {
            member.note(&member.counters.writes, &member.counters.written_bytes, len, result);
        }
    }

    /// Whether a single device is in use.
    pub(crate) fn is_alone(&self) -> bool {
        !self.is_striped() || self.in_use().count() == 1
    }

    /// Whether a unit is on a device that is out.
    pub(crate) fn is_lost(&self, weu: WeuId) -> bool {
        self.is_striped() && self.lost().has(weu)
    }

    /// Notes an access of a unit that succeeded.
    pub(crate) fn succeeded(&self, access: Access, weu: WeuId) {
        if self.is_striped() {
            self.members[self.lost().device_of(weu) as usize].errors.succeeded(access);
        }
    }

    /// Notes a failed access of a unit. Returns whether its device is out now.
    pub(crate) fn failed(&self, access: Access, weu: WeuId, error: &DeviceError) -> bool {
        let number = self.lost().device_of(weu) as usize;
        self.members[number].errors.failed(access) && self.give_up(number, error)
    }

    /// Gives up the device of a unit that must be written, unless it is the last one. Returns whether it is out.
    pub(crate) fn give_up_device_of(&self, weu: WeuId, error: &DeviceError) -> bool {
        self.give_up(self.lost().device_of(weu) as usize, error)
    }

    /// Does not use a device any more, unless it is the last one. Returns whether it is out.
    fn give_up(&self, number: usize, error: &DeviceError) -> bool {
        let bit = 1 << number;
        let all = (1_u64 << self.members.len()) - 1;
        let spared = |out: u32| (u64::from(out | bit) != all).then_some(out | bit);
        let before = match self.out.fetch_update(Ordering::SeqCst, Ordering::SeqCst, spared) {
            Ok(before) => before,
            Err(out) => return out & bit != 0,
        };
        if before & bit == 0 {
            let _ = self.members[number].reason.set(error.to_string());
            tracing::error!(
                "device {number} of the cache is given up ({error}): what it held is read from the origins from now on"
            );
        }
        true
    }

    /// The results of an operation on each device in use: those on which it failed are out, unless it failed on all.
    async fn settle(&self, results: Vec<(usize, Result<(), DeviceError>)>) -> Result<(), DeviceError> {
        let is_any_ok = results.iter().any(|(_, result)| result.is_ok());
        let mut failed = None;
        for (number, result) in results {
            if let Err(error) = result {
                if !is_any_ok || !self.give_up(number, &error) {
                    return Err(error);
                }
                failed = Some(error);
            }
        }
        match failed {
            Some(_) => self.record_losses().await,
            None => Ok(()),
        }
    }

    async fn read_striped(&self, urgency: Urgency, offset: u64, len: usize) -> Result<Bytes, DeviceError> {
        match self.at(offset) {
            At::One(number, offset) => {
                let (member, device) = self.one_of(number, Operation::Read, offset, len as u64)?;
                let result = device.read_with(urgency, offset, len).await;
                self.note_read(member, len, &result);
                result
            }
            At::Each => self.read_each(offset, len).await,
            At::Last(within) => self.read_last(within, len).await,
        }
    }

    async fn read_each(&self, offset: u64, len: usize) -> Result<Bytes, DeviceError> {
        let mut first = None;
        for (_, member, device) in self.in_use() {
            let result = device.read(offset, len).await;
            self.note_read(member, len, &result);
            match result {
                Ok(bytes) => return Ok(bytes),
                Err(error) => first = first.or(Some(error)),
            }
        }
        Err(first.unwrap_or_else(|| unusable(Operation::Read, offset, len as u64)))
    }

    async fn read_last(&self, within: u64, len: usize) -> Result<Bytes, DeviceError> {
        let Some((_, _, device)) = self.in_use().next() else {
            return Err(unusable(Operation::Read, within, len as u64));
        };
        device.read(superblock_offsets(device.geometry().size_bytes)[1] + within, len).await
    }

    async fn write_each(&self, offset: u64, data: Bytes) -> Result<(), DeviceError> {
        // What a device that is out does not get is durable only once the others name that device.
        self.record_losses().await?;
        let writes = self.in_use().map(|(number, member, device)| {
            let data = data.clone();
            async move {
                let len = data.len() as u64;
                let result = device.write(offset, data).await;
                self.note_write(member, len, &result);
                (number, result)
            }
        });
        let results = join_all(writes.collect::<Vec<_>>()).await;
        if results.is_empty() {
            return Err(unusable(Operation::Write, offset, data.len() as u64));
        }
        self.settle(results).await
    }

    async fn flush_each(&self) -> Result<(), DeviceError> {
        self.record_losses().await?;
        let flushes = self.in_use().map(async |(number, _, device)| (number, device.flush().await));
        let results = join_all(flushes.collect::<Vec<_>>()).await;
        if results.is_empty() {
            return Err(unusable(Operation::Flush, 0, 0));
        }
        self.settle(results).await
    }

    /// A device in use; the error of an operation on it otherwise.
    fn one_of(
        &self,
        number: usize,
        operation: Operation,
        offset: u64,
        len: u64,
    ) -> Result<(&Member<F>, &F), DeviceError> {
        let member = self.members.get(number).filter(|_| self.is_in_use(number));
        let found = member.and_then(|member| Some((member, member.device.as_ref()?)));
        found.ok_or_else(|| unusable(operation, offset, len))
    }
}

/// The error of operations on a device that is out.
fn unusable(operation: Operation, offset: u64, len: u64) -> DeviceError {
    DeviceError::new(ErrorKind::Io, operation, offset, len)
}

impl<F: Device> Device for Flash<F> {
    fn geometry(&self) -> Geometry {
        let present = self.members.iter().filter_map(|member| member.device.as_ref());
        let mut geometry = present.clone().map(Device::geometry).next().unwrap_or(Geometry {
            size_bytes: 0,
            block_bytes: self.block_bytes,
            preferred_bytes: self.block_bytes,
            rotational: false,
        });
        let Some(Stripes { data_offset, weu_bytes }) = self.stripes else { return geometry };
        geometry.block_bytes = self.block_bytes;
        geometry.rotational = present.map(Device::geometry).any(|geometry| geometry.rotational);
        let units = self.units_each(data_offset, weu_bytes) * u64::from(self.devices());
        geometry.size_bytes = data_offset + units * weu_bytes + SUPERBLOCK_BYTES as u64;
        geometry
    }

    fn read(&self, offset: u64, len: usize) -> impl Future<Output = Result<Bytes, DeviceError>> {
        self.read_with(Urgency::Normal, offset, len)
    }

    fn read_with(&self, urgency: Urgency, offset: u64, len: usize) -> impl Future<Output = Result<Bytes, DeviceError>> {
        // Of a single device, the future of each request is no larger than the device's own.
        match self.stripes {
            None => Either::Left(self.first().read_with(urgency, offset, len)),
            Some(_) => Either::Right(self.read_striped(urgency, offset, len).boxed_local()),
        }
    }

    async fn write(&self, offset: u64, data: Bytes) -> Result<(), DeviceError> {
        match self.at(offset) {
            At::One(number, offset) => {
                let len = data.len() as u64;
                let (member, device) = self.one_of(number, Operation::Write, offset, len)?;
                let result = device.write(offset, data).await;
                self.note_write(member, len, &result);
                result
            }
            At::Each => self.write_each(offset, data).await,
            At::Last(_) => Err(DeviceError::new(ErrorKind::OutOfRange, Operation::Write, offset, data.len() as u64)),
        }
    }

    async fn flush(&self) -> Result<(), DeviceError> {
        match self.stripes {
            None => self.one_of(0, Operation::Flush, 0, 0)?.1.flush().await,
            Some(_) => self.flush_each().await,
        }
    }

    async fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        match self.at(offset) {
            At::One(number, offset) => {
                self.one_of(number, Operation::Discard, offset, len)?.1.discard(offset, len).await
            }
            At::Each | At::Last(_) => Err(DeviceError::new(ErrorKind::Unsupported, Operation::Discard, offset, len)),
        }
    }

    async fn write_zeroes(&self, offset: u64, len: u64, may_unmap: bool) -> Result<(), DeviceError> {
        match self.at(offset) {
            At::One(number, offset) => {
                let (_, device) = self.one_of(number, Operation::WriteZeroes, offset, len)?;
                device.write_zeroes(offset, len, may_unmap).await
            }
            At::Each | At::Last(_) => {
                Err(DeviceError::new(ErrorKind::Unsupported, Operation::WriteZeroes, offset, len))
            }
        }
    }
}
