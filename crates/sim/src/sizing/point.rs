//! What a cache of one size does, from the simulation of a sample.

use super::Sample;
use crate::sweep::in_parallel;
use crate::{Error, Outcome, Settings, Warmup, simulate};
use serde::Serialize;

/// What a cache of one size does to the whole trace.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Point {
    /// Bytes of the cache.
    pub cache_bytes: u64,
    /// Extents read after the warm-up.
    pub read_extents: u64,
    /// Extents read that were cached, over all extents read, from 0 to 1.
    pub read_extent_hit_ratio: f64,
    /// Bytes written to the SSD by the cache.
    pub ssd_bytes_written: u64,
    /// Seconds of the trace in which they were written, without the warm-up.
    pub seconds: f64,
    /// Inserted bytes over those whose content was new; 1 without deduplication.
    pub dedup_ratio: f64,
    /// Inserted bytes whose content was new, over the bytes stored for them; 1 without compression.
    pub compression_ratio: f64,
}

impl Point {
    /// Bytes written to the SSD in a day at the mean rate of the trace; `None` if the trace takes no time.
    #[must_use]
    pub fn written_bytes_per_day(&self) -> Option<f64> {
        (self.seconds > 0.0).then(|| self.ssd_bytes_written as f64 / self.seconds * 86_400.0)
    }
}

impl Sample {
    /// What caches with `settings` do, each simulated on the sample, on `threads` threads; in the order of the settings.
    ///
    /// # Errors
    /// Settings that are out of bounds, also for a cache that is smaller by the share of the sample, and errors of the
    /// scratch file.
    pub fn points(&self, settings: &[Settings], threads: usize) -> Result<Vec<Point>, Error> {
        in_parallel(settings.len(), threads, &|at| {
            let outcome = simulate(&mut self.stored.replay(), &self.miniature(&settings[at]), &mut |_| true)?;
            Ok(self.point(settings[at].cache_bytes, &outcome))
        })
    }

    /// The cache for the sample: smaller by its share, and so is the RAM in front of it.
    fn miniature(&self, settings: &Settings) -> Settings {
        if self.rate >= 1.0 {
            return *settings;
        }
        let part = |number: u64| (number as f64 * self.rate).round() as u64;
        let (mut cache_bytes, mut weu_bytes) = (part(settings.cache_bytes), settings.weu_bytes);
        if settings.variant.has_weus() {
            weu_bytes = weu_bytes.min(nitro_cache::Settings::usual_weu_bytes(cache_bytes, settings.extent_bytes));
            // A part of a unit would not be used.
            let unit = u64::from(weu_bytes);
            cache_bytes = (cache_bytes + unit / 2) / unit * unit;
        }
        let warmup = match settings.warmup {
            Warmup::Requests(count) => {
                let share = self.sampled.requests as f64 / self.totals.requests.max(1) as f64;
                Warmup::Requests((count as f64 * share).round() as u64)
            }
            other => other,
        };
        Settings {
            cache_bytes,
            weu_bytes,
            ram_bytes: part(settings.ram_bytes),
            staging_bytes: part(settings.staging_bytes),
            readahead_ram_bytes: part(settings.readahead_ram_bytes),
            sequential_bytes: if self.by_content { 0 } else { settings.sequential_bytes },
            warmup,
            ..*settings
        }
    }

    /// The whole trace's figures from those of the sample. What is missing in the sample, or too much, is requests for the
    /// most popular extents, which hit in a cache of any size (SHARDS-adj, FAST 2015, §2.3).
    fn point(&self, cache_bytes: u64, outcome: &Outcome) -> Point {
        let m = &outcome.measured;
        let over = |sampled: u64, all: u64| if all == 0 { 1.0 } else { sampled as f64 / (all as f64 * self.rate) };
        let reads_over = over(self.sampled.read_extents, self.totals.read_extents);
        let writes_over = over(self.sampled.written_extents, self.totals.written_extents);
        let misses = (m.read_extents - m.read_extent_hits) as f64;
        let expected = m.read_extents as f64 / reads_over;
        let hits = if expected > 0.0 { (1.0 - misses / expected).clamp(0.0, 1.0) } else { 0.0 };
        // What is written to the SSD are misses and writes.
        let writes = (m.extents - m.read_extents) as f64;
        let inserted = misses + writes;
        let share = if inserted > 0.0 { (misses + writes / writes_over) / inserted } else { 1.0 };
        Point {
            cache_bytes,
            read_extents: (expected / self.rate).round() as u64,
            read_extent_hit_ratio: hits,
            ssd_bytes_written: (m.ssd_bytes_written as f64 / self.rate * share).round() as u64,
            seconds: m.end_s - m.begin_s,
            dedup_ratio: m.dedup_ratio,
            compression_ratio: m.compression_ratio,
        }
    }
}
