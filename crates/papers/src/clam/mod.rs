//! `nitro-lab reproduce clam`: *Cheap and Large CAMs for High Performance Data-Intensive Networked Systems* (Anand et al.,
//! NSDI 2010), measured on the BufferHash of `nitro-index`.

mod beds;
mod buffers;
mod eviction;
mod filters;
mod latency;
mod rates;
mod wan;

use super::indexes::SHAPE;
use crate::load::Entries;
use crate::report::{JUDGED, Report, make, publish, say};
use crate::report::{Section, Table};
use crate::settings::{ClamPaper, IndexPaper};
use beds::Beds;
use nitro_console::error::Error;
use nitro_console::size::Size;
use nitro_index::Options;
use nitro_index::bufferhash::Plan;
use std::time::Instant;

/// The share of look-ups that find their key.
const HITS: f64 = 0.4;
/// The paper's RAM for each entry in bytes: 4 GB for 32 GB of entries of 32 bytes.
const RAM_BYTES_PER_ENTRY: u64 = 4;
/// RAM of small indexes in addition, in bytes: the buffers of writes in progress.
const RAM_BYTES_BESIDE: u64 = 800 << 10;

/// The amount of work.
#[derive(Debug, Clone, Copy)]
struct Scale {
    entries: u64,
    ram_bytes: u64,
    /// Operations of BufferHash on this machine's SSD: pairs of look-up and insertion, and operations of the other
    /// mixes.
    operations: u64,
    /// Entries and operations of the conventional table.
    plain_entries: u64,
    plain_operations: u64,
    /// Bytes of the modelled SSD, and operations on it.
    modelled_bytes: u64,
    modelled_operations: u64,
    /// Entries and absent look-ups of the measurement of filters.
    filter_entries: u64,
    filter_lookups: u64,
    /// Entries of the measurement of eviction.
    eviction_entries: u64,
}

impl Scale {
    fn of(args: &IndexPaper) -> Self {
        let entries = args.entries();
        let ram_bytes = args.ram.map_or(entries * RAM_BYTES_PER_ENTRY + RAM_BYTES_BESIDE, |ram| ram.0);
        let of = |quick, full| if args.quick { quick } else { full };
        Self {
            entries,
            ram_bytes,
            operations: of(30_000, 400_000),
            plain_entries: entries.min(of(200_000, 2_000_000)),
            plain_operations: of(4_000, 60_000),
            modelled_bytes: of(48 << 20, 128 << 20),
            modelled_operations: of(10_000, 60_000),
            filter_entries: of(200_000, 2_000_000),
            filter_lookups: of(100_000, 1_000_000),
            eviction_entries: of(100_000, 500_000),
        }
    }

    /// The sizes of the index on this machine's SSD.
    fn plan(&self) -> Result<Plan, Error> {
        plan(self.entries, self.ram_bytes)
    }
}

const fn entries() -> Entries {
    Entries(SHAPE)
}

fn plan(entries: u64, ram_bytes: u64) -> Result<Plan, Error> {
    Plan::new(&Options { shape: SHAPE, entries, ram_bytes }).map_err(|e| Error::with_sources("--ram", &e))
}

/// Runs all measurements and writes the report.
pub fn run(args: &ClamPaper) -> Result<(), Error> {
    make(&args.common.folder)?;
    publish(&report(args)?, &args.common.folder, "clam", args.common.format)
}

/// Runs all measurements.
pub(crate) fn report(args: &ClamPaper) -> Result<Report, Error> {
    let begun = Instant::now();
    let common = &args.common;
    let scale = Scale::of(common);
    let beds = Beds::measure(common, &scale)?;
    say("filters");
    let filters = filters::section(&scale)?;
    say("eviction policies");
    let eviction = eviction::section(&scale)?;
    let buffers = buffers::section(&scale)?;
    let wan = wan::section(&scale, args.content.as_deref())?;
    let sections = vec![
        setup(&scale)?,
        latency::means(&beds),
        latency::distributions(&beds),
        latency::mixes(&beds),
        rates::dollars(&beds, args.dollars),
        rates::wear(&beds),
        filters,
        eviction,
        buffers,
        wan,
    ];
    let content = args.content.as_ref().map_or_else(String::new, |path| format!(" --content {}", path.display()));
    let price = if args.dollars == 400.0 { String::new() } else { format!(" --dollars {}", args.dollars) };
    Ok(Report {
        version: env!("CARGO_PKG_VERSION"),
        command: common.command("clam") + &price + &content,
        title: "CLAM's evaluation, reproduced",
        about: format!(
            "The paper: *Cheap and Large CAMs for High Performance Data-Intensive Networked Systems* (NSDI 2010), \
             whose hash table on flash is **BufferHash**. Measured on Nitro's own BufferHash (crate nitro-index), with \
             entries of {} + {} bytes, on this machine's SSD and on a modelled one, whose time is virtual. BerkeleyDB \
             is not run: a **conventional hash table** that reads and writes a random page for each insertion \
             represents it; figures of RocksDB and BerkeleyDB are from another run on another day, and are labelled \
             so. {JUDGED}",
            SHAPE.key_bytes, SHAPE.value_bytes
        ),
        scales: None,
        generator: None,
        seconds: begun.elapsed().as_secs_f64(),
        sections,
        failures: Vec::new(),
    })
}

/// A table of the paper's set-up and this one.
fn setup(scale: &Scale) -> Result<Section, Error> {
    let plan = scale.plan()?;
    let size = |bytes: u64| Size(bytes).to_string();
    let mut table = Table::new("Set-up", &["", "the paper", "here", "here, modelled"]);
    let modelled = beds::modelled_plan(scale)?;
    let rows: [(&str, &str, String, String); 7] = [
        ("SSD", "Intel X18-M, Transcend", "this machine's".into(), "page-mapped, hybrid; 7 % over-provisioned".into()),
        ("flash", "32 GB", size(plan.flash_bytes), size(modelled.flash_bytes)),
        ("entries held", "about 1,000 M", plan.entries.to_string(), modelled.entries.to_string()),
        ("buffers", "2 GB", size(plan.buffers_bytes), size(modelled.buffers_bytes)),
        ("Bloom filters", "2 GB", size(plan.filters_bytes), size(modelled.filters_bytes)),
        ("incarnation", "128 KB", "128 KiB".into(), "128 KiB".into()),
        ("eviction", "FIFO", "FIFO".into(), "FIFO".into()),
    ];
    for (name, theirs, ours, modelled) in rows {
        table.rows.push(vec![name.to_owned(), theirs.to_owned(), ours, modelled]);
    }
    Ok(Section {
        id: "clam-setup",
        title: "Set-up".into(),
        text: "Each key is looked up and then inserted, one operation at a time. Keys are drawn from a range of which \
               the full index holds 40 %, so that the oldest entries are evicted all the time."
            .into(),
        tables: vec![table],
        ..Section::default()
    })
}
