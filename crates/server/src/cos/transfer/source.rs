//! The source of an import, and whether it stays what it was while it is read.
//!
//! A file is recognised by its inode, and its content by the times at which the content and the inode were changed (the
//! latter cannot be set). A write by way of a memory map updates these times only when the page was clean, so that the
//! file is synchronised first. The kernel keeps no such times of a block device, but counts its writes.

use nitro_console::error::Error;
use rustix::fs::{AtFlags, SeekFrom, StatxFlags, fdatasync, major, minor, seek, statx};
use std::fs::{self, File};
use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Most time between two changes that get the same time from the kernel.
const TICK: Duration = Duration::from_millis(20);
/// The same for file systems with times of whole seconds, or of two. Only a file that was not changed for so long is
/// certainly the same when it is read again later.
const SETTLED: Duration = Duration::from_secs(3);

/// A point in time: seconds and nanoseconds since 1970.
type Time = (i64, u32);

/// What a source was at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum State {
    File {
        device: u64,
        inode: u64,
        size: u64,
        modified: Time,
        changed: Time,
    },
    /// A block device; `writes`: those that it has completed, and discards, if they are known.
    Device {
        size: u64,
        writes: Option<(u64, u64)>,
    },
    /// A pipe and the like, whose content is read once as it comes.
    Stream,
}

/// A source, and what it was when it was opened.
pub(super) struct Source {
    pub(super) file: File,
    state: State,
}

impl Source {
    /// Notes what `file` is now; `path` is its name in errors.
    ///
    /// # Errors
    /// It is a folder, or its state cannot be determined.
    pub(super) fn new(file: File, path: &Path) -> Result<Self, Error> {
        let fail = |e: io::Error| Error::new(path.display(), e);
        let meta = file.metadata().map_err(fail)?;
        if meta.is_dir() {
            return Err(
                Error::new(path.display(), "it is a folder").or("import a file, a block device or standard input")
            );
        }
        if meta.is_file() {
            // Only of use if it is possible: not on a file system that is read-only.
            let _ = fdatasync(&file);
            if age((meta.ctime(), meta.ctime_nsec() as u32)).is_none_or(|age| age < TICK) {
                thread::sleep(TICK);
            }
        }
        let state = observe(&file).map_err(fail)?;
        Ok(Self { file, state })
    }

    /// Its size in bytes.
    ///
    /// # Errors
    /// It has none.
    pub(super) fn size(&self) -> io::Result<u64> {
        match self.state {
            State::File { size, .. } | State::Device { size, .. } => Ok(size),
            State::Stream => Ok(seek(&self.file, SeekFrom::End(0))?),
        }
    }

    /// A number that identifies the source and its content, and whether it is the same in another run of the program: not
    /// for block devices, which may be written without a trace meanwhile, nor for files that were changed just now.
    pub(super) fn token(&self) -> (u64, bool) {
        let is_settled = match self.state {
            State::File { changed, modified, .. } => {
                [changed, modified].iter().all(|time| age(*time).is_some_and(|age| age >= SETTLED))
            }
            State::Device { .. } | State::Stream => false,
        };
        if !is_settled {
            return (RandomState::new().hash_one(self.state), false);
        }
        let mut hasher = DefaultHasher::new();
        self.state.hash(&mut hasher);
        (hasher.finish(), true)
    }

    /// Checks that the source is still what it was; `path` is its name in the error.
    ///
    /// # Errors
    /// It was changed, or its state cannot be determined.
    pub(super) fn check(&self, path: &Path) -> Result<(), Error> {
        let now = observe(&self.file).map_err(|e| Error::new(path.display(), e))?;
        let Some(why) = change(self.state, now) else { return Ok(()) };
        Err(Error::new(path.display(), why)
            .or("no part of the import is kept; end what writes to it, or import a copy or a snapshot"))
    }
}

/// How the state of a source changed.
fn change(before: State, now: State) -> Option<&'static str> {
    Some(match (before, now) {
        _ if before == now => return None,
        (State::File { size: before, .. }, State::File { size: now, .. }) if now < before => {
            "it became shorter while it was read"
        }
        (State::File { modified: before, .. }, State::File { modified: now, .. }) if now == before => {
            "its metadata, and perhaps its content, were changed while it was read"
        }
        (State::Device { size: before, .. }, State::Device { size: now, .. }) if now == before => {
            "it was written to while it was read"
        }
        _ => "it was changed while it was read",
    })
}

