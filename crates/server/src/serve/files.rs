//! Directory trees, mounted: `fuse:MOUNTPOINT`.

use super::Served;
use super::caches::CacheEntry;
use super::connections::{Admission, sleep};
use super::reactors::QueueHost;
use crate::export::{ExportList, VolumeExport};
use crate::origins::{aside, state_folder};
use futures_channel::oneshot;
use futures_util::future::{Either, select};
use nitro_cache::class;
use nitro_config::classes::of_block;
use nitro_config::{Address, CacheStore, Config};
use nitro_console::error::Error;
use nitro_device::net::Peer;
use nitro_device::spawn_local;
use nitro_engine::{Classifier, Learned};
use nitro_frontend::Disks;
use nitro_mount::{Host as MountHost, LocalTask, Options, Session, Tree, check_mountpoint};
use nitro_port::latch::Latch;
use nitro_units::ClassId;
use nitro_vhost::Host;
use parking_lot::Mutex;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Threads that take requests from the kernel. Those that change files wait for them.
const THREADS: usize = 16;
/// How often to see whether someone has unmounted the tree.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// What is to be mounted.
#[derive(Debug, Clone)]
pub(super) struct Mount {
    mountpoint: PathBuf,
    allow_other: bool,
}

/// The mount of a server, if it has one.
#[derive(Debug, Default)]
pub(super) struct MountState {
    pub(super) wanted: Option<Mount>,
    /// It is not mounted any more.
    pub(super) over: Latch,
}

impl MountState {
    /// Its address, for people and scripts.
    pub(super) fn uri(&self) -> Option<String> {
        self.wanted.as_ref().map(|mount| Address::Fuse(mount.mountpoint.clone()).to_string())
    }
}

/// Checks a mountpoint, and that nothing which the server needs is below it. Blocks.
///
/// # Errors
/// With the way out.
pub(super) fn check(config: &Config) -> Result<Option<Mount>, Error> {
    let Some(given) = config.server.listen.iter().find_map(Address::mountpoint) else { return Ok(None) };
    let folder = config.volumes.values().find_map(nitro_config::VolumeConfig::folder).unwrap_or(Path::new("."));
    let (folder, mountpoint) = check_mountpoint(folder, given)?;
    let of_caches = config.caches.values().flat_map(|cache| match &cache.path {
        CacheStore::Paths(paths) => paths.clone(),
        CacheStore::None => Vec::new(),
    });
    for path in of_caches.chain([state_folder()]).chain(config.server.control.clone()) {
        let real = real(&path);
        if real.starts_with(&mountpoint) || real.starts_with(&folder) {
            let place = if real.starts_with(&mountpoint) { "below the mountpoint" } else { "in the directory itself" };
            let why = format!("it is {place}, and the server would wait for itself");
            return Err(Error::new(path.display(), why).or("use a path elsewhere"));
        }
    }
    Ok(Some(Mount { mountpoint, allow_other: config.server.allow_other }))
}

/// A path without links, also of what does not exist yet.
fn real(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let found = absolute.ancestors().find_map(|above| Some((above, fs::canonicalize(above).ok()?)));
    match found {
        Some((above, real)) => absolute.strip_prefix(above).map_or(real.clone(), |rest| real.join(rest)),
        None => absolute,
    }
}

/// Mounts the tree, if one is to be mounted. It is unmounted when the server ends.
///
/// # Errors
/// It cannot be mounted.
pub(super) async fn begin(served: &Arc<Served>, host: QueueHost) -> Result<(), Error> {
    let Some(mount) = served.mount.wanted.clone() else { return Ok(()) };
    let Some(export) = served.all().into_iter().find(|export| export.volume.origin().tree().is_some()) else {
        return Err(Error::new(mount.mountpoint.display(), "there is no tree of files to mount")
            .or("serve an origin files:DIR"));
    };
    let own = i32::try_from(std::process::id()).unwrap_or_default();
    let peer = Peer::Process { uid: rustix::process::getuid().as_raw(), pid: own };
    let admission = served
        .connections
        .admit(peer)
        .map_err(|why| Error::new(mount.mountpoint.display(), why).or("raise max_connections"))?;
    let (started, start) = oneshot::channel();
    spawn_local(live(Arc::clone(served), export, mount, host, (peer, admission), started));
    start.await.unwrap_or_else(|_| Err(Error::new("mount", "it could not be begun")))
}

