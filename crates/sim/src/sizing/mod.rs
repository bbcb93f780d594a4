//! How large a cache: hits and bytes written by size, from a sample of a trace.
//!
//! A trace that is short enough is simulated whole. Of a longer one, a share of the extents is simulated with all their
//! requests, with caches that are smaller by this share: miniature simulation, which is exact on average for any policy
//! (Waldspurger et al., "Cache Modeling and Optimization using Miniature Simulations", USENIX ATC 2017). In the same pass,
//! the miss-ratio curve of LRU is computed by SHARDS ([`crate::mrc`]).

mod filter;
mod point;
mod sample;
mod search;

pub use point::Point;
pub use sample::{Sample, Sampling, Totals};
pub use search::least_cache_bytes;