/// The time since `time`; `None`: it is in the future.
fn age(time: Time) -> Option<Duration> {
    let time = UNIX_EPOCH.checked_add(Duration::new(u64::try_from(time.0).ok()?, time.1))?;
    SystemTime::now().duration_since(time).ok()
}

fn observe(file: &File) -> io::Result<State> {
    let meta = file.metadata()?;
    if meta.file_type().is_block_device() {
        return Ok(State::Device { size: seek(file, SeekFrom::End(0))?, writes: writes(meta.rdev()) });
    }
    if !meta.is_file() {
        return Ok(State::Stream);
    }
    // The server of a network file system is asked; kernels and sandboxes without statx have what they have.
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_FORCE_SYNC;
    Ok(match statx(file, "", flags, StatxFlags::BASIC_STATS) {
        Ok(found) => State::File {
            device: meta.dev(),
            inode: found.stx_ino,
            size: found.stx_size,
            modified: (found.stx_mtime.tv_sec, found.stx_mtime.tv_nsec),
            changed: (found.stx_ctime.tv_sec, found.stx_ctime.tv_nsec),
        },
        Err(_) => State::File {
            device: meta.dev(),
            inode: meta.ino(),
            size: meta.len(),
            modified: (meta.mtime(), meta.mtime_nsec() as u32),
            changed: (meta.ctime(), meta.ctime_nsec() as u32),
        },
    })
}

/// The numbers of writes and of discards that a block device has completed (Documentation/block/stat.rst of Linux).
fn writes(device: u64) -> Option<(u64, u64)> {
    let stat = fs::read_to_string(format!("/sys/dev/block/{}:{}/stat", major(device), minor(device))).ok()?;
    let mut fields = stat.split_ascii_whitespace();
    let writes = fields.nth(4)?.parse().ok()?;
    // Kernels before 4.18 do not count discards.
    Some((writes, fields.nth(6).and_then(|discards| discards.parse().ok()).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::FileTimes;
    use std::io::Write;
    use std::os::unix::fs::FileExt;

    fn file() -> (tempfile::NamedTempFile, Source) {
        let mut named = tempfile::NamedTempFile::new().unwrap();
        named.write_all(&[7; 10_000]).unwrap();
        let source = Source::new(File::open(named.path()).unwrap(), named.path()).unwrap();
        (named, source)
    }

    #[test]
    fn every_change_is_noticed() {
        let check = |source: &Source| source.check(Path::new("disk")).map_err(|error| error.to_string());
        let (named, source) = file();
        assert_eq!((check(&source), source.size().unwrap()), (Ok(()), 10_000));
        named.as_file().set_len(5000).unwrap();
        assert!(check(&source).is_err_and(|error| error.contains("shorter")));

        let (named, source) = file();
        named.as_file().write_all_at(b"x", 3).unwrap();
        assert!(check(&source).is_err_and(|error| error.contains("changed while it was read")));

        // The time of the content is set back, as `cp -p`, `touch -r` and `rsync` do.
        let (named, source) = file();
        let modified = named.as_file().metadata().unwrap().modified().unwrap();
        named.as_file().write_all_at(b"x", 3).unwrap();
        named.as_file().set_times(FileTimes::new().set_modified(modified)).unwrap();
        assert!(check(&source).is_err_and(|error| error.contains("perhaps its content")));
    }

    #[test]
    fn only_what_was_not_changed_for_a_while_is_recognised_later() {
        let (named, source) = file();
        let (token, is_lasting) = source.token();
        assert!(!is_lasting);
        assert_ne!(source.token().0, token, "no other import continues this one");
        let State::File { device, inode, size, .. } = source.state else { panic!("a file") };
        let old = |inode, changed| {
            let state = State::File { device, inode, size, modified: (1_000_000, 5), changed: (changed, 6) };
            Source { file: File::open(named.path()).unwrap(), state }
        };
        assert_eq!(old(inode, 1_000_000).token(), old(inode, 1_000_000).token());
        assert!(old(inode, 1_000_000).token().1);
        assert_ne!(old(inode, 1_000_000).token(), old(inode + 1, 1_000_000).token(), "another file");
        assert_ne!(old(inode, 1_000_000).token(), old(inode, 1_000_001).token(), "a changed one");
        assert!(!old(inode, 1 << 40).token().1, "its time is ahead of the clock");
    }
}
