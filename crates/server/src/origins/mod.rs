//! Origins by scheme: what the `origin` of a volume names, and how it is opened. docs/adding-an-origin.md adds one.
//!
//! The text is `SCHEME:REST`, or the path of a file or block device. Another kind of origin is one more line of [`SCHEMES`].

mod aside;
mod backing;
mod cos;
mod fence;
mod file;
mod mark;
mod stamp;

pub(crate) use aside::aside;
pub use backing::Backing;
pub use cos::{Cos, CosOrigin};
pub(crate) use cos::{close_all, find, ram_needs, same_store};
pub use fence::Fence;
pub(crate) use fence::{Found, Guard, state_folder};
pub use file::Files;
pub(crate) use mark::Mark;
pub use mark::Uuid;
pub use stamp::Look;
pub(crate) use stamp::{LEASE_SECONDS, Stamp, unix_seconds};

use crate::config::{Emulation, VolumeConfig};
use futures_util::future::LocalBoxFuture;
use nitro_console::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The kinds of origin that this program knows.
pub const SCHEMES: &[&dyn Scheme] = &[&Files, &Cos];

/// A kind of origin.
pub trait Scheme: Sync {
    /// What stands before the colon.
    fn name(&self) -> &'static str;

    /// What stands behind it, as a person is told: `file:PATH`.
    fn form(&self) -> &'static str;

    /// The origin that the text behind the colon names.
    ///
    /// # Errors
    /// It names none, and why.
    fn named(&self, rest: &str) -> Result<Box<dyn NamedOrigin>, Error>;
}

/// An origin that is named, and not open.
pub trait NamedOrigin {
    /// The same, wherever the program that is told of it was started.
    ///
    /// # Errors
    /// The current folder cannot be found.
    fn absolute(&self) -> io::Result<PathBuf>;

    /// What its volume is called where nothing else is said.
    fn volume_name(&self) -> String;

    /// The file or block device of this machine that its content is in; `None`: it is elsewhere.
    fn host_path(&self) -> Option<&Path>;

    /// Whether that file or block device is the origin itself, so that nothing else may be served from it.
    fn is_host(&self) -> bool;

    /// Opens it again beside who has it open, after it has grown; `None`: it does not grow.
    ///
    /// # Errors
    /// It cannot be opened.
    fn open_again(&self, read_only: bool, disk: Option<Emulation>) -> Result<Option<Backing>, Error> {
        let _ = (read_only, disk);
        Ok(None)
    }

    /// Opens it for a volume, and locks it against other programs where it can be.
    fn open<'a>(&'a self, volume: &'a str, config: &'a VolumeConfig) -> LocalBoxFuture<'a, Result<OpenOrigin, Error>>;
}

/// An origin that is open, and locked against others.
pub struct OpenOrigin {
    /// What is read and written.
    pub device: Backing,
    /// How it is seen whether others have changed it.
    pub identity: Arc<dyn Identity>,
    /// What was seen when it was opened.
    pub look: Look,
    /// Where it is marked while a cache has data that it has not got.
    pub fence: Fence,
}

/// How an origin shows whether others have changed it.
pub trait Identity: Send + Sync {
    /// Its size and when it was changed last. May block.
    ///
    /// # Errors
    /// It cannot be looked at.
    fn look(&self, size_bytes: u64) -> io::Result<Look>;

    /// As [`look`](Self::look); what is seen then is not taken back by a crash. May block.
    ///
    /// # Errors
    /// It cannot be looked at, or that cannot be made durable.
    fn look_durably(&self, size_bytes: u64) -> io::Result<Look>;
}

/// What an origin's text names.
///
/// # Errors
/// There is no such scheme, or it names nothing.
pub fn origin_of(text: &Path) -> Result<Box<dyn NamedOrigin>, Error> {
    origin_among(SCHEMES, text)
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
    let is_scheme = name.len() > 1 && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    if !is_scheme || text.exists() {
        return Ok(Files::at(text));
    }
    let forms: Vec<_> = schemes.iter().map(|scheme| scheme.form()).collect();
    Err(Error::new(format_args!("origin {}", text.display()), format_args!("there is no kind of origin {name:?}"))
        .or(format_args!("write one of: {}; a path with a colon is file:PATH", forms.join(", "))))
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
    }

    #[test]
    fn what_names_nothing_is_refused_with_what_there_is() {
        assert!(refused("nbd:host/export").contains("file:PATH"), "{}", refused("nbd:host/export"));
        assert!(refused("cos:store").contains("cos:STORE#OBJECT"), "{}", refused("cos:store"));
        assert!(refused("file:").contains("names no file"), "{}", refused("file:"));
    }
}
