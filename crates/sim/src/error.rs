//! Errors of simulations.

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
    /// The modelled SSD cannot have these settings.
    #[error("SSD: {0}")]
    Ssd(#[from] nitro_model::Error),
    /// Settings contradict each other.
    #[error("{0}")]
    Setting(String),
    /// A miss-ratio curve cannot have this sampling.
    #[error("{0}")]
    Sampling(#[from] nitro_cache::curve::BadSampling),
    /// I/O on the scratch file with the trace's extents failed.
    #[error("scratch file in {folder}: {0}", folder = std::env::temp_dir().display())]
    Scratch(io::Error),
    /// The caller stopped the simulation.
    #[error("stopped")]
    Stopped,
    /// A trace was changed while it was simulated, so that the results belong to none.
    #[error("{path}: it was changed while it was simulated")]
    Changed {
        /// The path of the file.
        path: String,
    },
    /// A file of results cannot be read or written.
    #[error("{path}: {reason}")]
    Results {
        /// The path of the file.
        path: String,
        /// The reason.
        reason: String,
    },
}

impl Error {
    /// An error of settings.
    pub(crate) fn setting(why: impl Into<String>) -> Self {
        Self::Setting(why.into())
    }
}
