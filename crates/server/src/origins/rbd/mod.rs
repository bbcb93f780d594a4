//! Images of Ceph clusters: `rbd:POOL/IMAGE`, `rbd:POOL/NAMESPACE/IMAGE`, with `@SNAPSHOT`.
//!
//! Each image has a connection of its own to its cluster: a cluster that refuses a client, since its lock was broken, refuses all that
//! goes over its connection. The marks are in the image's metadata, where every machine finds them. Whoever writes has the image's
//! exclusive lock.

mod failed;
mod name;

use super::lock::{self, Lock};
use super::{
    Backing, Fence, Identity, Look, NamedOrigin, Note, Notes, OpenOrigin, Scheme, VolumeMarks, aside, refuse_emulation,
};
use futures_util::future::{Either, FutureExt, LocalBoxFuture, select};
use name::ImageName;
use nitro_config::{Emulation, VolumeConfig};
use nitro_console::error::Error;
use nitro_console::size::Size;
use nitro_device::CompioClock;
use nitro_device::rbd::{Claim, Facts, Image, ImageOptions, LockError, RbdDevice, wait_closed};
use nitro_port::{Clock, Means, StorageId};
use std::io;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

/// How long the cluster may take to open an image.
const OPEN_MAX: Duration = Duration::from_secs(30);
/// How long it may take to give the lock.
const LOCK_MAX: Duration = Duration::from_secs(20);
/// How long the server waits at its end for images to be closed; what is not closed then is locked until its lock is broken.
const CLOSE_MAX: Duration = Duration::from_secs(10);

/// The scheme `rbd`.
pub struct Rbd;

impl Scheme for Rbd {
    fn name(&self) -> &'static str {
        "rbd"
    }

    fn form(&self) -> &'static str {
        name::FORM
    }

    fn named(&self, rest: &str) -> Result<Box<dyn NamedOrigin>, Error> {
        Ok(Box::new(ImageName::parse(rest)?))
    }
}

impl NamedOrigin for ImageName {
    fn absolute(&self) -> io::Result<PathBuf> {
        let mut name = self.clone();
        if let Some(conf) = &mut name.conf {
            *conf = std::path::absolute(&*conf)?;
        }
        Ok(name.to_string().into())
    }

    fn volume_name(&self) -> String {
        self.image.clone()
    }

    fn host_path(&self) -> Option<&Path> {
        None
    }

    fn is_host(&self) -> bool {
        false
    }

    fn open<'a>(&'a self, volume: &'a str, config: &'a VolumeConfig) -> LocalBoxFuture<'a, Result<OpenOrigin, Error>> {
        async move {
            let what = format!("origin {self}");
            let origin = self.open_for(config, true).await?.ok_or_else(|| lock::in_use(&what))?;
            nitro_console::output::note!("volume {volume}: {} at {self}", Size(origin.look.size_bytes));
            Ok(origin)
        }
        .boxed_local()
    }

    /// Opens it for reading, and takes no lock in the cluster.
    fn look<'a>(
        &'a self,
        _: &'a str,
        config: &'a VolumeConfig,
    ) -> LocalBoxFuture<'a, Result<Option<OpenOrigin>, Error>> {
        self.open_for(config, false).boxed_local()
    }
}

/// An open image, and its lock on this machine.
struct OpenImage {
    image: Arc<Image>,
    is_read_only: bool,
    what: String,
    _lock: Option<Lock>,
}

impl OpenImage {
    fn device(&self, size_bytes: u64) -> Backing {
        Backing::Image(Box::new(RbdDevice::new(&self.image, size_bytes, self.is_read_only)))
    }
}

/// An image has no time of change that every write would move.
impl Identity for OpenImage {
    fn look(&self, size_bytes: u64) -> io::Result<Look> {
        Ok(Look { size_bytes, mtime_ns: None })
    }

