//! `nitro s3 ...`

use super::{ControlArgs, OutputArgs};
use clap::{Args, Subcommand};
use nitro_console::size::Size;

const INIT_EXAMPLES: &str = "\
Examples:
  nitro s3 init s3://bucket/vm --size 100G
  nitro s3 init 's3://bucket/vm?endpoint=https://rgw.example' --size 10T --object-size 1M

The volume is thin: a part that was never written takes nothing. Small objects are better for small random writes, which rewrite whole objects;
large ones need fewer requests. Credentials are those of AWS's tools: environment, ~/.aws/credentials, or a role.";

const SNAPSHOT_EXAMPLES: &str = "\
Examples:
  nitro s3 snapshot s3://bucket/vm@monday
  nitro serve --origin s3://bucket/vm@monday --name monday --cache cache.img --cache-size 1G --read-only

A snapshot takes one small object, and keeps what the volume had until it is deleted. If a server serves the volume, it writes back what is dirty
and makes the snapshot, which has all that clients had written before. Otherwise, the volume is taken over for the moment: never while a
server on another machine serves it.";

const GROW_EXAMPLES: &str = "\
Example:
  nitro s3 grow s3://bucket/vm 200G

If a server serves the volume, it has the new size at once: NBD clients see it when they connect again; virtual machines and iSCSI
initiators are informed of it. A volume never becomes smaller.";

/// Where a volume is, and which server may serve it.
#[derive(Debug, Args)]
pub(crate) struct S3VolumeArgs {
    #[command(flatten)]
    pub(crate) control: ControlArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum S3Command {
    /// Make an empty volume under a prefix of a bucket, which is then an origin: nitro serve --origin s3://BUCKET/PREFIX
    #[command(after_long_help = INIT_EXAMPLES)]
    Init(S3InitArgs),
    /// Make a snapshot of a volume, which can be served for reading
    #[command(after_long_help = SNAPSHOT_EXAMPLES)]
    Snapshot {
        /// The snapshot: s3://BUCKET/PREFIX@NAME
        #[arg(value_name = "URI")]
        uri: String,
        #[command(flatten)]
        shown: S3VolumeArgs,
    },
    /// List the snapshots of a volume
    List {
        /// The volume: s3://BUCKET/PREFIX
        #[arg(value_name = "URI")]
        uri: String,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Delete a snapshot of a volume; what only it has is deleted by the server that serves the volume, now or next
    Delete {
        /// The snapshot: s3://BUCKET/PREFIX@NAME
        #[arg(value_name = "URI")]
        uri: String,
        #[command(flatten)]
        shown: S3VolumeArgs,
    },
    /// Make a volume larger
    #[command(after_long_help = GROW_EXAMPLES)]
    Grow {
        /// The volume: s3://BUCKET/PREFIX
        #[arg(value_name = "URI")]
        uri: String,
        /// Its new size
        size: Size,
        #[command(flatten)]
        shown: S3VolumeArgs,
    },
}

/// `nitro s3 init`
#[derive(Debug, Args)]
pub(crate) struct S3InitArgs {
    /// Where: s3://BUCKET/PREFIX, with ?endpoint=URL for a server that is not AWS's. The bucket exists, and nothing is under the prefix
    #[arg(value_name = "URI")]
    pub(crate) uri: String,
    /// Size of the volume
    #[arg(long)]
    pub(crate) size: Size,
    /// Size of its objects: a power of two from 64K to 4M
    #[arg(long, value_name = "BYTES", default_value = "4M")]
    pub(crate) object_size: Size,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}
