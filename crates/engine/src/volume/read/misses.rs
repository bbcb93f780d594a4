//! Reads of extents that are neither in RAM nor on the SSD.

use super::fill::Fill;
use super::{Extents, Span};
use crate::error::Error;
use crate::kept::for_reply;
use crate::volume::Volume;
use crate::volume::flights::{Reading, Start};
use futures_util::future::{join, join_all};
use nitro_port::{Clock, Device, Origin};
use nitro_units::{ExtentIndex, ExtentRange};

impl<F: Device, O: Origin, C: Clock> Volume<F, O, C> {
    /// Reads runs of extents as [`read_through`](Self::read_through) does, together where that costs less. Returns the
    /// extents of each run.
    pub(super) async fn read_misses(
        &self,
        runs: &[ExtentRange],
        fill: Fill,
        span: Span,
    ) -> Result<Vec<Extents>, Error> {
        if let [run] = runs {
            return Ok(vec![self.read_through(*run, fill, span).await?]);
        }
        let (mut own, mut readings, mut others) = (Vec::new(), Vec::new(), Vec::new());
        for run in runs {
            let mut next = run.start;
            while next < run.end {
                let (start, range, reading) = self.flights.start(ExtentRange::new(next, run.end));
                next = range.end;
                match (start, reading) {
                    (Start::Own, Some(reading)) if self.first_dirty(range).is_none() => {
                        own.push(range);
                        readings.push(reading);
                    }
                    // Others read, write or have them, or only the cache does.
                    _ => others.push(range),
                }
            }
        }
        let rest = others.iter().map(|range| self.read_through(*range, fill, span));
        let (read, rest) = join(self.read_own(&own, readings, fill, span), join_all(rest)).await;
        let read = own.into_iter().zip(read).chain(others.iter().copied().zip(rest));
        let mut read: Vec<(ExtentIndex, Result<Extents, Error>)> =
            read.map(|(range, read)| (range.start, read)).collect();
        read.sort_unstable_by_key(|(first, _)| *first);
        let mut read = read.into_iter().peekable();
        let mut all = Vec::with_capacity(runs.len());
        for run in runs {
            let mut extents = Extents::new();
            while let Some((_, part)) = read.next_if(|(first, _)| run.contains(*first)) {
                extents.extend(part?);
            }
            all.push(extents);
        }
        Ok(all)
    }

    /// Reads runs that no other request reads, and inserts them.
    async fn read_own(
        &self,
        runs: &[ExtentRange],
        readings: Vec<Reading>,
        fill: Fill,
        span: Span,
    ) -> Vec<Result<Extents, Error>> {
        self.metrics.read_miss_extents.add(runs.iter().map(|run| run.count()).sum());
        let mut missing = self.read_missing(runs, fill.urgency).await;
        let results = std::mem::take(&mut missing.runs);
        let mut read = Vec::with_capacity(runs.len());
        for (reading, result) in readings.into_iter().zip(results) {
            self.keep(reading, result.clone(), |index| missing.known(index), fill, span).await;
            read.push(result.map(Extents::from_vec));
        }
        read
    }

    /// Reads extents from the origin, each only once for all concurrent requests, and inserts them.
    pub(super) async fn read_through(&self, extents: ExtentRange, fill: Fill, span: Span) -> Result<Extents, Error> {
        let mut got = Extents::new();
        let (mut next, mut limit) = (extents.start, extents.end);
        while next < extents.end {
            let (start, range, reading) = self.flights.start(ExtentRange::new(next, limit));
            limit = extents.end;
            match (start, reading) {
                // A write that only the cache has came, and was inserted, since the extent was looked up; or it is lost.
                (Start::Own | Start::Unshared, reading) if let Some(dirty) = self.first_dirty(range) => {
                    drop(reading);
                    if dirty > next {
                        limit = dirty;
                    } else {
                        got.push(self.present_content(next).await?);
                        next = next.next();
                    }
                    continue;
                }
                (Start::Own, Some(reading)) => {
                    self.metrics.read_miss_extents.add(range.count());
                    let mut missing = self.read_missing(&[range], fill.urgency).await;
                    if let Some(result) = missing.runs.pop() {
                        self.keep(reading, result.clone(), |index| missing.known(index), fill, span).await;
                        got.extend(result?);
                    }
                }
                (Start::Join(miss), _) => {
                    let Some(result) = miss.join(range).await else { continue };
                    self.metrics.read_joined_extents.add(range.count());
                    // They may be a small part of what the other one reads.
                    let pins = miss.extents.count() * self.extent_bytes();
                    got.extend(result?.into_iter().map(|extent| for_reply(extent, pins / range.count())));
                }
                (Start::Unsettled, _) => {
                    self.settled(range).await?;
                    continue;
                }
                (Start::Here(kept), _) => {
                    self.cache.metrics.pending_hits.add(1);
                    got.push(kept.for_reply());
                }
                _ => {
                    self.metrics.read_miss_extents.add(range.count());
                    for result in self.read_missing(&[range], fill.urgency).await.runs {
                        got.extend(result?);
                    }
                }
            }
            next = range.end;
        }
        Ok(got)
    }
}
