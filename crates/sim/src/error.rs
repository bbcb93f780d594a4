//! What can go wrong in a simulation.

use nitro_cache::SettingError;
use nitro_trace::TraceError;
use std::io;

/// Why a simulation could not be run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A setting of the cache is out of bounds.
    #[error("{0}")]
    Cache(#[from] SettingError),
    /// The modelled SSD cannot be made like that.
    #[error("SSD: {0}")]
    Ssd(#[from] nitro_model::Error),
    /// Settings do not go together.
    #[error("{0}")]
    Setting(String),
    /// A miss-ratio curve cannot be sampled like that.
    #[error("{0}")]
    Sampling(#[from] nitro_cache::curve::BadSampling),
    /// The scratch file that keeps a trace's extents failed.
    #[error("scratch file in {folder}: {0}", folder = std::env::temp_dir().display())]
    Scratch(io::Error),
    /// The caller asked to stop.
    #[error("stopped")]
    Stopped,
    /// A file of results cannot be read or written.
    #[error("{path}: {reason}")]
    Results {
        /// Which.
        path: String,
        /// Why.
        reason: String,
    },
}

impl Error {
    /// A setting that makes no sense.
    pub(crate) fn setting(why: impl Into<String>) -> Self {
        Self::Setting(why.into())
    }
}
