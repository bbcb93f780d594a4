//! `nitro attach` and `nitro detach`

use super::ServerArgs;
use clap::Args;
use nitro_console::size::Size;

pub(super) const ATTACH_EXAMPLES: &str = "\
Examples:
  A file system on a volume:
    mkfs.ext4 $(nitro attach vm)
    mount /dev/nitro/vm /mnt
  Each volume at every start of the server:
    nitro serve --listen ublk: ...

The command prints the path of the device; the package's udev rule adds the link /dev/nitro/VOLUME. It needs Linux 6.5 or later with the
module ublk_drv, and a server that runs as root or has CAP_SYS_ADMIN; elsewhere, nbd-client attaches the volume over NBD.
The device is removed when the server ends. If it is in use then, or if the server is killed, its requests wait for the next server of the
volume, which takes it over; it is removed instead if acknowledged writes that were not flushed were lost.
docs/guide/mounting.md describes mounting at boot.";

pub(super) const DETACH_EXAMPLES: &str = "\
Example:
  umount /mnt; nitro detach vm

A device that is mounted, or that another program or device holds, is not removed.";

/// `nitro attach`
#[derive(Debug, Args)]
pub(crate) struct AttachArgs {
    /// The volume's name
    pub(crate) volume: String,
    /// Bytes of a logical block, 512 to 4096: 4096 for an image whose partition table was made with such blocks [default: those of the volume]
    #[arg(long, value_name = "SIZE")]
    pub(crate) block_size: Option<Size>,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

/// `nitro detach`
#[derive(Debug, Args)]
pub(crate) struct DetachArgs {
    /// The volume's name
    pub(crate) volume: String,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}
