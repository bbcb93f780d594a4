//! Superblocks on each device: their writes, and the record of devices that are lost.

use super::Flash;
use crate::format::superblock::{DevicePlace, SUPERBLOCK_BYTES, Superblock, superblock_offsets};
use futures_util::future::join_all;
use nitro_port::buf::BufMut;
use nitro_port::{Device, DeviceError, ErrorKind, Operation};
use std::sync::atomic::Ordering;

impl<F: Device> Flash<F> {
    /// Writes both copies of the superblock on each device. They name the devices that are out. Returns the bytes
    /// written.
    ///
    /// # Errors
    /// No device could be written to; [`ErrorKind::NoSpace`]: a device is too small.
    pub(crate) async fn write_superblock(&self, superblock: &Superblock) -> Result<u64, DeviceError> {
        let _recording = self.recording.lock().await;
        self.record(superblock).await
    }

    /// Records devices that are out in the superblocks of the others, if that is not done yet.
    pub(crate) async fn record_losses(&self) -> Result<(), DeviceError> {
        if self.recorded.load(Ordering::SeqCst) == self.out.load(Ordering::SeqCst) {
            return Ok(());
        }
        let _recording = self.recording.lock().await;
        let written = *self.written.lock();
        // Before the first superblock of a start there is nothing that only some of them have.
        let Some(superblock) = written else { return Ok(()) };
        if self.recorded.load(Ordering::SeqCst) != self.out.load(Ordering::SeqCst) {
            self.record(&superblock).await?;
        }
        Ok(())
    }

    async fn record(&self, superblock: &Superblock) -> Result<u64, DeviceError> {
        loop {
            let out = self.out.load(Ordering::SeqCst);
            let writes = self.in_use().map(async |(number, _, device)| {
                let place = DevicePlace { devices: self.devices() as u8, number: number as u8, lost: out as u16 };
                (number, self.write_copies(number, device, &Superblock { place, ..*superblock }).await)
            });
            let results = join_all(writes.collect::<Vec<_>>()).await;
            let written = results.iter().filter_map(|(_, result)| result.as_ref().ok()).sum();
            let mut is_same = true;
            for (number, result) in results {
                if let Err(error) = result {
                    // A device that is too small is an error of whoever gave it.
                    if error.kind == ErrorKind::NoSpace || written == 0 || !self.give_up(number, &error) {
                        return Err(error);
                    }
                    is_same = false;
                }
            }
            if is_same {
                self.recorded.store(out, Ordering::SeqCst);
                *self.written.lock() = Some(*superblock);
                return Ok(written);
            }
        }
    }

    async fn write_copies(&self, number: usize, device: &F, superblock: &Superblock) -> Result<u64, DeviceError> {
        let [first, last] = superblock_offsets(device.geometry().size_bytes);
        let units = superblock.weu_count.div_ceil(self.devices());
        if last < superblock.data_offset.saturating_add(u64::from(units) * u64::from(superblock.weu_bytes)) {
            return Err(DeviceError::new(ErrorKind::NoSpace, Operation::Write, last, SUPERBLOCK_BYTES as u64));
        }
        // The first copy comes last if it is whole: the other may be what a crash left of it, or stand where the device ended
        // before it grew. Else the second is whole.
        let first_is_whole = &self.members[number].first_copy_whole;
        // The copy that was read may be one that a killed program wrote and that the device can still lose.
        device.flush().await?;
        let mut written = 0;
        for offset in if first_is_whole.load(Ordering::SeqCst) { [last, first] } else { [first, last] } {
            let mut block = BufMut::zeroed(SUPERBLOCK_BYTES);
            superblock.encode(&mut block);
            device.write(offset, block.freeze()).await?;
            written += SUPERBLOCK_BYTES as u64;
            // One after the other: a crash leaves at least one whole.
            device.flush().await?;
            if offset == first {
                first_is_whole.store(true, Ordering::SeqCst);
            }
        }
        Ok(written)
    }
}
