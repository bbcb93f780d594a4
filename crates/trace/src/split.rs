//! Splits requests at block boundaries.

use crate::{Reader, Request, TraceError};

/// Splits each request into one request for each aligned block that it touches, completely or in part. Requests without
/// a length are not changed. A fingerprint stays with the block in which its first byte is. Each piece has the class of
/// its request. The compressed sizes of requests that touch several blocks are dropped.
pub struct Split<R> {
    reader: R,
    block_bytes: u64,
    /// The request that is being split, and the range of the pieces that are left.
    whole: Request,
    left: std::ops::Range<u64>,
}

impl<R: Reader> Split<R> {
    /// Splits at multiples of `block_bytes`.
    ///
    /// # Panics
    /// `block_bytes` is 0.
    pub fn new(reader: R, block_bytes: u64) -> Self {
        assert!(block_bytes > 0, "the size of blocks is not 0");
        Self { reader, block_bytes, whole: Request::default(), left: 0..0 }
    }
}

impl<R> Split<R> {
    /// The reader of the whole requests.
    pub(crate) const fn reader_mut(&mut self) -> &mut R {
        &mut self.reader
    }
}

impl<R: Reader> Reader for Split<R> {
    fn next(&mut self, request: &mut Request) -> Result<bool, TraceError> {
        if self.left.is_empty() {
            if !self.reader.next(&mut self.whole)? {
                return Ok(false);
            }
            self.left = self.whole.offset..self.whole.end();
            if self.left.is_empty() {
                request.clone_from(&self.whole);
                return Ok(true);
            }
        }
        let start = self.left.start;
        let end = self.left.end.min((start / self.block_bytes + 1).saturating_mul(self.block_bytes));
        self.left.start = end;
        request.clear();
        let whole = &self.whole;
        (request.time_ns, request.op, request.object) = (whole.time_ns, whole.op, whole.object);
        request.class = whole.class;
        (request.offset, request.len) = (start, end - start);
        if end - start == whole.len {
            request.compressed_bytes = whole.compressed_bytes;
        }
        let step = u64::from(whole.block_bytes);
        if step > 0 {
            let first = (start - whole.offset).div_ceil(step) as usize;
            let behind = (end - whole.offset).div_ceil(step) as usize;
            let prints = whole.fingerprints.get(first..behind).unwrap_or_default();
            let whole_blocks = (end - start).div_ceil(step) == prints.len() as u64;
            if whole_blocks {
                request.block_bytes = whole.block_bytes;
                request.fingerprints.extend_from_slice(prints);
            }
        }
        Ok(true)
    }

    fn inner(&self) -> Option<&dyn Reader> {
        Some(&self.reader)
    }
}
