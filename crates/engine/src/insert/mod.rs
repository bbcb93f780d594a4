//! Insertion, off the critical path: a bounded queue, and workers that fingerprint, compress, pack and write.

mod open_weu;
mod queue;
mod worker;

pub(crate) use queue::{Content, InsertQueue, Job};
