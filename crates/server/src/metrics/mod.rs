//! The metrics of a server. Their names, units, labels and meanings are defined in `table` only; docs/METRICS.md is
//! generated from it.

mod docs;
mod encode;
mod table;

pub(crate) use encode::{TextFormat, encode};
pub use table::{Kind, METRICS, Metric, Unit};
