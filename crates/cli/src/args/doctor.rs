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
  A folder in which the cache's file is to be:
    nitro doctor /var/lib/nitro

The command changes and writes nothing. It reports each finding, with a remedy if there is one. The exit code is 1 if a finding would \
prevent a server from working.";

/// `nitro doctor`
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Files, block devices or folders that caches and volumes are on or in, or will be
    pub(crate) paths: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

pub(super) const BUNDLE_EXAMPLES: &str = "\
Example:
  nitro support-bundle bundle.json

The command writes one JSON document for support: versions, the findings of nitro doctor, the server's status, its configuration file without \
comments, and the kernel's information about memory and mounts. The document contains no data of volumes, and no values of keys that name secrets. \
It contains paths and names of volumes: read it before you pass it on.";

/// `nitro support-bundle`
#[derive(Debug, Args)]
pub(crate) struct BundleArgs {
    /// The file to create, accessible only to its owner; - is standard output
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) control: ControlArgs,
}
