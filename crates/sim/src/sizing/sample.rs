//! A sample of a trace that is simulated with many settings.

use super::filter::{Filter, Passed, Unit};
use crate::mrc::{Curve, Sampling as CurveSampling, Shards};
use crate::workload::{BATCH_PIECES, Live, Open, Piece, Pieces, Stored, live_from};
use crate::{Error, Settings};
use nitro_cache::pattern::{StreamDetector, StreamSettings};
use nitro_trace::{Op, Reader, Request};
use std::collections::HashMap;

/// The extents that the curve of LRU follows.
const FOLLOWED: usize = 1 << 16;
/// The requests that show whether a trace has streams of reads.
const PEEKED: u64 = 1 << 17;
/// Streams are seen in a sample if they have at least this share of the bytes that are read.
const STREAMS_MIN: f64 = 0.02;
/// Bytes of a region of a trace with streams, in thresholds of a stream: most of it counts as sequential.
const STREAM_REGION: u64 = 16;
/// Extents of a region of a trace without streams.
const REGION_EXTENTS: u64 = 16;

/// How much of a trace is simulated.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Sampling {
    /// The whole trace if it has at most this number of pieces; otherwise so many of its extents that the sample has half
    /// to all of this number.
    Pieces(usize),
    /// This share of the extents, above 0 and at most 1.
    Rate(f64),
}

/// What a whole trace does.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize)]
pub struct Totals {
    /// Reads, writes and trims.
    pub requests: u64,
    /// Read requests.
    pub reads: u64,
    /// Write requests.
    pub writes: u64,
    /// Extents that reads touch, each time.
    pub read_extents: u64,
    /// Extents that writes touch, each time.
    pub written_extents: u64,
    /// Seconds from the first request to the last.
    pub seconds: f64,
}

/// A sample of a trace, and what is known of the whole trace.
#[derive(Debug)]
pub struct Sample {
    pub(super) stored: Stored,
    /// Bytes of an extent.
    pub extent_bytes: u32,
    /// The share of the extents that is simulated; 1: the whole trace.
    pub rate: f64,
    /// Whether the sample is one of contents, so that duplicates are seen and streams are not.
    pub by_content: bool,
    /// The whole trace.
    pub totals: Totals,
    /// What of it is in the sample.
    pub(super) sampled: Totals,
    /// The hits of reads of an LRU cache of single extents that keeps what is written, too. Its objects are all extents
    /// that the trace reads or writes.
    pub curve: Curve,
}

/// Counts what passes by.
struct Tap {
    shards: Shards,
    totals: Totals,
}

impl Tap {
    fn new() -> Result<Self, Error> {
        Ok(Self { shards: Shards::new(CurveSampling::Objects(FOLLOWED))?, totals: Totals::default() })
    }

    fn see(&mut self, batch: &[Piece]) {
        for piece in batch {
            match piece.op() {
                Op::Read => self.shards.access(piece.key.raw()),
                Op::Write => self.shards.put(piece.key.raw()),
                _ => {}
            }
            self.totals.count(piece);
        }
    }
}

impl Totals {
    fn count(&mut self, piece: &Piece) {
        let ended = u64::from(piece.is_last());
        match piece.op() {
            Op::Read => (self.read_extents, self.reads) = (self.read_extents + 1, self.reads + ended),
            Op::Write => (self.written_extents, self.writes) = (self.written_extents + 1, self.writes + ended),
            Op::Trim => {}
            _ => return,
        }
        self.requests += ended;
        self.seconds = self.seconds.max(piece.time_ns as f64 / 1e9);
    }
}

/// The pieces of a trace that pass a filter; [`Tap`] sees all.
struct Filtered<'a, P> {
    pieces: P,
    filter: Filter,
    tap: &'a mut Tap,
    passed: Passed,
    batch: Vec<Piece>,
}

impl<P: Pieces> Pieces for Filtered<'_, P> {
    fn next_batch(&mut self, out: &mut Vec<Piece>) -> Result<bool, Error> {
        out.clear();
        while out.is_empty() {
            if !self.pieces.next_batch(&mut self.batch)? {
                break;
            }
            self.tap.see(&self.batch);
            self.batch.iter().for_each(|piece| self.passed.take(&mut self.filter, piece));
            out.extend(self.passed.drain_whole());
        }
        Ok(!out.is_empty())
    }

    fn has_flushes(&self) -> bool {
        self.pieces.has_flushes()
    }

    fn ignored(&self) -> u64 {
        self.pieces.ignored()
    }

    fn skipped(&self) -> u64 {
        self.pieces.skipped()
    }
}

/// Pieces in RAM, with what is known of their trace.
struct InRam<'a, P> {
    pieces: std::vec::IntoIter<Piece>,
    of: &'a P,
}

