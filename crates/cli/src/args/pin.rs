//! `nitro pin`, `nitro unpin` and `nitro pins`

use super::{ControlArgs, OutputArgs};
use clap::Args;
use nitro_console::size::Size;

pub(super) const PIN_EXAMPLES: &str = "\
Examples:
  The whole volume:
    nitro pin db
  Its first gigabyte, which is then read so that it is there:
    nitro pin db 0 1G
    nitro warm db 0 1G

Whole extents are pinned. What is not cached yet comes in when it is read or written next, whatever classes, admission and the
write budget say; reads of long streams (sequential_threshold) excepted. Pins outlive restarts of the server. Pins, minimums of classes,
dirty data and open units may take 90 % of the cache together, pins counted before compression; more is refused.";

pub(super) const UNPIN_EXAMPLES: &str = "\
Examples:
  nitro unpin db
  nitro unpin db 512M 512M

What is not pinned any more stays cached until it is evicted as all else is.";

pub(super) const LIST_EXAMPLES: &str = "\
Examples:
  nitro pins
  nitro pins -o json | jq 'map(.length) | add'";

/// What is pinned.
#[derive(Debug, Args)]
pub(crate) struct PinArgs {
    /// The volume's name
    pub(crate) volume: String,
    /// The first byte, as 8192 or 1.5G [default: 0]
    #[arg(requires = "length")]
    pub(crate) offset: Option<Size>,
    /// How many bytes [default: all of the volume]
    pub(crate) length: Option<Size>,
    #[command(flatten)]
    pub(crate) control: ControlArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}
