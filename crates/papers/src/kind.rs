//! The variants of Nitro.

use nitro_port::codec::Compression;

/// A variant with (D) or without (ND) deduplication, and with (C) or without (NC) compression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) dedup: bool,
    pub(crate) compress: bool,
}

impl Kind {
    /// All variants.
    pub(crate) const ALL: [Self; 4] =
        [Self::new(true, true), Self::new(true, false), Self::new(false, true), Self::new(false, false)];

    const fn new(dedup: bool, compress: bool) -> Self {
        Self { dedup, compress }
    }

    /// The paper's notation.
    pub(crate) const fn name(self) -> &'static str {
        match (self.dedup, self.compress) {
            (true, true) => "WEU (D, C)",
            (true, false) => "WEU (D, NC)",
            (false, true) => "WEU (ND, C)",
            (false, false) => "WEU (ND, NC)",
        }
    }

    /// The compression of the variant's extents.
    pub(crate) const fn compression(self) -> Compression {
        if self.compress { Compression::Lz4 } else { Compression::None }
    }
}
