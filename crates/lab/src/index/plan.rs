//! `nitro-lab index plan`: the division of the RAM of a BufferHash between buffers and filters.

use crate::args::PlanArgs;
use nitro_console::error::Error;
use nitro_console::output::{self, Format, Table};
use nitro_console::size::Size;
use nitro_index::Options;
use nitro_index::bufferhash::{Plan, best_buffers_bytes};
use serde::Serialize;

#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    plan: Plan,
    /// The best size of all buffers in bytes, by the paper's formula.
    best_buffers_bytes: u64,
    ram_bytes_per_entry: f64,
}

pub(crate) fn run(args: &PlanArgs) -> Result<(), Error> {
    let shape = args.shape.shape()?;
    let options = Options { shape, entries: args.shape.entries, ram_bytes: args.shape.ram.0 };
    let plan = Plan::with_buffers(&options, args.buffer.buffer.0).map_err(|e| Error::with_sources("index", &e))?;
    let entry_bytes = shape.entry_bytes() as u64;
    let report = Report {
        best_buffers_bytes: best_buffers_bytes(plan.entries * entry_bytes, entry_bytes),
        ram_bytes_per_entry: plan.ram_bytes as f64 / plan.entries as f64,
        plan,
    };
    let text = match args.output.format {
        Format::Json => output::json_line(&report)?,
        format => {
            let mut table = Table::new(vec!["setting", "value"]);
            let size = |bytes| Size(bytes).to_string();
            let filters_alive = f64::from(plan.slots) / f64::from(plan.super_tables);
            for (name, value) in [
                ("entries", plan.entries.to_string()),
                ("flash", size(plan.flash_bytes)),
                ("RAM", size(plan.ram_bytes)),
                ("bytes of RAM per entry", format!("{:.2}", report.ram_bytes_per_entry)),
                ("super tables", plan.super_tables.to_string()),
                ("incarnations per super table", format!("{filters_alive:.1}")),
                ("buffer", size(u64::from(plan.incarnation_pages) * nitro_index::PAGE_BYTES as u64)),
                ("buffers", size(plan.buffers_bytes)),
                ("buffers by the paper's formula", size(report.best_buffers_bytes)),
                ("filters", size(plan.filters_bytes)),
                ("bits per filter", plan.filter_bits.to_string()),
                ("hashes per filter", plan.filter_hashes.to_string()),
                ("expected reads per miss", format!("{:.4}", plan.reads_per_miss)),
            ] {
                table.row(vec![name.to_owned(), value]);
            }
            if format == Format::Csv { table.csv(true) } else { table.aligned() }
        }
    };
    output::print(&text).map(|_| ())
}
