//! Miss-ratio curves of LRU in one pass, as the server follows them while it serves.

pub use nitro_cache::curve::{BadSampling, Curve, Point, Sampling, Shards};
