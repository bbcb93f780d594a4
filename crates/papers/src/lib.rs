//! Reproductions of the papers' evaluations: the experiments behind each table and figure, their results next to the
//! published figures, and reports with tables, charts and verdicts.
//!
//! [`all::run`] runs all of them. [`nitro::evaluation`] simulates Nitro's evaluation, and [`store::run`] runs its
//! experiments on the deduplicating store in virtual time. [`azor::run`] and [`dss::run`] simulate those of Azor and
//! Differentiated Storage Services, and [`data_domain::run`] uses the store as Data Domain's was. [`clam::run`] and
//! [`silt::run`] measure indexes on flash, on this machine and on a modelled SSD.
#![forbid(unsafe_code)]
// The futures of a request are nested from a volume down to a store.
#![recursion_limit = "256"]

pub mod all;
pub mod azor;
mod claims;
pub mod clam;
pub mod data_domain;
pub mod dss;
mod indexes;
mod kind;
pub mod load;
pub mod nitro;
mod parallel;
pub mod report;
mod settings;
pub mod silt;
pub mod store;

pub use claims::{CLAIMS, Claim, DSS_RECORDED, GOALS, PAPERS, RECORDED};
pub use settings::{AzorPaper, ClamPaper, DataDomainPaper, DssPaper, Evaluation, IndexPaper, SiltPaper, StorePaper};
