//! What the requests of a volume cost: what is counted, at the prices of a provider.
//!
//! These are the prices of requests; those of drives are in `crates/sim/src/cost/`.

use crate::counters::S3Counters;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Seconds of a day, and of the month of which providers speak (30 days).
const DAY_SECONDS: f64 = 86_400.0;
const MONTH_SECONDS: f64 = 30.0 * DAY_SECONDS;
const GB: f64 = 1e9;

/// What a provider takes, in dollars.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prices {
    /// Where they are from.
    pub source: &'static str,
    /// The month in which they were looked up.
    pub date: &'static str,
    /// A put or a page of a list.
    pub put: f64,
    /// A get.
    pub get: f64,
    /// A request to delete.
    pub delete: f64,
    /// 10⁹ bytes that leave the provider for the internet; within a region, they cost nothing.
    pub sent_gb: f64,
}

impl Prices {
    /// The prices that are used.
    pub const AWS: Self = Self {
        source: "AWS S3 Standard, us-east-1, aws.amazon.com/s3/pricing",
        date: "2025-11",
        put: 0.005 / 1000.0,
        get: 0.0004 / 1000.0,
        delete: 0.0,
        sent_gb: 0.09,
    };
}

/// What was asked of a store since a volume was opened, and what it costs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Bill {
    /// Since so many seconds.
    pub seconds: f64,
    /// Requests of all kinds.
    pub requests: u64,
    /// Requests in a day, as fast as since then.
    pub requests_per_day: f64,
    /// Bytes that were sent in a day.
    pub put_bytes_per_day: f64,
    /// Bytes that were received in a day.
    pub got_bytes_per_day: f64,
    /// Dollars for the requests.
    pub dollars: f64,
    /// Dollars for the requests of 30 days.
    pub dollars_per_month: f64,
    /// Further dollars in 30 days for what is received, if it crosses the internet.
    pub transfer_dollars_per_month: f64,
}

impl Bill {
    /// The bill for what was counted in a time.
    #[must_use]
    pub fn new(counted: &S3Counters, time: Duration, prices: &Prices) -> Self {
        // In the first seconds, a rate would say nothing but what a start costs.
        let seconds = time.as_secs_f64();
        let rate = |amount: f64, per: f64| amount * per / seconds.max(60.0);
        let puts = counted.puts + counted.lists;
        let requests = puts + counted.gets + counted.deletes;
        let dollars =
            puts as f64 * prices.put + counted.gets as f64 * prices.get + counted.deletes as f64 * prices.delete;
        let transfer = counted.got_bytes as f64 / GB * prices.sent_gb;
        Self {
            seconds,
            requests,
            requests_per_day: rate(requests as f64, DAY_SECONDS),
            put_bytes_per_day: rate(counted.put_bytes as f64, DAY_SECONDS),
            got_bytes_per_day: rate(counted.got_bytes as f64, DAY_SECONDS),
            dollars,
            dollars_per_month: rate(dollars, MONTH_SECONDS),
            transfer_dollars_per_month: rate(transfer, MONTH_SECONDS),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bill_is_what_the_price_list_says() {
        let (puts, gets, lists, deletes) = (3000, 5000, 1000, 70);
        let counted = S3Counters { puts, gets, lists, deletes, got_bytes: 2_000_000_000, ..S3Counters::default() };
        let bill = Bill::new(&counted, Duration::from_secs(12 * 3600), &Prices::AWS);
        let near = |value: f64, expected: f64| assert!((value - expected).abs() < 1e-9, "{value}, not {expected}");
        assert_eq!(bill.requests, 9070);
        near(bill.requests_per_day, 2.0 * 9070.0);
        // 4000 at 0.005, and 5000 at 0.0004, for a thousand each.
        near(bill.dollars, 0.020 + 0.002);
        near(bill.dollars_per_month, 60.0 * 0.022);
        near(bill.transfer_dollars_per_month, 60.0 * 0.18);
        near(Bill::new(&counted, Duration::ZERO, &Prices::AWS).requests_per_day, 9070.0 * 1440.0);
    }
}
