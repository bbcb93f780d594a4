//! Origins by scheme: the storage that `origin` of a volume names, and how it is opened. docs/adding-an-origin.md shows
//! how to add a scheme.
//!
//! The text is `SCHEME:REST`, or the path of a file or block device. A new kind of origin needs a line in [`SCHEMES`].

mod aside;
mod backing;
mod claim;
mod collector;
mod cos;
mod fence;
mod file;
mod lock;
mod mark;
mod nbd;
mod notes;
mod percent;
mod rbd;
mod s3;
mod stamp;
mod tree;
mod volume_mark;

pub(crate) use aside::{aside, start as start_threads};
pub use backing::{Backing, OriginCounters};
pub(crate) use claim::Claim;
pub use cos::{Cos, CosOrigin};
pub(crate) use cos::{find, not_open, open_stores, real, same_store, share};
pub use fence::Fence;
pub(crate) use fence::MARK_SUFFIX;
pub(crate) use fence::{Found, Guard, share_marks, shared_folder, state_folder, state_folders};
pub use file::Files;
pub(crate) use mark::Mark;
pub use mark::Uuid;
pub use nbd::Nbd;
pub use nitro_s3::{Bill as S3Bill, Prices as S3Prices, Snapshot as S3Snapshot};
pub use notes::{Note, Notes};
pub use rbd::Rbd;
pub use s3::{BucketAction, S3, act_on_bucket, list_bucket, make as make_s3, volume_of as s3_volume_of};
pub use stamp::Look;
pub(crate) use stamp::{Change, LEASE_SECONDS, Stamp, unix_seconds};
pub use tree::{TreeDevice, Trees};
pub(crate) use volume_mark::VolumeMark;
pub use volume_mark::VolumeMarks;

use futures_util::future::LocalBoxFuture;
use nitro_config::{Emulation, VolumeConfig};
use nitro_console::error::Error;
use nitro_port::StorageId;
use nitro_port::codec::FingerprintHash;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The kinds of origin that this program knows.
pub const SCHEMES: &[&dyn Scheme] =
    &[&Files, &Cos, &Nbd::TCP, &Nbd::UNIX, &Nbd::TCP_TLS, &Nbd::UNIX_TLS, &Rbd, &S3, &Trees];

/// A kind of origin.
pub trait Scheme: Sync {
    /// The name before the colon.
    fn name(&self) -> &'static str;

    /// The form of the text for error messages: `file:PATH`.
    fn form(&self) -> &'static str;

    /// The origin that the text behind the colon names.
    ///
    /// # Errors
    /// The text names no origin; the error gives the reason.
    fn named(&self, rest: &str) -> Result<Box<dyn NamedOrigin>, Error>;
}

/// An origin that is not open.
pub trait NamedOrigin {
    /// The same origin with an absolute path, independent of the current folder.
    ///
    /// # Errors
    /// The current folder cannot be found.
    fn absolute(&self) -> io::Result<PathBuf>;

    /// The default name of its volume.
    fn volume_name(&self) -> String;

    /// The file or block device of this machine that holds its content; `None`: the content is elsewhere.
    fn host_path(&self) -> Option<&Path>;

    /// Whether that file or block device is the origin itself, so that no other origin may use it.
    fn is_host(&self) -> bool;

    /// Why its volume has to be in write-back; `None`: it need not.
    fn needs_write_back(&self) -> Option<&'static str> {
        None
    }

    /// Why it cannot go from one consistent point to the next, wherever its marks are; `None`: that depends on their place
    /// ([`Fence::redo_place`]).
    fn lacks_points(&self) -> Option<&'static str> {
        None
    }

    /// Opens it for a volume, and locks it against other programs if possible.
    fn open<'a>(&'a self, volume: &'a str, config: &'a VolumeConfig) -> LocalBoxFuture<'a, Result<OpenOrigin, Error>>;

    /// Examines it as [`open`](Self::open) does, but does not open it for writing if that can be avoided. `None`: another program
    /// uses it, such as the server that serves it.
    fn look<'a>(
        &'a self,
        volume: &'a str,
        config: &'a VolumeConfig,
    ) -> LocalBoxFuture<'a, Result<Option<OpenOrigin>, Error>> {
        Box::pin(async { self.open(volume, config).await.map(Some) })
    }
}

/// An origin that is open, and locked against others.
pub struct OpenOrigin {
    /// The device for reads and writes.
    pub device: Backing,
    /// The open origin, to be looked at.
    pub identity: Arc<dyn Identity>,
    /// What it is recognised by.
    pub id: StorageId,
    /// Its state when it was opened.
    pub look: Look,
    /// The location of its mark while a cache has dirty data of it.
    pub fence: Fence,
    /// Where the mark is that tells which cache served it last.
    pub marks: VolumeMarks,
    /// It can only be read, whatever the configuration says.
    pub read_only: bool,
}

/// Shows which storage an open origin is, and whether another program has changed it. The origin is examined by its open
/// descriptor, never by its path, which may lead to another one by now.
pub trait Identity: Send + Sync {
    /// Its size and the time of its last change. May block.
    ///
    /// # Errors
    /// Its state cannot be read.
    fn look(&self, size_bytes: u64) -> io::Result<Look>;

    /// As [`look`](Self::look), but the returned state is durable: a crash does not undo it. May block.
    ///
    /// # Errors
    /// Its state cannot be read, or that cannot be made durable.
    fn look_durably(&self, size_bytes: u64) -> io::Result<Look>;

    /// Whether the text that names the origin still leads to it. May block.
    fn is_at_its_name(&self) -> bool {
        true
    }

    /// Bytes of its logical blocks: a client that writes a part of one has it read before. 512: of any size.
    fn block_bytes(&self) -> u32 {
        512
    }

