//! What can be done with a store that is open, be it here or in a server.

use super::look;
use super::store::{CosStore, now};
use nitro_console::error::Error;
use nitro_console::output::Format;
use serde::{Deserialize, Serialize};

/// What to do with a store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum CosAction {
    List {
        format: Format,
    },
    Snapshot {
        name: String,
    },
    Clone {
        source: String,
        name: String,
    },
    Delete {
        names: Vec<String>,
    },
    Diff {
        one: String,
        other: String,
        format: Format,
    },
    /// Containers of which less than so many percent are alive are emptied.
    Gc {
        alive: u8,
        format: Format,
    },
    /// `None`: there is to be none.
    Quota {
        bytes: Option<u64>,
    },
    Stats {
        format: Format,
    },
}

impl CosAction {
    /// Does it. Returns what is to be printed.
    pub(crate) async fn act(&self, store: &CosStore, tell: bool) -> Result<String, Error> {
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
            Self::Stats { format } => look::stats(store, *format),
        }
    }
}
