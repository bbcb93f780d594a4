//! File systems in the state before the measurement: a store for each, in RAM, imported once and copied for each run.

use super::super::bed::{
    CHUNK_BYTES, Disk, Object, RATIO, TestStore, WRITE_BYTES, content, cos_disks, failed, little_ram,
};
use super::Trace;
use bytes::Bytes;
use nitro_console::error::Error;
use nitro_cos::{Plan, Settings, Store, StoreOptions};
use nitro_device::{HddDevice, RamDevice};
use nitro_port::Device;
use nitro_port::buf::BufMut;
use nitro_testkit::VirtualTime;
use nitro_trace::content::fill;
use nitro_trace::{Op, Reader, Request};
use nitro_units::Fingerprint;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes of the blocks whose contents are in traces.
pub(super) const BLOCK_BYTES: u64 = 4096;
const CHUNK_BLOCKS: u64 = CHUNK_BYTES / BLOCK_BYTES;
const NAME: &str = "files";
/// Containers are smaller than 4 MiB, in proportion to these file systems, or have the minimum size.
const CONTAINER_BYTES: u32 = 512 << 10;
/// Containers of 4 MiB whose fingerprints a store keeps in RAM, for a file system of the published size.
const LOCALITY_CONTAINERS: f64 = 512.0;
/// The minimum: with fewer containers, a write would not find the chunks that were written together with it.
const LOCALITY_CONTAINERS_MIN: usize = 8;
/// The planned size of a chunk on the disk, in percent; Zstandard achieves less.
const STORED_PERCENT: u64 = 60;
/// Room for the index, the journal, and containers that are being filled, in bytes.
const ROOM_BYTES: u64 = 64 << 20;

/// The contents of the footprint's blocks.
type Contents = BTreeMap<u64, Fingerprint>;

/// A closed store.
pub(super) struct Image {
    ram: RamDevice,
    trace: Trace,
}

/// A store during a measurement.
pub(super) struct Measured {
    pub(super) disk: Arc<Disk>,
    pub(super) store: Arc<TestStore>,
}

impl Measured {
    /// Opens the file system.
    pub(super) async fn object(&self) -> Result<Object, Error> {
        self.store.open_volume(NAME).await.map_err(|e| failed(&e))
    }
}

/// The content of a block that is written before its first read: unique content.
fn unknown(block: u64) -> Fingerprint {
    content(1 << 63 | block)
}

/// The bytes of blocks with these fingerprints.
pub(super) fn bytes_of(prints: &[Fingerprint]) -> Bytes {
    let mut bytes = BufMut::with_len(prints.len() * BLOCK_BYTES as usize);
    for (print, block) in prints.iter().zip(bytes.chunks_exact_mut(BLOCK_BYTES as usize)) {
        fill(print, RATIO, block);
    }
    bytes.freeze()
}

/// The contents of the footprint at a moment of a trace, and the number of chunks that are written afterwards.
fn contents(trace: &Trace, at_ns: u64) -> Result<(Contents, u64), Error> {
    let mut contents = Contents::new();
    let mut written = 0;
    let mut reader = trace.open()?;
    let mut request = Request::default();
    while reader.next(&mut request).map_err(|e| failed(&e))? {
        let (write, before) = (request.op == Op::Write, request.time_ns < at_ns);
        if write && !before {
            written += request.end().div_ceil(CHUNK_BYTES) - request.offset / CHUNK_BYTES;
        }
        for (block, print) in request.blocks(BLOCK_BYTES).zip(&request.fingerprints) {
            match (write, before) {
                (true, true) => drop(contents.insert(block, *print)),
                (true, false) => drop(contents.entry(block).or_insert_with(|| unknown(block))),
                (false, _) => drop(contents.entry(block).or_insert(*print)),
            }
        }
    }
    Ok((contents, written))
}

