//! RAM in front of the SSD: decides which extents that clients read stay in RAM, and for how long. Values belong to the
//! caller: bytes in the server, empty in the simulator.

mod ahead;
mod recent;

pub use ahead::Ahead;
pub use recent::RamCache;

/// Overhead of a kept extent in bytes: the job, its token, entries of hash maps.
pub const OVERHEAD_BYTES: u64 = 256;
/// Default size of the RAM cache, in bytes.
pub const RAM_CACHE_BYTES: u64 = 64 << 20;
/// Default RAM for read-ahead data, in bytes.
pub const READAHEAD_RAM_BYTES: u64 = 16 << 20;
