//! Fingerprints of extents, computed from those of blocks.

use super::blocks::{Blocks, PRINT_BYTES, Print};
use crate::rng::hash;
use crate::{Op, Reader, Request, Split, TraceError};
use nitro_units::{ExtentIndex, Fingerprint};
use sha1::{Digest, Sha1};

/// Bytes of a block, the unit of contents: the block size of nearly all traces with fingerprints.
const BLOCK_BYTES: u64 = 4096;
/// Bytes of the largest extent.
const EXTENT_BYTES_MAX: u64 = 1 << 20;

/// The contents of all blocks of a trace's objects at one point of the trace. Memory: about 9 to 21 bytes per known
/// extent, and 16 per block of it.
///
/// Nitro's multi-pass algorithm (§5.2): the first pass over the trace takes the content of blocks that are read before
/// they are written as their initial content ([`prepare`](Self::prepare)). The second one follows the writes, and
/// hashes the block fingerprints of each touched extent with SHA-1 ([`apply`](Self::apply)). Blocks whose content the
/// trace does not contain are assumed to be unique.
pub struct Contents {
    extent_bytes: u64,
    blocks: Blocks,
    /// Requests applied so far; makes written content unique if a trace has no fingerprints.
    clock: u64,
}

/// The print of unknown content, which is unique to object, block and version.
fn unique(object: u32, block: u64, version: u64) -> Print {
    let seed = hash(version, object.into());
    let mut print = [0; PRINT_BYTES];
    print[..8].copy_from_slice(&hash(seed, block).to_le_bytes());
    print[8..].copy_from_slice(&hash(!seed, block).to_le_bytes());
    print
}

/// The print of a block that is written in smaller parts; or in part, from `start` bytes after its beginning on.
fn combined(old: Option<&Print>, start: u64, parts: &[Fingerprint]) -> Print {
    let mut hasher = Sha1::new();
    if let Some(old) = old {
        hasher.update(old);
        hasher.update(start.to_le_bytes());
    }
    parts.iter().for_each(|part| hasher.update(&part.0[..PRINT_BYTES]));
    cut(&hasher.finalize().into())
}

fn cut(print: &[u8; 20]) -> Print {
    let mut cut = [0; PRINT_BYTES];
    cut.copy_from_slice(&print[..PRINT_BYTES]);
    cut
}

/// The fingerprints that begin within a block: offset of the first in the block, fingerprints, and whether they cover
/// the block.
fn parts(request: &Request, block: u64) -> (u64, &[Fingerprint], bool) {
    let step = u64::from(request.block_bytes);
    let (start, end) = (block * BLOCK_BYTES, (block + 1) * BLOCK_BYTES);
    let first = start.saturating_sub(request.offset).div_ceil(step);
    let behind = (end - request.offset).div_ceil(step).min(request.fingerprints.len() as u64);
    let parts = request.fingerprints.get(first as usize..behind as usize).unwrap_or_default();
    let at = request.offset + first * step;
    let whole = at == start && BLOCK_BYTES.is_multiple_of(step) && parts.len() as u64 == BLOCK_BYTES / step;
    (at.saturating_sub(start), parts, whole)
}

/// The block's content after a request with fingerprints, if the request determines it.
fn content(request: &Request, block: u64, old: Option<&Print>) -> Option<Print> {
    match parts(request, block) {
        (_, [print], true) => Some(cut(&print.0)),
        (_, parts, true) => Some(combined(None, 0, parts)),
        (start, parts @ [_, ..], false) if request.op == Op::Write => Some(combined(old, start, parts)),
        _ => None,
    }
}

impl Contents {
    /// Contents of which none is known yet.
    ///
    /// # Errors
    /// `extent_bytes` is not a power of two from 4 KiB to 1 MiB.
    pub fn new(extent_bytes: u64) -> Result<Self, TraceError> {
        if !extent_bytes.is_power_of_two() || !(BLOCK_BYTES..=EXTENT_BYTES_MAX).contains(&extent_bytes) {
            return Err(TraceError::setting("the size of an extent is not a power of two from 4 KiB to 1 MiB"));
        }
        Ok(Self { extent_bytes, blocks: Blocks::new(extent_bytes / BLOCK_BYTES), clock: 0 })
    }

