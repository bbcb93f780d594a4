//! What stands on the device that is looked at, and devices to put it on. The fuzz target `device_image` uses it too.

use bytes::Bytes;
use nitro_engine::manager::Settings;
use nitro_engine::{Cache, EngineSettings};
use nitro_port::buf::BufMut;
use nitro_port::{Clock, Device, DeviceError, ErrorKind, Geometry, Operation};
use nitro_units::ObjectId;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

pub const EXTENT: u64 = 4096;
pub const ALPHA: ObjectId = ObjectId(0);
pub const BETA: ObjectId = ObjectId(1);
const EXTENTS: [u64; 2] = [48, 64];
/// Bytes of the volumes. Alpha ends in the middle of an extent.
pub const VOLUME_BYTES: [u64; 2] = [EXTENTS[0] * EXTENT - 2048, EXTENTS[1] * EXTENT];

/// The settings of the cache on the image.
pub fn settings() -> EngineSettings {
    let manager = Settings { extent_bytes: EXTENT as u32, weu_bytes: 512 << 10, ..Settings::new(4 << 20) };
    EngineSettings { ram_cache_bytes: 0, readahead_ram_bytes: 0, ..EngineSettings::new(manager) }
}

/// Bytes of the image.
pub fn image_bytes() -> usize {
    (settings().manager.cache_bytes + Cache::<Ram, Stopped>::overhead_bytes(&settings())) as usize
}

/// An extent's content, by its name: 0 is zeroes, every 16th does not compress.
pub fn content(name: u64) -> Bytes {
    let mut bytes = BufMut::zeroed(EXTENT as usize);
    let mut state = name.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    for (number, word) in bytes.chunks_mut(8).enumerate() {
        if name != 0 && (name % 16 == 3 || number % 256 < 2) {
            state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            word.copy_from_slice(&(state ^ state >> 29).to_le_bytes());
        }
    }
    bytes.freeze()
}

/// What alpha's extents are written with, one step after the other: extent and name.
pub struct Steps {
    /// Destaged: the origin has it as well as the cache.
    pub destaged: Vec<(u64, u64)>,
    /// Flushed before the restart: among it contents of beta, zeroes, the volume's end.
    pub before_restart: Vec<(u64, u64)>,
    /// Flushed after the restart, and before the journal goes to its other half.
    pub before_switch: Vec<(u64, u64)>,
    /// Flushed after that, in two goes; among it a content that a clean write-evict unit has of beta.
    pub after_switch: [Vec<(u64, u64)>; 2],
    /// Written through to beta.
    pub through: Vec<(u64, u64)>,
}

pub fn steps() -> Steps {
    let fresh = (0..16).map(|n| (n, 1000 + n));
    let of_beta = (16..20).map(|n| (n, origin_name(BETA, n)));
    Steps {
        destaged: (36..44).map(|n| (n, 300 + n)).collect(),
        before_restart: fresh.chain(of_beta).chain([(20, 0), (21, 1000), (47, 1099)]).collect(),
        before_switch: (0..4).map(|n| (n, 2000 + n)).collect(),
        after_switch: [
            (24..34).map(|n| (n, 3000 + n)).chain([(34, origin_name(BETA, 30))]).collect(),
            vec![(0, 4000), (5, 4001), (24, 4002)],
        ],
        through: vec![(3, 5000)],
    }
}

fn origin_name(object: ObjectId, extent: u64) -> u64 {
    if extent == 9 { 0 } else { 100 * u64::from(object.0 + 1) + extent }
}

/// What an extent was, in order.
pub struct History {
    pub names: Vec<u64>,
    /// Which of them the origin has.
    pub at_origin: usize,
}

impl History {
    pub fn is_dirty(&self) -> bool {
        self.at_origin + 1 < self.names.len()
    }

    pub fn newest(&self) -> Bytes {
        content(self.names[self.names.len() - 1])
    }
}

/// The histories of a volume's extents.
pub fn histories(object: ObjectId) -> Vec<History> {
    let count = EXTENTS[usize::from(object.0)];
    let mut all: Vec<_> = (0..count).map(|n| History { names: vec![origin_name(object, n)], at_origin: 0 }).collect();
    let Steps { destaged, before_restart, before_switch, after_switch, through } = steps();
    let at_origin = if object == ALPHA { destaged } else { through };
    for (extent, name) in at_origin {
        all[extent as usize].names.push(name);
        all[extent as usize].at_origin = 1;
    }
    if object == ALPHA {
        for (extent, name) in [before_restart, before_switch].concat().into_iter().chain(after_switch.concat()) {
            all[extent as usize].names.push(name);
        }
    }
    all
}

/// A volume's origin: before the cache came, or as it is when the image is taken.
pub fn origin(object: ObjectId, before: bool) -> Ram {
    let names = histories(object).into_iter().map(|h| h.names[if before { 0 } else { h.at_origin }]);
    let mut bytes: Vec<u8> = names.flat_map(|name| content(name).to_vec()).collect();
    bytes.truncate(VOLUME_BYTES[usize::from(object.0)] as usize);
    Ram::new(bytes)
}

/// A device in RAM whose futures are ready at once: fuzz targets, which know no testkit, take this file, too.
pub struct Ram {
    bytes: Mutex<Vec<u8>>,
    writes: AtomicUsize,
}

impl Ram {
    pub fn new(bytes: Vec<u8>) -> Self {
        Self { bytes: Mutex::new(bytes), writes: AtomicUsize::new(0) }
    }

    pub fn image(&self) -> Vec<u8> {
        self.bytes.lock().unwrap().clone()
    }

    /// How often it was written to.
    pub fn writes(&self) -> usize {
        self.writes.load(Ordering::Relaxed)
    }
}

impl Device for Ram {
    fn geometry(&self) -> Geometry {
        let size_bytes = self.bytes.lock().unwrap().len() as u64;
        Geometry { size_bytes, block_bytes: 512, preferred_bytes: 4096, rotational: false }
    }

    async fn read(&self, offset: u64, len: usize) -> Result<Bytes, DeviceError> {
        DeviceError::check(&self.geometry(), Operation::Read, offset, len as u64)?;
        Ok(BufMut::copy_of(&self.bytes.lock().unwrap()[offset as usize..offset as usize + len]).freeze())
    }

    async fn write(&self, offset: u64, data: Bytes) -> Result<(), DeviceError> {
        DeviceError::check(&self.geometry(), Operation::Write, offset, data.len() as u64)?;
        self.writes.fetch_add(1, Ordering::Relaxed);
        self.bytes.lock().unwrap()[offset as usize..offset as usize + data.len()].copy_from_slice(&data);
        Ok(())
    }

    async fn flush(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    async fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        Err(DeviceError::new(ErrorKind::Unsupported, Operation::Discard, offset, len))
    }

    async fn write_zeroes(&self, offset: u64, len: u64, _may_unmap: bool) -> Result<(), DeviceError> {
        Err(DeviceError::new(ErrorKind::Unsupported, Operation::WriteZeroes, offset, len))
    }
}

/// A clock that never moves on.
pub struct Stopped;

impl Clock for Stopped {
    fn now(&self) -> Duration {
        Duration::ZERO
    }

    async fn sleep(&self, _duration: Duration) {
        std::future::pending::<()>().await;
    }
}

nitro_port::plain_origin!(Ram);
