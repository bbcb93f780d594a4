//! What a sequence of requests tells: sequential streams (paper §3), and patterns by region.

mod regions;
mod streams;

pub use regions::{Pattern, REGIONS_MAX, RegionDetector, RegionPattern};
pub use streams::{Access, StreamDetector, StreamSettings};
