//! Requests with Zipf's distribution.

use super::permutation::Permutation;
use crate::rng::Rng;
use crate::{Op, Reader, Request, TraceError};

/// Draws ranks from 1 to `n` with probabilities in proportion to rank^-`exponent`, in constant time and memory, by
/// rejection-inversion (Hörmann and Derflinger, ACM TOMACS 6(3), 1996).
#[derive(Debug, Clone)]
pub struct ZipfSampler {
    n: f64,
    exponent: f64,
    integral_first: f64,
    integral_last: f64,
    /// A rank that exceeds the inverted point by at most this is accepted without a further test.
    sure: f64,
}

/// log(1 + x) / x.
fn log1p_over(x: f64) -> f64 {
    if x.abs() > 1e-8 { libm::log1p(x) / x } else { 1.0 - x * (0.5 - x / 3.0) }
}

/// (exp(x) - 1) / x.
fn expm1_over(x: f64) -> f64 {
    if x.abs() > 1e-8 { libm::expm1(x) / x } else { 1.0 + x * 0.5 * (1.0 + x / 3.0) }
}

impl ZipfSampler {
    /// A sampler of ranks up to `n`.
    ///
    /// # Errors
    /// `n` is 0 or above 2⁵², or the exponent is not from 0 to 100.
    pub fn new(n: u64, exponent: f64) -> Result<Self, TraceError> {
        if n == 0 || n > 1 << 52 {
            return Err(TraceError::setting("Zipf's law is for 1 to 2^52 objects"));
        }
        if !(0.0..=100.0).contains(&exponent) {
            return Err(TraceError::setting("Zipf's exponent is not from 0 to 100"));
        }
        let mut sampler = Self { n: n as f64, exponent, integral_first: 0.0, integral_last: 0.0, sure: 0.0 };
        sampler.integral_first = sampler.integral(1.5) - 1.0;
        sampler.integral_last = sampler.integral(sampler.n + 0.5);
        sampler.sure = 2.0 - sampler.inverse(sampler.integral(2.5) - sampler.density(2.0));
        Ok(sampler)
    }

    fn density(&self, x: f64) -> f64 {
        libm::exp(-self.exponent * libm::log(x))
    }

    fn integral(&self, x: f64) -> f64 {
        let log = libm::log(x);
        expm1_over((1.0 - self.exponent) * log) * log
    }

    fn inverse(&self, x: f64) -> f64 {
        let t = (x * (1.0 - self.exponent)).max(-1.0);
        libm::exp(log1p_over(t) * x)
    }

    /// Draws a rank, from 1 on.
    pub(crate) fn sample(&self, rng: &mut Rng) -> u64 {
        loop {
            let u = self.integral_last + rng.unit() * (self.integral_first - self.integral_last);
            let x = self.inverse(u);
            let rank = libm::floor(x + 0.5).clamp(1.0, self.n);
            if rank - x <= self.sure || u >= self.integral(rank + 0.5) - self.density(rank) {
                return rank as u64;
            }
        }
    }
}

/// Requests for objects of one size, with Zipf's distribution.
#[derive(Debug, Clone, PartialEq)]
pub struct Zipf {
    /// The number of objects.
    pub objects: u64,
    /// The exponent; with 0, all objects have the same probability.
    pub exponent: f64,
    /// The number of requests.
    pub requests: u64,
    /// The share of writes, from 0 to 1.
    pub write_share: f64,
    /// Bytes of an object.
    pub object_bytes: u32,
    /// Whether popular objects are spread over the address space; otherwise addresses are in the order of ranks.
    pub scattered: bool,
    /// Nanoseconds between requests.
    pub interval_ns: u64,
    /// The seed: another one results in another trace.
    pub seed: u64,
}

impl Default for Zipf {
    /// 20 million reads of 4 KiB from a million objects, exponent 1.
    fn default() -> Self {
        Self {
            objects: 1_000_000,
            exponent: 1.0,
            requests: 20_000_000,
            write_share: 0.0,
            object_bytes: 4096,
            scattered: true,
            interval_ns: 100_000,
            seed: 1,
        }
    }
}

impl Zipf {
    /// The reader of the trace.
    ///
    /// # Errors
    /// A parameter is invalid.
    pub fn reader(&self) -> Result<ZipfReader, TraceError> {
        let bytes = self.objects.checked_mul(self.object_bytes.into());
        if self.object_bytes == 0 || bytes.is_none_or(|bytes| bytes > i64::MAX as u64) {
            return Err(TraceError::setting("the size of all objects is 0, or 2^63 bytes or more"));
        }
        Ok(ZipfReader {
            sampler: ZipfSampler::new(self.objects, self.exponent)?,
            permutation: self.scattered.then(|| Permutation::new(self.objects, self.seed)),
            rng: Rng::new(self.seed),
            parameters: self.clone(),
            made: 0,
        })
    }
}

/// See [`Zipf::reader`].
#[derive(Debug, Clone)]
pub struct ZipfReader {
    parameters: Zipf,
    sampler: ZipfSampler,
    permutation: Option<Permutation>,
    rng: Rng,
    made: u64,
}

impl Reader for ZipfReader {
    fn next(&mut self, request: &mut Request) -> Result<bool, TraceError> {
        let parameters = &self.parameters;
        if self.made == parameters.requests {
            return Ok(false);
        }
        request.clear();
        let rank = self.sampler.sample(&mut self.rng) - 1;
        let object = self.permutation.as_ref().map_or(rank, |permutation| permutation.of(rank));
        if parameters.write_share > 0.0 && self.rng.unit() < parameters.write_share {
            request.op = Op::Write;
        }
        request.time_ns = self.made.saturating_mul(parameters.interval_ns);
        request.offset = object * u64::from(parameters.object_bytes);
        request.len = parameters.object_bytes.into();
        self.made += 1;
        Ok(true)
    }
}