/// Keeps the mount until the server or the volume ends, or someone unmounts it.
async fn live(
    served: Arc<Served>,
    export: Arc<VolumeExport>,
    mount: Mount,
    host: QueueHost,
    (peer, admission): (Peer, Admission),
    started: oneshot::Sender<Result<(), Error>>,
) {
    let list = ExportList::new(&served, peer, None, || admission.begin());
    let (Some(opened), Some(tree)) = (list.open(&export.name), export.volume.origin().tree().cloned()) else {
        let _ = started.send(Err(Error::new(format_args!("volume {}", export.name), "it is not served any more")));
        return;
    };
    list.begin(&opened.disk);
    let options = Options { allow_other: mount.allow_other, read_only: export.volume.read_only(), threads: THREADS };
    let mountpoint = mount.mountpoint.clone();
    let begun =
        aside(move || Session::begin(tree, (opened.disk, opened.requester), on_threads(host), &mountpoint, options));
    let session = match begun.await.and_then(|begun| begun) {
        Ok(session) => Arc::new(Mutex::new(session)),
        Err(error) => {
            // Who asked may have given up.
            let _ = started.send(Err(error));
            return;
        }
    };
    let _ = started.send(Ok(()));
    let stop = async {
        select(pin!(served.connections.stop.wait()), pin!(list.wait(|export| &export.gone))).await;
    };
    let unmounted = async {
        while !session.lock().is_over() {
            sleep(LOOK_EVERY).await;
        }
    };
    if let Either::Right(_) = select(pin!(stop), pin!(unmounted)).await {
        tracing::info!("{} was unmounted", mount.mountpoint.display());
    }
    let ended = aside(move || session.lock().end()).await.and_then(|ended| ended);
    if let Err(error) = ended {
        tracing::error!("{error}");
    }
    served.mount.over.set();
}

/// Runs requests on the threads that serve clients, in turn.
fn on_threads(host: QueueHost) -> MountHost {
    let next = AtomicUsize::new(0);
    Box::new(move |task: LocalTask| host.spawn(next.fetch_add(1, Ordering::Relaxed), task))
}

/// Classes by the sizes of files.
struct BySize {
    entry: Arc<CacheEntry>,
    tree: Arc<Tree>,
}

impl Classifier for BySize {
    fn look(&self, offset: u64, bytes: &[u8], _: &mut Vec<Learned>) -> Option<ClassId> {
        self.class_of(offset..offset + bytes.len() as u64)
    }

    fn class_of(&self, range: Range<u64>) -> Option<ClassId> {
        let size = self.tree.size_at(range.start)?;
        let ruled = self.entry.classes.of_content(class::Found::File(size));
        Some(ruled.unwrap_or_else(|| of_block(nitro_detect::Found::File(size))))
    }
}

impl CacheEntry {
    /// The classifier of the files of a tree, if the cache finds classes by content.
    pub(crate) fn classifier_of_files(self: &Arc<Self>, tree: &Arc<Tree>) -> Option<Arc<dyn Classifier>> {
        self.detects().then(|| Arc::new(BySize { entry: Arc::clone(self), tree: Arc::clone(tree) }) as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(folder: &Path, cache: &str) -> Result<Option<Mount>, Error> {
        let at = |name: &str| folder.join(name).display().to_string();
        let text = format!(
            "[server]\nlisten = [\"fuse:{}\"]\n[cache.c]\npath = {:?}\n[volume.v]\norigin = \"files:{}\"\n",
            at("point"),
            at(cache),
            at("tree")
        );
        check(&Config::parse(&text).unwrap())
    }

    #[test]
    fn what_the_server_needs_is_neither_in_the_tree_nor_below_the_mountpoint() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["point", "tree"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        assert!(checked(folder.path(), "cache").unwrap().is_some());
        for (cache, why) in [("point/cache", "below the mountpoint"), ("tree/a/cache", "in the directory itself")] {
            let refused = checked(folder.path(), cache).err().map(|e| e.to_string()).unwrap_or_default();
            assert!(refused.contains(why), "{refused}");
        }
    }
}
