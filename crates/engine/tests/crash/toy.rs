//! That the harness bites: block stores of a few lines, right ones that pass, and wrong ones that must be found out.

use crate::client::Disk;
use crate::scenario::{Devices, System, run};
use bytes::Bytes;
use futures_util::lock::Mutex as AsyncMutex;
use nitro_port::buf::BufMut;
use nitro_port::{Device, DeviceError};
use nitro_testkit::crashing::{Faults, SECTOR_BYTES, sector_of};
use nitro_testkit::{CrashingDevice, Rng, Simulation, VirtualTime};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

const BYTES: u64 = SECTOR_BYTES as u64;
const VOLUME_BYTES: u64 = 256 << 10;

/// What a store does, and what is wrong with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Hands every request to the origin. Right.
    Through,
    /// Keeps writes in RAM until a flush. Right.
    Back,
    FlushDoesNothing,
    FuaIgnored,
    /// Flushes the origin first and writes what was kept afterwards.
    FlushBeforeWriting,
    /// A flush that meets another one returns at once.
    FlushJoinsNothing,
    /// RAM keeps what was read, whatever was written meanwhile.
    StaleFill,
    /// Writes of parts of a sector leave zeroes beside them.
    NoMerge,
    /// A copy on flash is believed after a restart, though it was brought up to date after the acknowledgement.
    StaleCopy,
    /// Two copies that a crash may leave different, read in turn.
    Mirrors,
    /// A trim takes the whole blocks that it touches.
    TrimTooWide,
    /// Zeroing is acknowledged before it is done.
    EarlyZeroes,
}

const RIGHT: [Kind; 2] = [Kind::Through, Kind::Back];
const WRONG: [Kind; 10] = [
    Kind::FlushDoesNothing,
    Kind::FuaIgnored,
    Kind::FlushBeforeWriting,
    Kind::FlushJoinsNothing,
    Kind::StaleFill,
    Kind::NoMerge,
    Kind::StaleCopy,
    Kind::Mirrors,
    Kind::TrimTooWide,
    Kind::EarlyZeroes,
];

struct Toy {
    kind: Kind,
    origin: CrashingDevice,
    flash: CrashingDevice,
    /// Sectors kept in RAM until a flush.
    dirty: RefCell<BTreeMap<u64, Bytes>>,
    /// Sectors read, or known to be on flash.
    clean: RefCell<BTreeMap<u64, Bytes>>,
    flushing: AsyncMutex<()>,
    turn: RefCell<u64>,
    /// How often sectors have gone from RAM to the origin.
    moves: Cell<u64>,
    sim: Rc<Simulation>,
}

fn text<T>(result: Result<T, DeviceError>) -> Result<T, String> {
    result.map_err(|error| error.to_string())
}

impl Toy {
    fn keeps_writes(&self) -> bool {
        matches!(self.kind, Kind::Back | Kind::FlushBeforeWriting | Kind::FlushJoinsNothing | Kind::FuaIgnored)
    }

    /// The device to read from.
    fn source(&self) -> &CrashingDevice {
        let mut turn = self.turn.borrow_mut();
        *turn += 1;
        if self.kind == Kind::StaleCopy || self.kind == Kind::Mirrors && turn.is_multiple_of(2) {
            return &self.flash;
        }
        &self.origin
    }

    async fn read_sectors(&self, first: u64, count: u64) -> Result<Vec<u8>, String> {
        let device = self.source();
        let mut out = loop {
            let moves = self.moves.get();
            let out = text(device.read(first * BYTES, (count * BYTES) as usize).await)?.to_vec();
            // What left RAM during the read may have come to the origin after it.
            if self.moves.get() == moves {
                break out;
            }
        };
        for (sector, bytes) in (first..).zip(out.chunks_mut(SECTOR_BYTES)) {
            let kept = self.dirty.borrow().get(&sector).cloned();
            if let Some(kept) = kept.or_else(|| self.clean.borrow().get(&sector).cloned()) {
                bytes.copy_from_slice(&kept);
            } else if self.kind == Kind::StaleFill {
                self.clean.borrow_mut().insert(sector, Bytes::copy_from_slice(bytes));
            }
        }
        Ok(out)
    }

