//! What parts of a disk are.

/// What is asked of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StatusOf {
    /// Where it takes storage at the origin: `hole` and `zero` of a [`Run`].
    Allocation,
    /// What the cache has of it: `cached` and `dirty` of a [`Run`].
    Cache,
}

/// A run of bytes of which the same is true.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Run {
    /// Length in bytes. What reaches past the range asked for is cut off.
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
