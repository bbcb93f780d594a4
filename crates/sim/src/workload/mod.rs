//! A trace as operations on extents, with the contents of the extents after each operation.
//!
//! Traces with fingerprints are processed with the multi-pass algorithm of Nitro §5.2 ([`nitro_trace::content`]).
//! Traces without fingerprints have no duplicates: an extent has new content whenever it is written and whenever the
//! cache is filled with it. Because no other extent has the same content, this is equivalent to content that is named
//! by extent and version.

mod classified;
mod identity;
mod live;
mod piece;
mod regions;
mod source;
mod stored;

pub use classified::{Classified, Precedence};
pub use identity::{Stamp, TraceIdentity};
pub use live::Live;
pub use piece::Piece;
pub(crate) use piece::runs;
pub use source::{OpenAnywhere, SaidContents, Source};
pub use stored::{Replay, Stored};

use crate::Error;
use live::Refined;
use nitro_cache::settings::EXTENT_BYTES;
use nitro_trace::content::Contents;
use nitro_trace::{Op, Reader, Request, TraceError};

/// The approximate number of pieces of a batch.
pub const BATCH_PIECES: usize = 4096;
/// If none of this number of requests has a fingerprint, or is a flush, the trace has no fingerprints, or no flushes.
const PEEKED: u64 = 1 << 16;

/// Pieces in the order of their requests, in batches.
pub trait Pieces {
    /// Overwrites `out` with the next pieces; returns `false` if there are no more.
    ///
    /// # Errors
    /// Errors of the trace or of the scratch file.
    fn next_batch(&mut self, out: &mut Vec<Piece>) -> Result<bool, Error>;

    /// Whether the trace has flushes, according to its first requests.
    fn has_flushes(&self) -> bool;

    /// The number of requests so far that are empty, or neither reads, writes, trims nor flushes.
    fn ignored(&self) -> u64;

    /// The number of bad records skipped so far.
    fn skipped(&self) -> u64;
}

impl<P: Pieces + ?Sized> Pieces for Box<P> {
    fn next_batch(&mut self, out: &mut Vec<Piece>) -> Result<bool, Error> {
        (**self).next_batch(out)
    }

    fn has_flushes(&self) -> bool {
        (**self).has_flushes()
    }

    fn ignored(&self) -> u64 {
        (**self).ignored()
    }

    fn skipped(&self) -> u64 {
        (**self).skipped()
    }
}

/// Opens a trace, each time at its beginning.
pub type Open<'a> = dyn Fn() -> Result<Box<dyn Reader>, TraceError> + 'a;

/// The pieces of a trace for extents of `extent_bytes`, made while it is read. Traces with fingerprints are read to
/// their end before this.
///
/// # Errors
/// Errors of the trace, or an extent size that is out of bounds.
pub fn live(open: &Open<'_>, extent_bytes: u32) -> Result<Live<Box<dyn Reader>>, Error> {
    live_from(open, open()?, extent_bytes)
}

/// As [`live`], with a given reader for the last pass.
///
/// # Errors
/// As [`live`].
pub fn live_from<R: Reader>(open: &Open<'_>, last: R, extent_bytes: u32) -> Result<Live<R>, Error> {
    EXTENT_BYTES.check(extent_bytes.into())?;
    let peeked = Peeked::of(&mut *open()?)?;
    let mut contents = None;
    if peeked.fingerprints {
        let mut known = Contents::new(extent_bytes.into())?;
        known.prepare(&mut Refined(open()?))?;
        contents = Some(known);
    }
    Ok(Live::new(last, extent_bytes, contents, peeked.flushes))
}

/// The pieces of a reader's requests without the trace's fingerprints, for callers that need keys only.
///
/// # Errors
/// An extent size that is out of bounds.
pub fn without_contents<R: Reader>(reader: R, extent_bytes: u32) -> Result<Live<R>, Error> {
    EXTENT_BYTES.check(extent_bytes.into())?;
    Ok(Live::new(reader, extent_bytes, None, false))
}

/// The pieces of a trace, stored for many runs.
///
/// # Errors
/// As [`live`], and errors of the scratch file.
pub fn stored(open: &Open<'_>, extent_bytes: u32) -> Result<Stored, Error> {
    Stored::keep(&mut live(open, extent_bytes)?)
}

/// What the first requests of a trace have.
#[derive(Debug, Clone, Copy, Default)]
struct Peeked {
    fingerprints: bool,
    flushes: bool,
}

impl Peeked {
    fn of(reader: &mut dyn Reader) -> Result<Self, Error> {
        let (mut request, mut found) = (Request::default(), Self::default());
        for _ in 0..PEEKED {
            if found.fingerprints && found.flushes || !reader.next(&mut request)? {
                break;
            }
            found.fingerprints |= !request.fingerprints.is_empty();
            found.flushes |= request.op == Op::Flush;
        }
        Ok(found)
    }
}
