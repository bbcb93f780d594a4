//! Why bytes are not what they should be.

/// Why bytes from a device are not what they should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// Fewer bytes than the structure has.
    #[error("{structure}: {have} bytes, but it has {need}")]
    Short {
        /// What was read.
        structure: &'static str,
        /// Bytes given.
        have: usize,
        /// Bytes needed.
        need: usize,
    },
    /// The magic number is another.
    #[error("{structure}: no magic number; this is something else")]
    Magic {
        /// What was read.
        structure: &'static str,
    },
    /// A format that this program does not know.
    #[error("format version {found}; this program knows versions up to {known}")]
    Version {
        /// The version found.
        found: u32,
        /// The newest one that the program knows.
        known: u32,
    },
    /// The checksum does not match.
    #[error("{structure}: checksum mismatch")]
    Checksum {
        /// What was read.
        structure: &'static str,
    },
    /// A field has a value that it cannot have.
    #[error("{structure}: {field} is {value}")]
    Field {
        /// What was read.
        structure: &'static str,
        /// The field.
        field: &'static str,
        /// Its value.
        value: u64,
    },
}
