//! The size of a buffer (§6.4 of the paper, "per-buffer size"): the longest insertion grows with it, while the mean one does
//! not fall below the cost of sequential writes.

use super::super::indexes::{Draws, Layer, Watch};
use super::beds::{inserted, on_modelled, until_full};
use super::{HITS, RAM_BYTES_BESIDE, RAM_BYTES_PER_ENTRY, SHAPE, Scale, entries};
use crate::report::{Chart, Line, Lines, Section, Table, say};
use nitro_console::error::Error;
use nitro_console::size::Size;
use nitro_device::Reactor;
use nitro_index::Options;
use nitro_index::bufferhash::{BUFFER_BYTES, BUFFER_BYTES_MAX, BUFFER_BYTES_MIN, Plan};

/// Insertions into an index with buffers of one size.
struct Tried {
    buffer_bytes: u64,
    mean_us: f64,
    longest_ms: f64,
    /// Erasures for each mebibyte of entries.
    erasures: f64,
}

fn measure(layer: Layer, buffer_bytes: u64, entries_held: u64, reactor: &Reactor) -> Result<Option<Tried>, Error> {
    let ram_bytes = entries_held * RAM_BYTES_PER_ENTRY + RAM_BYTES_BESIDE + BUFFER_BYTES_MAX * 4;
    // A size that the RAM does not suffice for is skipped.
    let Ok(plan) = Plan::with_buffers(&Options { shape: SHAPE, entries: entries_held, ram_bytes }, buffer_bytes) else {
        return Ok(None);
    };
    let (index, ssd) = on_modelled(layer, plan, reactor)?;
    let draws = Draws::hitting(entries(), plan.entries, HITS);
    let watch = Watch::modelled_alone(ssd.clock.clone());
    let timed = inserted(&index, (draws, until_full(&plan)), &watch, reactor)?;
    let mib = timed.inserted as f64 * SHAPE.entry_bytes() as f64 / f64::from(1 << 20);
    Ok(Some(Tried {
        buffer_bytes,
        mean_us: timed.inserts.mean_us(),
        longest_ms: timed.inserts.max_us() / 1000.0,
        erasures: ssd.counters().erasures as f64 / mib,
    }))
}

/// The section with the curves of both modelled SSDs.
pub(super) fn section(scale: &Scale) -> Result<Section, Error> {
    let reactor = Reactor::new().map_err(|e| super::super::indexes::failed(&e))?;
    say("sizes of buffers");
    let sizes = std::iter::successors(Some(BUFFER_BYTES_MIN), |bytes| {
        Some(bytes * 2).filter(|bytes| *bytes <= BUFFER_BYTES_MAX)
    });
    let sizes: Vec<u64> = sizes.collect();
    let (mut longest, mut mean) = (Vec::new(), Vec::new());
    let columns = ["SSD", "buffer", "mean insertion, µs", "longest insertion, ms", "erasures for each MiB of entries"];
    let mut table = Table::new("Insertions by the size of a buffer", &columns);
    for (name, layer) in [("page-mapped", Layer::PageMapped), ("hybrid", Layer::Hybrid)] {
        let tried = sizes.iter().map(|bytes| measure(layer, *bytes, scale.eviction_entries, &reactor));
        let tried: Vec<Tried> = tried.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect();
        let line = |of: fn(&Tried) -> f64| Line {
            name: name.to_owned(),
            points: tried.iter().map(|tried| (tried.buffer_bytes as f64 / 1024.0, of(tried))).collect(),
        };
        longest.push(line(|tried| tried.longest_ms));
        mean.push(line(|tried| tried.mean_us));
        table.rows.extend(tried.iter().map(|tried| {
            let figures = [(tried.mean_us, 1), (tried.longest_ms, 2), (tried.erasures, 2)];
            let figures = figures.map(|(figure, decimals)| format!("{figure:.decimals$}"));
            [name.to_owned(), Size(tried.buffer_bytes).to_string()].into_iter().chain(figures).collect()
        }));
    }
    let chart = |title: &str, y_label: &str, lines| {
        Chart::Lines(Lines {
            title: title.to_owned(),
            x_label: "buffer, KiB".into(),
            y_label: y_label.to_owned(),
            log_x: true,
            log_y: true,
            y_min: 0.01,
            lines,
            events: Vec::new(),
        })
    };
    Ok(Section {
        id: "clam-buffers",
        title: "The size of a buffer".into(),
        text: format!(
            "The paper's tuning of the size of one buffer: it bounds the longest insertion, which writes a whole buffer, and should \
             not be smaller than an erase block of the SSD. {} is the default (`--buffer` of `nitro-lab index`), the erase block \
             of both modelled SSDs. The time of the processor is not counted.",
            Size(BUFFER_BYTES)
        ),
        charts: vec![chart("Longest insertion", "ms", longest), chart("Mean insertion", "µs", mean)],
        tables: vec![table],
        ..Section::default()
    })
}
