//! Access patterns in sequences of requests: sequential streams (paper §3), and the patterns of regions.

mod regions;
mod streams;

pub use regions::{Pattern, REGIONS_MAX, RegionDetector, RegionPattern};
pub use streams::{Access, StreamDetector, StreamSettings};
