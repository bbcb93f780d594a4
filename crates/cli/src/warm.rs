//! `nitro warm`

use crate::args::WarmArgs;
use nitro_commands::traces::{Input, refused};
use nitro_console::error::Error;
use nitro_console::output::{self, Format, Table};
use nitro_console::progress::Progress;
use nitro_console::size::Size;
use nitro_server::control::part_of_volume;
use nitro_server::control::protocol::{Command, Status};
use nitro_trace::hottest;
use serde::Serialize;
use std::ops::Range;

/// Bytes of one request to the server: short enough that Ctrl-C takes effect soon.
const STEP_BYTES: u64 = 16 << 20;
/// Size of the regions by which reads of a trace are counted, in bytes.
const REGION_BYTES: u64 = 1 << 20;

/// The result of warming.
#[derive(Debug, Serialize)]
struct Warmed<'a> {
    volume: &'a str,
    ranges: usize,
    bytes: u64,
}

/// Reads a volume, or a part of it, into its cache.
pub(crate) fn run(args: &WarmArgs) -> Result<(), Error> {
    let mut client = args.server.connect()?;
    let ranges = ranges(args, &client.status()?)?;
    let bytes = ranges.iter().map(|range| range.end - range.start).sum();
    let progress = Progress::new(bytes, "read");
    let mut done = 0;
    for range in &ranges {
        let mut offset = range.start;
        while offset < range.end {
            let length = STEP_BYTES.min(range.end - offset);
            client.execute(Command::Warm { volume: args.volume.clone(), offset, length })?;
            offset += length;
            done += length;
            progress.show(done);
        }
    }
    progress.end();
    print(&Warmed { volume: &args.volume, ranges: ranges.len(), bytes }, args.server.output.format)
}

/// The ranges to read, in ascending order.
fn ranges(args: &WarmArgs, status: &Status) -> Result<Vec<Range<u64>>, Error> {
    let what = format!("volume {}", args.volume);
    let Some(volume) = status.volumes.iter().find(|volume| volume.name == args.volume) else {
        let names: Vec<_> = status.volumes.iter().map(|volume| volume.name.as_str()).collect();
        let remedy = format!("those that are: {}", names.join(", "));
        return Err(Error::new(what, "it is not served here").or(remedy));
    };
    let capacity_bytes =
        status.caches.iter().find(|cache| cache.name == volume.cache).map_or(0, |cache| cache.capacity_bytes);
    if !args.from_trace.is_empty() {
        let mut input = Input::open(&args.from_trace, &args.read)?;
        let bytes_max = args.max.map_or(capacity_bytes, |max| max.0);
        let found = hottest(&mut input, args.object, REGION_BYTES, bytes_max, volume.size_bytes);
        let found = found.map_err(|e| refused(&e))?;
        input.tell_skipped();
        if found.is_empty() {
            let why = "no read of the trace is within the volume";
            return Err(Error::new(format_args!("trace of {what}"), why)
                .or("nitro-lab trace info shows its objects and addresses; --object names one, --max at least 1M"));
        }
        return Ok(found);
    }
    let (offset, length) = (args.offset.map_or(0, |offset| offset.0), args.length.map(|length| length.0));
    let part = part_of_volume(&args.volume, volume.size_bytes, offset, length)?;
    let length = part.end - part.start;
    if capacity_bytes > 0 && length > capacity_bytes {
        nitro_console::note!(
            "{} will be read, but the cache has {}: unless deduplication and compression reduce the data enough, those read \
             first are evicted again",
            Size(length),
            Size(capacity_bytes)
        );
    }
    Ok(std::iter::once(part).collect())
}

fn print(warmed: &Warmed<'_>, format: Format) -> Result<(), Error> {
    let Warmed { volume, ranges, bytes } = warmed;
    let text = match format {
        Format::Json => output::json_pretty(warmed)?,
        Format::Csv => {
            let row = vec![(*volume).to_owned(), ranges.to_string(), bytes.to_string()];
            Table::of_one(["volume", "ranges", "bytes"], row).csv(true)
        }
        Format::Table => {
            let of = if *ranges == 1 { "in one range".to_owned() } else { format!("in {ranges} ranges") };
            format!("volume {volume}: {} {of} are cached or on their way into the cache\n", Size(*bytes))
        }
    };
    output::print(&text).map(|_| ())
}
