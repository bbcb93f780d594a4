//! What a sequence of requests tells: sequential streams (paper §3).

mod streams;
pub use streams::{Access, StreamDetector, StreamSettings};