    async fn write_sectors(&self, first: u64, data: Bytes, fua: bool) -> Result<(), String> {
        let sectors = first..first + data.len() as u64 / BYTES;
        for sector in sectors {
            self.clean.borrow_mut().remove(&sector);
            if self.keeps_writes() {
                self.dirty.borrow_mut().insert(sector, sector_of(&data, sector - first));
            }
        }
        if self.keeps_writes() {
            return if fua && self.kind != Kind::FuaIgnored { self.flush().await } else { Ok(()) };
        }
        text(self.origin.write(first * BYTES, data.clone()).await)?;
        match self.kind {
            Kind::Mirrors => text(self.flash.write(first * BYTES, data).await)?,
            Kind::StaleCopy => {
                let flash = self.flash.clone();
                self.clean.borrow_mut().extend((first..).zip(data.chunks(SECTOR_BYTES).map(Bytes::copy_from_slice)));
                self.sim.spawn(async move { drop(flash.write(first * BYTES, data).await) });
            }
            _ => {}
        }
        if fua { self.flush().await } else { Ok(()) }
    }

    /// Writes what was kept.
    async fn destage(&self) -> Result<(), String> {
        let kept = self.dirty.borrow().clone();
        for (sector, bytes) in &kept {
            text(self.origin.write(sector * BYTES, bytes.clone()).await)?;
        }
        if self.kind != Kind::FlushBeforeWriting {
            text(self.origin.flush().await)?;
        }
        self.moves.set(self.moves.get() + 1);
        self.dirty.borrow_mut().retain(|sector, bytes| kept.get(sector).is_none_or(|k| k.as_ptr() != bytes.as_ptr()));
        Ok(())
    }
}

impl Disk for Toy {
    fn is_loss(&self, _error: &str) -> bool {
        false
    }

    fn extent_bytes(&self) -> u64 {
        8192
    }

    fn trim_bytes(&self) -> u64 {
        self.origin.geometry().block_bytes.into()
    }

    fn writes_through(&self) -> bool {
        !self.keeps_writes()
    }

    async fn read(&self, offset: u64, len: u64) -> Result<Vec<u8>, String> {
        let sectors = offset / BYTES..(offset + len).div_ceil(BYTES);
        let data = self.read_sectors(sectors.start, sectors.end - sectors.start).await?;
        let start = (offset - sectors.start * BYTES) as usize;
        Ok(data[start..start + len as usize].to_vec())
    }

    async fn write(&self, offset: u64, data: Bytes, fua: bool) -> Result<(), String> {
        let end = offset + data.len() as u64;
        let sectors = offset / BYTES..end.div_ceil(BYTES);
        let mut whole = BufMut::zeroed(((sectors.end - sectors.start) * BYTES) as usize);
        if self.kind != Kind::NoMerge {
            for edge in [sectors.start, sectors.end - 1] {
                let at = ((edge - sectors.start) * BYTES) as usize;
                whole[at..at + SECTOR_BYTES].copy_from_slice(&self.read_sectors(edge, 1).await?);
            }
        }
        let start = (offset - sectors.start * BYTES) as usize;
        whole[start..start + data.len()].copy_from_slice(&data);
        self.write_sectors(sectors.start, whole.freeze(), fua).await
    }

    async fn flush(&self) -> Result<(), String> {
        match self.kind {
            Kind::FlushDoesNothing => return Ok(()),
            Kind::FlushJoinsNothing if self.flushing.try_lock().is_none() => return Ok(()),
            Kind::FlushBeforeWriting => text(self.origin.flush().await)?,
            Kind::Mirrors | Kind::StaleCopy => text(self.flash.flush().await)?,
            _ => {}
        }
        let _flushing = self.flushing.lock().await;
        self.destage().await
    }