    /// Why it must not be used any more, which stays so: neither it nor what is cached of it may be read or changed. `None`: it may be
    /// used. Asked for each request.
    fn lost(&self) -> Option<&str> {
        None
    }

    /// Opens it once more, after it has grown; `None`: it cannot grow. May block.
    ///
    /// # Errors
    /// It cannot be opened.
    fn open_again(&self, disk: Option<Emulation>) -> Result<Option<Backing>, Error> {
        let _ = disk;
        Ok(None)
    }
}

/// A short name for what is recognised by these bytes.
fn digest(bytes: &[u8]) -> String {
    FingerprintHash::Blake3.of(bytes).0.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// The name of the marks of what is at a place of another machine: readable, and different for different places.
fn mark_name(kind: &str, place: &str) -> String {
    let digest = digest(place.as_bytes());
    let readable = place.split_once("://").map_or("", |(_, rest)| rest).chars().take(60);
    let readable = readable.map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' });
    format!("{kind}-{}-{digest}", readable.collect::<String>().trim_matches('-'))
}

/// The origin that a text names.
///
/// # Errors
/// There is no such scheme, or the text names no origin.
pub fn origin_of(text: &Path) -> Result<Box<dyn NamedOrigin>, Error> {
    origin_among(SCHEMES, text)
}

/// Why a path at which nothing is cannot be read as a file or block device: it names an origin of another kind. `None`: it does not.
#[must_use]
pub fn elsewhere(path: &Path) -> Option<&'static str> {
    let names_other = || origin_of(path).is_ok_and(|origin| !origin.is_host());
    (!path.exists() && names_other()).then_some("it is an origin, but neither a file nor a block device")
}

/// As [`origin_of`], among other kinds of origin.
///
/// # Errors
/// As [`origin_of`].
pub fn origin_among(schemes: &[&dyn Scheme], text: &Path) -> Result<Box<dyn NamedOrigin>, Error> {
    let within = |e: Error| e.within(format_args!("origin {}", text.display()));
    let Some((name, rest)) = text.to_str().and_then(|text| text.split_once(':')) else { return Ok(Files::at(text)) };
    if let Some(scheme) = schemes.iter().find(|scheme| scheme.name() == name) {
        return scheme.named(rest).map_err(within);
    }
    let is_scheme = name.len() > 1 && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'+');
    if !is_scheme || text.exists() {
        return Ok(Files::at(text));
    }
    let forms: Vec<_> = schemes.iter().map(|scheme| scheme.form()).collect();
    Err(Error::new(format_args!("origin {}", text.display()), format_args!("there is no kind of origin {name:?}"))
        .or(format_args!("write one of: {}; a path with a colon is file:PATH", forms.join(", "))))
}

/// Refuses to make an origin as slow as a disk that is no file or device.
fn refuse_emulation(what: &str, config: &VolumeConfig) -> Result<(), Error> {
    match config.emulate_disk {
        None => Ok(()),
        Some(_) => Err(Error::new(what, "emulate_disk makes a file as slow as a disk, and this is no file")
            .or("leave out emulate_disk")),
    }
}

/// Ends what origins have begun: stores are closed, and images of clusters, for which this waits a few seconds.
///
/// # Errors
/// A store cannot be closed.
pub(crate) async fn close_all() -> Result<(), Error> {
    let closed = cos::close_all().await;
    rbd::close_all().await;
    closed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        origin_of(Path::new(text)).err().map_or_else(String::new, |e| e.to_string())
    }

    #[test]
    fn paths_are_files_and_schemes_are_told_by_name() {
        for (text, name) in
            [("vm.img", "vm"), ("/dev/vdb", "vdb"), ("./a:b.img", "a:b"), ("file:c:d.img", "c:d"), ("C:x", "C:x")]
        {
            let origin = origin_of(Path::new(text)).unwrap();
            assert_eq!((origin.volume_name().as_str(), origin.is_host()), (name, true), "{text}");
        }
        let object = origin_of(Path::new("cos:/a/store#vm/1")).unwrap();
        assert_eq!((object.volume_name().as_str(), object.is_host()), ("vm/1", false));
        assert_eq!(object.host_path(), Some(Path::new("/a/store")));
        assert_eq!(object.absolute().unwrap(), Path::new("cos:/a/store#vm/1"));
        let export = origin_of(Path::new("nbd+unix:///vm?socket=/a/b.sock")).unwrap();
        assert_eq!((export.volume_name().as_str(), export.is_host(), export.host_path()), ("vm", false, None));
        let image = origin_of(Path::new("rbd:pool/vm@monday")).unwrap();
        assert_eq!((image.volume_name().as_str(), image.is_host(), image.host_path()), ("vm", false, None));
        assert!(elsewhere(Path::new("nbd://host/vm")).is_some() && elsewhere(Path::new("vm.img")).is_none());
    }

    #[test]
    fn what_names_nothing_is_refused_with_what_there_is() {
        assert!(refused("iscsi:pool/image").contains("file:PATH"), "{}", refused("iscsi:pool/image"));
        assert!(refused("rbd:image").contains("rbd:POOL/IMAGE"), "{}", refused("rbd:image"));
        assert!(refused("nbd+tcp://host/vm").contains("nbd+unix:///EXPORT"), "{}", refused("nbd+tcp://host/vm"));
        assert!(refused("nbd:host/export").contains("nbd://HOST"), "{}", refused("nbd:host/export"));
        assert!(refused("s3:bucket").contains("s3://BUCKET/PREFIX"), "{}", refused("s3:bucket"));
        assert!(refused("cos:store").contains("cos:STORE#OBJECT"), "{}", refused("cos:store"));
        assert!(refused("file:").contains("names no file"), "{}", refused("file:"));
    }
}
