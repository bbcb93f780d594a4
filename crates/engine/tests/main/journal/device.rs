//! A device in RAM that remembers what it was told, so that a crash can be placed anywhere.

use super::AREA;
use bytes::Bytes;
use nitro_port::{Device, DeviceError, ErrorKind, Geometry, Operation};
use nitro_testkit::Rng;
use std::sync::Mutex;

const SECTOR_BYTES: usize = 512;

/// What the device was told.
#[derive(Clone)]
pub enum Told {
    Write(u64, Bytes),
    Flush,
}

/// A device in RAM with a history.
pub struct Recorder {
    geometry: Geometry,
    /// What was durable at first.
    base: Vec<u8>,
    image: Mutex<Vec<u8>>,
    told: Mutex<Vec<Told>>,
    /// Fails the operation that comes after so many more.
    fail_after: Mutex<Option<usize>>,
}

fn write(image: &mut [u8], offset: u64, data: &[u8]) {
    image[offset as usize..offset as usize + data.len()].copy_from_slice(data);
}

impl Recorder {
    pub fn new(block_bytes: u32) -> Self {
        Self::with_size(block_bytes, AREA.offset + AREA.len)
    }

    /// A device full of what is not a journal.
    pub fn with_size(block_bytes: u32, size_bytes: u64) -> Self {
        Self::with_image(block_bytes, vec![0xA5; size_bytes as usize])
    }

    pub fn with_image(block_bytes: u32, image: Vec<u8>) -> Self {
        let size_bytes = image.len() as u64;
        Self {
            geometry: Geometry { size_bytes, block_bytes, preferred_bytes: 4096, rotational: false },
            base: image.clone(),
            image: Mutex::new(image),
            told: Mutex::default(),
            fail_after: Mutex::default(),
        }
    }

    pub fn image(&self) -> Vec<u8> {
        self.image.lock().unwrap().clone()
    }

    pub fn copy(&self) -> Self {
        self.with_blocks(self.geometry.block_bytes)
    }

    pub fn with_blocks(&self, block_bytes: u32) -> Self {
        Self::with_image(block_bytes, self.image())
    }

    /// Damages a range.
    pub fn fill(&self, offset: u64, len: usize, byte: u8) {
        write(&mut self.image.lock().unwrap(), offset, &vec![byte; len]);
    }

    pub fn fail_after(&self, operations: usize) {
        *self.fail_after.lock().unwrap() = Some(operations);
    }

    /// How many writes and flushes there were.
    pub fn told(&self) -> usize {
        self.told.lock().unwrap().len()
    }

    /// Whether that one was a write.
    pub fn was_write(&self, operation: usize) -> bool {
        matches!(self.told.lock().unwrap()[operation], Told::Write(..))
    }

    /// What may be found if power fails before operation `upto` has ended: each sector that was written since the last
    /// flush, also by `upto` itself, is old or new.
    pub fn crashed(&self, upto: usize, rng: &mut Rng) -> Self {
        let told = self.told.lock().unwrap();
        let durable = told[..upto].iter().rposition(|t| matches!(t, Told::Flush)).unwrap_or(0);
        // Now and then all of it survives, or none.
        let lost_in_8 = [0, 1, 4, 7, 8][rng.below(5) as usize];
        let mut image = self.base.clone();
        for (number, told) in told.iter().enumerate().take(upto + 1) {
            let Told::Write(offset, data) = told else { continue };
            for (i, sector) in data.chunks(SECTOR_BYTES).enumerate() {
                if number < durable || rng.below(8) >= lost_in_8 {
                    write(&mut image, offset + (i * SECTOR_BYTES) as u64, sector);
                }
            }
        }
        Self::with_image(self.geometry.block_bytes, image)
    }

    fn admit(&self, operation: Operation, offset: u64, len: u64) -> Result<(), DeviceError> {
        DeviceError::check(&self.geometry, operation, offset, len)?;
        let mut fail_after = self.fail_after.lock().unwrap();
        match *fail_after {
            Some(0) => {
                *fail_after = None;
                Err(DeviceError::new(ErrorKind::Io, operation, offset, len))
            }
            Some(n) => {
                *fail_after = Some(n - 1);
                Ok(())
            }
            None => Ok(()),
        }
    }
}

impl Device for Recorder {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    async fn read(&self, offset: u64, len: usize) -> Result<Bytes, DeviceError> {
        self.admit(Operation::Read, offset, len as u64)?;
        Ok(Bytes::copy_from_slice(&self.image.lock().unwrap()[offset as usize..offset as usize + len]))
    }

    async fn write(&self, offset: u64, data: Bytes) -> Result<(), DeviceError> {
        self.admit(Operation::Write, offset, data.len() as u64)?;
        write(&mut self.image.lock().unwrap(), offset, &data);
        self.told.lock().unwrap().push(Told::Write(offset, data));
        Ok(())
    }

    async fn flush(&self) -> Result<(), DeviceError> {
        self.admit(Operation::Flush, 0, 0)?;
        self.told.lock().unwrap().push(Told::Flush);
        Ok(())
    }

    async fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        Err(DeviceError::new(ErrorKind::Unsupported, Operation::Discard, offset, len))
    }

    async fn write_zeroes(&self, offset: u64, len: u64, _may_unmap: bool) -> Result<(), DeviceError> {
        Err(DeviceError::new(ErrorKind::Unsupported, Operation::WriteZeroes, offset, len))
    }
}
