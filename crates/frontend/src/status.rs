//! The status of ranges of a disk.

/// The requested kind of status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StatusOf {
    /// The allocation of storage at the origin: `hole` and `zero` of a [`Run`].
    Allocation,
    /// The state in the cache: `cached` and `dirty` of a [`Run`].
    Cache,
}

/// A run of bytes with the same status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Run {
    /// Length in bytes. A part beyond the requested range is cut off.
    pub len: u64,
    /// It takes no storage.
    pub hole: bool,
    /// It reads as zeroes.
    pub zero: bool,
    /// The cache has it.
    pub cached: bool,
    /// Only the cache has its newest bytes.
    pub dirty: bool,
}
