//! The journal on several devices: which copy a start reads, and how the others become equal to it.

use super::Flash;
use crate::error::Error;
use crate::format::FormatError;
use crate::format::superblock::Superblock;
use crate::journal::{Area, Journal, Replay, Witness};
use nitro_port::Device;
use std::sync::atomic::Ordering;

/// How much of a journal is compared, or copied, at once.
const COPY_BYTES: u64 = 1 << 20;

impl<F: Device> Flash<F> {
    /// Reads the journal from the first device that has it undamaged, as far as the batches themselves and the `witness`
    /// tell, and makes the other devices' copies equal to it.
    /// After a crash they may differ in what was not durable; from then on, one of them is as good as another.
    ///
    /// # Errors
    /// [`Error::Flash`]; [`Error::Format`]; [`Error::Damaged`]: no device has an undamaged journal.
    pub(crate) async fn read_journal(
        &self,
        superblock: &Superblock,
        witness: Option<Witness>,
    ) -> Result<Replay, Error> {
        let mut first_error = None;
        for (number, _, device) in self.in_use() {
            match read(device, superblock, witness).await {
                Ok(replay) => {
                    self.copy_journal(number, superblock.journal).await?;
                    return Ok(replay);
                }
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        Err(first_error.unwrap_or(Error::Format(FormatError::Magic { structure: "journal" })))
    }

    async fn copy_journal(&self, from: usize, area: Area) -> Result<(), Error> {
        let Some(source) = self.device(from as u32).filter(|_| self.is_striped()) else { return Ok(()) };
        let mut at = 0;
        while at < area.len {
            let (offset, len) = (area.offset + at, (area.len - at).min(COPY_BYTES));
            let bytes = source.read(offset, len as usize).await.map_err(Error::Flash)?;
            for (number, _, device) in self.in_use().filter(|(number, ..)| *number != from) {
                let has = device.read(offset, len as usize).await;
                if has.is_ok_and(|has| has == bytes) {
                    continue;
                }
                if let Err(error) = device.write(offset, bytes.clone()).await {
                    self.give_up(number, &error);
                }
            }
            at += len;
        }
        // What was read may have been in the devices' caches only, if but the process had crashed.
        self.flush().await.map_err(Error::Flash)
    }

    /// Checks that all devices are in use.
    ///
    /// # Errors
    /// [`Error::Devices`]: one has failed, or is missing.
    pub(crate) fn check_complete(&self) -> Result<(), Error> {
        let out = self.out.load(Ordering::SeqCst);
        let Some(number) = (0..self.members.len()).find(|number| out >> number & 1 == 1) else { return Ok(()) };
        let why = self.members[number].reason.get().cloned().unwrap_or_default();
        Err(Error::Devices { device: Some(number), why })
    }
}

async fn read<F: Device>(device: &F, superblock: &Superblock, witness: Option<Witness>) -> Result<Replay, Error> {
    let replay = Journal::read(device, superblock.journal, superblock.epoch).await?;
    let mut replay = replay.ok_or(Error::Format(FormatError::Magic { structure: "journal" }))?;
    if let Some(witness) = witness {
        replay.hear(witness);
    }
    match replay.lost_batches() {
        0 => Ok(replay),
        batches => Err(Error::Damaged { batches }),
    }
}
