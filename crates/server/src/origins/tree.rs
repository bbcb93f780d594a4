//! Directory trees: `files:DIR`. The volume is the address space of crate `nitro-mount`, in which each file has slots; it is served
//! as a mount (`fuse:MOUNTPOINT`) and by nothing else.
//!
//! The tree's table of slots is in the state folder, under a name made of the directory's identity. The volume is recognised
//! by the table: with another table, what is cached means something else.

use super::{
    Backing, Fence, Identity, Look, NamedOrigin, OpenOrigin, Scheme, VolumeMarks, aside, digest, refuse_emulation,
    state_folder,
};
use futures_util::future::{FutureExt, LocalBoxFuture};
use nitro_config::VolumeConfig;
use nitro_console::error::Error;
use nitro_device::Blocking;
use nitro_mount::{Table, TableError, Tree, address};
use nitro_port::buf::BufMut;
use nitro_port::{Bytes, Device, DeviceError, ErrorKind, Geometry, Means, Operation, StorageId, plain_origin};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Requests to the tree's files at a time, each on a thread.
const THREADS_MAX: usize = 64;
/// Threads that stay.
const THREADS_KEPT: usize = 4;

/// The scheme `files`.
pub struct Trees;

/// A directory, by its path.
struct AtPath(PathBuf);

impl Scheme for Trees {
    fn name(&self) -> &'static str {
        nitro_config::FILES_SCHEME
    }

    fn form(&self) -> &'static str {
        "files:DIR"
    }

    fn named(&self, rest: &str) -> Result<Box<dyn NamedOrigin>, Error> {
        match rest {
            "" => Err(Error::new("files:", "it names no directory").or("write files:DIR")),
            path => Ok(Box::new(AtPath(path.into()))),
        }
    }
}

impl NamedOrigin for AtPath {
    fn absolute(&self) -> io::Result<PathBuf> {
        let mut text = std::ffi::OsString::from(format!("{}:", nitro_config::FILES_SCHEME));
        text.push(std::path::absolute(&self.0)?);
        Ok(text.into())
    }

    fn volume_name(&self) -> String {
        let name =
            std::path::absolute(&self.0).ok().and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
        name.unwrap_or_else(|| "files".to_owned())
    }

    fn host_path(&self) -> Option<&Path> {
        Some(&self.0)
    }

    fn is_host(&self) -> bool {
        false
    }

    fn open<'a>(&'a self, volume: &'a str, config: &'a VolumeConfig) -> LocalBoxFuture<'a, Result<OpenOrigin, Error>> {
        async move {
            let origin = self.open_tree(config).await?.ok_or_else(|| {
                Error::new(self.what(), "another server has mounted it")
                    .or("unmount that one first: nitro status shows it")
            })?;
            nitro_console::output::note!("volume {volume}: the files in {}", self.0.display());
            Ok(origin)
        }
        .boxed_local()
    }

    fn look<'a>(
        &'a self,
        _: &'a str,
        config: &'a VolumeConfig,
    ) -> LocalBoxFuture<'a, Result<Option<OpenOrigin>, Error>> {
        self.open_tree(config).boxed_local()
    }
}

/// The tree has no time of change: each of its files is compared when it is opened.
struct OfTree(Arc<Tree>, PathBuf);

impl Identity for OfTree {
    fn look(&self, size_bytes: u64) -> io::Result<Look> {
        Ok(Look { size_bytes, mtime_ns: None })
    }

    fn look_durably(&self, size_bytes: u64) -> io::Result<Look> {
        self.look(size_bytes)
    }

    fn is_at_its_name(&self) -> bool {
        let named = File::open(&self.1).and_then(nitro_mount::look);
        matches!((named, nitro_mount::look(self.0.root())), (Ok(named), Ok(open)) if named.key == open.key)
    }
}

impl AtPath {
    fn what(&self) -> String {
        format!("directory {}", self.0.display())
    }