    async fn trim(&self, offset: u64, len: u64, fua: bool) -> Result<(), String> {
        let block = self.trim_bytes();
        let (mut start, mut end) = (offset.next_multiple_of(block), (offset + len) / block * block);
        if self.kind == Kind::TrimTooWide {
            (start, end) = (offset / block * block, (offset + len).next_multiple_of(block));
        }
        if start < end {
            let zeroes = BufMut::zeroed((end - start) as usize).freeze();
            self.write_sectors(start / BYTES, zeroes, fua).await?;
        }
        Ok(())
    }

    async fn write_zeroes(&self, offset: u64, len: u64, _may_unmap: bool, fua: bool) -> Result<(), String> {
        let zeroes = BufMut::zeroed(len as usize).freeze();
        if self.kind == Kind::EarlyZeroes && !fua && offset.is_multiple_of(BYTES) && len.is_multiple_of(BYTES) {
            let origin = self.origin.clone();
            self.sim.spawn(async move { drop(origin.write(offset, zeroes).await) });
            return Ok(());
        }
        self.write(offset, zeroes, fua).await
    }

    async fn exercise(&self, _rng: &mut Rng) -> Result<(), String> {
        Ok(())
    }
}

struct ToySystem(Kind);

impl System for ToySystem {
    type Disk = Toy;

    fn sizes(&self) -> (u64, Vec<u64>) {
        (VOLUME_BYTES, vec![VOLUME_BYTES])
    }

    fn block_bytes(&self) -> u32 {
        SECTOR_BYTES as u32
    }

    fn faults(&self) -> (Faults, Faults) {
        <(Faults, Faults)>::default()
    }

    fn flash_errors_reach_clients(&self) -> bool {
        true
    }

    fn gives_up(&self) -> bool {
        false
    }

    fn contents_offset(&self) -> u64 {
        0
    }

    async fn start(&self, sim: Rc<Simulation>, devices: Devices, _cycle: u64) -> Result<Vec<Rc<Toy>>, String> {
        let Devices { flash, mut origins, .. } = devices;
        Ok(vec![Rc::new(Toy {
            kind: self.0,
            origin: origins.remove(0),
            flash,
            dirty: RefCell::default(),
            clean: RefCell::default(),
            flushing: AsyncMutex::default(),
            turn: RefCell::default(),
            moves: Cell::default(),
            sim,
        })])
    }

    async fn start_over(&self, sim: Rc<Simulation>, devices: Devices, cycle: u64) -> Vec<Rc<Toy>> {
        self.start(sim, devices, cycle).await.unwrap()
    }

    async fn stop(&self, disks: &[Rc<Toy>], _clock: &VirtualTime, _rng: &mut Rng) -> Vec<Result<(), String>> {
        vec![disks[0].flush().await]
    }

    fn ended(&self, _disks: &[Rc<Toy>]) {}
}

#[test]
fn right_stores_pass() {
    for kind in RIGHT {
        for seed in 0..60 {
            println!("{kind:?}, seed {seed}");
            run(seed, ToySystem(kind));
        }
    }
}

#[test]
fn wrong_stores_are_found_out() {
    for kind in WRONG {
        let found_by = |seed: &u64| match catch_unwind(AssertUnwindSafe(|| run(*seed, ToySystem(kind)))) {
            Ok(_) => false,
            Err(panic) => {
                let why = panic.downcast_ref::<String>().is_some_and(|why| why.contains("Legal would be"));
                assert!(why, "{kind:?}: failed otherwise than by a read");
                true
            }
        };
        let found = (0..40).find(found_by);
        println!("{kind:?}: found by seed {found:?}");
        assert!(found.is_some(), "{kind:?} passes");
    }
}
