//! Requests (virtio 1.2, §5.2.6).

use crate::chain::{Chain, Spans, copy_from, skip, take_last, total};
use crate::config::{RANGE_BYTES_MAX, RANGES_MAX, SECTOR_BYTES};
use crate::error::Fault;
use crate::memory::Memory;
use nitro_frontend::{DiskError, DiskInfo};
use smallvec::SmallVec;
use vm_memory::GuestAddress;

/// Bytes of a header: type, a reserved word, and the first sector.
const HEADER_BYTES: u32 = 16;
/// Bytes of a range: first sector, number of sectors, flags.
const RANGE_BYTES: u64 = 16;
/// Bytes of the answer to `VIRTIO_BLK_T_GET_ID`.
pub(crate) const ID_BYTES: usize = 20;

/// The status of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Ok = 0,
    IoError = 1,
    Unsupported = 2,
}

impl From<Result<(), DiskError>> for Status {
    fn from(result: Result<(), DiskError>) -> Self {
        match result {
            Ok(()) => Self::Ok,
            Err(DiskError::Unsupported) => Self::Unsupported,
            Err(_) => Self::IoError,
        }
    }
}

/// A range to discard or to zero; it lies within the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) offset: u64,
    pub(crate) len: u32,
    /// The storage of the range may be released.
    pub(crate) may_unmap: bool,
}

/// The operation of a request. Ranges lie within the disk, and are not empty.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Read { offset: u64, into: Spans },
    Write { offset: u64, from: Spans },
    Flush,
    Discard(SmallVec<[Range; 1]>),
    WriteZeroes(SmallVec<[Range; 1]>),
    Identify { into: Spans },
    Refuse(Status),
}

/// A parsed request: its operation, and the address of its status byte.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) action: Action,
    pub(crate) status: GuestAddress,
}

impl Request {
    /// Parses a chain. An invalid request becomes [`Action::Refuse`]; a chain without a header or a status byte is a
    /// fault.
    pub(crate) fn parse(memory: &Memory, chain: Chain, info: &DiskInfo) -> Result<Self, Fault> {
        let Chain { mut readable, mut writable } = chain;
        let status = take_last(&mut writable).ok_or(Fault::Incomplete)?;
        if total(&readable) < HEADER_BYTES.into() {
            return Err(Fault::Incomplete);
        }
        let mut header = [0; HEADER_BYTES as usize];
        copy_from(memory, &readable, 0, &mut header)?;
        skip(&mut readable, HEADER_BYTES);
        let sector = number::<8>(&header, 8).map_or(0, u64::from_le_bytes);
        let kind = number::<4>(&header, 0).map_or(u32::MAX, u32::from_le_bytes);
        let action = match kind {
            0 => within(info, sector, total(&writable)).map(|offset| Action::Read { offset, into: writable }),
            1 if info.read_only => Err(Status::IoError),
            1 => within(info, sector, total(&readable)).map(|offset| Action::Write { offset, from: readable }),
            4 => Ok(Action::Flush),
            8 => Ok(Action::Identify { into: writable }),
            11 | 13 if info.read_only => Err(Status::IoError),
            11 if info.can_trim => ranges(memory, &readable, info, 0).map(Action::Discard),
            13 => ranges(memory, &readable, info, 1).map(Action::WriteZeroes),
            _ => Err(Status::Unsupported),
        };
        Ok(Self { action: action.unwrap_or_else(Action::Refuse), status })
    }
}

/// `N` bytes of `bytes`, from `at` on.
fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

/// Checks that a range is not empty, consists of whole blocks and lies within the disk; returns its offset in bytes.
fn within(info: &DiskInfo, sector: u64, len: u64) -> Result<u64, Status> {
    let offset = sector.checked_mul(SECTOR_BYTES).ok_or(Status::IoError)?;
    let end = offset.checked_add(len).ok_or(Status::IoError)?;
    let block = u64::from(info.block_bytes);
    let is_whole = len > 0 && len.is_multiple_of(block) && offset.is_multiple_of(block);
    if is_whole && end <= info.size_bytes { Ok(offset) } else { Err(Status::IoError) }
}

