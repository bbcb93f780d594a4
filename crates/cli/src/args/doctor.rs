//! `nitro doctor`

use super::OutputArgs;
use clap::Args;
use std::path::PathBuf;

pub(super) const EXAMPLES: &str = "\
Examples:
  This machine:
    nitro doctor
  Also the SSD and the slow storage that a server would use:
    nitro doctor /dev/nvme0n1 /srv/images/vm.img

Nothing is changed, and nothing is written. What is found is told with a remedy where there is one. The exit code is 1 if something would \
keep a server from working.";

/// `nitro doctor`
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Files or block devices that caches and volumes are on, or will be
    pub(crate) paths: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}
