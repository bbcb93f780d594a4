//! Pieces that are made while a trace is read.

use super::piece::{Part, Piece, PieceOf};
use super::regions::Regions;
use super::{BATCH_PIECES, Pieces};
use crate::Error;
use nitro_trace::content::Contents;
use nitro_trace::{Op, Reader, Request};
use nitro_units::Fingerprint;
use std::ops::Range;

/// The block size of contents, in bytes.
const BLOCK_BYTES: u32 = 4096;
/// Extents of a trim that are simulated as one request; a longer trim counts as several. Other requests are shorter.
const TRIM_EXTENTS: u64 = 1 << 20;
/// Most extents of a trim: 1 TiB with the smallest extents.
const TRIM_EXTENTS_MAX: u64 = 1 << 28;

/// The source of fingerprints.
enum Content {
    /// The trace has none: every write, and every fill of the cache, has unique content.
    Unique { made: u64 },
    /// The trace's fingerprints, by the algorithm of Nitro §5.2.
    Known(Box<Contents>),
}

/// The pieces of a reader's requests.
pub struct Live<R> {
    reader: R,
    request: Request,
    extent_bytes: u64,
    content: Content,
    regions: Regions,
    /// The extents of the current trim that are not split yet.
    trimmed: Range<u64>,
    first_ns: Option<u64>,
    prints: Vec<Fingerprint>,
    has_flushes: bool,
    ignored: u64,
}

/// The fingerprint of a unique content.
fn unique(number: u64) -> Fingerprint {
    let mut print = [0; 20];
    print[..8].copy_from_slice(&mix(number).to_le_bytes());
    print[8..16].copy_from_slice(&mix(!number).to_le_bytes());
    Fingerprint(print)
}

/// The finaliser of SplitMix64, a bijection.
const fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// Splits fingerprints of larger blocks into those of 4 KiB blocks, the unit of [`Contents`].
pub(super) fn refine(request: &mut Request) {
    let parts = request.block_bytes / BLOCK_BYTES;
    if parts < 2 || !request.block_bytes.is_multiple_of(BLOCK_BYTES) {
        return;
    }
    let whole = std::mem::take(&mut request.fingerprints);
    let count = request.len.div_ceil(BLOCK_BYTES.into()) as usize;
    let part = |print: &Fingerprint, part: u32| {
        let mut fine = *print;
        let (head, _) = fine.0.split_at_mut(8);
        let mut word = [0; 8];
        word.copy_from_slice(head);
        head.copy_from_slice(&mix(u64::from_le_bytes(word) ^ u64::from(part)).to_le_bytes());
        fine
    };
    let all = whole.iter().flat_map(|print| (0..parts).map(move |number| part(print, number)));
    request.fingerprints = all.take(count).collect();
    request.block_bytes = BLOCK_BYTES;
}

/// The reader for the first pass, [`Contents::prepare`].
pub(super) struct Refined<R>(pub(super) R);

impl<R: Reader> Reader for Refined<R> {
    fn next(&mut self, request: &mut Request) -> Result<bool, nitro_trace::TraceError> {
        let more = self.0.next(request)?;
        refine(request);
        Ok(more)
    }

    fn inner(&self) -> Option<&dyn Reader> {
        Some(&self.0)
    }
}

impl<R: Reader> Live<R> {
    /// With `contents` = `None`, the trace's fingerprints are ignored.
    pub(super) fn new(reader: R, extent_bytes: u32, contents: Option<Contents>, has_flushes: bool) -> Self {
        Self {
            reader,
            request: Request::default(),
            extent_bytes: extent_bytes.into(),
            content: contents.map_or(Content::Unique { made: 0 }, |contents| Content::Known(Box::new(contents))),
            regions: Regions::default(),
            trimmed: 0..0,
            first_ns: None,
            prints: Vec::new(),
            has_flushes,
            ignored: 0,
        }
    }

    /// Whether it keeps the contents of the trace's extents, in RAM that [`Stored`](super::Stored) pieces do not need.
    #[must_use]
    pub const fn keeps_contents(&self) -> bool {
        matches!(self.content, Content::Known(_))
    }