impl Image {
    /// Imports the contents of the file system at a moment of the trace.
    pub(super) async fn new(trace: Trace, at_ns: u64, clock: &VirtualTime) -> Result<Self, Error> {
        let (contents, written) = contents(&trace, at_ns)?;
        let chunks = contents.len() as u64 / CHUNK_BLOCKS + written;
        let size_bytes = (chunks * CHUNK_BYTES * STORED_PERCENT / 100 + ROOM_BYTES).next_multiple_of(1 << 20);
        let options = StoreOptions { size_bytes, container_bytes: CONTAINER_BYTES, ..StoreOptions::default() };
        let plan = Plan::new(&options, 0x5EED, 1).map_err(|e| failed(&e))?;
        let disk = Arc::new(disk(RamDevice::new(size_bytes, BLOCK_BYTES as u32), clock, trace.scale));
        let store = Store::create(Arc::clone(&disk), &plan, Settings::default()).await;
        let store = Arc::new(store.map_err(|e| failed(&e))?);
        store.create_volume(NAME, trace.volume_bytes(), Some(CHUNK_BYTES as u32), 0).await.map_err(|e| failed(&e))?;
        let measured = Measured { disk, store };
        import(&measured.object().await?, &contents).await?;
        measured.store.close().await.map_err(|e| failed(&e))?;
        let ram = copy(measured.disk.inner()).await?;
        Ok(Self { ram, trace })
    }

    /// Opens a copy of the store.
    pub(super) async fn open(&self, clock: &VirtualTime) -> Result<Measured, Error> {
        let disk = Arc::new(disk(copy(&self.ram).await?, clock, self.trace.scale));
        let small = f64::from(4 << 20) / f64::from(CONTAINER_BYTES);
        let containers = (LOCALITY_CONTAINERS * small * self.trace.scale) as usize;
        let locality_containers = containers.max(LOCALITY_CONTAINERS_MIN);
        let settings = Settings { locality_containers, ..little_ram(self.trace.volume_bytes()) };
        let store = Store::open(Arc::clone(&disk), settings).await;
        Ok(Measured { disk, store: Arc::new(store.map_err(|e| failed(&e))?) })
    }
}

fn disk(ram: RamDevice, clock: &VirtualTime, scale: f64) -> Disk {
    HddDevice::new(ram, clock.clone(), cos_disks(scale))
}

/// Writes contents in the order of their offsets, in whole chunks; blocks without content get unique content.
async fn import(object: &Object, contents: &Contents) -> Result<(), Error> {
    let mut chunks: Vec<u64> = contents.keys().map(|block| block / CHUNK_BLOCKS).collect();
    chunks.dedup();
    let at_once = (WRITE_BYTES / CHUNK_BYTES) as usize;
    for run in chunks.chunk_by(|a, b| a + 1 == *b).flat_map(|run| run.chunks(at_once)) {
        let blocks = run.iter().flat_map(|chunk| chunk * CHUNK_BLOCKS..(chunk + 1) * CHUNK_BLOCKS);
        let prints: Vec<_> =
            blocks.map(|block| contents.get(&block).copied().unwrap_or_else(|| unknown(block))).collect();
        object.write_range(run[0] * CHUNK_BYTES, bytes_of(&prints)).await.map_err(|e| failed(&e))?;
    }
    Ok(())
}

/// A copy of a device's content.
async fn copy(ram: &RamDevice) -> Result<RamDevice, Error> {
    let size_bytes = ram.geometry().size_bytes;
    let copy = RamDevice::new(size_bytes, BLOCK_BYTES as u32);
    let mut at = 0;
    for run in ram.allocation(0, size_bytes).await.map_err(|e| failed(&e))? {
        let end = at + run.len;
        for start in (at..end).step_by(WRITE_BYTES as usize).filter(|_| !run.hole) {
            let bytes = ram.read(start, WRITE_BYTES.min(end - start) as usize).await.map_err(|e| failed(&e))?;
            copy.write(start, bytes).await.map_err(|e| failed(&e))?;
        }
        at = end;
    }
    Ok(copy)
}
