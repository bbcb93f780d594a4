//! A queue of a device: its descriptors, which the kernel writes, and its commands, which go through the ring of the reactor that
//! serves it.

use super::code;
use compio::driver::{Decision, IourOpCode, OpEntry, PollOpCode};
use compio::runtime::submit;
use compio_buf::BufResult;
use io_uring::{opcode::UringCmd16, types};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::io::{Errno, pread, pwritev, retry_on_intr};
use std::io::{self, IoSlice};
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::Poll;

/// Maximum number of requests of a queue (`UBLK_MAX_QUEUE_DEPTH`).
pub const DEPTH_MAX: u16 = 4096;
/// Maximum number of queues of a device (`UBLK_MAX_NR_QUEUES`).
pub const QUEUES_MAX: u16 = 4096;

/// Bytes of `struct ublksrv_io_cmd`.
const COMMAND_BYTES: u32 = 16;
/// `UBLK_U_IO_FETCH_REQ` and `UBLK_U_IO_COMMIT_AND_FETCH_REQ`.
const FETCH: u32 = code(false, 0x20, COMMAND_BYTES);
const COMMIT_AND_FETCH: u32 = code(false, 0x21, COMMAND_BYTES);

/// Where the data of requests begin in the device's file, and the bits of a tag and of a queue in offsets there
/// (`UBLKSRV_IO_BUF_OFFSET`, `UBLK_TAG_OFF`, `UBLK_QID_OFF`).
const DATA_AT: u64 = 0x8000_0000;
const TAG_SHIFT: u32 = 25;
const QUEUE_SHIFT: u32 = 41;
/// Maximum number of buffers of one call (`UIO_MAXIOV`).
const SLICES_MAX: usize = 1024;

/// A request as the kernel describes it (`struct ublksrv_io_desc`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Descriptor {
    /// The operation (bits 0 to 7) and flags.
    pub operation: u32,
    /// Its number of sectors of 512 bytes.
    pub sectors: u32,
    /// Its first sector.
    pub first_sector: u64,
    /// Not used: the data are copied by [`Queue::take`] and [`Queue::put`].
    address: u64,
}

/// A queue. Its requests must be taken by one thread, that of the reactor in which [`next`](Self::next) is polled first.
#[derive(Debug)]
pub struct Queue {
    device: Arc<OwnedFd>,
    descriptors: Descriptors,
    index: u16,
}

impl Queue {
    /// Queue `index`, with `depth` requests, of the device behind an open [`char_path`](super::char_path).
    ///
    /// # Errors
    /// The driver refuses: there is no such queue, or it has another depth.
    pub fn open(device: &Arc<OwnedFd>, index: u16, depth: u16) -> io::Result<Self> {
        if index >= QUEUES_MAX || !(1..=DEPTH_MAX).contains(&depth) {
            return Err(Errno::INVAL.into());
        }
        Ok(Self { device: Arc::clone(device), descriptors: Descriptors::map(device, index, depth)?, index })
    }

    /// The number of requests that may be under way; tags are below it.
    #[must_use]
    pub fn depth(&self) -> u16 {
        self.descriptors.depth
    }

    /// Answers the request of `tag` with `result`, if it has one (`None`: the tag is used for the first time), and waits for the
    /// next one. Dropping the future leaves its command to the kernel.
    ///
    /// # Errors
    /// `ENODEV`: the device is being removed. Others: the command was wrong.
    pub async fn next(&self, tag: u16, result: Option<i32>) -> io::Result<Descriptor> {
        let mut cmd = [0; 16];
        cmd[0..2].copy_from_slice(&self.index.to_ne_bytes());
        cmd[2..4].copy_from_slice(&tag.to_ne_bytes());
        cmd[4..8].copy_from_slice(&result.unwrap_or(0).to_ne_bytes());
        let code = if result.is_some() { COMMIT_AND_FETCH } else { FETCH };
        let BufResult(done, _) = submit(Exchange { device: Arc::clone(&self.device), code, cmd }).await;
        match done? {
            0 => self.descriptors.get(tag).ok_or_else(|| Errno::INVAL.into()),
            // Only devices without `UBLK_F_USER_COPY` have other answers.
            _ => Err(Errno::PROTO.into()),
        }
    }

    /// Copies data that the request of `tag` writes, from byte `at` of the request on.
    ///
    /// # Errors
    /// The request has no such data.
    pub fn take(&self, tag: u16, at: u32, mut into: &mut [u8]) -> io::Result<()> {
        let mut offset = self.offset(tag, at);
        while !into.is_empty() {
            let copied = retry_on_intr(|| pread(&self.device, &mut *into, offset))?;
            if copied == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            into = &mut into[copied..];
            offset += copied as u64;
        }
        Ok(())
    }

    /// Copies data to the request of `tag`, which reads them, from byte `at` of the request on.
    ///
    /// # Errors
    /// The request does not read so many.
    pub fn put(&self, tag: u16, at: u32, pieces: &[impl AsRef<[u8]>]) -> io::Result<()> {
        let mut offset = self.offset(tag, at);
        let mut slices: Vec<_> = pieces.iter().map(|piece| IoSlice::new(piece.as_ref())).collect();
        let mut left = &mut slices[..];
        // Removes empty ones, too.
        IoSlice::advance_slices(&mut left, 0);
        while !left.is_empty() {
            let some = &left[..left.len().min(SLICES_MAX)];
            let copied = retry_on_intr(|| pwritev(&self.device, some, offset))?;
            if copied == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            IoSlice::advance_slices(&mut left, copied);
            offset += copied as u64;
        }
        Ok(())
    }

