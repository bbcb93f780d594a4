//! Test data, random numbers, clock: the same as in nitro-bench.

use rustix::time::{ClockId, clock_gettime};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

/// What can go wrong in a benchmark.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Bytes of a value.
pub const VALUE_BYTES: usize = 8192;

/// Bytes of the data file that are used.
const DATA_BYTES_MAX: u64 = 500_000_000;

/// SplitMix64.
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

/// The values of a file of real data, none of them all zero.
pub fn values_of(file: &Path) -> Result<Vec<Vec<u8>>, Failure> {
    let named = |error| format!("{}: {error}", file.display());
    let mut data = Vec::new();
    File::open(file).map_err(named)?.take(DATA_BYTES_MAX).read_to_end(&mut data).map_err(named)?;
    let chunks = data.chunks_exact(VALUE_BYTES).filter(|chunk| chunk.iter().any(|byte| *byte != 0));
    Ok(chunks.map(<[u8]>::to_vec).collect())
}

/// CPU time of this process so far, all threads.
pub fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
