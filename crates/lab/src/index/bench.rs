//! `nitro-lab index bench`

use crate::args::{BenchArgs, IndexKind};
use nitro_console::error::Error;
use nitro_console::output::{self, Format, Table};
use nitro_papers::load::bench::{self, Bench, Kind, Report};
use std::thread::available_parallelism;

pub(crate) fn run(args: &BenchArgs) -> Result<(), Error> {
    let report = bench::run(&Bench {
        kind: match args.kind {
            IndexKind::Bufferhash => Kind::BufferHash,
            IndexKind::Silt => Kind::Silt,
        },
        shape: args.shape.shape()?,
        entries: args.shape.entries,
        ram_bytes: args.shape.ram.0,
        buffer_bytes: args.buffer.buffer.0,
        file: args.file.clone(),
        lookups: args.lookups,
        depth: args.depth.get(),
        threads: args.threads.map_or_else(|| available_parallelism().map_or(1, usize::from), usize::from),
        sync_every: args.sync_every,
    })?;
    print(&report, args.output.format)
}

fn print(report: &Report, format: Format) -> Result<(), Error> {
    let fail = |e| Error::new("the report", e);
    if format == Format::Json {
        return output::print(&(serde_json::to_string(report).map_err(fail)? + "\n")).map(|_| ());
    }
    let mut table = Table::new(vec!["measured", "value"]);
    let value = serde_json::to_value(report).map_err(fail)?;
    for (name, value) in value.as_object().into_iter().flatten() {
        let text = match value {
            serde_json::Value::Null => continue,
            serde_json::Value::String(text) => text.clone(),
            serde_json::Value::Number(n) if n.is_f64() => format!("{:.3}", n.as_f64().unwrap_or_default()),
            other => other.to_string(),
        };
        table.row(vec![name.replace('_', " "), text]);
    }
    output::print(&if format == Format::Csv { table.csv(true) } else { table.aligned() }).map(|_| ())
}