    /// The first pass: reads a trace to its end. The content of a block that is read before it is written is its
    /// initial content.
    ///
    /// # Errors
    /// The reader's.
    pub fn prepare(&mut self, reader: &mut dyn Reader) -> Result<(), TraceError> {
        let mut request = Request::default();
        while reader.next(&mut request)? {
            let known = !request.fingerprints.is_empty() || request.op == Op::Write;
            if !known || !matches!(request.op, Op::Read | Op::Write) {
                continue;
            }
            let object = request.object;
            for block in request.blocks(BLOCK_BYTES) {
                let read = if request.op == Op::Read { content(&request, block, None) } else { None };
                if (request.op == Op::Write || read.is_some()) && self.blocks.get(object, block).is_none() {
                    self.blocks.set(object, block, read.unwrap_or_else(|| unique(object, block, 0)));
                }
            }
        }
        Ok(())
    }

    /// Applies a request, and calls `extent` with each extent that it reads or writes, and the extent's fingerprint
    /// afterwards.
    pub fn apply(&mut self, request: &Request, mut extent: impl FnMut(ExtentIndex, Fingerprint)) {
        self.clock += 1;
        let object = request.object;
        match request.op {
            Op::Read | Op::Write if !request.fingerprints.is_empty() => {
                for block in request.blocks(BLOCK_BYTES) {
                    if let Some(print) = content(request, block, self.blocks.get(object, block)) {
                        self.blocks.set(object, block, print);
                    }
                }
            }
            Op::Write => {
                for block in request.blocks(BLOCK_BYTES) {
                    self.blocks.set(object, block, unique(object, block, self.clock));
                }
            }
            Op::Trim => self.blocks.forget(object, request.blocks(BLOCK_BYTES)),
            Op::Read | Op::Flush | Op::Other => {}
        }
        if matches!(request.op, Op::Read | Op::Write) {
            let blocks = self.extent_bytes / BLOCK_BYTES;
            for index in request.blocks(self.extent_bytes) {
                let mut hasher = Sha1::new();
                for block in index * blocks..(index + 1) * blocks {
                    match self.blocks.get(object, block) {
                        Some(print) => hasher.update(print),
                        None => hasher.update(unique(object, block, 0)),
                    }
                }
                extent(ExtentIndex(index), Fingerprint(hasher.finalize().into()));
            }
        }
    }
}

/// The second pass as a reader: one request for each extent that a request of the trace touches. Its offset and length
/// are those of the part of the extent that is touched; its only fingerprint is that of the whole extent.
pub struct Extents<R> {
    pieces: Split<WholeRequests<R>>,
}

/// Applies each request to the contents, and keeps the fingerprints for the pieces.
struct WholeRequests<R> {
    reader: R,
    contents: Contents,
    prints: Vec<Fingerprint>,
    /// The number of `prints` that were returned.
    given: usize,
}

impl<R: Reader> Extents<R> {
    /// The requests of `reader`; `contents` are those before the first request.
    pub fn new(reader: R, contents: Contents) -> Self {
        let extent_bytes = contents.extent_bytes;
        let whole = WholeRequests { reader, contents, prints: Vec::new(), given: 0 };
        Self { pieces: Split::new(whole, extent_bytes) }
    }
}

impl<R: Reader> Reader for WholeRequests<R> {
    fn next(&mut self, request: &mut Request) -> Result<bool, TraceError> {
        let more = self.reader.next(request)?;
        (self.given, request.compressed_bytes) = (0, None);
        self.prints.clear();
        if more {
            self.contents.apply(request, |_, print| self.prints.push(print));
        }
        request.fingerprints.clear();
        request.block_bytes = 0;
        Ok(more)
    }

    fn inner(&self) -> Option<&dyn Reader> {
        Some(&self.reader)
    }
}

impl<R: Reader> Reader for Extents<R> {
    fn next(&mut self, request: &mut Request) -> Result<bool, TraceError> {
        let more = self.pieces.next(request)?;
        let whole = self.pieces.reader_mut();
        if more && let Some(&print) = whole.prints.get(whole.given) {
            whole.given += 1;
            request.fingerprints.push(print);
            request.block_bytes = whole.contents.extent_bytes as u32;
        }
        Ok(more)
    }

    fn inner(&self) -> Option<&dyn Reader> {
        Some(&self.pieces)
    }
}
