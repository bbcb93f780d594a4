//! Restart (paper §3, "System restart"): the journal is read and dirty extents are restored before requests are served;
//! clean extents are restored from the headers of write-evict units while requests are served.

mod duplicates;
mod load;
mod replay;
mod start;

pub(crate) use replay::State;
pub use start::Recovered;
pub(crate) use start::sealed;

/// Reads of the device at once, of a restart and of the offline commands.
pub(crate) const READS_AT_ONCE: usize = 32;
