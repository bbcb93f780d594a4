//! Determines the properties of a file or block device.

use super::Medium;
use nitro_port::Geometry;
use nitro_port::buf::{BUF_ALIGNMENT_BYTES, BufMut};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FileType, SeekFrom, Stat, StatxFlags, fstat, ioctl_blksszget, major, minor, seek, statx};
use rustix::io::{Errno, pread, retry_on_intr};
use std::fs;
use std::io;
use std::path::Path;

/// Preferred request size of a rotating device, in bytes.
const ROTATIONAL_PREFERRED_BYTES: u32 = 64 << 10;
/// The least block size of a block device, in bytes.
const SECTOR_BYTES: u32 = 512;

/// The properties of an open file.
pub(super) struct Probe {
    pub(super) medium: Medium,
    pub(super) size_bytes: u64,
    stat: Stat,
}

impl Probe {
    /// Examines an open file; `None`: it cannot be a device.
    pub(super) fn new(fd: &OwnedFd) -> io::Result<Option<Self>> {
        let stat = fstat(fd)?;
        let (medium, size_bytes) = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => (Medium::File, stat.st_size.unsigned_abs()),
            FileType::BlockDevice => (Medium::Block, seek(fd, SeekFrom::End(0))?),
            _ => return Ok(None),
        };
        Ok(Some(Self { medium, size_bytes, stat }))
    }

    /// The block size with which direct I/O works on `fd`; `None` if it does not work, or not on the whole file.
    pub(super) fn direct_block_bytes(&self, fd: &OwnedFd) -> Option<u32> {
        let known = match self.medium {
            Medium::Block => ioctl_blksszget(fd).ok(),
            Medium::File => statx_block_bytes(fd),
        };
        let first = known.unwrap_or(SECTOR_BYTES);
        [first, BUF_ALIGNMENT_BYTES as u32].into_iter().find(|&block| self.direct_works(fd, block))
    }

    /// The block size through the page cache: one byte for a file; a block device's discards still need its block size.
    pub(super) fn buffered_block_bytes(&self, fd: &OwnedFd) -> u32 {
        match self.medium {
            Medium::File => 1,
            Medium::Block => ioctl_blksszget(fd).unwrap_or(SECTOR_BYTES),
        }
    }

    fn direct_works(&self, fd: &OwnedFd, block: u32) -> bool {
        let usable = block.is_power_of_two() && block as usize <= BUF_ALIGNMENT_BYTES;
        usable && self.size_bytes.is_multiple_of(u64::from(block)) && {
            let mut buf = BufMut::with_len(block as usize);
            // Only a refusal of the alignment counts; a bad sector at the beginning does not.
            retry_on_intr(|| pread(fd, &mut buf[..], 0)) != Err(Errno::INVAL)
        }
    }

    pub(super) fn geometry(&self, block_bytes: u32) -> Geometry {
        let rotational = self.rotational();
        let least = if rotational { ROTATIONAL_PREFERRED_BYTES } else { BUF_ALIGNMENT_BYTES as u32 };
        let preferred = u32::try_from(self.stat.st_blksize).unwrap_or(least);
        Geometry { size_bytes: self.size_bytes, block_bytes, preferred_bytes: preferred.max(least), rotational }
    }

    /// The value in sysfs for the disk, or for the disk below the file system; false if there is none.
    fn rotational(&self) -> bool {
        let dev = if self.medium == Medium::Block { self.stat.st_rdev } else { self.stat.st_dev };
        let node = Path::new("/sys/dev/block").join(format!("{}:{}", major(dev), minor(dev)));
        // A partition has no queue of its own; its disk is the folder above.
        [node.join("queue/rotational"), node.join("../queue/rotational")]
            .iter()
            .find_map(|p| fs::read_to_string(p).ok())
            .is_some_and(|s| s.trim() == "1")
    }
}

/// The alignment of direct I/O that the file system reports (`STATX_DIOALIGN`, Linux 6.1).
fn statx_block_bytes(fd: &OwnedFd) -> Option<u32> {
    let found = statx(fd, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok()?;
    let reported = found.stx_mask & StatxFlags::DIOALIGN.bits() != 0;
    (reported && found.stx_dio_offset_align != 0).then_some(found.stx_dio_offset_align)
}
