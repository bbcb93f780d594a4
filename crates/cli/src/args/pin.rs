//! `nitro pin`, `nitro unpin` and `nitro pins`

use super::ServerArgs;
use clap::Args;
use nitro_console::size::Size;

pub(super) const PIN_EXAMPLES: &str = "\
Examples:
  The whole volume:
    nitro pin db
  Its first gigabyte, which is then read into the cache:
    nitro pin db 0 1G
    nitro warm db 0 1G

Whole extents are pinned. Pinned extents that are not cached yet are inserted when they are read or written next, independent of classes,
admission and the write budget, except by reads of long streams (sequential_threshold). Pins are kept over restarts of the server. Pins,
minimums of classes, dirty data and open units may together take 90 % of the cache, with pins counted before compression; a pin that would
exceed this is refused.";

pub(super) const UNPIN_EXAMPLES: &str = "\
Examples:
  nitro unpin db
  nitro unpin db 512M 512M

Extents that are not pinned any more stay cached until they are evicted like all others.";

pub(super) const LIST_EXAMPLES: &str = "\
Examples:
  nitro pins
  nitro pins -o json | jq 'map(.length) | add'";

/// The range to pin or unpin.
#[derive(Debug, Args)]
pub(crate) struct PinArgs {
    /// The volume's name
    pub(crate) volume: String,
    /// Offset of the first byte, such as 8192 or 1.5G [default: 0]
    #[arg(requires = "length")]
    pub(crate) offset: Option<Size>,
    /// Length in bytes, such as 1G [default: the whole volume]
    pub(crate) length: Option<Size>,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}
