//! What eviction by bands of whole units costs against exact order by class.

use super::policy::is_small;
use super::run::outcomes;
use super::systems::{Bed, EXTENT_BYTES};
use super::trace::Trace;
use crate::report::{Section, Table};
use nitro_cache::class::{Band, ClassPolicy, Classes};
use nitro_console::error::Error;
use nitro_sim::{Outcome, Settings, Variant};
use nitro_units::ClassId;
use std::sync::Arc;

/// A cache whose hits are compared.
struct Order {
    name: &'static str,
    variant: Variant,
    /// The classes have four priorities instead of the preset's.
    coarse: bool,
}

const fn order(name: &'static str, variant: Variant, coarse: bool) -> Order {
    Order { name, variant, coarse }
}

/// The caches that are compared.
const ORDERS: [Order; 6] = [
    order("LRU, no classes", Variant::Extent { ways: 0 }, false),
    order("each class in its place", Variant::Ordered { by_band: false }, false),
    order("four priorities", Variant::Ordered { by_band: true }, true),
    order("the preset's priorities", Variant::Ordered { by_band: true }, false),
    order("Nitro, units of four priorities", Variant::Weu, true),
    order("Nitro, units of the preset's priorities", Variant::Weu, false),
];
/// The cache that the others are compared with.
const EXACT: usize = 1;
/// Single extents in four bands.
const COARSE: usize = 2;
/// Nitro with the preset.
const UNITS: usize = 5;

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

/// The classes with another policy for each.
fn with(classes: &Classes, policy: impl Fn(&ClassPolicy) -> ClassPolicy) -> Classes {
    let mut all = *classes;
    ClassId::all().for_each(|class| all.set(class, policy(classes.of(class))));
    all
}

/// How data enter the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mode {
    only_writes_allocate: bool,
    write_back: bool,
}

impl Mode {
    const ALL: [Self; 4] = [Self::of(true, false), Self::of(false, false), Self::of(true, true), Self::of(false, true)];

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
        let classes = with(bed.classes, |of| ClassPolicy { on_read: !only_writes_allocate, ..*of });
        let coarse = with(&classes, |of| ClassPolicy { priority: Band::ALL[of.priority.level()], ..*of });
        let settings = ORDERS.map(|of| {
            let usual = Bed { classes: if of.coarse { &coarse } else { &classes }, ..*bed }.untimed(of.variant);
            let write_back = usual.write_back.filter(|_| self.write_back);
            Settings { only_writes_allocate, write_back, ..usual }
        });
        settings.to_vec()
    }
}

/// Simulates the caches on all loads and compares their hits.
pub(super) fn section(traces: &[Arc<Trace>], bed: &Bed<'_>, threads: usize) -> Result<Section, Error> {
    let columns = [
        "load",
        "allocation",
        "cache",
        "hits, %",
        "hits of metadata and files up to 1 MiB, %",
        "points lost",
        "extents cached, % of the room",
    ];
    let mut table = Table::new("Hits by order of eviction", &columns);
    let (mut lost_most, mut bands_most): (f64, f64) = (0.0, 0.0);
    for trace in traces {
        let bed = Bed { data_bytes: trace.data_bytes, ..*bed };
        for mode in Mode::ALL {
            let points = mode.points(&bed);
            let found: Vec<_> = outcomes(trace, &points, threads)?.iter().map(Hits::of).collect();
            // Exact order in the room that units leave for data that may be evicted.
            let dirty = points[EXACT].write_back.map_or(0.0, |marks| f64::from(marks.start_percent));
            let cache_bytes = (points[EXACT].cache_bytes as f64 * (found[UNITS].full - dirty) / 100.0) as u64;
            let in_room = Hits::of(&outcomes(trace, &[Settings { cache_bytes, ..points[EXACT] }], threads)?[0]);
            let rows = ORDERS.iter().map(|order| order.name).zip(&found);
            let exact_in_room = ("each class in its place, in the room of Nitro's clean data", &in_room);
            for (name, hits) in rows.chain([exact_in_room]) {
                table.rows.push(vec![
                    trace.name.clone(),
                    mode.name().into(),
                    name.into(),
                    format!("{:.2}", hits.all),
                    format!("{:.2}", hits.small),
                    format!("{:.2}", found[EXACT].small - hits.small),
                    format!("{:.0}", hits.full),
                ]);
            }
            lost_most = lost_most.max(in_room.small - found[UNITS].small);
            bands_most = bands_most.max(found[EXACT].small - found[COARSE].small);
        }
    }
    Ok(Section {
        id: "dss-order",
        title: "Order of eviction: bands of units against exact order".into(),
        text: format!(
            "The paper's prototype evicts blocks in the order of 32 priorities. Nitro evicts units of several MiB, each with a \
             band of priority: one for each priority that classes have, up to one for each 32 units. Hits without timing; in \
             write-back, destage is immediate. Compared are a cache of single extents with a place in the order for each class, \
             with one for each of the preset's priorities and with one for each of the four words of priority (low to \
             highest), and Nitro's units with both; the points lost are those of metadata and of files up to 1 MiB. Four bands \
             lose up to {bands_most:.2} points of these hits to exact order, which is why the preset has a priority for each \
             size. What units lose in addition is mostly room: open and free units, and dirty ones, which cannot be evicted. In \
             the room of its clean data, exact order has up to {lost_most:.2} points more than Nitro."
        ),
        tables: vec![table],
        ..Section::default()
    })
}
