//! Parts that the benchmarks share: test data, random numbers, clocks.

use bytes::Bytes;
use nitro_port::buf::BufMut;
use rustix::time::{ClockId, clock_gettime};
use std::path::Path;
use std::time::Duration;

/// An error of a benchmark.
pub type Failure = Box<dyn std::error::Error>;

/// Bytes of an extent.
pub const EXTENT: usize = 8192;

/// The SplitMix64 generator.
pub struct Rng(pub u64);

impl Rng {
    /// A number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (x ^ (x >> 31)) % n
    }
}

/// The extents of a file of real data, except those that are all zeroes.
pub fn extents_of(file: &Path) -> Result<Vec<Bytes>, Failure> {
    let data = std::fs::read(file).map_err(|e| format!("{}: {e}", file.display()))?;
    let chunks = data.chunks_exact(EXTENT).filter(|c| !nitro_port::buf::is_zero(c));
    Ok(chunks.map(|c| BufMut::copy_of(c).freeze()).collect())
}

/// Megabytes per second.
pub fn mb_per_second(bytes: usize, time: Duration) -> f64 {
    bytes as f64 / 1e6 / time.as_secs_f64()
}

/// CPU time of this process so far.
pub fn cpu_time() -> Duration {
    time_of(ClockId::ProcessCPUTime)
}

/// CPU time of this thread so far.
pub fn thread_cpu_time() -> Duration {
    time_of(ClockId::ThreadCPUTime)
}

fn time_of(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
