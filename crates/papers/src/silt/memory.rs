//! RAM for each entry while the index fills, and write amplification.

use super::queries::Alone;
use super::served::{Sample, Served};
use crate::report::{Chart, Line, Lines, Section, Table};
use nitro_index::silt::{StoreUsage, Usage};

/// The paper's bytes for each entry: log, hash store and sorted store; all three together; and without hash stores.
pub(super) const STORES: [f64; 3] = [6.5, 2.2, 0.4];
const TOGETHER: f64 = 0.7;
pub(super) const WITHOUT_HASH_STORES: f64 = 1.3;
/// The paper's bytes written for each byte inserted.
pub(super) const WRITES: f64 = 5.4;
/// The number of points of a line.
const POINTS: usize = 40;

/// RAM in bytes, computed from the RAM that each kind of store takes for an entry; with hash stores, or as if their
/// entries were in logs.
fn without(usage: &StoreUsage, bytes: [f64; 3], hash_stores: bool) -> f64 {
    let (logs, hashes, sorted) = (usage.logs.entries, usage.hashes.entries, usage.sorted.entries);
    match hash_stores {
        // The entries of hash stores are in logs instead.
        false => (logs + hashes) as f64 * bytes[0] + sorted as f64 * bytes[2],
        true => logs as f64 * bytes[0] + hashes as f64 * bytes[1] + sorted as f64 * bytes[2],
    }
}

fn held(usage: &StoreUsage) -> u64 {
    usage.logs.entries + usage.hashes.entries + usage.sorted.entries
}

/// About [`POINTS`] of the samples.
fn thinned(samples: &[Sample]) -> impl Iterator<Item = &Sample> {
    let step = samples.len().div_ceil(POINTS).max(1);
    samples.iter().step_by(step).chain(samples.last()).filter(|sample| held(&sample.usage) > 0)
}

fn lines(served: &Served, alone: &Alone) -> Vec<Line> {
    let bytes = alone.bytes();
    let total = served.entries as f64;
    let line = |name: &str, ram: &dyn Fn(&Sample) -> f64| {
        let points = thinned(&served.filling).map(|sample| (held(&sample.usage) as f64 / total * 100.0, ram(sample)));
        Line { name: name.to_owned(), points: points.collect() }
    };
    let mib = f64::from(1 << 20);
    vec![
        line("LogStore alone (computed)", &|sample| held(&sample.usage) as f64 * bytes[0] / mib),
        line("LogStore + SortedStore (computed)", &|sample| without(&sample.usage, bytes, false) / mib),
        line("SILT: its stores (computed)", &|sample| without(&sample.usage, bytes, true) / mib),
        line("SILT: all of its RAM (measured)", &|sample| sample.ram_bytes as f64 / mib),
    ]
}

fn each(usage: Usage) -> String {
    if usage.entries == 0 { "–".to_owned() } else { format!("{:.2}", usage.ram_bytes as f64 / usage.entries as f64) }
}

/// The section with the content of the talk's three slides.
pub(super) fn section(served: &Served, alone: &Alone) -> Section {
    let usage = served.rested.usage;
    let bytes = alone.bytes();
    let columns = ["", "the paper", "full or alone", "in this index", "entries", "stores"];
    let mut table = Table::new("Bytes of RAM per entry, by kind of store, after all due merges", &columns);
    let kinds = [("LogStore", usage.logs), ("HashStore", usage.hashes), ("SortedStore", usage.sorted)];
    for ((name, usage), (theirs, alone)) in kinds.into_iter().zip(STORES.into_iter().zip(bytes)) {
        let cells = [format!("{theirs}"), format!("{alone:.2}"), each(usage), usage.entries.to_string()];
        table.rows.push(std::iter::once(name.to_owned()).chain(cells).chain([usage.stores.to_string()]).collect());
    }
    let all = held(&usage).max(1);
    let ram = |bytes: f64| format!("{:.2}", bytes / all as f64);
    let rows = [
        ("LogStore + SortedStore", WITHOUT_HASH_STORES, ram(without(&usage, bytes, false)), "–".to_owned()),
        ("SILT", TOGETHER, ram(without(&usage, bytes, true)), ram(served.rested.ram_bytes as f64)),
    ];
    for (name, theirs, computed, measured) in rows {
        let cells = [format!("{theirs}"), computed, measured, all.to_string(), "–".to_owned()];
        table.rows.push(std::iter::once(name.to_owned()).chain(cells).collect());
    }
    Section {
        id: "silt-memory",
        title: "Memory while entries are inserted".into(),
        text: "The content of the talk's three slides. This index always has all three kinds of stores. The RAM of a \
               LogStore alone, and of an index without HashStores, is computed from the kinds of stores that held the \
               entries during the measured run, and from the RAM that an entry takes in a full log, a HashStore and a \
               SortedStore, each measured alone; without HashStores, their entries would be in logs. The measured RAM \
               is that of the whole index, including logs that are not full, their write buffers, and the buffers of \
               conversions and merges."
            .into(),
        charts: vec![Chart::Lines(Lines {
            title: "RAM while the index fills".into(),
            x_label: "entries, % of all".into(),
            y_label: "MiB".into(),
            log_x: false,
            log_y: false,
            y_min: 0.0,
            lines: lines(served, alone),
            events: Vec::new(),
        })],
        tables: vec![table],
        ..Section::default()
    }
}

/// Bytes written for each byte inserted.
pub(super) fn amplification(served: &Served) -> f64 {
    let entered = served.entries as f64 * super::SHAPE.entry_bytes() as f64;
    served.after_fill.written_bytes as f64 / entered
}

/// The section on write amplification, from the first entry to the last.
pub(super) fn writes(served: &Served) -> Section {
    let found = amplification(served);
    let mut table = Table::new("Write amplification", &["", "bytes written per byte inserted"]);
    let rows = [("measured", found), ("expected by the plan", served.plan.write_amplification), ("the paper", WRITES)];
    for (name, writes) in rows {
        table.rows.push(vec![name.to_owned(), format!("{writes:.2}")]);
    }
    Section {
        id: "silt-writes",
        title: "Write amplification".into(),
        text: format!(
            "Writes of the log, of conversions and of merges from the first of {} entries to the last, at {:.0} \
             insertions a second; the SSD's own garbage collection is not included.",
            served.entries,
            served.filled.per_second()
        ),
        tables: vec![table],
        ..Section::default()
    }
}