    fn offset(&self, tag: u16, at: u32) -> u64 {
        DATA_AT + (u64::from(self.index) << QUEUE_SHIFT | u64::from(tag) << TAG_SHIFT) + u64::from(at)
    }
}

/// The mapped descriptors of a queue, by tag.
#[derive(Debug)]
struct Descriptors {
    start: NonNull<Descriptor>,
    depth: u16,
    bytes: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread, and is only read.
#[expect(unsafe_code, reason = "a pointer to a mapping")]
unsafe impl Send for Descriptors {}

impl Descriptors {
    #[expect(unsafe_code, reason = "the mapping has no safe wrapper")]
    fn map(device: &OwnedFd, index: u16, depth: u16) -> io::Result<Self> {
        let page = page_bytes();
        let size = |depth: u16| (usize::from(depth) * size_of::<Descriptor>()).next_multiple_of(page);
        let (bytes, at) = (size(depth), usize::from(index) * size(DEPTH_MAX));
        let at = libc::off_t::try_from(at).map_err(|_| Errno::INVAL)?;
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        // SAFETY: a new mapping at an address of the kernel's choice; it replaces nothing.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ, flags, device.as_raw_fd(), at) };
        match NonNull::new(start.cast::<Descriptor>()) {
            Some(found) if start != libc::MAP_FAILED => Ok(Self { start: found, depth, bytes }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    #[expect(unsafe_code, reason = "the kernel writes the memory")]
    fn get(&self, tag: u16) -> Option<Descriptor> {
        // SAFETY: the mapping has `depth` descriptors and is aligned to a page; any bits are a descriptor. The kernel has written
        // it before the completion of the tag's command, and writes it again only after the tag's next one.
        (tag < self.depth).then(|| unsafe { self.start.as_ptr().add(tag.into()).read_volatile() })
    }
}

impl Drop for Descriptors {
    #[expect(unsafe_code, reason = "the mapping has no safe wrapper")]
    fn drop(&mut self) {
        // SAFETY: the mapping of `map`, to which no reference exists.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// Bytes of a page of memory.
#[expect(unsafe_code, reason = "no safe wrapper exists")]
fn page_bytes() -> usize {
    // SAFETY: the call has no preconditions.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// A command of a tag. The kernel accesses no memory of the process for it.
struct Exchange {
    device: Arc<OwnedFd>,
    code: u32,
    cmd: [u8; 16],
}

// SAFETY: the entry has a descriptor that is open as long as the operation exists, and no address.
#[expect(unsafe_code, reason = "the trait is unsafe to implement")]
unsafe impl IourOpCode for Exchange {
    type Control = ();

    fn create_entry(&mut self, (): &mut ()) -> OpEntry {
        UringCmd16::new(types::Fd(self.device.as_raw_fd()), self.code).cmd(self.cmd).build().into()
    }

    fn call_blocking(&mut self, (): &mut ()) -> io::Result<usize> {
        Err(Errno::OPNOTSUPP.into())
    }
}

// SAFETY: it never waits.
#[expect(unsafe_code, reason = "the trait is unsafe to implement")]
unsafe impl PollOpCode for Exchange {
    type Control = ();

    fn pre_submit(&mut self, (): &mut ()) -> io::Result<Decision> {
        Err(Errno::OPNOTSUPP.into())
    }

    fn operate(&mut self, (): &mut ()) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(Errno::OPNOTSUPP.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek, Write};

    #[test]
    fn codes_and_sizes_are_those_of_the_kernels_header() {
        assert_eq!((FETCH, COMMIT_AND_FETCH), (0xc010_7520, 0xc010_7521));
        assert_eq!(size_of::<Descriptor>(), 24);
    }

    /// A file takes the role of the device: its offsets and its mapping are the same.
    #[test]
    fn data_and_descriptors_are_where_the_kernel_has_them() {
        let mut file = tempfile::tempfile().unwrap();
        let queue_bytes = (usize::from(DEPTH_MAX) * 24).next_multiple_of(page_bytes());
        file.seek(io::SeekFrom::Start(2 * queue_bytes as u64 + 5 * 24)).unwrap();
        file.write_all(&[1_u32.to_ne_bytes(), 8_u32.to_ne_bytes()].concat()).unwrap();
        file.write_all(&77_u64.to_ne_bytes()).unwrap();
        let device = Arc::new(OwnedFd::from(file));
        let queue = Queue::open(&device, 2, 64).unwrap();
        let found = queue.descriptors.get(5).unwrap();
        assert_eq!((found.operation, found.sectors, found.first_sector), (1, 8, 77));
        assert_eq!(queue.descriptors.get(64), None);
        queue.put(3, 512, &[&b"ab"[..], &b""[..], &b"cde"[..]]).unwrap();
        let mut data = [0; 5];
        pread(&device, &mut data, (1 << 31) + (2 << 41) + (3 << 25) + 512).unwrap();
        assert_eq!(&data, b"abcde");
        let mut taken = [0; 3];
        queue.take(3, 514, &mut taken).unwrap();
        assert_eq!(&taken, b"cde");
        assert!(Queue::open(&device, 0, 0).is_err() && Queue::open(&device, 0, DEPTH_MAX + 1).is_err());
    }
}
