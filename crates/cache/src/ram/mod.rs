//! RAM in front of the SSD: which extents that clients read stay there, and for how long. Values are the caller's: bytes in the server,
//! nothing in the simulator.

mod ahead;
mod recent;

pub use ahead::Ahead;
pub use recent::RamCache;

/// What a kept extent costs beside its bytes, in bytes: the job, its token, entries of hash maps.
pub const OVERHEAD_BYTES: u64 = 256;
/// RAM for what was read ahead, in bytes, unless it is set.
pub const READAHEAD_RAM_BYTES: u64 = 16 << 20;
