//! Random reads of a working set with duplicates (Nitro §6.2, Figure 7).

use super::print;
use crate::rng::Rng;
use crate::{Op, Reader, Request, TraceError};

/// Random reads of one size, which is also their alignment.
#[derive(Debug, Clone, PartialEq)]
pub struct RandomReads {
    /// Bytes of the working set, whose extents are read with equal probability.
    pub working_set_bytes: u64,
    /// Bytes of the working set divided by bytes of its distinct content: 1 or more.
    pub dedup_ratio: f64,
    /// Bytes of a request, and of the extents whose contents may be equal.
    pub request_bytes: u32,
    /// The number of requests.
    pub requests: u64,
    /// Nanoseconds between requests.
    pub interval_ns: u64,
    /// The seed: another one results in another trace.
    pub seed: u64,
}

impl RandomReads {
    /// The paper's grid: the working set divided by the cache size, and the dedup ratio, each from 1 to 10. Each trace
    /// reads ten times the working set in requests of 8 KiB, but has at most `requests_max` requests.
    pub fn grid(cache_bytes: u64, requests_max: u64, seed: u64) -> impl Iterator<Item = Self> {
        let cells = (1..=10u32).flat_map(|set| (1..=10u32).map(move |dedup| (set, dedup)));
        cells.map(move |(set, dedup)| {
            let working_set_bytes = cache_bytes.saturating_mul(set.into());
            Self {
                working_set_bytes,
                dedup_ratio: dedup.into(),
                request_bytes: 8192,
                requests: (working_set_bytes / 8192).saturating_mul(10).min(requests_max),
                interval_ns: 1_000_000,
                seed,
            }
        })
    }

    /// The reader of the trace.
    ///
    /// # Errors
    /// A parameter is invalid.
    pub fn reader(&self) -> Result<RandomReadsReader, TraceError> {
        if self.request_bytes == 0 || self.working_set_bytes < self.request_bytes.into() {
            return Err(TraceError::setting("the working set is smaller than a request, or the request size is 0"));
        }
        if self.dedup_ratio.is_nan() || self.dedup_ratio < 1.0 || self.working_set_bytes > i64::MAX as u64 {
            return Err(TraceError::setting("the dedup ratio is below 1, or the working set is 2^63 bytes or more"));
        }
        let extents = self.working_set_bytes / u64::from(self.request_bytes);
        let unique = libm::round(extents as f64 / self.dedup_ratio).max(1.0) as u64;
        Ok(RandomReadsReader { parameters: self.clone(), extents, unique, rng: Rng::new(self.seed), made: 0 })
    }
}

/// See [`RandomReads::reader`].
#[derive(Debug, Clone)]
pub struct RandomReadsReader {
    parameters: RandomReads,
    extents: u64,
    /// Number of distinct contents.
    unique: u64,
    rng: Rng,
    made: u64,
}

impl Reader for RandomReadsReader {
    fn next(&mut self, request: &mut Request) -> Result<bool, TraceError> {
        let parameters = &self.parameters;
        if self.made == parameters.requests {
            return Ok(false);
        }
        request.clear();
        let extent = self.rng.below(self.extents);
        request.op = Op::Read;
        request.time_ns = self.made.saturating_mul(parameters.interval_ns);
        request.offset = extent * u64::from(parameters.request_bytes);
        request.len = parameters.request_bytes.into();
        request.block_bytes = parameters.request_bytes;
        request.fingerprints.push(print(parameters.seed, extent % self.unique));
        self.made += 1;
        Ok(true)
    }
}
