//! Reads of several runs of extents from the origin at once. What lies between two runs is read through, and thrown away,
//! where that costs less than another request; an origin that [reads parts](Origin::reads_parts) is asked for all at once.

use super::Volume;
use crate::error::Error;
use bytes::Bytes;
use futures_util::future::join_all;
use nitro_cache::reads::{CostEstimator, Kind, Piece, plan};
use nitro_port::buf::BufMut;
use nitro_port::{Clock, Device, Origin, Urgency};
use nitro_units::ExtentRange;
use parking_lot::Mutex;
use std::ops::Range;

/// Maximum bytes of a read through gaps.
const THROUGH_BYTES_MAX: u64 = 4 << 20;

/// The extents of a run, or why they could not be read.
pub(super) type RunRead = Result<Vec<Bytes>, Error>;

/// A read of the origin in progress, of which the time is noted. If it is dropped, the read failed.
pub(super) struct Timed<'a, C: Clock> {
    costs: &'a Mutex<CostEstimator>,
    clock: &'a C,
    bytes: Option<u64>,
}

impl<'a, C: Clock> Timed<'a, C> {
    pub(super) fn new(costs: &'a Mutex<CostEstimator>, clock: &'a C) -> Self {
        costs.lock().begin(clock.now());
        Self { costs, clock, bytes: None }
    }

    /// That many bytes were read.
    pub(super) fn end(mut self, bytes: u64) {
        self.bytes = Some(bytes);
    }
}

impl<C: Clock> Drop for Timed<'_, C> {
    fn drop(&mut self) {
        self.costs.lock().end(self.clock.now(), self.bytes);
    }
}

impl<F: Device, O: Origin, C: Clock> Volume<F, O, C> {
    /// Reads runs of whole extents, in order and not adjacent, from the origin. The extents of each run have memory of
    /// their own: what was read between runs does not stay in RAM with them. Bytes between runs that cannot be read are
    /// no error.
    pub(super) async fn read_runs(&self, runs: &[ExtentRange], urgency: Urgency) -> Vec<RunRead> {
        match runs {
            [] => Vec::new(),
            [run] => vec![self.read_origin_extents(*run, urgency).await],
            _ if self.origin.reads_parts() => match self.read_parts(runs, urgency).await {
                Ok(read) => read.into_iter().map(Ok).collect(),
                Err(_) => self.read_each_run(runs, urgency).await,
            },
            _ => {
                let together = self.plan_reads(runs);
                let reads = together.into_iter().map(|some| self.read_together(&runs[some], urgency));
                join_all(reads).await.into_iter().flatten().collect()
            }
        }
    }

    /// Which of the runs are read with one request.
    fn plan_reads(&self, runs: &[ExtentRange]) -> Vec<Range<usize>> {
        let bytes = |extents: ExtentRange| extents.count() * self.extent_bytes();
        let gaps = runs.windows(2).map(|pair| ExtentRange::new(pair[0].end, pair[1].start));
        let mut gaps = gaps.map(|gap| {
            let kind = if self.flights.may_be_read_through(gap) { Kind::Gap } else { Kind::Barred };
            Piece { kind, bytes: bytes(gap) }
        });
        let mut pieces = Vec::with_capacity(2 * runs.len());
        for run in runs {
            pieces.push(Piece { kind: Kind::Wanted, bytes: bytes(*run) });
            pieces.extend(gaps.next());
        }
        let costs = self.costs.lock().costs();
        // Every other piece is a run.
        let runs = |pieces: Range<usize>| pieces.start / 2..pieces.end.div_ceil(2);
        plan(&pieces, &costs, THROUGH_BYTES_MAX).into_iter().map(runs).collect()
    }

    /// Reads runs with one request.
    async fn read_together(&self, runs: &[ExtentRange], urgency: Urgency) -> Vec<RunRead> {
        let ([first, .., last], whole) = (runs, |run: ExtentRange| self.bytes_of(run)) else {
            return self.read_each_run(runs, urgency).await;
        };
        let stretch = whole(*first).start..whole(*last).end;
        let Ok(bytes) = self.read_origin(stretch.clone(), urgency).await else {
            // What cannot be read may be in a gap.
            return self.read_each_run(runs, urgency).await;
        };
        let wanted: u64 = runs.iter().map(|run| whole(*run)).map(|run| run.end - run.start).sum();
        self.metrics.origin_gap_bytes.add(bytes.len() as u64 - wanted);
        let own = |run: &ExtentRange| {
            let Range { start, end } = whole(*run);
            let part = (start - stretch.start) as usize..(end - stretch.start) as usize;
            Ok(self.split(*run, BufMut::copy_of(&bytes[part]).freeze()))
        };
        runs.iter().map(own).collect()
    }

    /// Reads each run with a request of its own.
    async fn read_each_run(&self, runs: &[ExtentRange], urgency: Urgency) -> Vec<RunRead> {
        join_all(runs.iter().map(|run| self.read_origin_extents(*run, urgency))).await
    }
}