/// Parses and checks the ranges of a request. Flags other than `known` are refused.
fn ranges(memory: &Memory, from: &Spans, info: &DiskInfo, known: u32) -> Result<SmallVec<[Range; 1]>, Status> {
    let bytes = total(from);
    let count = bytes / RANGE_BYTES;
    if count == 0 || count > RANGES_MAX.into() || !bytes.is_multiple_of(RANGE_BYTES) {
        return Err(Status::IoError);
    }
    let range = |at: u64| {
        let mut told = [0; RANGE_BYTES as usize];
        copy_from(memory, from, at * RANGE_BYTES, &mut told).map_err(|_| Status::IoError)?;
        let sector = number::<8>(&told, 0).map_or(0, u64::from_le_bytes);
        let sectors = number::<4>(&told, 8).map_or(0, u32::from_le_bytes);
        let flags = number::<4>(&told, 12).map_or(0, u32::from_le_bytes);
        if flags & !known != 0 {
            return Err(Status::Unsupported);
        }
        let len = u64::from(sectors) * SECTOR_BYTES;
        if len > RANGE_BYTES_MAX.into() {
            return Err(Status::IoError);
        }
        let offset = within(info, sector, len)?;
        Ok(Range { offset, len: len as u32, may_unmap: flags & 1 != 0 })
    };
    (0..count).map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::Span;
    use crate::memory::tests::guest;
    use vm_memory::Bytes;

    const DISK_BYTES: u64 = 1 << 20;

    /// Parses a request with `data_out` from the guest and `bytes_in` bytes of memory for data to the guest.
    fn parse(info: &DiskInfo, kind: u32, sector: u64, data_out: &[u8], bytes_in: u32) -> Result<Request, Fault> {
        let memory = guest(1 << 16);
        let mut header = kind.to_le_bytes().to_vec();
        header.extend([0; 4]);
        header.extend(sector.to_le_bytes());
        header.extend(data_out);
        memory.guest().write_slice(&header, GuestAddress(100)).unwrap();
        let span = |address, len| Span { address: GuestAddress(address), len };
        // The header is in two spans, and the status is in one span with the data: virtio leaves the framing to the
        // driver.
        let chain = Chain {
            readable: Spans::from_slice(&[span(100, 5), span(105, header.len() as u32 - 5)]),
            writable: Spans::from_slice(&[span(8192, bytes_in + 1)]),
        };
        Request::parse(&memory, chain, info)
    }

    fn action(kind: u32, sector: u64, data_out: &[u8], bytes_in: u32) -> Action {
        parse(&DiskInfo::new(DISK_BYTES), kind, sector, data_out, bytes_in).unwrap().action
    }

    fn range(sector: u64, sectors: u32, flags: u32) -> Vec<u8> {
        [&sector.to_le_bytes()[..], &sectors.to_le_bytes(), &flags.to_le_bytes()].concat()
    }

    #[test]
    fn a_read_has_its_data_between_header_and_status() {
        let request = parse(&DiskInfo::new(DISK_BYTES), 0, 3, &[], 1024).unwrap();
        assert_eq!(request.status, GuestAddress(8192 + 1024));
        let into = Spans::from_slice(&[Span { address: GuestAddress(8192), len: 1024 }]);
        assert_eq!(request.action, Action::Read { offset: 1536, into });
    }

    #[test]
    fn ranges_outside_the_disk_are_refused() {
        let sectors = DISK_BYTES / 512;
        for (sector, bytes) in
            [(sectors, 512), (sectors - 1, 1024), (u64::MAX, 512), (u64::MAX / 512, 512), (0, 0), (0, 100)]
        {
            assert_eq!(action(0, sector, &[], bytes), Action::Refuse(Status::IoError), "{sector} {bytes}");
            assert_eq!(action(1, sector, &vec![0; bytes as usize], 0), Action::Refuse(Status::IoError));
        }
        assert!(matches!(action(0, sectors - 2, &[], 1024), Action::Read { .. }));
        for told in
            [range(sectors, 1, 0), range(0, u32::MAX, 0), range(0, 0, 0), vec![0; 15], Vec::new(), vec![0; 33 * 16]]
        {
            assert_eq!(action(11, 0, &told, 0), Action::Refuse(Status::IoError));
            assert_eq!(action(13, 0, &told, 0), Action::Refuse(Status::IoError));
        }
    }

    #[test]
    fn a_disk_of_larger_blocks_takes_only_whole_ones() {
        let info = DiskInfo { block_bytes: 4096, ..DiskInfo::new(DISK_BYTES) };
        let action =
            |kind, sector, data_out: &[u8], bytes_in| parse(&info, kind, sector, data_out, bytes_in).unwrap().action;
        for (sector, bytes) in [(0, 512), (4, 4096), (8, 2048), (1, 4096)] {
            assert_eq!(action(0, sector, &[], bytes), Action::Refuse(Status::IoError), "{sector} {bytes}");
            assert_eq!(action(1, sector, &vec![0; bytes as usize], 0), Action::Refuse(Status::IoError));
            for kind in [11, 13] {
                let told = range(sector, bytes / 512, 0);
                assert_eq!(action(kind, 0, &told, 0), Action::Refuse(Status::IoError), "{kind} {sector} {bytes}");
            }
        }
        assert!(matches!(action(0, 8, &[], 8192), Action::Read { offset: 4096, .. }));
        assert!(matches!(action(13, 0, &range(8, 8, 0), 0), Action::WriteZeroes(_)));
    }

    #[test]
    fn ranges_have_flags_that_are_known() {
        assert_eq!(action(11, 0, &range(0, 1, 1), 0), Action::Refuse(Status::Unsupported));
        assert_eq!(action(13, 0, &range(0, 1, 2), 0), Action::Refuse(Status::Unsupported));
        let zeroes = |may_unmap| Action::WriteZeroes(SmallVec::from([Range { offset: 512, len: 1024, may_unmap }]));
        assert_eq!(action(13, 0, &range(1, 2, 1), 0), zeroes(true));
        assert_eq!(action(13, 0, &range(1, 2, 0), 0), zeroes(false));
        let Action::Discard(two) = action(11, 0, &[range(1, 2, 0), range(8, 8, 0)].concat(), 0) else { panic!() };
        assert_eq!(two.len(), 2);
    }

    #[test]
    fn what_is_not_offered_is_unsupported_and_what_is_read_only_refuses() {
        assert_eq!(action(2, 0, &[], 0), Action::Refuse(Status::Unsupported));
        let info = DiskInfo { read_only: true, ..DiskInfo::new(DISK_BYTES) };
        for kind in [1, 11, 13] {
            let request = parse(&info, kind, 0, &[0; 512], 0).unwrap();
            assert_eq!(request.action, Action::Refuse(Status::IoError));
        }
        let info = DiskInfo { can_trim: false, ..DiskInfo::new(DISK_BYTES) };
        assert_eq!(parse(&info, 11, 0, &range(0, 1, 0), 0).unwrap().action, Action::Refuse(Status::Unsupported));
    }

    #[test]
    fn a_chain_without_room_for_header_or_status_is_a_fault() {
        let (memory, info) = (guest(1 << 16), DiskInfo::new(DISK_BYTES));
        let spans = |len| Spans::from_slice(&[Span { address: GuestAddress(0), len }]);
        let parse = |readable, writable| Request::parse(&memory, Chain { readable, writable }, &info);
        assert_eq!(parse(spans(16), Spans::new()), Err(Fault::Incomplete));
        assert_eq!(parse(spans(15), spans(1)), Err(Fault::Incomplete));
    }
}
