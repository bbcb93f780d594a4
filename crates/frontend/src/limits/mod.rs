//! How fast requests may pass to a disk: a token bucket, and the gate at which requests wait for it.

mod bucket;
mod gate;
mod queue;

pub use bucket::Bucket;
pub use gate::{Gate, Left, Rates};
