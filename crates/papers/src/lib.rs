//! The papers' evaluations, made again: which experiments each of their tables and figures takes, what comes of them beside
//! the published figures, and a report with tables, charts and verdicts.
//!
//! [`nitro::evaluation`] simulates Nitro's; [`store::run`] plays its experiments on the deduplicating store in virtual time;
//! [`clam::run`] and [`silt::run`] measure indexes on flash, on this machine and on a modelled SSD.
#![forbid(unsafe_code)]
// The futures of a request reach from a volume down into a store.
#![recursion_limit = "256"]

mod claims;
pub mod clam;
mod indexes;
mod kind;
pub mod load;
pub mod nitro;
pub mod report;
mod settings;
pub mod silt;
pub mod store;

pub use claims::{CLAIMS, Claim, GOALS};
pub use settings::{ClamPaper, Evaluation, IndexPaper, SiltPaper, StorePaper};
