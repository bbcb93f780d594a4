//! Volumes in buckets of S3 servers: `s3://BUCKET/PREFIX`, and their snapshots, `s3://BUCKET/PREFIX@NAME`.
//!
//! Each has a thread of its own, which makes all requests. A volume is recognised by its UUID, wherever it is. Its generations keep
//! other servers from writing to it; its marks, which are in the generations, tell everybody which cache has its newest data.

mod act;
mod uri;

pub use act::{BucketAction, act as act_on_bucket, list as list_bucket, volume_of};

use super::lock::{self, Lock};
use super::{
    Backing, Fence, Identity, Look, NamedOrigin, Note, Notes, OpenOrigin, Scheme, VolumeMarks, aside, mark_name,
    refuse_emulation,
};
use bytes::Bytes;
use futures_executor::block_on;
use futures_util::future::{FutureExt, LocalBoxFuture};
use nitro_config::{Emulation, VolumeConfig};
use nitro_console::error::Error;
use nitro_console::size::Size;
use nitro_port::{Device, Means, StorageId};
use nitro_s3::{Header, NOTE_BYTES_MAX, S3Disk, S3Error, S3Notes, StoreError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use uri::Uri;

/// Why a volume in a bucket has to be in write-back.
pub(super) const WRITE_BACK: &str =
    "in write-through, every FLUSH of a client would wait until whole objects are in the bucket";

/// The scheme of volumes in buckets.
pub struct S3;

impl Scheme for S3 {
    fn name(&self) -> &'static str {
        "s3"
    }

    fn form(&self) -> &'static str {
        "s3://BUCKET/PREFIX[@SNAPSHOT][?endpoint=URL]"
    }

    fn named(&self, rest: &str) -> Result<Box<dyn NamedOrigin>, Error> {
        Ok(Box::new(Uri::parse(rest)?))
    }
}

/// Makes a volume at `s3://BUCKET/PREFIX`. Blocks.
///
/// # Errors
/// The text names no place in a bucket, there is something already, or the store cannot keep a volume.
pub fn make(text: &str, size_bytes: u64, chunk_bytes: u32) -> Result<(), Error> {
    let rest = text.strip_prefix("s3:").ok_or_else(|| Error::new(text, "it is no s3://BUCKET/PREFIX"))?;
    let uri = Uri::parse(rest)?;
    let made = nitro_s3::create_at(&uri.0, size_bytes, chunk_bytes);
    made.map(drop).map_err(|error| uri.failed(&uri.to_string(), &error))
}

impl NamedOrigin for Uri {
    fn absolute(&self) -> io::Result<PathBuf> {
        Ok(self.to_string().into())
    }

    fn volume_name(&self) -> String {
        self.0.prefix.rsplit('/').next().unwrap_or_default().to_owned()
    }

    fn host_path(&self) -> Option<&Path> {
        None
    }

    fn is_host(&self) -> bool {
        false
    }

    fn needs_write_back(&self) -> Option<&'static str> {
        self.0.snapshot.is_none().then_some(WRITE_BACK)
    }

    fn lacks_points(&self) -> Option<&'static str> {
        Some("a bucket gets whole objects in the order of offsets, so that its generations are no consistent points")
    }

    fn open<'a>(&'a self, volume: &'a str, config: &'a VolumeConfig) -> LocalBoxFuture<'a, Result<OpenOrigin, Error>> {
        async move {
            let what = format!("origin {self}");
            let origin = self.open_for(volume, config, config.read_only).await?.ok_or_else(|| lock::in_use(&what))?;
            nitro_console::output::note!("volume {volume}: {} at {self}", Size(origin.look.size_bytes));
            Ok(origin)
        }
        .boxed_local()
    }

    fn look<'a>(
        &'a self,
        volume: &'a str,
        config: &'a VolumeConfig,
    ) -> LocalBoxFuture<'a, Result<Option<OpenOrigin>, Error>> {
        // Whoever opens it for writing takes it over.
        self.open_for(volume, config, true).boxed_local()
    }
}

/// A volume that is open, and its lock.
struct Open {
    /// The time of its last change that is durable.
    changed_ns: Arc<AtomicU64>,
    disk: S3Disk,
    /// A snapshot needs none.
    _lock: Option<Lock>,
}

impl Identity for Open {
    fn look(&self, size_bytes: u64) -> io::Result<Look> {
        Ok(Look { size_bytes, mtime_ns: Some(self.changed_ns.load(Ordering::SeqCst)) })
    }

    fn look_durably(&self, size_bytes: u64) -> io::Result<Look> {
        self.look(size_bytes)
    }

    fn open_again(&self, _: Option<Emulation>) -> Result<Option<Backing>, Error> {
        Ok(Some(Backing::Bucket(Box::new(self.disk.clone()))))
    }
}

