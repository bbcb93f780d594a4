//! Reproductions of the papers' evaluations: the experiments behind each table and figure, their results next to the
//! published figures, and reports with tables, charts and verdicts.
//!
//! [`all::run`] runs all of them. [`nitro::evaluation`] simulates Nitro's evaluation, and [`store::run`] runs its experiments on the deduplicating
//! store in virtual time. [`clam::run`] and [`silt::run`] measure indexes on flash, on this machine and on a modelled
//! SSD. [`dss::run`] simulates Differentiated Storage Services' evaluation on a modelled file system.
#![forbid(unsafe_code)]
// The futures of a request are nested from a volume down to a store.
#![recursion_limit = "256"]

pub mod all;
mod claims;
pub mod clam;
pub mod dss;
mod indexes;
mod kind;
pub mod load;
pub mod nitro;
pub mod report;
mod settings;
pub mod silt;
pub mod store;

pub use claims::{CLAIMS, Claim, DSS_RECORDED, GOALS, RECORDED};
pub use settings::{ClamPaper, DssPaper, Evaluation, IndexPaper, SiltPaper, StorePaper};
