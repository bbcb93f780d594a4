//! Errors of indexes.

use nitro_port::DeviceError;

/// Why an operation of an index failed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The device failed.
    #[error("the index's flash failed")]
    Device(#[source] DeviceError),
    /// The key does not have the size of this index's keys.
    #[error("a key of {given} bytes, where the index holds keys of {wanted}")]
    KeySize {
        /// The size of the key in bytes.
        given: usize,
        /// The size of this index's keys in bytes.
        wanted: usize,
    },
    /// The value does not have the size of this index's values.
    #[error("a value of {given} bytes, where the index holds values of {wanted}")]
    ValueSize {
        /// The size of the value in bytes.
        given: usize,
        /// The size of this index's values in bytes.
        wanted: usize,
    },
    /// A setting is not valid.
    #[error("{what}: {given} cannot be used: {why}; the nearest that can is {nearest}")]
    Setting {
        /// The name of the setting.
        what: &'static str,
        /// The value that was given.
        given: u64,
        /// The reason.
        why: String,
        /// The nearest valid value.
        nearest: u64,
    },
    /// There is no index on the device.
    #[error("there is no index of the expected kind: {0}")]
    NotAnIndex(String),
    /// The format of the index is newer than this program.
    #[error("the index has format version {0}, this program knows versions up to {known}", known = crate::superblock::VERSION)]
    Version(u32),
    /// Data that are needed to open the index are damaged.
    #[error("the index is damaged: {0}; create a new one in its place")]
    Damaged(String),
    /// The index is full.
    #[error("the index is full: it holds {entries} entries; remove some, or create an index with more flash")]
    Full {
        /// The number of entries in the index.
        entries: u64,
    },
}
