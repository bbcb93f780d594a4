//! Access patterns in sequences of requests: sequential streams (paper §3), and patterns by pattern region.

mod regions;
mod streams;

pub use regions::{Pattern, REGIONS_MAX, RegionDetector, RegionPattern};
pub use streams::{Access, StreamDetector, StreamSettings};
