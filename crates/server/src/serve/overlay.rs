//! A device that is examined without being changed: writes to it stay in RAM.

use bytes::Bytes;
use nitro_device::FileDevice;
use nitro_port::buf::BufMut;
use nitro_port::{Device, DeviceError, Geometry, Operation};
use parking_lot::Mutex;
use std::collections::BTreeMap;

pub struct Overlay {
    below: FileDevice,
    /// Blocks that were written, by their number.
    written: Mutex<BTreeMap<u64, Bytes>>,
}

impl Overlay {
    pub(super) fn new(below: FileDevice) -> Self {
        Self { below, written: Mutex::default() }
    }

    pub(super) fn geometry(&self) -> Geometry {
        self.below.geometry()
    }

    pub(super) async fn read(&self, offset: u64, len: usize) -> Result<Bytes, DeviceError> {
        let below = self.below.read(offset, len).await?;
        let block = u64::from(self.geometry().block_bytes);
        let written = self.written.lock();
        let mut within = written.range(offset / block..(offset + len as u64) / block).peekable();
        if within.peek().is_none() {
            return Ok(below);
        }
        let mut merged = BufMut::copy_of(&below);
        for (number, bytes) in within {
            let at = (number * block - offset) as usize;
            merged[at..at + bytes.len()].copy_from_slice(bytes);
        }
        Ok(merged.freeze())
    }

    pub(super) fn write(&self, offset: u64, data: &Bytes) -> Result<(), DeviceError> {
        DeviceError::check(&self.geometry(), Operation::Write, offset, data.len() as u64)?;
        let block = u64::from(self.geometry().block_bytes);
        let pieces = (0..data.len()).step_by(block as usize).map(|at| data.slice(at..at + block as usize));
        self.written.lock().extend((offset / block..).zip(pieces));
        Ok(())
    }
}
