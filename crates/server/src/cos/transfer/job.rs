//! The operations.

use super::export::{self, Export, Sink};
use super::import::{self, Import, Imported};
use super::pace::Pace;
use super::receive::{self, Received};
use super::send::{self, Sent};
use super::watch::Watch;
use crate::cos::{CosStore, failed, grow, look, now};
use nitro_console::error::Error;
use nitro_console::output::Format;
use nitro_cos::Kind;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

/// An operation on a store that takes long. Files are opened by whoever gives the command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Job {
    /// Stores the content of a file as an object.
    Import {
        /// The object's name.
        name: String,
        /// What errors call the file.
        source: String,
        /// The object's kind.
        kind: Kind,
        /// The content is an increment, which makes a volume from another one.
        increment: bool,
        /// Bytes of a volume's chunks; `None`: the store's default.
        chunk_bytes: Option<u32>,
        /// Threads; `None`: as many as are useful.
        threads: Option<u8>,
    },
    /// Writes an object to a file.
    Export {
        /// The object's name.
        name: String,
        /// Only what differs from this object is written.
        from: Option<String>,
        /// What errors call the file.
        target: String,
        /// The content is written in order, from the file's position on.
        in_order: bool,
        /// Threads; `None`: as many as are useful.
        threads: Option<u8>,
    },
    /// Sends an object to another store, over a connection to whoever receives it.
    Send {
        /// The object's name.
        name: String,
        /// What errors call the receiver.
        peer: String,
    },
    /// Receives an object from another store, over a connection to whoever sends it.
    Receive {
        /// The object's name here.
        name: String,
        /// What errors call the sender.
        peer: String,
    },
    /// Checks the store.
    Check {
        /// Reads and verifies everything that is stored, too.
        reading: bool,
        /// How the answer is printed.
        format: Format,
    },
    /// Lists the objects, with how much of each is in no other one.
    Unique {
        /// How the answer is printed.
        format: Format,
    },
    /// Makes the store larger.
    Grow {
        /// Its new size; `None` without a maximum: that of its device.
        size_bytes: Option<u64>,
        /// Up to what size it grows by itself from now on; `None`: as before.
        max_bytes: Option<u64>,
        /// How the answer is printed.
        format: Format,
    },
    /// Frees containers of which less than a percentage is live.
    Collect {
        /// The percentage.
        alive: u8,
        /// How the answer is printed.
        format: Format,
    },
}

/// The result of an operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Report {
    /// Of an import.
    Imported(Imported),
    /// Of an export: the bytes that were written, holes included.
    Exported(u64),
    /// Of a transfer, as its sender has it.
    Sent(Sent),
    /// Of a transfer, as its receiver has it.
    Received(Received),
    /// Of another operation.
    Text {
        /// The text to print.
        text: String,
        /// The damage that was found.
        damage: Option<String>,
    },
}

impl Job {
    /// Whether it needs a file.
    #[must_use]
    pub fn needs_file(&self) -> bool {
        matches!(self, Self::Import { .. } | Self::Export { .. } | Self::Send { .. } | Self::Receive { .. })
    }

    /// Whether it stores content, for which the store may have to grow.
    #[must_use]
    pub fn stores(&self) -> bool {
        matches!(self, Self::Import { .. } | Self::Receive { .. })
    }

    /// What logs and errors call it.
    #[must_use]
    pub fn what(&self) -> String {
        match self {
            Self::Import { name, .. } => format!("import of {name}"),
            Self::Export { name, .. } => format!("export of {name}"),
            Self::Send { name, .. } => format!("transfer of {name}"),
            // As an import: no two of both make the same object.
            Self::Receive { name, .. } => format!("import of {name}"),
            Self::Check { reading: true, .. } => "scrub".to_owned(),
            Self::Check { reading: false, .. } => "fsck".to_owned(),
            Self::Unique { .. } => "list of unique bytes".to_owned(),
            Self::Collect { .. } => "collection".to_owned(),
            Self::Grow { .. } => "growth".to_owned(),
        }
    }

    /// The number of threads that were asked for.
    #[must_use]
    pub fn threads(&self) -> Option<u8> {
        match self {
            Self::Import { threads, .. } | Self::Export { threads, .. } => *threads,
            Self::Send { .. } | Self::Receive { .. } | Self::Check { .. } => None,
            Self::Unique { .. } | Self::Collect { .. } | Self::Grow { .. } => None,
        }
    }

    /// Checks whether it can begin, before its file is opened or a command is started for it.
    ///
    /// # Errors
    /// There is an object of the name already, or none.
    pub async fn check(&self, store: &Arc<CosStore>, path: &Path) -> Result<(), Error> {
        let fail = |e: nitro_cos::Error| failed(path, &e);
        match self {
            Self::Import { name, kind: Kind::Stream, .. } => {
                store.import_stream(name, now()).await.map(drop).map_err(fail)
            }
            Self::Export { name, from: None, .. } | Self::Send { name, .. } => {
                store.open_volume(name).await.map(drop).map_err(fail)
            }
            Self::Export { name, from: Some(from), .. } => store.increment(from, name).await.map(drop).map_err(fail),
            _ => Ok(()),
        }
    }

    /// Carries it out, with its file if it [needs](Self::needs_file) one; `path` is the store's.
    ///
    /// # Errors
    /// It fails, or was ended by `watch`.
    pub async fn run(
        &self,
        (store, path): (&Arc<CosStore>, &Path),
        file: Option<File>,
        pace: Pace,
        watch: &dyn Watch,
    ) -> Result<Report, Error> {
        let file = || file.ok_or_else(|| Error::new(self.what(), "it has no file"));
        match self {
            Self::Import { name, source, kind, increment, chunk_bytes, .. } => {
                let (source, kind, increment, chunk_bytes) = (Path::new(source), *kind, *increment, *chunk_bytes);
                let args = Import { store: path, name, source, kind, increment, chunk_bytes, pace };
                import::import(args, store, file()?, watch).await.map(Report::Imported)
            }
            Self::Export { name, from, target, in_order, .. } => {
                let sink = if *in_order { Sink::Output(file()?) } else { Sink::File(file()?) };
                let args = Export { store: path, name, target: Path::new(target), pace };
                if let Some(from) = from {
                    return export::increment::export(args, (store, from), sink, watch).await.map(Report::Exported);
                }
                let volume = store.open_volume(name).await.map_err(|e| failed(path, &e))?;
                export::export(args, &volume, sink, watch).await.map(Report::Exported)
            }
            Self::Send { name, peer } => {
                send::send((store, path), (name, peer), file()?, watch).await.map(Report::Sent)
            }
            Self::Receive { name, peer } => {
                receive::receive((store, path), (name, peer), file()?, watch).await.map(Report::Received)
            }
            Self::Check { reading, format } => look::check((store, path), *reading, *format, watch).await,
            Self::Unique { format } => look::list_unique((store, path), *format, watch).await,
            Self::Grow { size_bytes, max_bytes, format } => {
                grow::grow((store, path), (*size_bytes, *max_bytes), *format, watch).await
            }
            Self::Collect { alive, format } => look::collect((store, path), *alive, *format, watch).await,
        }
    }
}
