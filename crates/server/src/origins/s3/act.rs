//! Snapshots and growth of a volume in a bucket: by the server that serves it, or by a command while none does.

use super::super::lock;
use super::{Uri, number};
use crate::origins::Note;
use futures_executor::block_on;
use nitro_console::error::Error;
use nitro_console::size::Size;
use nitro_s3::{Change, S3Disk, Snapshot};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// A change of a volume in a bucket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BucketAction {
    /// Makes a snapshot.
    Snapshot {
        /// Its name.
        name: String,
    },
    /// Deletes a snapshot.
    Delete {
        /// Its name.
        name: String,
    },
    /// Makes the volume larger.
    Grow {
        /// Its size in bytes.
        size_bytes: u64,
    },
}

impl BucketAction {
    fn change(&self) -> Change {
        match self {
            Self::Snapshot { name } => Change::Snapshot(name.clone()),
            Self::Delete { name } => Change::DeleteSnapshot(name.clone()),
            Self::Grow { size_bytes } => Change::Grow(*size_bytes),
        }
    }

    /// One line that says that it is done.
    fn done(&self, uri: &Uri) -> String {
        match self {
            Self::Snapshot { name } => format!("{}: made", uri.of_snapshot(name)),
            Self::Delete { name } => format!("{}: deleted", uri.of_snapshot(name)),
            Self::Grow { size_bytes } => format!("{uri}: {} from now on", Size(*size_bytes)),
        }
    }

    /// Changes an open volume.
    ///
    /// # Errors
    /// It cannot be, another server has taken the volume over, or the store refuses.
    pub(crate) async fn carry_out(&self, uri: &str, disk: &S3Disk) -> Result<String, Error> {
        let uri = parsed(uri)?;
        disk.make_change(self.change()).await.map_err(|error| uri.failed(&uri.to_string(), &error))?;
        Ok(self.done(&uri))
    }
}

fn parsed(text: &str) -> Result<Uri, Error> {
    let rest = text.strip_prefix("s3:").ok_or_else(|| Error::new(text, "it is no s3://BUCKET/PREFIX"))?;
    Uri::parse(rest).map_err(|e| e.within(text))
}

/// The volume and the snapshot that a URI names, in one form; `None`: it names no place in a bucket.
#[must_use]
pub fn volume_of(origin: &Path) -> Option<(String, Option<String>)> {
    let uri = parsed(origin.to_str()?).ok()?;
    let snapshot = uri.0.snapshot.clone();
    Some((uri.volume().to_string(), snapshot))
}

/// The snapshots of the volume of a URI, which nothing is asked of but to read them. Blocks.
///
/// # Errors
/// There is no volume, or the store refuses.
pub fn list(text: &str) -> Result<Vec<Snapshot>, Error> {
    let uri = parsed(text)?.volume();
    nitro_s3::list_at(&uri.0).map_err(|error| uri.failed(&uri.to_string(), &error))
}

/// Changes a volume that no server serves: it is taken over. Blocks.
///
/// # Errors
/// A server of this machine serves it, or a cache has data that the volume lacks, or it cannot be, or the store refuses.
pub fn act(text: &str, action: &BucketAction) -> Result<String, Error> {
    let uri = parsed(text)?.volume();
    let what = uri.to_string();
    let fail = |error| uri.failed(&what, &error);
    block_on(async {
        let Some(_lock) = uri.lock(&what, false).await? else {
            return Err(lock::in_use(&what).or("name the control socket of the server with --control"));
        };
        let looked = nitro_s3::start(uri.0.clone(), &what, "s3", true).await.map_err(fail)?;
        let mark = looked.notes().get(number(Note::Dirty)).await.map_err(fail)?;
        drop(looked);
        if !mark.is_empty() {
            return Err(Error::new(&what, "its newest data may be in a cache that has served it")
                .or("serve it there, and run the command again; or let that server write back and end"));
        }
        let disk = nitro_s3::start(uri.0.clone(), &what, "s3", false).await.map_err(fail)?;
        action.carry_out(&what, &disk).await
    })
}
