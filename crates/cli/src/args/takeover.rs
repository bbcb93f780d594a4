//! `nitro takeover`

use super::OutputArgs;
use clap::Args;
use std::path::PathBuf;

pub(super) const TAKEOVER_EXAMPLES: &str = "\
Examples:
  What would be given up:
    nitro takeover vm --config /etc/nitro/nitro.toml
  Give it up, and serve the volume here:
    nitro takeover vm --config /etc/nitro/nitro.toml --accept-loss && systemctl start nitro

For a volume in write-back with points = true, whose host is lost together with its cache. The origin is brought to its last consistent point, the \
mark that reserves it for the lost cache is removed, and what that cache still has is never written to the origin, should it come back. \
Be sure that the lost host is switched off (fencing). Without --accept-loss, nothing is changed, and the exit code is 1.";

/// `nitro takeover`
#[derive(Debug, Args)]
pub(crate) struct TakeoverArgs {
    /// The volume's name
    pub(crate) volume: String,
    /// The configuration file in which the volume is, in TOML
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// Give up what is in no point
    #[arg(long)]
    pub(crate) accept_loss: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}
