//! What can be done with a store that is open, be it here or in a server.

use super::look;
use super::ssd::SsdAction;
use super::store::{CosStore, now};
use nitro_console::error::Error;
use nitro_console::output::Format;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// What to do with a store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CosAction {
    /// Names its objects.
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
    /// Names the ranges in which two objects differ.
    Diff {
        /// One object.
        one: String,
        /// The other one.
        other: String,
        /// How the answer is printed.
        format: Format,
    },
    /// Containers of which less than so many percent are alive are emptied.
    Gc {
        /// The percentage.
        alive: u8,
        /// How the answer is printed.
        format: Format,
    },
    /// `None`: there is to be none.
    Quota {
        /// Most bytes that the store may take.
        bytes: Option<u64>,
    },
    /// Its SSD.
    Ssd(SsdAction),
    /// How an object's regions are accessed.
    Patterns {
        /// Its name.
        object: String,
        /// How the answer is printed.
        format: Format,
    },
    /// What it holds.
    Stats {
        /// How the answer is printed.
        format: Format,
    },
}

impl CosAction {
    /// Does it. Returns what is to be printed.
    pub async fn act(&self, store: &CosStore, path: &Path, tell: bool) -> Result<String, Error> {
        let fail = |e: nitro_cos::Error| Error::with_sources("store", &e);
        match self {
            Self::List { format } => look::list(store, *format),
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
            Self::Diff { one, other, format } => look::diff(&store.diff(one, other).await.map_err(fail)?, *format),
            Self::Gc { alive, format } => look::collect(store, *alive, *format, tell).await.map_err(fail),
            Self::Quota { bytes } => store.set_quota(*bytes).await.map(|()| String::new()).map_err(fail),
            Self::Ssd(action) => action.act(store, path).await,
            Self::Patterns { object, format } => look::patterns(&store.patterns(object).map_err(fail)?, *format),
            Self::Stats { format } => look::stats(store, *format),
        }
    }
}
