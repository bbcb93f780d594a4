//! Miss-ratio curves of LRU in one pass, as in the server.

pub use nitro_cache::curve::{BadSampling, Curve, Point, Sampling, Shards};
