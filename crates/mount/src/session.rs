//! The mount, from its beginning to its end.

use crate::fs::{Files, Host, Requests};
use crate::tree::Tree;
use fuser::{BackgroundSession, Config, INodeNo, MountOption, SessionACL};
use nitro_console::error::Error;
use nitro_frontend::{Disk, Requester};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How often versions of files are noted in the table, and surplus inodes are looked for.
const NOTE_EVERY: Duration = Duration::from_secs(1);
/// How long those who use the mount may go on after it was taken away.
const LEAVE_MAX: Duration = Duration::from_secs(5);
/// Of the descriptors that a process may have, the part for inodes.
const NODES_PERCENT: u64 = 75;
/// The kind of file system that `/proc/mounts` shows.
const SUBTYPE: &str = "nitro";

/// How a tree is mounted.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Users other than the server's may use it. An ordinary user needs `user_allow_other` in `/etc/fuse.conf` for this.
    pub allow_other: bool,
    /// All changes are refused.
    pub read_only: bool,
    /// Threads that take requests from the kernel.
    pub threads: usize,
}

/// A mounted tree. If it is dropped, it is unmounted.
pub struct Session {
    mountpoint: PathBuf,
    background: Option<BackgroundSession>,
    tree: Arc<Tree>,
    noting: Option<(Sender<()>, JoinHandle<()>)>,
}

/// Checks that a directory can be mounted at a mountpoint: neither is in the other, and no mount whose server has ended is there.
/// Returns the paths without links.
///
/// # Errors
/// With the way out.
pub fn check_mountpoint(folder: &Path, mountpoint: &Path) -> Result<(PathBuf, PathBuf), Error> {
    let what = format!("mountpoint {}", mountpoint.display());
    let real_folder = fs::canonicalize(folder).map_err(|e| {
        let way_out = match is_stale(&e) {
            true => left_behind(folder),
            false => "name a directory that this user may read".to_owned(),
        };
        Error::new(format_args!("directory {}", folder.display()), e).or(way_out)
    })?;
    match fs::metadata(mountpoint) {
        Ok(found) if found.is_dir() => {}
        Ok(_) => return Err(Error::new(what, "it is not a directory").or("name an empty directory")),
        Err(error) if is_stale(&error) => {
            let why = "a mount is there whose server has ended (it was killed, or has crashed)";
            return Err(Error::new(what, why).or(left_behind(mountpoint)));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let way_out = format!("create it: mkdir {}", mountpoint.display());
            return Err(Error::new(what, "it does not exist").or(way_out));
        }
        Err(error) => return Err(Error::new(what, error).or("name a directory of this user")),
    }
    let real = fs::canonicalize(mountpoint).map_err(|e| Error::new(&what, e))?;
    let why = if real.starts_with(&real_folder) {
        "it is in the directory that would be mounted there"
    } else if real_folder.starts_with(&real) {
        "the directory that would be mounted is in it, and could not be reached any more"
    } else {
        return Ok((real_folder, real));
    };
    Err(Error::new(what, why).or("name a directory elsewhere"))
}

/// Whether an error is that of a mount without a server.
fn is_stale(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOTCONN | Errno::CONNABORTED))
}

fn left_behind(mountpoint: &Path) -> String {
    format!("unmount it first: fusermount3 -u {}", mountpoint.display())
}

/// Raises the limit of descriptors as far as it may be; returns the number of inodes that are to be known at a time.
fn raise_descriptors() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let now = if setrlimit(Resource::Nofile, raised).is_ok() { limit.maximum } else { limit.current };
    // No limit at all is one of the kernel's: fs.nr_open, a million.
    usize::try_from(now.unwrap_or(1 << 20) * NODES_PERCENT / 100).unwrap_or(1024)
}

