//! Errors of requests and settings.

/// Why the model refused a request or a setting.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A setting is outside its bounds.
    #[error("{setting} is {value}: {bounds}")]
    Setting {
        /// The name of the setting.
        setting: &'static str,
        /// Its value.
        value: String,
        /// The values that are valid.
        bounds: &'static str,
    },
    /// The SSD has too few blocks for the reserve of its translation layer.
    #[error("an SSD of {blocks} blocks is too small for its translation layer")]
    TooSmall {
        /// Superblocks of the SSD.
        blocks: u32,
    },
    /// The SSD has more pages than 32 bits can number.
    #[error("an SSD of {pages} pages is too large for the model, which numbers them with 32 bits")]
    TooLarge {
        /// Physical pages of the SSD.
        pages: u64,
    },
    /// A request extends beyond the last logical page or byte.
    #[error("request for {len} at {first} reaches past the end at {end}")]
    OutOfRange {
        /// The first page or byte of the request.
        first: u64,
        /// Its length in pages or bytes.
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
