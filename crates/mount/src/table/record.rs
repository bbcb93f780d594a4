//! The records of the table's file: 64 bytes each, with a checksum of their own, so that each is right or does not count.

use crate::address::Slot;
use crate::version::{FileKey, Version};
use nitro_port::codec::FingerprintHash;

/// Bytes of a record, and of the file's head.
pub(super) const RECORD_BYTES: usize = 64;
/// The first bytes of the file, with its version.
const MAGIC: &[u8; 8] = b"NITROFS1";
const CHECKED_BYTES: usize = RECORD_BYTES - 8;

const RESERVED: u32 = 1;
const HELD: u32 = 2;

/// A record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Record {
    /// All slots below this one may have been given away.
    Reserved(u32),
    /// A slot holds a span of a file, as long as the file has this version.
    Held { key: FileKey, version: Version, span: u32, slot: Slot },
}

fn sealed(mut bytes: [u8; RECORD_BYTES]) -> [u8; RECORD_BYTES] {
    let digest = FingerprintHash::Blake3.of(&bytes[..CHECKED_BYTES]);
    bytes[CHECKED_BYTES..].copy_from_slice(&digest.0[..8]);
    bytes
}

fn is_sealed(bytes: &[u8; RECORD_BYTES]) -> bool {
    sealed(*bytes) == *bytes
}

/// The head of a file with this identity.
pub(super) fn head(id: [u8; 16]) -> [u8; RECORD_BYTES] {
    let mut bytes = [0; RECORD_BYTES];
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..24].copy_from_slice(&id);
    sealed(bytes)
}

/// The identity in a head; `None`: it is none.
pub(super) fn id_of(bytes: &[u8; RECORD_BYTES]) -> Option<[u8; 16]> {
    (is_sealed(bytes) && bytes[..8] == *MAGIC).then(|| bytes[8..24].first_chunk().copied()).flatten()
}

impl Record {
    pub(super) fn encode(&self) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        match *self {
            Self::Reserved(slots) => {
                put(0, &RESERVED.to_le_bytes());
                put(4, &slots.to_le_bytes());
            }
            Self::Held { key, version, span, slot } => {
                put(0, &HELD.to_le_bytes());
                put(4, &slot.0.to_le_bytes());
                put(8, &key.inode.to_le_bytes());
                put(16, &key.born_ns.to_le_bytes());
                put(24, &span.to_le_bytes());
                put(32, &version.size.to_le_bytes());
                put(40, &version.mtime_ns.to_le_bytes());
                put(48, &version.ctime_ns.to_le_bytes());
            }
        }
        sealed(bytes)
    }

    /// `None`: it was not written whole, or is of a kind that a later program has.
    pub(super) fn decode(bytes: &[u8; RECORD_BYTES]) -> Option<Self> {
        if !is_sealed(bytes) {
            return None;
        }
        let u32_at = |at: usize| bytes[at..].first_chunk().map(|b| u32::from_le_bytes(*b));
        let u64_at = |at: usize| bytes[at..].first_chunk().map(|b| u64::from_le_bytes(*b));
        let i64_at = |at: usize| bytes[at..].first_chunk().map(|b| i64::from_le_bytes(*b));
        match u32_at(0)? {
            RESERVED => Some(Self::Reserved(u32_at(4)?)),
            HELD => Some(Self::Held {
                key: FileKey { inode: u64_at(8)?, born_ns: i64_at(16)? },
                version: Version { size: u64_at(32)?, mtime_ns: i64_at(40)?, ctime_ns: i64_at(48)? },
                span: u32_at(24)?,
                slot: Slot(u32_at(4)?),
            }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_and_flipped_bits_are_found() {
        let key = FileKey { inode: u64::MAX, born_ns: -7 };
        let version = Version { size: 1 << 62, mtime_ns: i64::MIN, ctime_ns: 3 };
        for record in [Record::Reserved(77), Record::Held { key, version, span: 5, slot: Slot(9) }] {
            let bytes = record.encode();
            assert_eq!(Record::decode(&bytes), Some(record));
            for bit in 0..RECORD_BYTES * 8 {
                let mut flipped = bytes;
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(Record::decode(&flipped), None, "bit {bit}");
            }
        }
        assert_eq!(id_of(&head([4; 16])), Some([4; 16]));
        assert_eq!((id_of(&[0; RECORD_BYTES]), Record::decode(&[0; RECORD_BYTES])), (None, None));
    }
}
