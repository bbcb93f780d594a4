//! Errors of decoding bytes from a device.

/// Why bytes from a device could not be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// There are fewer bytes than the structure has.
    #[error("{structure}: {have} bytes, but it has {need}")]
    Short {
        /// The name of the structure.
        structure: &'static str,
        /// The number of bytes given.
        have: usize,
        /// The number of bytes needed.
        need: usize,
    },
    /// The magic number is wrong.
    #[error("{structure}: the magic number is wrong")]
    Magic {
        /// The name of the structure.
        structure: &'static str,
    },
    /// The program does not know the format version; it is usually newer than those that it knows.
    #[error("{}format version {found}; this program knows versions up to {known}", maker(.found, .known))]
    Version {
        /// The version found.
        found: u32,
        /// The newest version that the program knows.
        known: u32,
    },
    /// The structure has features that the program must know and does not.
    #[error("made by a later nitro: {structure} with unknown features {unknown:#x}")]
    Features {
        /// The name of the structure.
        structure: &'static str,
        /// The unknown features, one bit each.
        unknown: u64,
    },
    /// The checksum does not match the content.
    #[error("{structure}: checksum mismatch")]
    Checksum {
        /// The name of the structure.
        structure: &'static str,
    },
    /// A field has a value that is not valid.
    #[error("{structure}: {field} is {value}")]
    Field {
        /// The name of the structure.
        structure: &'static str,
        /// The name of the field.
        field: &'static str,
        /// The value of the field.
        value: u64,
    },
}

impl FormatError {
    /// Whether the structure is of another version, or has features, that the program does not know.
    #[must_use]
    pub const fn is_unknown(&self) -> bool {
        matches!(self, Self::Version { .. } | Self::Features { .. })
    }
}

/// Who made a structure with a version that is not known.
const fn maker(found: &u32, known: &u32) -> &'static str {
    if *found > *known { "made by a later nitro: " } else { "" }
}
