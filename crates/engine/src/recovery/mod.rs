//! Restart (paper §3, "System restart"): the journal is read and what is dirty brought back before anything is served;
//! what is clean is read from the headers of write-evict units while requests are answered already.

mod load;
mod replay;
mod start;

pub(crate) use replay::State;
pub use start::Recovered;
pub(crate) use start::{read_superblock, sealed};
