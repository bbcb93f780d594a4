//! Whether an image may still be used: once another client has broken its lock, it never may again.

use std::io;
use std::sync::OnceLock;

/// The state of an open image, which its requests and the thread that watches over it share.
#[derive(Debug)]
pub(super) struct Fate {
    /// What the image is called in messages.
    what: String,
    lost: OnceLock<String>,
}

/// What has happened if the cluster answers a client with `ESHUTDOWN`.
pub(super) const REFUSED: &str = "another client has broken its exclusive lock, and the cluster refuses this one: nothing more is read or written here";
/// What has happened if the lock is gone for another reason.
pub(super) const UNLOCKED: &str =
    "its exclusive lock has been taken away from this client: nothing more is read or written here";

impl Fate {
    pub(super) fn new(what: &str) -> Self {
        Self { what: what.to_owned(), lost: OnceLock::new() }
    }

    pub(super) fn what(&self) -> &str {
        &self.what
    }

    /// Why the image may not be used any more; `None`: it may.
    pub(super) fn lost(&self) -> Option<&str> {
        self.lost.get().map(String::as_str)
    }

    /// Ends the use of the image. The first reason stays.
    pub(super) fn lose(&self, why: &str) {
        if self.lost.set(why.to_owned()).is_ok() {
            tracing::error!("{}: {why}", self.what);
        }
    }

    /// Notes what an error of a request means for the image.
    pub(super) fn heed(&self, error: &io::Error, is_change: bool) {
        match error.raw_os_error() {
            Some(libc::ESHUTDOWN) => self.lose(REFUSED),
            // librbd writes only with the lock, and gets it back from nobody.
            Some(libc::EROFS) if is_change => self.lose(UNLOCKED),
            _ => {}
        }
    }
}
