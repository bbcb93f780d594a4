//! Which regions of a container are read with one request.

use crate::Store;
use crate::place::Place;
use nitro_cache::reads::{CostEstimator, Costs, Kind, Piece, plan};
use nitro_port::{Clock, Device};
use parking_lot::Mutex;
use std::ops::Range;
use std::sync::OnceLock;

/// Decides which pieces of a device are read with one request, and is told of all reads of containers.
pub trait ReadPlanner: Send + Sync {
    /// Divides a stretch that begins at byte `at` of the device, as [`plan`] does.
    fn plan(&self, at: u64, pieces: &[Piece], bytes_max: u64) -> Vec<Range<usize>>;

    /// A read of the device begins.
    fn began(&self);

    /// A read of the device has ended; `None`: it failed, or was given up.
    fn ended(&self, bytes: Option<u64>);
}

/// Learns what reads cost.
pub struct LearnedReads<C> {
    clock: C,
    costs: Mutex<CostEstimator>,
}

impl<C: Clock> LearnedReads<C> {
    /// For a device that has to seek, or not.
    pub fn new(clock: C, rotational: bool) -> Self {
        Self { clock, costs: Mutex::new(CostEstimator::new(rotational)) }
    }

    /// The costs as far as they are known.
    pub fn costs(&self) -> Costs {
        self.costs.lock().costs()
    }
}

impl<C: Clock> ReadPlanner for LearnedReads<C> {
    fn plan(&self, _at: u64, pieces: &[Piece], bytes_max: u64) -> Vec<Range<usize>> {
        plan(pieces, &self.costs(), bytes_max)
    }

    fn began(&self) {
        self.costs.lock().begin(self.clock.now());
    }

    fn ended(&self, bytes: Option<u64>) {
        self.costs.lock().end(self.clock.now(), bytes);
    }
}

/// The planner of a store; without one, costs are assumed.
#[derive(Default)]
pub(crate) struct Reads(OnceLock<Box<dyn ReadPlanner>>);

impl Reads {
    /// Notes that a read begins, which has failed if what is returned is dropped.
    pub(crate) fn begin(&self) -> Noted<'_> {
        let planner = self.0.get().map(Box::as_ref);
        if let Some(planner) = planner {
            planner.began();
        }
        Noted { planner, bytes: None }
    }
}

/// A read in progress.
pub(crate) struct Noted<'a> {
    planner: Option<&'a dyn ReadPlanner>,
    bytes: Option<u64>,
}

impl Noted<'_> {
    /// That many bytes were read.
    pub(crate) fn end(mut self, bytes: usize) {
        self.bytes = Some(bytes as u64);
    }
}

impl Drop for Noted<'_> {
    fn drop(&mut self) {
        if let Some(planner) = self.planner {
            planner.ended(self.bytes);
        }
    }
}

impl<D: Device> Store<D> {
    /// Lets `planner` decide from now on which regions are read with one request; only the first one that is given
    /// does. Without one, fixed costs are assumed.
    pub fn plan_reads_by(&self, planner: impl ReadPlanner + 'static) {
        drop(self.reads.0.set(Box::new(planner)));
    }

    /// Lets the store learn by a clock what reads of its device cost.
    pub fn learn_read_costs(&self, clock: impl Clock) {
        self.plan_reads_by(LearnedReads::new(clock, self.device.geometry().rotational));
    }

    /// Divides places, of which `missing` are the indices, into those that are read with one read.
    pub(crate) fn runs<'a>(&self, places: &[Place], missing: &'a [usize]) -> Vec<&'a [usize]> {
        let mut runs = Vec::new();
        for of_slot in missing.chunk_by(|a, b| places[*a].slot == places[*b].slot) {
            let pieces = pieces(of_slot.iter().map(|i| places[*i]));
            let at = of_slot.first().map_or(0, |i| self.container_at(places[*i].slot) + places[*i].offset());
            // Every other piece is a region.
            let regions = |range: Range<usize>| &of_slot[range.start / 2..range.end.div_ceil(2)];
            runs.extend(self.plan_reads(at, &pieces).into_iter().map(regions));
        }
        runs
    }

    fn plan_reads(&self, at: u64, pieces: &[Piece]) -> Vec<Range<usize>> {
        let bytes_max = crate::chunks::READ_BYTES_MAX as u64;
        match self.reads.0.get() {
            Some(planner) => planner.plan(at, pieces, bytes_max),
            None => plan(pieces, &Costs::assumed(self.device.geometry().rotational), bytes_max),
        }
    }
}

/// Regions of one container, and what lies between them.
fn pieces(places: impl Iterator<Item = Place>) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut end = None;
    for place in places {
        // An outdated place may overlap with another one.
        pieces.extend(end.map(|end| Piece { kind: Kind::Gap, bytes: place.offset().saturating_sub(end) }));
        let after = place.offset() + place.region_bytes() as u64;
        pieces.push(Piece { kind: Kind::Wanted, bytes: after - place.offset().max(end.unwrap_or(0)).min(after) });
        end = Some(after.max(end.unwrap_or(0)));
    }
    pieces
}
