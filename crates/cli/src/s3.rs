//! `nitro s3`: volumes in buckets.

use crate::args::{S3Command, S3InitArgs};
use nitro_console::error::Error;
use nitro_console::output::print;
use nitro_server::origins::make_s3;

/// Runs `nitro s3 ...`.
pub(crate) fn run(command: &S3Command) -> Result<(), Error> {
    match command {
        S3Command::Init(args) => init(args),
    }
}

fn init(args: &S3InitArgs) -> Result<(), Error> {
    let S3InitArgs { uri, size, object_size } = args;
    make_s3(uri, size.0, u32::try_from(object_size.0).unwrap_or(u32::MAX))?;
    print(&format!("{uri}: a volume of {size} in objects of {object_size}\n")).map(drop)
}
