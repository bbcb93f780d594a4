//! What can be wrong with a request or a setting.

/// Why the model refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A setting is outside its bounds.
    #[error("{setting} is {value}: {bounds}")]
    Setting {
        /// Its name.
        setting: &'static str,
        /// What it was.
        value: String,
        /// What it may be.
        bounds: &'static str,
    },
    /// The SSD has too few blocks for what its translation layer keeps to itself.
    #[error("an SSD of {blocks} blocks is too small for its translation layer")]
    TooSmall {
        /// Superblocks in all.
        blocks: u32,
    },
    /// The SSD has more pages than 32-bit numbers can name.
    #[error("an SSD of {pages} pages is too large for the model, which numbers them with 32 bits")]
    TooLarge {
        /// Physical pages wanted.
        pages: u64,
    },
    /// A request reaches past the last logical page or byte.
    #[error("request for {len} at {first} reaches past the end at {end}")]
    OutOfRange {
        /// First page or byte.
        first: u64,
        /// Pages or bytes.
        len: u64,
        /// Logical pages or bytes of the SSD.
        end: u64,
    },
}

impl Error {
    pub(crate) fn setting(setting: &'static str, value: impl ToString, bounds: &'static str) -> Self {
        Self::Setting { setting, value: value.to_string(), bounds }
    }
}
