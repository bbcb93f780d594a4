//! Which ranges of a slow device to read, if a part of a stretch is cached: gaps are read through where that costs less
//! than another request.
//!
//! One plan and one estimate of costs for all: what guests read of plain origins, and the containers of a store. Callers throw the bytes of gaps away; what is served for cached extents comes from the cache.

mod cost;
mod plan;

pub use cost::{CostEstimator, Costs};
pub use plan::{Kind, Piece, plan};
