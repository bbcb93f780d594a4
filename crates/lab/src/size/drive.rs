//! The SSD for a cache: its size, life and price.

use crate::args::SizeArgs;
use crate::sim::cost::named_prices;
use nitro_config::DriveEndurance;
use nitro_console::error::Error;
use nitro_sim::cost::Prices;
use serde::Serialize;

/// Sizes of SSDs that are sold, in units of 10⁹ bytes.
const SOLD_GB: [u64; 8] = [240, 480, 960, 1920, 3840, 7680, 15360, 30720];
const GB: u64 = 1_000_000_000;
/// The drive writes per day of SSDs that are made for reading.
const USUAL: DriveEndurance = DriveEndurance::Dwpd(0.3);
const DAYS_OF_YEAR: f64 = 365.0;

/// The SSD for a cache.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Drive {
    /// Bytes of one SSD.
    pub(super) capacity_bytes: u64,
    /// How many are needed.
    pub(super) count: u64,
    /// The rating in words.
    pub(super) endurance: String,
    /// Whether the rating is an assumption.
    pub(super) endurance_is_assumed: bool,
    /// Bytes written in a day, at the mean rate of the trace; `None` if it takes no time.
    pub(super) written_bytes_per_day: Option<f64>,
    /// Years until the rated endurance is used up.
    pub(super) years: Option<f64>,
    /// The price of all.
    pub(super) price: f64,
    /// The price of 10⁹ bytes.
    pub(super) price_per_gb: f64,
    pub(super) currency: String,
    /// The month of the prices.
    pub(super) date: Option<String>,
    /// Where they come from.
    pub(super) source: Option<String>,
}

/// The table of prices of `args`.
pub(super) fn prices(args: &SizeArgs) -> Result<Prices, Error> {
    match &args.drive.prices {
        Some(path) => named_prices(path),
        None => Prices::of_2026().map_err(|error| Error::new("prices", error)),
    }
}

impl Drive {
    /// The SSD for a cache of `cache_bytes` to which so many bytes are written in a day.
    pub(super) fn new(args: &SizeArgs, cache_bytes: u64, per_day: Option<f64>) -> Result<Self, Error> {
        let prices = prices(args)?;
        let capacity_bytes = match args.drive.drive_size {
            Some(size) if size.0 == 0 => {
                return Err(Error::new("--drive-size 0", "an SSD has a size").or("give its size, such as 480G"));
            }
            Some(size) => size.0,
            None => {
                let sold = SOLD_GB.iter().find(|gb| **gb * GB >= cache_bytes);
                sold.unwrap_or(&SOLD_GB[SOLD_GB.len() - 1]) * GB
            }
        };
        let count = cache_bytes.div_ceil(capacity_bytes).max(1);
        let rating = args.drive.endurance.unwrap_or(USUAL);
        let rated = rating.of(capacity_bytes).rated_bytes as f64 * count as f64;
        let years = per_day.filter(|bytes| *bytes > 0.0).map(|bytes| rated / (bytes * DAYS_OF_YEAR));
        Ok(Self {
            capacity_bytes,
            count,
            endurance: match rating {
                DriveEndurance::Dwpd(writes) => format!("{writes} DWPD"),
                DriveEndurance::Tbw(terabytes) => format!("{terabytes} TBW"),
            },
            endurance_is_assumed: args.drive.endurance.is_none(),
            written_bytes_per_day: per_day,
            years,
            price: prices.ssd_price(capacity_bytes.saturating_mul(count)),
            price_per_gb: prices.ssd_price(GB),
            currency: prices.currency,
            date: prices.date,
            source: prices.source,
        })
    }
}