    /// `None`: another server has it.
    async fn open_tree(&self, config: &VolumeConfig) -> Result<Option<OpenOrigin>, Error> {
        let what = self.what();
        refuse_emulation(&what, config)?;
        let path = self.0.clone();
        let opened = aside(move || {
            let root = File::open(&path)?;
            let name = mark_name(&path, &root)?;
            nitro_files::own_folder(&state_folder())?;
            let table = match Table::open(&state_folder().join(format!("{name}.table"))) {
                Ok(table) => table,
                Err(TableError::InUse) => return Ok(None),
                Err(TableError::Io(error)) => return Err(error),
            };
            Ok(Some((Arc::new(Tree::open(&path, table)?), name)))
        });
        let opened = opened.await?.map_err(|e| Error::new(&what, e).or("name a directory that this user may read"))?;
        let Some((tree, name)) = opened else { return Ok(None) };
        let mut id = StorageId::default();
        id.add(Means::Object, &[b"nitro files", &tree.table().id()]);
        let identity = OfTree(Arc::clone(&tree), self.0.clone());
        let look = identity.look(address::SIZE_BYTES).map_err(|e| Error::new(&what, e))?;
        let device =
            TreeDevice::new(tree).map_err(|e| Error::new("threads", e).or("raise the limit of threads (ulimit -u)"))?;
        Ok(Some(OpenOrigin {
            device: Backing::Tree(Box::new(device)),
            identity: Arc::new(identity),
            marks: VolumeMarks::of(&id),
            id,
            look,
            fence: Fence::named(&self.0, &name),
            read_only: config.read_only,
        }))
    }
}

/// A name made of what the directory is recognised by, or of its path where nothing that lasts recognises it.
fn mark_name(path: &Path, root: &File) -> io::Result<String> {
    let id = nitro_device::identify(root)?;
    let text = match id.names().next() {
        Some(name) if id.is_lasting() => name.into_bytes(),
        _ => std::fs::canonicalize(path)?.as_os_str().as_bytes().to_vec(),
    };
    Ok(format!("files-{}", digest(&text)))
}

/// The files of a tree as a device.
pub struct TreeDevice {
    tree: Arc<Tree>,
    threads: Blocking,
}

impl TreeDevice {
    fn new(tree: Arc<Tree>) -> io::Result<Self> {
        Ok(Self { tree, threads: Blocking::keeping(THREADS_KEPT, THREADS_MAX)? })
    }

    /// The tree.
    pub(crate) fn tree(&self) -> &Arc<Tree> {
        &self.tree
    }

    /// RAM besides the data of requests, in bytes, and threads.
    pub(crate) fn ram() -> (u64, u64) {
        (Tree::ram_bytes(), THREADS_MAX as u64)
    }

    /// Runs `work` on one of the threads.
    async fn run<T: Send + 'static>(
        &self,
        (operation, offset, len): (Operation, u64, u64),
        work: impl FnOnce(&Tree) -> io::Result<T> + Send + 'static,
    ) -> Result<T, DeviceError> {
        let tree = Arc::clone(&self.tree);
        let done = self.threads.run(move || work(&tree)).await.and_then(|done| done);
        done.map_err(|e| DeviceError::from_io(e, operation, offset, len))
    }
}

impl Device for TreeDevice {
    fn geometry(&self) -> Geometry {
        Geometry { size_bytes: address::SIZE_BYTES, block_bytes: 1, preferred_bytes: 4096, rotational: false }
    }

    async fn read(&self, offset: u64, len: usize) -> Result<Bytes, DeviceError> {
        DeviceError::check(&self.geometry(), Operation::Read, offset, len as u64)?;
        let read = move |tree: &Tree| {
            let mut bytes = BufMut::zeroed(len);
            tree.read_at(offset, &mut bytes)?;
            Ok(bytes.freeze())
        };
        self.run((Operation::Read, offset, len as u64), read).await
    }

    async fn write(&self, offset: u64, data: Bytes) -> Result<(), DeviceError> {
        let len = data.len() as u64;
        DeviceError::check(&self.geometry(), Operation::Write, offset, len)?;
        self.run((Operation::Write, offset, len), move |tree| tree.write_at(offset, &data)).await
    }

    async fn flush(&self) -> Result<(), DeviceError> {
        self.run((Operation::Flush, 0, 0), Tree::flush).await
    }

    /// Has no effect: the mount has changed the file already, and tells the cache to forget what was there.
    async fn discard(&self, _: u64, _: u64) -> Result<(), DeviceError> {
        Ok(())
    }

    async fn write_zeroes(&self, offset: u64, len: u64, _: bool) -> Result<(), DeviceError> {
        Err(DeviceError::new(ErrorKind::Unsupported, Operation::WriteZeroes, offset, len))
    }
}

plain_origin!(TreeDevice);
