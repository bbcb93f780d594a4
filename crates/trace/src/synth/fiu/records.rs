//! The records of an FIU-like trace.

use super::{FiuLike, FiuLikeReader};
use crate::rng::Rng;
use crate::synth::BLOCK_BYTES;
use crate::synth::quota::Quota;
use crate::{Reader, Request, TraceError};

/// Nanoseconds between two records of a request: the median between records of the public samples that continue one
/// another.
const RECORD_NS: u64 = 35_000;
/// A seed for the sizes of records.
const SIZED: u64 = 0x7369_7A65;

/// See [`FiuLike::records`].
#[derive(Debug, Clone)]
pub struct FiuLikeRecords {
    requests: FiuLikeReader,
    request: Request,
    /// The next block of the request.
    next: usize,
    time_ns: u64,
    rng: Rng,
    /// The choice between one block and two.
    pairs: Quota,
}

impl FiuLikeRecords {
    pub(super) fn new(requests: FiuLikeReader, parameters: &FiuLike) -> Self {
        Self {
            requests,
            request: Request::default(),
            next: 0,
            time_ns: 0,
            rng: Rng::new(parameters.seed ^ SIZED),
            pairs: Quota::new(parameters.record_blocks - 1.0),
        }
    }
}

impl Reader for FiuLikeRecords {
    fn next(&mut self, record: &mut Request) -> Result<bool, TraceError> {
        if self.next == self.request.fingerprints.len() {
            if !self.requests.next(&mut self.request)? {
                return Ok(false);
            }
            self.next = 0;
            self.time_ns = self.time_ns.max(self.request.time_ns);
        }
        let request = &self.request;
        let left = request.fingerprints.len() - self.next;
        let is_pair = left > 1 && self.pairs.wants(&mut self.rng);
        self.pairs.count(is_pair, 1);
        let blocks = self.next..self.next + 1 + usize::from(is_pair);
        record.clear();
        (record.time_ns, record.op, record.block_bytes) = (self.time_ns, request.op, request.block_bytes);
        record.offset = request.offset + blocks.start as u64 * BLOCK_BYTES;
        record.len = blocks.len() as u64 * BLOCK_BYTES;
        record.fingerprints.extend_from_slice(&request.fingerprints[blocks.clone()]);
        self.next = blocks.end;
        self.time_ns += RECORD_NS;
        Ok(true)
    }
}