impl Uri {
    /// `None`: another server of this machine serves it.
    async fn open_for(
        &self,
        volume: &str,
        config: &VolumeConfig,
        is_read_only: bool,
    ) -> Result<Option<OpenOrigin>, Error> {
        let what = format!("origin {self}");
        refuse_emulation(&what, config)?;
        let is_snapshot = self.0.snapshot.is_some();
        if is_snapshot && !config.read_only {
            tracing::warn!("{what}: it is a snapshot: the volume is read-only");
        }
        let lock = if is_snapshot {
            None
        } else {
            match self.lock(&what, config.read_only).await? {
                Some(lock) => Some(lock),
                None => return Ok(None),
            }
        };
        let disk = nitro_s3::start(self.0.clone(), &what, volume, is_read_only).await;
        let disk = disk.map_err(|error| self.failed(&what, &error))?;
        let identity = Arc::new(Open { changed_ns: disk.changed_ns(), disk: disk.clone(), _lock: lock });
        let look = identity.look(disk.geometry().size_bytes).map_err(|e| Error::new(&what, e))?;
        let absolute = self.absolute().map_err(|e| Error::new(&what, e))?;
        let id = id_of(&disk, self.0.snapshot.as_deref());
        let notes: Arc<dyn Notes> = Arc::new(InManifest { notes: disk.notes(), place: self.to_string() });
        let (fence, marks) = match is_snapshot {
            // It does not change, whatever a cache holds.
            true => (Fence::without_mark(&absolute, &id), VolumeMarks::default()),
            false => (Fence::noted(&absolute, &id, Arc::clone(&notes)), VolumeMarks::noted(&id, notes)),
        };
        let device = Backing::Bucket(Box::new(disk));
        Ok(Some(OpenOrigin { device, identity, look, fence, marks, id, read_only: config.read_only || is_snapshot }))
    }

    /// The lock of this machine; `None`: a server has it.
    async fn lock(&self, what: &str, is_read_only: bool) -> Result<Option<Lock>, Error> {
        let locked = mark_name("s3", &self.volume().to_string());
        Ok(match aside(move || Lock::take(&locked, is_read_only)).await? {
            Ok(taken) => taken,
            Err(why) => Some(Lock::none(what, &why)),
        })
    }

    /// Why it cannot be used, and what helps.
    fn failed(&self, what: &str, error: &S3Error) -> Error {
        let way_out = match error {
            S3Error::NoVolume => format!("make one: nitro s3 init {self} --size SIZE; or check bucket and prefix"),
            S3Error::NoSnapshot(_) => format!("the volume has these: nitro s3 list {}", self.volume()),
            S3Error::Invalid(_) => format!("see nitro s3 list {}", self.volume()),
            S3Error::NotEmpty(_) => "use another prefix, or delete everything under this one".to_owned(),
            S3Error::Unfit(_) => "use AWS, Ceph's radosgw, or another store with atomic conditional puts".to_owned(),
            S3Error::Fenced { .. } | S3Error::Busy => "stop the other server, and try again".to_owned(),
            S3Error::Missing(_) | S3Error::Format { .. } | S3Error::Foreign(_) => {
                "restore the objects under the prefix, for example from the bucket's versions".to_owned()
            }
            S3Error::Store(StoreError::Refused(why)) if why.contains("NoSuchBucket") => {
                "check the name of the bucket, the endpoint and the region".to_owned()
            }
            S3Error::Store(_) => {
                "check the endpoint, the region, the machine's clock and the credentials (AWS_ACCESS_KEY_ID and \
                 AWS_SECRET_ACCESS_KEY, ~/.aws/credentials, or a role)"
                    .to_owned()
            }
            S3Error::Ended => "please report it".to_owned(),
        };
        Error::with_sources(what, error).or(way_out)
    }
}

/// The marks in the newest generation.
struct InManifest {
    notes: S3Notes,
    place: String,
}

impl std::fmt::Debug for InManifest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InManifest").field("place", &self.place).finish_non_exhaustive()
    }
}

/// The number of a mark among the texts of a volume.
fn number(note: Note) -> usize {
    match note {
        Note::Dirty => 0,
        Note::Volume => 1,
    }
}

impl Notes for InManifest {
    fn place(&self, note: Note) -> String {
        format!("{} in the newest manifest of {}", note.key(), self.place)
    }

    fn removal(&self, _: Note) -> String {
        "start with --force-discard-dirty once the store answers".to_owned()
    }

    fn read(&self, note: Note) -> io::Result<Option<String>> {
        let text = block_on(self.notes.get(number(note))).map_err(io::Error::other)?;
        let text = String::from_utf8(text.into()).map_err(io::Error::other)?;
        Ok(Some(text).filter(|text| !text.is_empty()))
    }

    fn write(&self, note: Note, text: String) -> io::Result<()> {
        if text.len() > NOTE_BYTES_MAX {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        block_on(self.notes.set(number(note), Bytes::from(text))).map_err(io::Error::other)
    }

    fn remove(&self, note: Note) -> io::Result<()> {
        block_on(self.notes.set(number(note), Bytes::new())).map_err(io::Error::other)
    }
}

/// What a volume or a snapshot is recognised by. A snapshot that was deleted, and made again with its name, has another time of change.
fn id_of(disk: &S3Disk, snapshot: Option<&str>) -> StorageId {
    let mut id = StorageId::default();
    let Header { uuid, .. } = disk.header();
    match snapshot {
        Some(name) => id.add(Means::Bucket, &[&uuid, name.as_bytes()]),
        None => id.add(Means::Bucket, &[&uuid]),
    }
    id
}