impl Session {
    /// Mounts a tree, whose data go through `disk` on the threads of `host`.
    ///
    /// # Errors
    /// The kernel or fusermount3 refuses it.
    pub fn begin<D: Disk + Send + Sync + 'static>(
        tree: Arc<Tree>,
        (disk, from): (Arc<D>, Requester),
        host: Host,
        mountpoint: &Path,
        options: Options,
    ) -> Result<Self, Error> {
        let what = format!("mountpoint {}", mountpoint.display());
        let files = Files::new(Arc::clone(&tree), (disk, from), host, raise_descriptors())
            .map_err(|e| Error::new(tree.path().display(), e))?;
        let files = Arc::new(files);
        let mut config = Config::default();
        config.mount_options.extend([
            MountOption::FSName(tree.path().display().to_string().replace(',', "_")),
            MountOption::Subtype(SUBTYPE.to_owned()),
            MountOption::DefaultPermissions,
            MountOption::NoDev,
            if options.read_only { MountOption::RO } else { MountOption::RW },
        ]);
        if options.allow_other {
            config.acl = SessionACL::All;
        }
        config.n_threads = Some(options.threads.max(1));
        config.clone_fd = options.threads > 1;
        let background = fuser::spawn_mount2(Requests(Arc::clone(&files)), mountpoint, &config).map_err(|e| {
            let way_out = match e.kind() {
                io::ErrorKind::NotFound => {
                    "install fusermount3 (package fuse3), and see that /dev/fuse exists: modprobe fuse"
                }
                io::ErrorKind::PermissionDenied if options.allow_other => {
                    "leave out --allow-other, or have user_allow_other written into /etc/fuse.conf"
                }
                _ => "see that /dev/fuse may be used, that fusermount3 is there, and that the directory is this user's",
            };
            Error::new(&what, e.to_string().trim()).or(way_out)
        })?;
        // It is set once.
        let _ = files.notifier.set(background.notifier());
        let (stop, stopped) = channel();
        let noting = thread::Builder::new().name("nitro-files".to_owned()).spawn(move || {
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(NOTE_EVERY) {
                files.tree.note();
                for place in files.nodes.surplus() {
                    if let Some(notifier) = files.notifier.get() {
                        // The kernel may not know it any more, or someone uses it.
                        let _ = notifier.inval_entry(INodeNo(place.parent), &place.name);
                    }
                }
            }
        });
        let mut session = Self { mountpoint: mountpoint.to_owned(), background: Some(background), tree, noting: None };
        match noting {
            Ok(thread) => session.noting = Some((stop, thread)),
            Err(error) => {
                session.end()?;
                return Err(Error::new("threads", error).or("raise the limit of threads (ulimit -u, TasksMax=)"));
            }
        }
        Ok(session)
    }

    /// Whether it was unmounted, by whomever.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.background.as_ref().is_none_or(|background| background.guard.is_finished())
    }

    /// Unmounts the tree. Who still uses it may go on for a few seconds, and then gets errors. Blocks.
    ///
    /// # Errors
    /// It cannot be unmounted.
    pub fn end(&mut self) -> Result<(), Error> {
        let Some(background) = self.background.take() else { return Ok(()) };
        let unmounted = match background.guard.is_finished() {
            true => Ok(()),
            false => unmount_lazily(&self.mountpoint),
        };
        let until = Instant::now() + LEAVE_MAX;
        while unmounted.is_ok() && !background.guard.is_finished() && Instant::now() < until {
            thread::sleep(Duration::from_millis(10));
        }
        let is_over = background.guard.is_finished();
        if unmounted.is_ok() && !is_over {
            tracing::warn!(
                "{}: files of the mount are still in use; who uses them gets errors",
                self.mountpoint.display()
            );
        }
        if !is_over {
            // Dropped, it would unmount what may be mounted there by now; the end of the process closes it.
            std::mem::forget(background);
        }
        if let Some((stop, thread)) = self.noting.take() {
            drop(stop);
            // A panic was reported by the hook.
            let _ = thread.join();
        }
        self.tree.note();
        unmounted.map_err(|e| {
            Error::new(format_args!("mountpoint {}", self.mountpoint.display()), e).or(left_behind(&self.mountpoint))
        })
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            tracing::warn!("{error}");
        }
    }
}

/// Takes a mount out of the tree of names, as the user who has mounted it may; who uses it keeps it for now.
fn unmount_lazily(mountpoint: &Path) -> io::Result<()> {
    let done = Command::new("fusermount3").args(["-u", "-z", "--"]).arg(mountpoint).output()?;
    match done.status.success() {
        true => Ok(()),
        false => Err(io::Error::other(String::from_utf8_lossy(&done.stderr).trim().to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mountpoint_is_outside_of_the_tree_and_the_tree_outside_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["tree", "tree/in", "point", "treetop"] {
            fs::create_dir(at(name)).unwrap();
        }
        fs::write(at("file"), "").unwrap();
        std::os::unix::fs::symlink(at("tree/in"), at("link")).unwrap();
        let refused = |tree: &str, point: &str| {
            check_mountpoint(&at(tree), &at(point)).err().map(|e| e.to_string()).unwrap_or_default()
        };
        for (tree, point) in [("tree", "point"), ("tree", "treetop"), ("link", "point")] {
            assert_eq!(refused(tree, point), "", "{tree} at {point}");
        }
        for (tree, point, why) in [
            ("tree", "tree", "is in the directory"),
            ("tree", "link", "is in the directory"),
            ("tree/in", "tree", "could not be reached"),
            ("tree", "file", "not a directory"),
            ("tree", "none", "mkdir"),
            ("none", "point", "name a directory"),
        ] {
            assert!(refused(tree, point).contains(why), "{tree} at {point}: {}", refused(tree, point));
        }
    }
}
