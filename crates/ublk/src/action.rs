//! Requests: what their descriptors ask for (`struct ublksrv_io_desc`).

use crate::abi::{RANGE_BYTES_MAX, REQUEST_BYTES_MAX, SECTOR_BYTES};
use nitro_frontend::DiskError;

/// Operations (`UBLK_IO_OP_...`) and their mask.
const OPERATION: u32 = 0xff;
const READ: u32 = 0;
const WRITE: u32 = 1;
const FLUSH: u32 = 2;
const DISCARD: u32 = 3;
const WRITE_ZEROES: u32 = 5;
/// Flags (`UBLK_IO_F_...`): durable before it is answered; the storage must stay allocated.
const FUA: u32 = 1 << 13;
const NO_UNMAP: u32 = 1 << 15;

/// A request as the kernel describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Descriptor {
    /// The operation (bits 0 to 7) and flags.
    pub operation: u32,
    /// Its number of sectors.
    pub sectors: u32,
    /// Its first sector.
    pub first_sector: u64,
}

/// What a request asks for. Ranges lie within the disk, and are not empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Read.
    Read {
        /// The first byte.
        offset: u64,
        /// The number of bytes.
        len: u32,
    },
    /// Write.
    Write {
        /// The first byte.
        offset: u64,
        /// The number of bytes.
        len: u32,
        /// Durable before it is answered.
        fua: bool,
    },
    /// Make all answered writes durable.
    Flush,
    /// Forget a range.
    Discard {
        /// The first byte.
        offset: u64,
        /// The number of bytes.
        len: u32,
    },
    /// Make a range read as zeroes.
    WriteZeroes {
        /// The first byte.
        offset: u64,
        /// The number of bytes.
        len: u32,
        /// Durable before it is answered.
        fua: bool,
        /// The storage must stay allocated.
        no_hole: bool,
    },
}

impl Action {
    /// Parses a descriptor for a disk of `size_bytes` at present.
    ///
    /// # Errors
    /// The operation is unknown; its range is empty, too long, or not within the disk.
    pub fn parse(descriptor: &Descriptor, size_bytes: u64) -> Result<Self, DiskError> {
        let Descriptor { operation, sectors, first_sector } = *descriptor;
        let has = |flag: u32| operation & flag != 0;
        let range = |bytes_max: u32| {
            let offset = first_sector.checked_mul(SECTOR_BYTES).ok_or(DiskError::OutOfRange)?;
            let len = u64::from(sectors) * SECTOR_BYTES;
            let end = offset.checked_add(len).ok_or(DiskError::OutOfRange)?;
            match len == 0 || len > bytes_max.into() || end > size_bytes {
                true => Err(DiskError::OutOfRange),
                false => Ok((offset, len as u32)),
            }
        };
        match operation & OPERATION {
            READ => range(REQUEST_BYTES_MAX).map(|(offset, len)| Self::Read { offset, len }),
            WRITE => range(REQUEST_BYTES_MAX).map(|(offset, len)| Self::Write { offset, len, fua: has(FUA) }),
            FLUSH => Ok(Self::Flush),
            DISCARD => range(RANGE_BYTES_MAX).map(|(offset, len)| Self::Discard { offset, len }),
            WRITE_ZEROES => range(RANGE_BYTES_MAX).map(|(offset, len)| Self::WriteZeroes {
                offset,
                len,
                fua: has(FUA),
                no_hole: has(NO_UNMAP),
            }),
            _ => Err(DiskError::Unsupported),
        }
    }
}

/// The answer to a request of `bytes` of data: that number, or an error of errno(3), negated.
pub(crate) fn answer(result: Result<(), DiskError>, bytes: u32) -> i32 {
    const EIO: i32 = 5;
    const EINVAL: i32 = 22;
    const ENOSPC: i32 = 28;
    const EROFS: i32 = 30;
    const EOPNOTSUPP: i32 = 95;
    match result {
        Ok(()) => i32::try_from(bytes).unwrap_or(-EINVAL),
        Err(DiskError::Io) => -EIO,
        Err(DiskError::OutOfRange) => -EINVAL,
        Err(DiskError::ReadOnly) => -EROFS,
        Err(DiskError::NoSpace) => -ENOSPC,
        Err(DiskError::Unsupported) => -EOPNOTSUPP,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISK_BYTES: u64 = 1 << 30;

    fn parse(operation: u32, first_sector: u64, sectors: u32) -> Result<Action, DiskError> {
        Action::parse(&Descriptor { operation, sectors, first_sector }, DISK_BYTES)
    }

    #[test]
    fn operations_and_flags_are_those_of_the_kernel() {
        // Flags that say how to fail, that the request is for metadata, or for swap, change nothing.
        let others = 1 << 8 | 1 << 9 | 1 << 10 | 1 << 11 | 1 << 16;
        let (offset, len) = (4096, 512);
        assert_eq!(parse(others, 8, 1), Ok(Action::Read { offset, len }));
        assert_eq!(parse(1 | others, 8, 1), Ok(Action::Write { offset, len, fua: false }));
        assert_eq!(parse(1 | FUA, 8, 1), Ok(Action::Write { offset, len, fua: true }));
        assert_eq!(parse(2 | others, 0, 0), Ok(Action::Flush));
        assert_eq!(parse(3, 8, 1), Ok(Action::Discard { offset, len }));
        assert_eq!(parse(5, 8, 1), Ok(Action::WriteZeroes { offset, len, fua: false, no_hole: false }));
        assert_eq!(parse(5 | FUA | NO_UNMAP, 8, 1), Ok(Action::WriteZeroes { offset, len, fua: true, no_hole: true }));
        for unknown in [4, 6, 10, 15, 18, 255] {
            assert_eq!(parse(unknown, 8, 1), Err(DiskError::Unsupported));
        }
    }

    #[test]
    fn ranges_outside_the_disk_are_refused() {
        let sectors = DISK_BYTES / SECTOR_BYTES;
        for operation in [READ, WRITE, DISCARD, WRITE_ZEROES] {
            for (first, count) in
                [(sectors, 1), (sectors - 1, 2), (u64::MAX, 1), (u64::MAX / 512, 1), (0, 0), (0, u32::MAX)]
            {
                assert_eq!(parse(operation, first, count), Err(DiskError::OutOfRange), "{operation} {first} {count}");
            }
            assert!(parse(operation, sectors - 1, 1).is_ok());
        }
        assert!(parse(READ, 0, 2048).is_ok() && parse(READ, 0, 2049).is_err() && parse(DISCARD, 0, 2049).is_ok());
    }

    #[test]
    fn answers_are_bytes_or_negated_errors() {
        assert_eq!(answer(Ok(()), 4096), 4096);
        let errors =
            [DiskError::Io, DiskError::OutOfRange, DiskError::ReadOnly, DiskError::NoSpace, DiskError::Unsupported];
        assert_eq!(errors.map(|error| answer(Err(error), 4096)), [-5, -22, -30, -28, -95]);
    }
}
