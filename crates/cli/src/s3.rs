//! `nitro s3`: volumes in buckets.

use crate::args::{S3Command, S3InitArgs, S3VolumeArgs};
use crate::volume;
use nitro_console::date::utc;
use nitro_console::error::Error;
use nitro_console::output::{Format, Table, json_line, print};
use nitro_server::control::client::Client;
use nitro_server::control::protocol::{Command, Outcome};
use nitro_server::origins::{BucketAction, S3Snapshot, act_on_bucket, list_bucket, make_s3, s3_volume_of};
use serde::Serialize;
use std::path::Path;

/// Runs `nitro s3 ...`.
pub(crate) fn run(command: &S3Command) -> Result<(), Error> {
    match command {
        S3Command::Init(args) => init(args),
        S3Command::Snapshot { uri, shown } => {
            let (volume, name) = named(uri)?;
            act(&volume, BucketAction::Snapshot { name }, shown)
        }
        S3Command::Delete { uri, shown } => {
            let (volume, name) = named(uri)?;
            act(&volume, BucketAction::Delete { name }, shown)
        }
        S3Command::Grow { uri, size, shown } => match place(uri)? {
            (volume, None) => act(&volume, BucketAction::Grow { size_bytes: size.0 }, shown),
            (volume, Some(_)) => Err(Error::new(uri, "a snapshot never changes").or(format_args!("grow {volume}"))),
        },
        S3Command::List { uri, output } => list(uri, output.format),
    }
}

/// The volume of a URI, in one form, and its snapshot.
fn place(uri: &str) -> Result<(String, Option<String>), Error> {
    let wrong = || Error::new(uri, "it names no volume in a bucket").or("write s3://BUCKET/PREFIX, or with @NAME");
    s3_volume_of(Path::new(uri)).ok_or_else(wrong)
}

/// The volume and the name of a snapshot.
fn named(uri: &str) -> Result<(String, String), Error> {
    match place(uri)? {
        (volume, Some(name)) => Ok((volume, name)),
        (_, None) => Err(Error::new(uri, "it names no snapshot").or("write s3://BUCKET/PREFIX@NAME")),
    }
}

/// Has the server that serves the volume do it, or does it.
fn act(volume: &str, action: BucketAction, shown: &S3VolumeArgs) -> Result<(), Error> {
    let done = match server_of(volume, shown)? {
        Some(mut client) => client.execute(Command::Bucket { uri: volume.to_owned(), action })?,
        None => Outcome { message: act_on_bucket(volume, &action)?, ..Outcome::default() },
    };
    volume::print(&done, shown.output)
}

/// The server that serves the volume; one that was named must.
fn server_of(volume: &str, shown: &S3VolumeArgs) -> Result<Option<Client>, Error> {
    let path = shown.control.path();
    let mut client = match Client::connect(path) {
        Ok(client) => client,
        Err(error) if path.is_some() => return Err(error),
        Err(_) => return Ok(None),
    };
    let is_it =
        |origin: &str| s3_volume_of(Path::new(origin)).is_some_and(|(other, at)| other == volume && at.is_none());
    let is_served = client.status()?.volumes.iter().any(|served| is_it(&served.origin));
    match (is_served, path) {
        (true, _) => Ok(Some(client)),
        (false, None) => Ok(None),
        (false, Some(_)) => {
            Err(Error::new(volume, "that server does not serve it").or("leave out --control if no server does"))
        }
    }
}

/// A snapshot, as `-o json` prints it.
#[derive(Serialize)]
struct Listed<'a> {
    name: &'a str,
    made_seconds: u64,
    size_bytes: u64,
    generation: u64,
}

fn list(uri: &str, format: Format) -> Result<(), Error> {
    let all = list_bucket(uri)?;
    let listed = |snapshot: &S3Snapshot| (snapshot.made_ns / 1_000_000_000, snapshot.size_bytes, snapshot.generation);
    if format == Format::Json {
        let of = |snapshot: &S3Snapshot| {
            let (made_seconds, size_bytes, generation) = listed(snapshot);
            json_line(&Listed { name: &snapshot.name, made_seconds, size_bytes, generation })
        };
        let lines = all.iter().map(of).collect::<Result<String, _>>()?;
        return print(&lines).map(drop);
    }
    let mut table = Table::new(["snapshot", "made", "size", "generation"]);
    for snapshot in &all {
        let (made_seconds, size_bytes, generation) = listed(snapshot);
        table.row(vec![snapshot.name.clone(), utc(made_seconds), format.size(size_bytes), generation.to_string()]);
    }
    let text = if format == Format::Csv { table.csv(true) } else { table.aligned() };
    print(&text).map(drop)
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
