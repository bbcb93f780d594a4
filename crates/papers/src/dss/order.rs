//! What eviction by bands of whole units costs against exact order by class.

use super::policy::is_small;
use super::run::outcomes;
use super::systems::{Bed, EXTENT_BYTES};
use super::trace::Trace;
use crate::report::{Section, Table};
use nitro_cache::class::{ClassPolicy, Classes};
use nitro_console::error::Error;
use nitro_sim::{Outcome, Settings, Variant};
use nitro_units::ClassId;
use std::sync::Arc;

/// The caches that are compared: the same classes in exact order, in bands, and in bands of units.
const ORDERS: [(&str, Variant); 4] = [
    ("LRU, no classes", Variant::Extent { ways: 0 }),
    ("each class in its place", Variant::Ordered { by_band: false }),
    ("four bands", Variant::Ordered { by_band: true }),
    ("Nitro: bands of units", Variant::Weu),
];
/// Nitro.
const UNITS: usize = 3;
/// The cache that the others are compared with.
const EXACT: usize = 1;

/// The hits of a cache, in percent of the extents read.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Hits {
    all: f64,
    /// Those of the classes that always enter.
    small: f64,
    /// The extents in the cache at the end, in percent of its size.
    full: f64,
}

impl Hits {
    fn of(outcome: &Outcome) -> Self {
        let share = |wanted: &dyn Fn(ClassId) -> bool| {
            let of = outcome.measured.classes.iter().filter(|of| ClassId::new(of.id).is_some_and(wanted));
            let (read, hit) = of.fold((0, 0), |(read, hit), of| (read + of.read_extents, hit + of.read_hit_extents));
            100.0 * hit as f64 / read.max(1) as f64
        };
        let room = outcome.settings.cache_bytes / u64::from(EXTENT_BYTES);
        let full = 100.0 * outcome.measured.cached_extents as f64 / room.max(1) as f64;
        Self { all: share(&|_| true), small: share(&is_small), full }
    }
}

/// The classes with reads that allocate, too.
fn reads_allocate(classes: &Classes) -> Classes {
    let mut all = *classes;
    for class in ClassId::all() {
        all.set(class, ClassPolicy { on_read: true, ..*classes.of(class) });
    }
    all
}

/// How data enter the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mode {
    only_writes_allocate: bool,
    write_back: bool,
}

impl Mode {
    const ALL: [Self; 4] =
        [Self::of(true, false), Self::of(false, false), Self::of(true, true), Self::of(false, true)];

    const fn of(only_writes_allocate: bool, write_back: bool) -> Self {
        Self { only_writes_allocate, write_back }
    }

    const fn name(self) -> &'static str {
        match (self.write_back, self.only_writes_allocate) {
            (false, true) => "write-through, of writes",
            (false, false) => "write-through, of reads and writes",
            (true, true) => "write-back, of writes",
            (true, false) => "write-back, of reads and writes",
        }
    }

    /// The simulations of a trace.
    fn points(self, bed: &Bed<'_>) -> Vec<Settings> {
        let only_writes_allocate = self.only_writes_allocate;
        let classes = if only_writes_allocate { *bed.classes } else { reads_allocate(bed.classes) };
        let bed = Bed { classes: &classes, ..*bed };
        let settings = ORDERS.map(|(_, variant)| {
            let usual = bed.untimed(variant);
            let write_back = usual.write_back.filter(|_| self.write_back);
            Settings { only_writes_allocate, write_back, ..usual }
        });
        settings.to_vec()
    }
}

/// Simulates the caches on all loads and compares their hits.
pub(super) fn section(traces: &[Arc<Trace>], bed: &Bed<'_>, threads: usize) -> Result<Section, Error> {
    let columns =
        ["load", "allocation", "cache", "hits, %", "hits of metadata and files up to 1 MiB, %", "points lost", "extents cached, % of the room"];
    let mut table = Table::new("Hits by order of eviction", &columns);
    let mut lost_most: f64 = 0.0;
    for trace in traces {
        let bed = Bed { data_bytes: trace.data_bytes, ..*bed };
        for mode in Mode::ALL {
            let points = mode.points(&bed);
            let found: Vec<_> = outcomes(trace, &points, threads)?.iter().map(Hits::of).collect();
            // Exact order in the room that units leave for data that may be evicted.
            let dirty = points[EXACT].write_back.map_or(0.0, |marks| f64::from(marks.start_percent));
            let cache_bytes = (points[EXACT].cache_bytes as f64 * (found[UNITS].full - dirty) / 100.0) as u64;
            let in_room = Hits::of(&outcomes(trace, &[Settings { cache_bytes, ..points[EXACT] }], threads)?[0]);
            let exact_in_room = ("each class in its place, in the room of Nitro's clean data", ORDERS[EXACT].1);
            let rows = ORDERS.iter().zip(&found).chain([(&exact_in_room, &in_room)]);
            for ((name, variant), hits) in rows {
                let lost = found[EXACT].small - hits.small;
                if *variant == Variant::Weu {
                    lost_most = lost_most.max(lost);
                }
                table.rows.push(vec![
                    trace.name.clone(),
                    mode.name().into(),
                    (*name).into(),
                    format!("{:.2}", hits.all),
                    format!("{:.2}", hits.small),
                    format!("{lost:.2}"),
                    format!("{:.0}", hits.full),
                ]);
            }
        }
    }
    Ok(Section {
        id: "dss-order",
        title: "Order of eviction: bands of units against exact order".into(),
        text: format!(
            "The paper's prototype evicts blocks in the order of 32 priorities. Nitro evicts units of several MiB, which have \
             one of four bands of priority. Hits without timing, in write-back with immediate destage: in a cache of single \
             extents with a place in the order for each class, in one of four bands (which is what bands cost), and in \
             Nitro's units (which is what units cost in addition, with the room that is kept free and the headers). Lost are \
             points of hits of the classes that matter here, metadata and files up to 1 MiB, against exact order: at most \
             {lost_most:.2} with Nitro."
        ),
        tables: vec![table],
        ..Section::default()
    })
}
