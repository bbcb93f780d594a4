//! Percentiles of the requests between two points in time.

use nitro_engine::metrics::LATENCY_BOUNDS_US;

/// The latency in microseconds that a share of the requests between two counts did not exceed; `None`: there were none.
#[must_use]
pub fn quantile_us(then: (&[u64], u64), now: (&[u64], u64), share: f64) -> Option<f64> {
    let count = now.1.saturating_sub(then.1);
    if count == 0 {
        return None;
    }
    let wanted = share * count as f64;
    let (mut below, mut from) = (0, 0.0);
    for ((bound, now), then) in LATENCY_BOUNDS_US.iter().zip(now.0).zip(then.0) {
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
        let of = |share| quantile_us((&[0; 32], 0), (&now, 100), share).unwrap();
        assert_eq!((of(0.25), of(0.5), of(0.75)), (2.5, 5.0, 7.5));
        assert_eq!(quantile_us((&now, 100), (&now, 100), 0.5), None);
    }
}
