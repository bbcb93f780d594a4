//! Whether acknowledged writes of a device were lost with the last server: two words in memory that survives the process.

use super::super::outlive;
use crate::origins::Uuid;
use nitro_device::map_words;
use nitro_files::private_folder;
use nitro_frontend::Unflushed;
use nitro_port::codec::FingerprintHash;
use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};

/// Words of the file.
const WORDS: usize = 2;

/// The record of a volume's device. It is mapped until the process ends.
#[derive(Debug, Clone, Copy)]
pub(super) struct Record {
    /// Of which device it is.
    signature: &'static AtomicU64,
    /// Whether there are acknowledged writes that are not durable.
    unflushed: &'static AtomicU64,
}

/// The state in which the last server has left a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Left {
    /// No acknowledged write is lost.
    Safe,
    /// There were acknowledged writes that were not flushed.
    Unflushed,
    /// The record is missing.
    Unknown,
}

/// The mark of a volume's devices in the driver.
pub(super) fn tag(volume: Uuid) -> u64 {
    let digest = FingerprintHash::Blake3.of(&[&b"nitro ublk "[..], &volume.0].concat());
    digest.0.first_chunk().map_or(1, |bytes| u64::from_le_bytes(*bytes) | 1)
}

impl Record {
    /// The record of a volume. To be called once for each; `None`: there is no place for it.
    pub(super) fn of(volume: Uuid) -> Option<Self> {
        let mut refused = Vec::new();
        for folder in outlive::folders() {
            let place = folder.join(format!("device-{volume}.unflushed"));
            let made = private_folder(&folder).map_err(|e| e.to_string());
            match made.and_then(|()| map_words(&place, WORDS).map_err(|e| e.to_string())) {
                Ok([signature, unflushed]) => return Some(Self { signature, unflushed }),
                Ok(_) => return None,
                Err(error) => refused.push(format!("{}: {error}", place.display())),
            }
        }
        tracing::warn!("{}: a block device will not survive a crash of the server", refused.join("; "));
        None
    }

    /// Begins the record of a new device.
    pub(super) fn begin(&self, tag: u64, number: u32) {
        self.unflushed.store(0, Ordering::SeqCst);
        self.signature.store(signature(tag, number), Ordering::SeqCst);
    }

    /// What the last server has left.
    pub(super) fn left(&self, tag: u64, number: u32) -> Left {
        if self.signature.load(Ordering::SeqCst) != signature(tag, number) {
            return Left::Unknown;
        }
        if self.unflushed.load(Ordering::SeqCst) == 0 { Left::Safe } else { Left::Unflushed }
    }

    /// For the device.
    pub(super) fn unflushed(&self) -> Unflushed<Infallible> {
        let word = self.unflushed;
        Unflushed::new(move |value| {
            word.store(value, Ordering::SeqCst);
            Ok(())
        })
    }
}

fn signature(tag: u64, number: u32) -> u64 {
    tag ^ u64::from(number).wrapping_add(1) << 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        let word = || &*Box::leak(Box::new(AtomicU64::new(0)));
        Record { signature: word(), unflushed: word() }
    }

    #[test]
    fn the_record_of_another_device_says_nothing() {
        let (record, tag) = (record(), tag(Uuid([7; 16])));
        assert_eq!(record.left(tag, 0), Left::Unknown, "an empty file is no record");
        record.begin(tag, 3);
        assert_eq!(record.left(tag, 3), Left::Safe);
        assert_eq!((record.left(tag, 4), record.left(super::tag(Uuid([8; 16])), 3)), (Left::Unknown, Left::Unknown));
    }

    #[test]
    fn unflushed_writes_are_found_by_the_next_server() {
        let (record, tag) = (record(), tag(Uuid([7; 16])));
        record.begin(tag, 0);
        let unflushed = record.unflushed();
        let Ok(()) = unflushed.note();
        assert_eq!(record.left(tag, 0), Left::Unflushed);
        let Ok(()) = unflushed.flushed(unflushed.mark());
        assert_eq!(record.left(tag, 0), Left::Safe);
        let Ok(()) = unflushed.note();
        record.begin(tag, 0);
        assert_eq!(record.left(tag, 0), Left::Safe, "a new device has lost nothing");
    }
}