    fn look_durably(&self, size_bytes: u64) -> io::Result<Look> {
        self.look(size_bytes)
    }

    fn lost(&self) -> Option<&str> {
        self.image.lost()
    }

    fn open_again(&self, _: Option<Emulation>) -> Result<Option<Backing>, Error> {
        let size_bytes = self.image.size().map_err(|e| Error::new(&self.what, e).or("check the cluster: ceph -s"))?;
        Ok(Some(self.device(size_bytes)))
    }
}

/// The metadata of an image.
struct Metadata {
    image: Arc<Image>,
    spec: String,
}

impl std::fmt::Debug for Metadata {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metadata").field("spec", &self.spec).finish_non_exhaustive()
    }
}

impl Notes for Metadata {
    fn place(&self, note: Note) -> String {
        format!("the metadata {} of the image {}", note.key(), self.spec)
    }

    fn removal(&self, note: Note) -> String {
        format!("rbd image-meta remove {} {}", self.spec, note.key())
    }

    fn read(&self, note: Note) -> io::Result<Option<String>> {
        self.image.metadata(note.key())
    }

    fn write(&self, note: Note, text: String) -> io::Result<()> {
        self.image.set_metadata(note.key(), text)
    }

    fn remove(&self, note: Note) -> io::Result<()> {
        self.image.remove_metadata(note.key())
    }
}

/// What an image is recognised by.
fn id_of(facts: &Facts, namespace: Option<&str>) -> StorageId {
    let snapshot = facts.snapshot.map_or_else(Vec::new, |number| number.to_le_bytes().to_vec());
    let mut id = StorageId::default();
    let namespace = namespace.unwrap_or_default().as_bytes();
    id.add(
        Means::RbdImage,
        &[facts.fsid.as_bytes(), &facts.pool.to_le_bytes(), namespace, facts.id.as_bytes(), &snapshot],
    );
    id
}

impl ImageName {
    /// Opens the image; for serving, with its locks. `None`: it is in use.
    async fn open_for(&self, config: &VolumeConfig, serves: bool) -> Result<Option<OpenOrigin>, Error> {
        let what = format!("origin {self}");
        refuse_emulation(&what, config)?;
        let (is_snapshot, is_read_only) = (self.snapshot.is_some(), config.read_only || self.snapshot.is_some());
        if is_snapshot && !config.read_only && serves {
            tracing::warn!("{what}: it is a snapshot: the volume is read-only");
        }
        let image = Arc::new(self.connect(&what, serves && !is_read_only).await?);
        let facts = image.facts();
        if facts.size_bytes == 0 {
            return Err(Error::new(what, "it is empty").or(format_args!("rbd resize {} --size 10G", self.spec())));
        }
        let id = id_of(facts, self.namespace.as_deref());
        let lock = match is_snapshot {
            true => None,
            false => match self.lock(&what, &image, &id, (serves, is_read_only)).await? {
                Some(lock) => Some(lock),
                None => return Ok(None),
            },
        };
        let absolute = self.absolute().map_err(|e| Error::new(&what, e))?;
        let notes: Arc<dyn Notes> = Arc::new(Metadata { image: Arc::clone(&image), spec: self.spec() });
        let (fence, marks) = match is_snapshot {
            // The marks of its image are not its own: it does not change, whatever a cache holds.
            true => (Fence::without_mark(&absolute, &id), VolumeMarks::default()),
            false => (Fence::noted(&absolute, &id, Arc::clone(&notes)), VolumeMarks::noted(&id, notes)),
        };
        let size_bytes = image.facts().size_bytes;
        let identity = OpenImage { image, is_read_only: is_read_only || !serves, what: what.clone(), _lock: lock };
        let look = identity.look(size_bytes).map_err(|e| Error::new(&what, e))?;
        let device = identity.device(size_bytes);
        let read_only = is_read_only;
        Ok(Some(OpenOrigin { device, identity: Arc::new(identity), id, look, fence, marks, read_only }))
    }

