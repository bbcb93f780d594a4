//! Percentiles of the requests between two points in time.

use nitro_engine::metrics::LATENCY_BOUNDS_US;

/// The requests counted up to a point in time.
#[derive(Debug, Clone, Copy)]
pub struct Cumulative<'a> {
    /// For each of [`LATENCY_BOUNDS_US`], those that took at most as long.
    pub at_most: &'a [u64],
    /// All of them.
    pub all: u64,
}

/// The latency in microseconds that a share of the requests between two counts did not exceed; `None`: there were none.
#[must_use]
pub fn quantile_us(then: Cumulative<'_>, now: Cumulative<'_>, share: f64) -> Option<f64> {
    let count = now.all.saturating_sub(then.all);
    if count == 0 {
        return None;
    }
    let wanted = share * count as f64;
    let (mut below, mut from) = (0, 0.0);
    for ((bound, now), then) in LATENCY_BOUNDS_US.iter().zip(now.at_most).zip(then.at_most) {
        let (at_most, bound) = (now.saturating_sub(*then), *bound as f64);
        if at_most as f64 >= wanted {
            let part = (wanted - below as f64) / (at_most.saturating_sub(below)).max(1) as f64;
            return Some(from + (bound - from) * part);
        }
        (below, from) = (at_most, bound);
    }
    Some(from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_between_the_bounds() {
        let mut now = [0; LATENCY_BOUNDS_US.len()];
        now[0] = 50;
        now[1..].fill(100);
        let (then, now) = (Cumulative { at_most: &[0; 32], all: 0 }, Cumulative { at_most: &now, all: 100 });
        let of = |share| quantile_us(then, now, share).unwrap();
        assert_eq!((of(0.25), of(0.5), of(0.75)), (2.5, 5.0, 7.5));
        assert_eq!(quantile_us(now, now, 0.5), None);
    }
}