impl<P: Pieces> Pieces for InRam<'_, P> {
    fn next_batch(&mut self, out: &mut Vec<Piece>) -> Result<bool, Error> {
        out.clear();
        out.extend(self.pieces.by_ref().take(BATCH_PIECES));
        Ok(!out.is_empty())
    }

    fn has_flushes(&self) -> bool {
        self.of.has_flushes()
    }

    fn ignored(&self) -> u64 {
        self.of.ignored()
    }

    fn skipped(&self) -> u64 {
        self.of.skipped()
    }
}

impl Sample {
    /// Reads a trace to its end. `open` opens it at its beginning; `last` is a reader for the pass that draws the sample. Of
    /// `settings`, the size of extents and the threshold of streams count.
    ///
    /// # Errors
    /// Errors of the trace and of the scratch file, and an extent size that is out of bounds.
    pub fn draw<R: Reader>(open: &Open<'_>, last: R, settings: &Settings, sampling: Sampling) -> Result<Self, Error> {
        let mut pieces = live_from(open, last, settings.extent_bytes)?;
        let unit = if pieces.keeps_contents() { Unit::Contents } else { regions(open, settings)? };
        let mut tap = Tap::new()?;
        let (stored, rate) = match sampling {
            Sampling::Rate(rate) => {
                let filter = Filter::new(unit, rate);
                let rate = filter.rate();
                let (passed, batch) = (Passed::default(), Vec::new());
                (Stored::keep(&mut Filtered { pieces, filter, tap: &mut tap, passed, batch })?, rate)
            }
            Sampling::Pieces(most) => adaptive(&mut pieces, &mut tap, unit, most)?,
        };
        let (mut sampled, mut batch, mut again) = (Totals::default(), Vec::new(), stored.replay());
        while again.next_batch(&mut batch)? {
            batch.iter().for_each(|piece| sampled.count(piece));
        }
        let by_content = unit == Unit::Contents && rate < 1.0;
        let (totals, curve) = (tap.totals, tap.shards.curve());
        Ok(Self { stored, extent_bytes: settings.extent_bytes, rate, by_content, totals, sampled, curve })
    }

    /// The number of pieces that each simulation takes.
    #[must_use]
    pub fn pieces(&self) -> u64 {
        self.stored.pieces()
    }

    /// Whether the sample has reads.
    #[must_use]
    pub const fn has_reads(&self) -> bool {
        self.sampled.read_extents > 0
    }

    /// Bytes of all extents that the trace reads or writes; an estimate if they are many.
    #[must_use]
    pub fn touched_bytes(&self) -> u64 {
        self.curve.objects * u64::from(self.extent_bytes)
    }
}

/// Draws a sample whose share falls while it grows.
fn adaptive<R: Reader>(pieces: &mut Live<R>, tap: &mut Tap, unit: Unit, most: usize) -> Result<(Stored, f64), Error> {
    let (mut filter, mut passed, mut batch) = (Filter::new(unit, 1.0), Passed::default(), Vec::new());
    while pieces.next_batch(&mut batch)? {
        tap.see(&batch);
        batch.iter().for_each(|piece| passed.take(&mut filter, piece));
        while passed.pieces.len() > most && filter.rate() > f64::EPSILON {
            let mut smaller = filter.halved();
            let mut kept = Passed::default();
            passed.pieces.iter().for_each(|piece| kept.take(&mut smaller, piece));
            (filter, passed) = (smaller, kept);
        }
    }
    let rate = filter.rate();
    let stored = Stored::keep(&mut InRam { pieces: passed.pieces.into_iter(), of: &*pieces })?;
    Ok((stored, rate))
}

/// The regions from which a trace without contents is sampled: large ones, if it has streams.
fn regions(open: &Open<'_>, settings: &Settings) -> Result<Unit, Error> {
    let threshold_bytes = settings.sequential_bytes;
    if threshold_bytes == 0 {
        return Ok(Unit::Regions(REGION_EXTENTS));
    }
    let streams = StreamSettings { threshold_bytes, ..StreamSettings::default() };
    let mut by_object: HashMap<u32, StreamDetector> = HashMap::new();
    let (mut reader, mut request) = (open()?, Request::default());
    let (mut read_bytes, mut sequential_bytes) = (0, 0);
    for _ in 0..PEEKED {
        if !reader.next(&mut request)? {
            break;
        }
        if request.op == Op::Read {
            let detector = by_object.entry(request.object).or_insert_with(|| StreamDetector::new(streams));
            let access = detector.read(request.offset, request.len);
            read_bytes += request.len;
            sequential_bytes += if access.sequential { request.len } else { 0 };
        }
    }
    let has_streams = sequential_bytes as f64 > STREAMS_MIN * read_bytes as f64;
    let extents = STREAM_REGION * threshold_bytes / u64::from(settings.extent_bytes);
    Ok(Unit::Regions(if has_streams { extents.max(REGION_EXTENTS) } else { REGION_EXTENTS }))
}