    /// Connects to the cluster and opens the image.
    async fn connect(&self, what: &str, writable: bool) -> Result<Image, Error> {
        let options = ImageOptions {
            what: what.to_owned(),
            conf: self.conf.as_ref().map(|path| path.to_string_lossy().into_owned()),
            id: self.id.clone(),
            pool: self.pool.clone(),
            namespace: self.namespace.clone(),
            image: self.image.clone(),
            snapshot: self.snapshot.clone(),
            writable,
        };
        let opening = Image::open(options).map_err(|e| self.failed(what, &e))?;
        match select(opening, pin!(CompioClock::new().sleep(OPEN_MAX))).await {
            Either::Left((Ok(opened), _)) => opened.map_err(|e| self.failed(what, &e)),
            Either::Left((Err(_), _)) => Err(Error::new(what, "its thread has ended").or("please report it")),
            Either::Right(_) => {
                Err(Error::new(what, format_args!("the cluster has not answered for {} s", OPEN_MAX.as_secs()))
                    .or("check its monitors and OSDs: ceph -s"))
            }
        }
    }

    /// Takes the lock of this machine, and that of the cluster for whoever writes. `None`: another server has it, or will not be
    /// disturbed for a look.
    async fn lock(
        &self,
        what: &str,
        image: &Arc<Image>,
        id: &StorageId,
        (serves, is_read_only): (bool, bool),
    ) -> Result<Option<Lock>, Error> {
        let name = id.names().next().unwrap_or_default();
        let taken = aside(move || Lock::take(&name, is_read_only)).await?;
        let lock = match taken {
            Ok(Some(lock)) => lock,
            Ok(None) => return Ok(None),
            Err(why) => Lock::none(what, &why),
        };
        let image = Arc::clone(image);
        if serves && !is_read_only {
            return self.take(what, image, lock).await.map(Some);
        }
        match aside(move || image.owner()).await? {
            Ok(Some(_)) if !serves => Ok(None),
            Ok(Some(owner)) => Err(self.not_locked(what, &LockError::Held(owner))),
            Ok(None) => Ok(Some(lock)),
            // A key that may only read may not see who has it; then nobody tells whether the image changes.
            Err(error) if is_read_only => {
                tracing::debug!("{what}: its lock: {error}");
                Ok(Some(lock))
            }
            Err(error) => Err(self.not_locked(what, &error)),
        }
    }

    /// Takes the lock of the cluster. A client that is noted in the lock of this machine was a server that has ended: nobody else can
    /// have the lock of this machine now.
    async fn take(&self, what: &str, image: Arc<Image>, lock: Lock) -> Result<Lock, Error> {
        let breaks = self.breaks_lock;
        let taken = aside(move || {
            let taken = image.take_lock(Claim { breaks, ended: lock.note() }, LOCK_MAX)?;
            // Without the note, the next start after a crash waits until the cluster misses this client.
            let _ = lock.set_note(&taken.address);
            Ok((taken, lock))
        });
        let (taken, lock) = taken.await?.map_err(|e: LockError| self.not_locked(what, &e))?;
        if let Some(broken) = taken.broken {
            tracing::warn!("{what}: the lock of the client at {broken} was broken: the cluster refuses what it writes");
        }
        if let Some(why) = taken.is_brief {
            tracing::warn!(
                "{what}: the cluster refuses that client for an hour only ({why}): it must not go on after that"
            );
        }
        Ok(lock)
    }
}

/// Waits a few seconds until the images that are not used any more are closed.
pub(super) async fn close_all() {
    match aside(|| wait_closed(CLOSE_MAX)).await {
        Ok(true) => {}
        Ok(false) => tracing::warn!(
            "a Ceph cluster does not answer: its images are not closed, and stay locked for half a minute"
        ),
        Err(error) => tracing::warn!("{error}"),
    }
}