    /// A flush has one piece, which is empty.
    fn flush(&mut self, first_ns: u64, out: &mut Vec<Piece>) -> Result<(), Error> {
        let Request { time_ns, op, class, object, .. } = self.request;
        let of = PieceOf { time_ns: time_ns.saturating_sub(first_ns), op, class, last: true };
        let nothing = Part { offset: 0, len: 0 };
        out.push(Piece::new(of, self.regions.key(object, 0)?, nothing, Fingerprint([0; 20]), None));
        Ok(())
    }

    fn split(&mut self, out: &mut Vec<Piece>) -> Result<(), Error> {
        let request = &self.request;
        let first_ns = *self.first_ns.get_or_insert(request.time_ns);
        if request.op == Op::Flush {
            return self.flush(first_ns, out);
        }
        if !matches!(request.op, Op::Read | Op::Write | Op::Trim) || request.len == 0 {
            self.ignored += 1;
            return Ok(());
        }
        self.prints.clear();
        if let Content::Known(contents) = &mut self.content {
            refine(&mut self.request);
            contents.apply(&self.request, |_, print| self.prints.push(print));
        }
        let extents = self.request.blocks(self.extent_bytes);
        if self.request.op == Op::Trim {
            return self.begin_trim(extents);
        }
        self.cut(first_ns, extents.start, extents, out)
    }

    /// Notes the extents of a trim, which [`next_batch`](Pieces::next_batch) splits step by step.
    fn begin_trim(&mut self, extents: Range<u64>) -> Result<(), Error> {
        let count = extents.end - extents.start;
        if count > TRIM_EXTENTS_MAX {
            return Err(Error::setting(format!(
                "a trim of {} bytes at {} of object {} covers {count} extents, and at most {TRIM_EXTENTS_MAX} can be simulated; \
                 choose larger extents, or leave it out of the trace",
                self.request.len, self.request.offset, self.request.object
            )));
        }
        self.trimmed = extents;
        Ok(())
    }

    /// Splits a step of the current trim.
    fn split_trim(&mut self, out: &mut Vec<Piece>) -> Result<(), Error> {
        let start = self.trimmed.start;
        let end = self.trimmed.end.min(start.saturating_add(TRIM_EXTENTS));
        self.trimmed.start = end;
        self.cut(self.first_ns.unwrap_or(0), start, start..end, out)
    }

    /// Adds the pieces of some `extents` of the current request; `first` is the first extent whose fingerprint is known.
    fn cut(&mut self, first_ns: u64, first: u64, extents: Range<u64>, out: &mut Vec<Piece>) -> Result<(), Error> {
        let request = &self.request;
        let (time_ns, extent_bytes) = (request.time_ns.saturating_sub(first_ns), self.extent_bytes);
        let compressed = request.compressed_bytes.filter(|_| request.op != Op::Trim).map(|bytes| {
            let share = u128::from(bytes) * u128::from(extent_bytes) / u128::from(request.len);
            share.min(extent_bytes.into()) as u32
        });
        for index in extents.clone() {
            let start = index * extent_bytes;
            let from = request.offset.max(start) - start;
            let to = request.end().min(start + extent_bytes) - start;
            let print = match &mut self.content {
                Content::Unique { made } => {
                    *made += 1;
                    unique(*made)
                }
                Content::Known(_) => self.prints.get((index - first) as usize).copied().unwrap_or(Fingerprint([0; 20])),
            };
            let last = index + 1 == extents.end;
            let of = PieceOf { time_ns, op: request.op, class: request.class, last };
            let part = Part { offset: from as u32, len: (to - from) as u32 };
            out.push(Piece::new(of, self.regions.key(request.object, index)?, part, print, compressed));
        }
        Ok(())
    }
}

impl<R: Reader> Pieces for Live<R> {
    fn next_batch(&mut self, out: &mut Vec<Piece>) -> Result<bool, Error> {
        out.clear();
        while out.len() < BATCH_PIECES {
            if !self.trimmed.is_empty() {
                self.split_trim(out)?;
                continue;
            }
            if !self.reader.next(&mut self.request)? {
                break;
            }
            self.split(out)?;
        }
        Ok(!out.is_empty())
    }

    fn has_flushes(&self) -> bool {
        self.has_flushes
    }

    fn ignored(&self) -> u64 {
        self.ignored
    }

    fn skipped(&self) -> u64 {
        self.reader.skipped().count
    }
}
