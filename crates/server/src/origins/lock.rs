//! Keeps two servers of this machine from serving one origin on another machine, of which one writes.

use crate::origins::state_folder;
use nitro_console::error::Error;
use nitro_device::patiently;
use nitro_files as files;
use rustix::fs::{CWD, FlockOperation, Mode, OFlags, flock, openat};
use rustix::io::{Errno, retry_on_intr};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;

/// Longer notes are cut.
const NOTE_BYTES_MAX: u64 = 4096;

/// Taken until it is dropped, or the process ends.
pub(super) struct Lock {
    file: Option<File>,
}

impl Lock {
    /// Takes the lock of an origin with that name. `None`: another server has it. May block.
    ///
    /// # Errors
    /// The state folder cannot be used.
    pub(super) fn take(name: &str, read_only: bool) -> io::Result<Option<Self>> {
        files::own_folder(&state_folder())?;
        let path = state_folder().join(format!("origin-{name}.lock"));
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = File::from(openat(CWD, &path, flags, Mode::RUSR | Mode::WUSR)?);
        let operation =
            if read_only { FlockOperation::NonBlockingLockShared } else { FlockOperation::NonBlockingLockExclusive };
        match patiently(|| retry_on_intr(|| flock(&file, operation)), |e| *e == Errno::WOULDBLOCK) {
            Ok(()) => Ok(Some(Self { file: Some(file) })),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The text that the last one who had the lock has left; `None`: there is none. May block.
    pub(super) fn note(&self) -> Option<String> {
        let mut text = String::new();
        self.file.as_ref()?.take(NOTE_BYTES_MAX).read_to_string(&mut text).ok()?;
        Some(text).filter(|text| !text.is_empty())
    }

    /// Leaves a text for the next one who has the lock. May block.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn set_note(&self, text: &str) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        file.set_len(0)?;
        file.write_all_at(text.as_bytes(), 0)
    }

    /// No lock, where there can be none.
    pub(super) fn none(what: &str, why: &io::Error) -> Self {
        tracing::warn!(
            "{what}: {}: {why}: another server of this machine is not kept from serving it, too",
            state_folder().display()
        );
        Self { file: None }
    }
}

/// The error of an origin that another server has.
pub(super) fn in_use(what: &str) -> Error {
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
        assert!(writer.as_ref().is_some_and(|lock| lock.note().is_none()) && take(true).is_none());
        writer.unwrap().set_note("longer than it").unwrap();
        let writer = take(false).unwrap();
        assert_eq!(writer.note().as_deref(), Some("longer than it"));
        writer.set_note("note").unwrap();
        drop(writer);
        assert_eq!(take(true).unwrap().note().as_deref(), Some("note"));
        let _ = std::fs::remove_file(state_folder().join(format!("origin-{name}.lock")));
    }
}
