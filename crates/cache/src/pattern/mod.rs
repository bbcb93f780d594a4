//! Access patterns in sequences of requests: sequential streams (paper §3), the classes that follow from them, and the
//! patterns of regions.

mod regions;
mod runs;
mod streams;

pub use regions::{Pattern, REGIONS_MAX, RegionDetector, RegionPattern};
pub use runs::{RUN_BYTES_MIN, RunDetector};
pub use streams::{Access, StreamDetector, StreamSettings};
