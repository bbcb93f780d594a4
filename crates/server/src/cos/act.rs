//! Operations on an open store, carried out by a command or by a server.

use super::forget::Forget;
use super::look;
use super::ssd::SsdAction;
use super::store::{CosStore, now};
use crate::origins::{CosOrigin, MARK_SUFFIX};
use nitro_console::error::Error;
use nitro_console::output::Format;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::{fs, io};

/// An operation on a store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CosAction {
    /// Lists its objects.
    List {
        /// How the answer is printed.
        format: Format,
    },
    /// Makes a snapshot of an object.
    Snapshot {
        /// Name of the object, or of the new one.
        name: String,
    },
    /// Makes a writable copy of an object.
    Clone {
        /// Name of the object that is copied.
        source: String,
        /// Name of the object, or of the new one.
        name: String,
    },
    /// Deletes objects.
    Delete {
        /// Their names.
        names: Vec<String>,
    },
    /// Renames an object and its snapshots, or a snapshot.
    Rename {
        /// Its name.
        old: String,
        /// Its new name.
        new: String,
    },
    /// Deletes the snapshots that a retention does not keep.
    Forget(Forget),
    /// Lists the ranges in which two objects differ.
    Diff {
        /// One object.
        one: String,
        /// The other one.
        other: String,
        /// How the answer is printed.
        format: Format,
    },
    /// Sets or removes the quota.
    Quota {
        /// Maximum bytes of the store; `None`: no quota.
        bytes: Option<u64>,
    },
    /// An operation on its SSD.
    Ssd(SsdAction),
    /// Shows how the parts of an object are accessed.
    Patterns {
        /// Its name.
        object: String,
        /// How the answer is printed.
        format: Format,
    },
    /// Shows the contents of the store.
    Stats {
        /// How the answer is printed.
        format: Format,
    },
}

impl CosAction {
    /// Carries out the operation and returns the text to print. `served`: objects that a server serves.
    ///
    /// # Errors
    /// The store refuses it, or fails.
    pub async fn act(&self, store: &CosStore, path: &Path, served: &[String]) -> Result<String, Error> {
        let fail = |e: nitro_cos::Error| Error::with_sources("store", &e);
        match self {
            Self::List { format } => look::list(store, *format).await,
            Self::Snapshot { name } => store.snapshot(name, now()).await.map(|()| String::new()).map_err(fail),
            Self::Clone { source, name } => {
                store.clone_object(source, name, now()).await.map(|()| String::new()).map_err(fail)
            }
            Self::Delete { names } => {
                for name in names {
                    store.delete(name).await.map_err(fail)?;
                }
                Ok(String::new())
            }
            Self::Rename { old, new } => {
                check_unmarked(path, old)?;
                store.rename(old, new).await.map(|()| String::new()).map_err(fail)
            }
            Self::Forget(forget) => forget.act(store, path, served).await,
            Self::Diff { one, other, format } => look::diff(&store.diff(one, other).await.map_err(fail)?, *format),
            Self::Quota { bytes } => store.set_quota(*bytes).await.map(|()| String::new()).map_err(fail),
            Self::Ssd(action) => action.act(store, path).await,
            Self::Patterns { object, format } => look::patterns(&store.patterns(object).await.map_err(fail)?, *format),
            Self::Stats { format } => look::stats(store, *format),
        }
    }
}

/// Checks that no cache has dirty data of an object or of its snapshots, which would belong to nobody under another name.
fn check_unmarked(path: &Path, object: &str) -> Result<(), Error> {
    let origin = CosOrigin { store: path.to_owned(), object: object.to_owned() };
    let mut mark = origin.mark_place().into_os_string();
    mark.push(MARK_SUFFIX);
    match fs::symlink_metadata(&mark) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        _ => Err(Error::new(object, "a cache has newer data of it, which are known by this name")
            .or("serve it with that cache, bring it up to date (nitro flush --wait), and remove the volume")),
    }
}
