//! The metrics of a server: their names, units, labels and meanings stand in [`table`] and nowhere else; docs/METRICS.md is made of it.

mod docs;
mod encode;
mod table;

pub(crate) use encode::{TextFormat, encode};
pub use table::{Kind, METRICS, Metric, Unit};
