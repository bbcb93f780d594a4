//! What can go wrong.

use nitro_port::DeviceError;

/// Why an index refused or failed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The flash failed.
    #[error("the index's flash failed")]
    Device(#[source] DeviceError),
    /// The key has another size than the index was made for.
    #[error("a key of {given} bytes, where the index holds keys of {wanted}")]
    KeySize {
        /// Bytes given.
        given: usize,
        /// Bytes of this index's keys.
        wanted: usize,
    },
    /// The value has another size than the index was made for.
    #[error("a value of {given} bytes, where the index holds values of {wanted}")]
    ValueSize {
        /// Bytes given.
        given: usize,
        /// Bytes of this index's values.
        wanted: usize,
    },
    /// A setting cannot be used.
    #[error("{what}: {given} cannot be used: {why}; the nearest that can is {nearest}")]
    Setting {
        /// The setting's name.
        what: &'static str,
        /// What was given.
        given: u64,
        /// Why not.
        why: String,
        /// The nearest value that can be used.
        nearest: u64,
    },
    /// There is no index on the device.
    #[error("no index: {0}")]
    NotAnIndex(String),
    /// The index is of a format that this program does not know.
    #[error("the index has format version {0}, this program knows versions up to {known}", known = crate::superblock::VERSION)]
    Version(u32),
    /// What the index needs to be opened is damaged.
    #[error("the index is damaged: {0}; make a new one in its place")]
    Damaged(String),
    /// The index holds as much as it can.
    #[error("the index is full: it holds {entries} entries; remove some, or make one with more flash")]
    Full {
        /// Entries held.
        entries: u64,
    },
}
