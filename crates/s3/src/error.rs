//! Why a volume in a bucket cannot be used.

use nitro_log::FormatError;

/// Why a request to a store failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// It may have been carried out, or may be later: no answer, or one that says to try again.
    #[error("{0}")]
    Unsure(String),
    /// The store refuses it, and has not carried it out.
    #[error("{0}")]
    Refused(String),
}

/// Why a volume cannot be used, or a request to it failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum S3Error {
    /// The store does not answer, or refuses.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Another server has written a generation: this one may not write any more.
    #[error("another server has taken the volume over: generation {generation} is not ours")]
    Fenced {
        /// The generation.
        generation: u64,
    },
    /// There is no volume under the prefix.
    #[error("there is no volume of Nitro's here")]
    NoVolume,
    /// The volume has no such snapshot.
    #[error("there is no snapshot {0:?}")]
    NoSnapshot(String),
    /// What was asked for cannot be done.
    #[error("{0}")]
    Invalid(String),
    /// There is a volume, or something else, under the prefix already.
    #[error("there is something here already: object {0}")]
    NotEmpty(String),
    /// An object that the manifest names is not there.
    #[error("object {0} is missing")]
    Missing(String),
    /// An object is not what it should be.
    #[error("object {name}: {why}")]
    Format {
        /// Its name below the prefix.
        name: String,
        /// What is wrong.
        why: FormatError,
    },
    /// An object is of another volume.
    #[error("object {0} is of another volume")]
    Foreign(String),
    /// The store does not do what the format relies on.
    #[error("the store cannot keep a volume: {0}")]
    Unfit(String),
    /// The manifest changed again and again while it was read.
    #[error("other servers change the volume all the time")]
    Busy,
    /// The thread that serves the volume has ended.
    #[error("its thread has ended")]
    Ended,
}
