//! Writing in order to what may take it slowly, or not at all.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Write};

/// How often a thread that waits for the reader of the output checks whether it has to end.
const WRITE_WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// Bytes for which a pipe has room when it is ready (`PIPE_BUF` of Linux).
const READY_BYTES: usize = 4096;

/// How writes to an output wait for its reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wait {
    /// They do not: it is a file.
    Never,
    /// They fail instead (`O_NONBLOCK`).
    Fail,
    /// They wait for as long as it takes, unless they are short, and the output is ready.
    Long,
}

impl Wait {
    fn of(out: &File) -> io::Result<Self> {
        Ok(match out.metadata()?.is_file() {
            true => Self::Never,
            false if fcntl_getfl(out)?.contains(OFlags::NONBLOCK) => Self::Fail,
            false => Self::Long,
        })
    }
}

/// A file, a pipe or the like.
pub(in crate::cos::transfer) struct Writer {
    out: File,
    wait: Wait,
}

impl Writer {
    /// # Errors
    /// The state of the file cannot be determined.
    pub(in crate::cos::transfer) fn new(out: File) -> io::Result<Self> {
        Ok(Self { wait: Wait::of(&out)?, out })
    }

    /// Writes all bytes, unless `is_over` meanwhile: a reader that does not read does not hold it up.
    ///
    /// # Errors
    /// The error of the operating system.
    pub(in crate::cos::transfer) fn write_all(&self, mut data: &[u8], is_over: impl Fn() -> bool) -> io::Result<()> {
        if self.wait == Wait::Never {
            return (&self.out).write_all(data);
        }
        while !data.is_empty() && !is_over() {
            if self.wait == Wait::Long && !self.is_ready()? {
                continue;
            }
            let len = if self.wait == Wait::Long { data.len().min(READY_BYTES) } else { data.len() };
            match (&self.out).write(&data[..len]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => data = &data[written..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => drop(self.is_ready()?),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Waits a moment until the output takes more.
    fn is_ready(&self) -> io::Result<bool> {
        match poll(&mut [PollFd::new(&self.out, PollFlags::OUT)], Some(&WRITE_WAIT)) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}
