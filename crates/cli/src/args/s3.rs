//! `nitro s3 ...`

use super::OutputArgs;
use clap::{Args, Subcommand};
use nitro_console::size::Size;

const INIT_EXAMPLES: &str = "\
Examples:
  nitro s3 init s3://bucket/vm --size 100G
  nitro s3 init 's3://bucket/vm?endpoint=https://rgw.example' --size 10T --object-size 1M

The volume is thin: a part that was never written takes nothing. Small objects are better for small random writes, which rewrite whole objects;
large ones need fewer requests. Credentials are those of AWS's tools: environment, ~/.aws/credentials, or a role.";

#[derive(Debug, Subcommand)]
pub(crate) enum S3Command {
    /// Make an empty volume under a prefix of a bucket, which is then an origin: nitro serve --origin s3://BUCKET/PREFIX
    #[command(after_long_help = INIT_EXAMPLES)]
    Init(S3InitArgs),
}

/// `nitro s3 init`
#[derive(Debug, Args)]
pub(crate) struct S3InitArgs {
    /// Where: s3://BUCKET/PREFIX, with ?endpoint=URL for a server that is not AWS's. The bucket exists, and nothing is under the prefix
    #[arg(value_name = "URI")]
    pub(crate) uri: String,
    /// Size of the volume, which is as large for ever
    #[arg(long)]
    pub(crate) size: Size,
    /// Size of its objects: a power of two from 64K to 4M
    #[arg(long, value_name = "BYTES", default_value = "4M")]
    pub(crate) object_size: Size,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}
