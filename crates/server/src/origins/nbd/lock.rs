//! Keeps two servers of this machine from serving one origin of another machine, of which one writes.

use crate::origins::state_folder;
use nitro_console::error::Error;
use nitro_device::patiently;
use nitro_files as files;
use rustix::fs::{CWD, FlockOperation, Mode, OFlags, flock, openat};
use rustix::io::{Errno, retry_on_intr};
use std::fs::File;
use std::io;

/// Taken until it is dropped, or the process ends.
pub(in crate::origins) struct Lock {
    _file: Option<File>,
}

impl Lock {
    /// Takes the lock of an origin with that name. `None`: another server has it. May block.
    ///
    /// # Errors
    /// The state folder cannot be used.
    pub(in crate::origins) fn take(name: &str, read_only: bool) -> io::Result<Option<Self>> {
        files::own_folder(&state_folder())?;
        let path = state_folder().join(format!("origin-{name}.lock"));
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = File::from(openat(CWD, &path, flags, Mode::RUSR | Mode::WUSR)?);
        let operation =
            if read_only { FlockOperation::NonBlockingLockShared } else { FlockOperation::NonBlockingLockExclusive };
        match patiently(|| retry_on_intr(|| flock(&file, operation)), |e| *e == Errno::WOULDBLOCK) {
            Ok(()) => Ok(Some(Self { _file: Some(file) })),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// No lock, where there can be none.
    pub(in crate::origins) fn none(what: &str, why: &io::Error) -> Self {
        tracing::warn!(
            "{what}: {}: {why}: another server of this machine is not kept from serving it, too",
            state_folder().display()
        );
        Self { _file: None }
    }
}

/// The error of an origin that another server has.
pub(in crate::origins) fn in_use(what: &str) -> Error {
    Error::new(what, "another server of this machine serves it").or("stop that server, or serve it read-only in both")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_excludes_others_and_readers_do_not() {
        let name = format!("test-{}", std::process::id());
        let take = |read_only| Lock::take(&name, read_only).unwrap();
        let readers = [take(true), take(true)];
        assert!(readers.iter().all(Option::is_some) && take(false).is_none());
        drop(readers);
        let writer = take(false);
        assert!(writer.is_some() && take(true).is_none());
        drop(writer);
        assert!(take(true).is_some());
        let _ = std::fs::remove_file(state_folder().join(format!("origin-{name}.lock")));
    }
}
