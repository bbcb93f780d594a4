//! Reads and writes on file systems that may wait for a server: each takes a thread of the device.
//!
//! If a file system declares that it does not wait, io_uring begins a request on the thread that submits it. FUSE
//! declares this (as of Linux 6.18) but does wait for its server, for a file's attributes or for room in its queue. A
//! server that hangs would thus block a reactor, and with it every other device.

use super::progress;
use bytes::{Buf, Bytes};
use nitro_port::buf::BufMut;
use rustix::fd::OwnedFd;
use rustix::fs::{FsWord, fstatfs};
use rustix::io::{pread, pwrite, retry_on_intr};
use std::io;

/// The maximum number of concurrent reads and writes of a device that may wait; each takes a thread.
pub(super) const THREADS_MAX: usize = 32;

/// File systems on local disks or in memory (`linux/magic.h`): ext2 to ext4, XFS, Btrfs, F2FS, bcachefs, ZFS, tmpfs,
/// ramfs, overlayfs.
/// ramfs, overlayfs.
const LOCAL: [FsWord; 9] =
    [0xEF53, 0x5846_5342, 0x9123_683E, 0xF2F5_2010, 0xCA45_1A4E, 0x2FC1_2FC1, 0x0102_1994, 0x8584_58F6, 0x794C_7630];

/// Whether a file's reads and writes may wait for something other than a local disk: true for network file systems,
/// FUSE, and unknown file systems.
pub(super) fn may_wait(fd: &OwnedFd) -> io::Result<bool> {
    Ok(!LOCAL.contains(&retry_on_intr(|| fstatfs(fd))?.f_type))
}

/// Reads `len` bytes from `offset` on, in transfers of whole blocks of `block` bytes.
pub(super) fn read(fd: &OwnedFd, block: usize, offset: u64, len: usize) -> io::Result<Bytes> {
    let mut buf = BufMut::with_len(len);
    let mut done = 0;
    while done < len {
        let read = retry_on_intr(|| pread(fd, &mut buf[done..], offset + done as u64))?;
        done += progress(block, read, len - done).ok_or(io::ErrorKind::UnexpectedEof)?;
    }
    Ok(buf.freeze())
}

/// Writes `data` from `offset` on, in transfers of whole blocks of `block` bytes.
pub(super) fn write(fd: &OwnedFd, block: usize, mut offset: u64, mut data: Bytes) -> io::Result<()> {
    while !data.is_empty() {
        let written = retry_on_intr(|| pwrite(fd, &data, offset))?;
        let done = progress(block, written, data.len()).ok_or(io::ErrorKind::WriteZero)?;
        data.advance(done);
        offset += done as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn a_file_of_this_machine_does_not_wait_and_one_of_no_known_file_system_may() {
        assert!(!may_wait(&File::open("/dev/null").unwrap().into()).unwrap());
        assert!(may_wait(&File::open("/proc/self/maps").unwrap().into()).unwrap());
    }

    #[test]
    fn what_is_written_is_read_and_the_end_of_a_file_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let options = File::options().read(true).write(true).create_new(true).clone();
        let file = options.open(folder.path().join("f")).unwrap().into();
        let data = Bytes::from((0..10_000_u32).map(|i| (i % 251) as u8).collect::<Vec<_>>());
        write(&file, 1, 3, data.clone()).unwrap();
        assert_eq!(read(&file, 1, 3, data.len()).unwrap(), data);
        assert_eq!(read(&file, 1, 4, data.len()).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
