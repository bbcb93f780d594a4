//! `nitro doctor`

use super::{ControlArgs, OutputArgs};
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

pub(super) const BUNDLE_EXAMPLES: &str = "\
Example:
  nitro support-bundle bundle.json

One JSON document for whoever is to help: versions, what nitro doctor finds, the server's status, its configuration file without comments, and what \
the kernel says of memory and mounts. It holds no data of volumes, and the values of keys that name secrets are left out. Paths and names of volumes \
are in it: read it before you pass it on.";

/// `nitro support-bundle`
#[derive(Debug, Args)]
pub(crate) struct BundleArgs {
    /// The file to create, for its owner alone; - is standard output
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) control: ControlArgs,
}
