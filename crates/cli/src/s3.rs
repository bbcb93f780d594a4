//! `nitro s3`: volumes in buckets.

use crate::args::{S3Command, S3InitArgs};
use nitro_console::error::Error;
use nitro_console::output::{Format, json_line, print};
use nitro_server::origins::make_s3;
use serde::Serialize;

/// Runs `nitro s3 ...`.
pub(crate) fn run(command: &S3Command) -> Result<(), Error> {
    match command {
        S3Command::Init(args) => init(args),
    }
}

/// What `-o json` prints.
#[derive(Serialize)]
struct Made<'a> {
    uri: &'a str,
    size_bytes: u64,
    object_bytes: u64,
}

fn init(args: &S3InitArgs) -> Result<(), Error> {
    let S3InitArgs { uri, size, object_size, output } = args;
    make_s3(uri, size.0, u32::try_from(object_size.0).unwrap_or(u32::MAX))?;
    let made = Made { uri, size_bytes: size.0, object_bytes: object_size.0 };
    let text = match output.format {
        Format::Json => json_line(&made)?,
        _ => format!("{uri}: a volume of {size} in objects of {object_size}\n"),
    };
    print(&text).map(drop)
}
