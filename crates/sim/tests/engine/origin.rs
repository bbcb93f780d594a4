//! The origin behind the engine.

use bytes::Bytes;
use nitro_device::RamDevice;
use nitro_port::buf::is_zero;
use nitro_port::codec::FingerprintHash;
use nitro_port::{Device, DeviceError, Geometry, Origin, Recipe, Urgency, read_each};
use nitro_units::Fingerprint;
use std::ops::Range;

/// A device in RAM, which may know its contents by fingerprint.
pub struct TestOrigin {
    pub ram: RamDevice,
    pub recipe_extent_bytes: Option<u32>,
}

impl Device for TestOrigin {
    fn geometry(&self) -> Geometry {
        self.ram.geometry()
    }

    async fn read(&self, offset: u64, len: usize) -> Result<Bytes, DeviceError> {
        self.ram.read(offset, len).await
    }

    async fn write(&self, offset: u64, data: Bytes) -> Result<(), DeviceError> {
        self.ram.write(offset, data).await
    }

    async fn flush(&self) -> Result<(), DeviceError> {
        self.ram.flush().await
    }

    async fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.ram.discard(offset, len).await
    }

    async fn write_zeroes(&self, offset: u64, len: u64, may_unmap: bool) -> Result<(), DeviceError> {
        self.ram.write_zeroes(offset, len, may_unmap).await
    }
}

impl Origin for TestOrigin {
    fn keeps_writes(&self) -> bool {
        true
    }

    fn unit_bytes(&self) -> Option<u32> {
        None
    }

    fn recipe_extent_bytes(&self) -> Option<u32> {
        self.recipe_extent_bytes
    }

    async fn recipe(&self, offset: u64, len: u64) -> Result<Recipe, DeviceError> {
        let extent_bytes = self.recipe_extent_bytes.unwrap() as usize;
        let bytes = self.ram.read(offset, len as usize).await?;
        Ok(bytes.chunks(extent_bytes).map(|c| (!is_zero(c)).then(|| FingerprintHash::Blake3.of(c))).collect())
    }

    async fn write_known(&self, offset: u64, data: Bytes, _known: &[Option<Fingerprint>]) -> Result<(), DeviceError> {
        self.ram.write(offset, data).await
    }

    fn reads_parts(&self) -> bool {
        false
    }

    async fn read_parts(&self, urgency: Urgency, parts: &[Range<u64>]) -> Result<Vec<Bytes>, DeviceError> {
        read_each(self, urgency, parts).await
    }
}
