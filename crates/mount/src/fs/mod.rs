//! The file system as the kernel asks for it: requests that concern names and attributes are passed on to the tree by the
//! thread that has got them; reads go to the disk on the threads that serve it, and are answered from there; changes of
//! data wait for the disk.

mod data;
mod folders;
mod making;
mod names;
mod requests;
mod settings;

pub(crate) use requests::Requests;

use crate::attributes::attributes;
use crate::file::CachedFile;
use crate::handles::{Handles, OpenFile, OpenFolder};
use crate::nodes::{Node, Nodes};
use crate::permits::Permits;
use crate::tree::Tree;
use crate::version::look;
use fuser::{Errno, FileAttr, INodeNo, Notifier};
use futures_channel::oneshot;
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use nitro_frontend::{Disk, DiskError, Requester};
use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, openat};
use std::ffi::OsStr;
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// How long the kernel may use names and attributes without asking again, as NFS clients do: a change behind the mount's
/// back may stay unnoticed for so long, except by who opens the file.
pub(super) const TTL: Duration = Duration::from_secs(1);
/// Reads that are under way at the disk at most.
pub(crate) const READS_MAX: usize = 256;

/// Makes a future, on the thread that runs it.
pub type LocalTask = Box<dyn FnOnce() -> LocalBoxFuture<'static, ()> + Send>;

/// Runs a task on a thread that serves the disk. `false`: these threads have ended.
pub type Host = Box<dyn Fn(LocalTask) -> bool + Send + Sync>;

/// A mounted tree.
pub(crate) struct Files<D> {
    pub(crate) tree: Arc<Tree>,
    disk: Arc<D>,
    from: Requester,
    host: Host,
    pub(crate) nodes: Nodes,
    open: Handles<OpenFile>,
    folders: Handles<OpenFolder>,
    reads: Arc<Permits>,
    /// Tells the kernel what is old; known once it is mounted.
    pub(crate) notifier: OnceLock<Notifier>,
    /// Files are made for the users who ask, not for the server's.
    is_root: bool,
    /// The bits that the server's umask takes from the modes of new files.
    umask: u32,
}

/// The number of an error for the kernel.
pub(super) fn number(error: &io::Error) -> Errno {
    let by_kind = || match error.kind() {
        io::ErrorKind::NotFound => Errno::ENOENT,
        _ => Errno::EIO,
    };
    error.raw_os_error().map_or_else(by_kind, Errno::from_i32)
}

fn disk_error(error: DiskError) -> io::Error {
    use rustix::io::Errno;
    io::Error::from(match error {
        DiskError::Io | DiskError::OutOfRange => Errno::IO,
        DiskError::ReadOnly => Errno::ROFS,
        DiskError::NoSpace => Errno::NOSPC,
        DiskError::Unsupported => Errno::NOTSUP,
    })
}

impl<D: Disk + Send + Sync + 'static> Files<D> {
    /// At most about `nodes_max` inodes are to be known at a time.
    ///
    /// # Errors
    /// The tree's root cannot be examined.
    pub(crate) fn new(
        tree: Arc<Tree>,
        (disk, from): (Arc<D>, Requester),
        host: Host,
        nodes_max: usize,
    ) -> io::Result<Self> {
        let root = openat(tree.root(), ".", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let stat = fstat(&root)?;
        // It can only be read by setting it.
        let umask = rustix::process::umask(Mode::from_raw_mode(0o077));
        rustix::process::umask(umask);
        Ok(Self {
            tree,
            disk,
            from,
            host,
            nodes: Nodes::new(root, &stat, nodes_max),
            open: Handles::default(),
            folders: Handles::default(),
            reads: Permits::new(READS_MAX),
            notifier: OnceLock::new(),
            is_root: rustix::process::geteuid().is_root(),
            umask: umask.as_raw_mode(),
        })
    }

    fn node(&self, number: INodeNo) -> io::Result<Arc<Node>> {
        self.nodes.get(number.0)
    }

    /// Finds a name, and notes that the kernel is told the number.
    fn look_up(&self, parent: &Node, name: &OsStr) -> io::Result<(Arc<Node>, FileAttr)> {
        let fd = openat(&parent.fd, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
        let stat = fstat(&fd)?;
        let node = self.nodes.enter(parent.number, name, fd, &stat);
        let attributes = attributes(node.number, &stat);
        Ok((node, attributes))
    }

    fn attributes(node: &Node) -> io::Result<FileAttr> {
        Ok(attributes(node.number, &fstat(&node.fd)?))
    }

    /// The data of a regular file, if they are cached. `only_known`: only if something of it is cached already.
    fn cached<'a>(&self, node: &'a Node, stat: &Stat, only_known: bool) -> io::Result<Option<&'a Arc<CachedFile>>> {
        if let Some(file) = node.file.get() {
            return Ok(Some(file));
        }
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Ok(None);
        }
        let seen = look(&node.fd)?;
        let file = if only_known { self.tree.known_file(seen) } else { self.tree.file(seen) };
        Ok(file.map(|file| node.file.get_or_init(|| file)))
    }

    /// Changes attributes of a file, of which something may be cached: the change is not one behind the mount's back.
    fn change_attributes<T>(&self, node: &Node, change: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        match self.cached(node, &fstat(&node.fd)?, true)? {
            Some(file) => file.change(&node.fd, change),
            None => change(),
        }
    }

    /// Runs a request on a thread that serves the disk, and waits for its answer.
    fn ask<T: Send + 'static>(
        &self,
        make: impl FnOnce(Arc<D>, Requester) -> LocalBoxFuture<'static, Result<T, DiskError>> + Send + 'static,
    ) -> io::Result<T> {
        let (answer, answered) = oneshot::channel();
        let (disk, from) = (Arc::clone(&self.disk), self.from);
        let task: LocalTask = Box::new(move || {
            async move {
                // Who asks waits for it.
                let _ = answer.send(make(disk, from).await);
            }
            .boxed_local()
        });
        let ended = || io::Error::other("the threads that serve the disk have ended");
        if !(self.host)(task) {
            return Err(ended());
        }
        futures_executor::block_on(answered).map_err(|_| ended())?.map_err(disk_error)
    }

    /// Has the kernel ask again for the attributes of an inode.
    fn forget_attributes(&self, node: &Node) {
        if let Some(notifier) = self.notifier.get() {
            // The kernel may not know it any more.
            let _ = notifier.inval_inode(INodeNo(node.number), -1, 0);
        }
    }
}
