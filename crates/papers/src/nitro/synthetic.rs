//! A boot storm as reads of a volume, and the contents of the volume.

use bytes::Bytes;
use nitro_console::error::Error;
use nitro_port::buf::BufMut;
use nitro_port::{Device, DeviceError};
use nitro_trace::content::{Compressibility, fill};
use nitro_trace::synth::{BootStorm, recorded_boot};
use nitro_trace::{Op, Reader, Request};
use std::collections::{BTreeMap, HashMap};

const BLOCK_BYTES: u64 = 4096;
/// Bytes of the volume for each machine.
const MACHINE_BYTES: u64 = 2 << 30;
/// The largest write of the layout, in bytes.
const WRITE_BYTES: usize = 1 << 20;

/// Offset and length of a read, in bytes.
pub(super) type Read = (u64, u64);

/// A boot storm.
pub(super) struct Storm {
    pub(super) reads: Vec<Read>,
    pub(super) volume_bytes: u64,
    /// The contents that are read, by offset.
    contents: BTreeMap<u64, Bytes>,
}

impl Storm {
    /// The reads of `machines` machines that boot at once.
    pub(super) fn new(machines: u32, seed: u64) -> Result<Self, Error> {
        let made = || {
            let mut reader = BootStorm::new(recorded_boot()?, machines, seed).reader()?;
            let mut storm = Self {
                reads: Vec::new(),
                volume_bytes: u64::from(machines) * MACHINE_BYTES,
                contents: BTreeMap::new(),
            };
            let mut request = Request::default();
            while reader.next(&mut request)? {
                if request.op == Op::Read && request.end() <= MACHINE_BYTES {
                    storm.add(&request);
                }
            }
            Ok(storm)
        };
        made().map_err(|e: nitro_trace::TraceError| Error::new("boot storm", e).or("please report it"))
    }

    fn add(&mut self, request: &Request) {
        let base = u64::from(request.object) * MACHINE_BYTES;
        let first = request.offset / BLOCK_BYTES;
        for (block, print) in (first..).zip(&request.fingerprints) {
            self.contents.entry(base + block * BLOCK_BYTES).or_insert_with(|| {
                let mut bytes = BufMut::with_len(BLOCK_BYTES as usize);
                fill(print, Compressibility::default().ratio(print), &mut bytes);
                bytes.freeze()
            });
        }
        self.reads.push((base + request.offset, request.len));
    }

    /// The same reads of a volume in which the contents are stored consecutively.
    pub(super) fn compact_reads(&self) -> Vec<Read> {
        let places: HashMap<u64, u64> =
            self.contents.keys().copied().zip((0..).step_by(BLOCK_BYTES as usize)).collect();
        let place = |(offset, len): &Read| {
            let start = places.get(&(offset / BLOCK_BYTES * BLOCK_BYTES)).copied().unwrap_or(0);
            (start + offset % BLOCK_BYTES, *len)
        };
        self.reads.iter().map(place).collect()
    }

    /// Writes the contents consecutively.
    pub(super) async fn lay_out_compact(&self, device: &impl Device) -> Result<(), DeviceError> {
        let mut start = 0;
        let all: Vec<&Bytes> = self.contents.values().collect();
        for run in all.chunks(WRITE_BYTES / BLOCK_BYTES as usize) {
            write(device, start, run).await?;
            start += (run.len() as u64) * BLOCK_BYTES;
        }
        device.flush().await
    }

    /// Bytes of the distinct blocks that are read.
    pub(super) fn bytes(&self) -> u64 {
        self.contents.len() as u64 * BLOCK_BYTES
    }

    /// Writes the contents to a device, at their offsets.
    pub(super) async fn lay_out(&self, device: &impl Device) -> Result<(), DeviceError> {
        let mut run: Vec<&Bytes> = Vec::new();
        let mut start = 0;
        for (at, bytes) in &self.contents {
            let len = run.len() as u64 * BLOCK_BYTES;
            if start + len != *at || len as usize >= WRITE_BYTES {
                write(device, start, &run).await?;
                run.clear();
                start = *at;
            }
            run.push(bytes);
        }
        write(device, start, &run).await?;
        device.flush().await
    }
}

async fn write(device: &impl Device, start: u64, run: &[&Bytes]) -> Result<(), DeviceError> {
    if run.is_empty() {
        return Ok(());
    }
    let mut all = BufMut::with_len(run.len() * BLOCK_BYTES as usize);
    for (block, bytes) in all.chunks_exact_mut(BLOCK_BYTES as usize).zip(run) {
        block.copy_from_slice(bytes);
    }
    device.write(start, all.freeze()).await
}
