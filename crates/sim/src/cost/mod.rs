//! The cost of throughput: the price of disks and SSD for each MB of disk capacity and each I/O per second
//! ("Solid-State Drive Caching with Differentiated Storage Services", Intel IT 2012, "Financial Analysis Results" and
//! Figure 6).
//!
//! A MB has 10⁶ bytes. The paper's figures (Table 4: 0.88 USD for disks of 7200 rpm with 162 IOPS) must be in
//! millionths: its disks cost 143 USD per TB, not per MB.

mod fronts;
mod prices;
#[cfg(test)]
mod tests;

pub use fronts::{Front, Plan, Row, rows};
pub use prices::{Hdd, PriceError, Prices, SsdPrice};

use serde::Serialize;

/// Bytes of a MB, as in the capacities of drives.
const MB: f64 = 1e6;

/// The cost of an origin, with or without a cache, in the currency of [`Prices`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Cost {
    /// The price of all disks.
    pub hdd_price: f64,
    /// The price of the part of SSDs that the cache uses.
    pub ssd_price: f64,
    /// Both prices for each MB of the disks, parity included ("total disk capacity purchased").
    pub price_per_mb: f64,
    /// The same for each I/O per second; infinite without I/O.
    pub price_per_mb_iops: f64,
}

impl Prices {
    /// The cost of disks that reach `iops` with a cache of `cache_bytes` (0: no cache).
    #[must_use]
    pub fn cost(&self, hdd: &Hdd, cache_bytes: u64, iops: f64) -> Cost {
        let drives = cache_bytes as f64 / self.ssd.capacity_bytes as f64;
        let ssd_price = self.ssd.price * if self.whole_drives { drives.ceil() } else { drives };
        let hdd_price = hdd.price * f64::from(hdd.count);
        let capacity_mb = hdd.capacity_bytes as f64 * f64::from(hdd.count) / MB;
        let price_per_mb = (hdd_price + ssd_price) / capacity_mb;
        Cost { hdd_price, ssd_price, price_per_mb, price_per_mb_iops: price_per_mb / iops }
    }
}
