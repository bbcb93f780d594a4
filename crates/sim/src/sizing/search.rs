//! The smallest cache that hits enough.

use super::{Point, Sample};
use crate::{Error, Settings};
use nitro_cache::settings::{WEU_BYTES, WEU_COUNT_MIN};

/// The units of the smallest cache whose simulation on a sample is like that of the whole.
const UNITS_OF_SAMPLE: u64 = 2 * WEU_COUNT_MIN;
/// The points of a curve: each has half the size of the one after it.
const POINTS: usize = 9;
/// The points between two sizes that are simulated together, and how often the range is narrowed to that between two of
/// them. Between two sizes of a curve, the result is at most 5 % too large.
const BETWEEN: u32 = 3;
const ROUNDS: usize = 2;
/// What the largest cache of a curve is larger than everything that the trace touches: room for headers of units, and units
/// that are being filled.
const ROOM: f64 = 1.25;

/// The smallest cache of these settings, of which their size does not matter.
#[must_use]
pub fn least_cache_bytes(settings: &Settings) -> u64 {
    let extent_bytes = u64::from(settings.extent_bytes);
    if !settings.variant.has_weus() {
        return extent_bytes;
    }
    WEU_COUNT_MIN * u64::from(nitro_cache::Settings::usual_weu_bytes(0, settings.extent_bytes))
}

/// A size rounded up to whole write-evict units of the usual size.
fn rounded(cache_bytes: u64, extent_bytes: u32) -> u64 {
    cache_bytes.next_multiple_of(nitro_cache::Settings::usual_weu_bytes(cache_bytes, extent_bytes).into())
}

impl Sample {
    /// Sizes for a curve, in ascending order: up to one that holds all that the trace touches.
    #[must_use]
    pub fn sizes(&self, settings: &Settings) -> Vec<u64> {
        let least = self.least_bytes(settings);
        let most = self.rounded((self.touched_bytes() as f64 * ROOM) as u64 + least);
        let halves = (0..POINTS).map(|times| self.rounded(most >> times));
        let mut sizes: Vec<u64> = halves.take_while(|size| *size > least).collect();
        if sizes.len() < POINTS {
            sizes.push(least);
        }
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// The smallest cache that can be simulated on this sample.
    #[must_use]
    pub fn least_bytes(&self, settings: &Settings) -> u64 {
        let least = least_cache_bytes(settings);
        if self.rate >= 1.0 {
            return least;
        }
        let unit = WEU_BYTES.min.max(least / WEU_COUNT_MIN);
        let bytes = ((UNITS_OF_SAMPLE * unit) as f64 / self.rate).ceil() as u64;
        self.rounded(bytes.max(least))
    }

    /// A size in whole write-evict units, also of the smaller cache that is simulated for it.
    #[must_use]
    pub fn rounded(&self, cache_bytes: u64) -> u64 {
        if self.rate >= 1.0 {
            return rounded(cache_bytes, self.extent_bytes);
        }
        let small = (cache_bytes as f64 * self.rate).round() as u64;
        rounded((rounded(small, self.extent_bytes) as f64 / self.rate).round() as u64, self.extent_bytes)
    }

    /// The smallest cache that hits at least `ratio` of the extents read, between the sizes of `points`, which are in
    /// ascending order; `None` if none of them does. `settings` returns the settings for a size.
    ///
    /// # Errors
    /// Those of [`points`](Self::points).
    pub fn smallest(
        &self,
        points: &[Point],
        ratio: f64,
        settings: &dyn Fn(u64) -> Settings,
        threads: usize,
    ) -> Result<Option<Point>, Error> {
        let enough = |point: &Point| point.read_extent_hit_ratio >= ratio;
        let Some(at) = points.iter().position(enough) else { return Ok(None) };
        let (Some(below), mut found) = (at.checked_sub(1).map(|at| points[at]), points[at]) else {
            return Ok(Some(points[at]));
        };
        let mut below = below.cache_bytes;
        for _ in 0..ROUNDS {
            let factor = (found.cache_bytes as f64 / below as f64).powf(1.0 / f64::from(BETWEEN + 1));
            let between = (1..=BETWEEN).map(|step| {
                let bytes = below as f64 * factor.powi(step.cast_signed());
                self.rounded(bytes.round() as u64)
            });
            let mut sizes: Vec<u64> = between.filter(|size| (below + 1..found.cache_bytes).contains(size)).collect();
            sizes.dedup();
            let all: Vec<Settings> = sizes.iter().map(|size| settings(*size)).collect();
            let tried = self.points(&all, threads)?;
            match tried.iter().position(enough) {
                Some(at) => {
                    found = tried[at];
                    below = at.checked_sub(1).map_or(below, |at| tried[at].cache_bytes);
                }
                None => below = tried.last().map_or(below, |point| point.cache_bytes),
            }
        }
        Ok(Some(found))
    }
}
