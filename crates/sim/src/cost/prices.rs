//! TOML files of drives and their prices.

use crate::timing::{Disks, Raid, SsdSpeed};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::{Range, RangeInclusive};
use toml::Spanned;

/// The built-in table.
const BUILT_IN: &str = include_str!("prices.toml");
/// The table of later prices.
const TODAY: &str = include_str!("prices-today.toml");
/// The table of the spring of 2026.
const OF_2026: &str = include_str!("prices-2026.toml");
/// Bytes of a GB, as in the capacities of drives.
const GB: f64 = 1e9;
/// The maximum number of characters of names and dates, and of a source.
const NAME_CHARS_MAX: usize = 64;
const SOURCE_CHARS_MAX: usize = 200;
/// The maximum number of kinds of disks in a table.
const HDDS_MAX: usize = 16;
const CAPACITIES_GB: RangeInclusive<f64> = 1.0..=1e6;
const PRICES: RangeInclusive<f64> = 1e-6..=1e12;
const COUNTS: RangeInclusive<u32> = 1..=1024;
const PER_SECOND: RangeInclusive<u32> = 1..=100_000_000;

/// An error in a table, with its position.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {problem}")]
pub struct PriceError {
    /// The line, counted from 1.
    pub line: usize,
    /// The column in characters, counted from 1.
    pub column: usize,
    /// The problem, and the values that are valid.
    pub problem: String,
}

/// Disks of one kind, as the origin.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Hdd {
    /// The name of the disk.
    pub name: String,
    /// Revolutions per minute: 7200 or 15000.
    pub rpm: u32,
    /// Bytes of one disk.
    pub capacity_bytes: u64,
    /// The price of one disk, in the table's currency.
    pub price: f64,
    /// The number of disks.
    pub count: u32,
    /// The layout of the disks.
    pub raid: Raid,
}

impl Hdd {
    /// The disks as settings of the simulation.
    #[must_use]
    pub fn disks(&self) -> Disks {
        let Self { rpm, count, raid, capacity_bytes, .. } = *self;
        Disks { rpm, spindles: count, raid, disk_bytes: capacity_bytes, ..Disks::default() }
    }
}

/// The SSD of the cache.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SsdPrice {
    /// The name of the SSD.
    pub name: String,
    /// Bytes of one SSD.
    pub capacity_bytes: u64,
    /// The price of one SSD, in the table's currency.
    pub price: f64,
    /// The speed of the SSD.
    pub speed: SsdSpeed,
}

/// Drives and their prices.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Prices {
    /// The currency of the prices, such as USD.
    pub currency: String,
    /// The month of the prices, such as 2012-05, if the table names it.
    pub date: Option<String>,
    /// Where they come from, if the table names it.
    pub source: Option<String>,
    /// Whether the cost is that of whole SSDs; otherwise that of the share that the cache uses.
    pub whole_drives: bool,
    /// The disks to compare: 1 to 16 kinds.
    pub hdds: Vec<Hdd>,
    /// The SSD.
    pub ssd: SsdPrice,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileText {
    currency: Spanned<String>,
    #[serde(default)]
    date: Option<Spanned<String>>,
    #[serde(default)]
    source: Option<Spanned<String>>,
    #[serde(default)]
    whole_drives: bool,
    hdd: Spanned<Vec<HddText>>,
    ssd: SsdText,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HddText {
    name: Spanned<String>,
    rpm: Spanned<u32>,
    capacity_gb: Spanned<f64>,
    price: Spanned<f64>,
    count: Spanned<u32>,
    #[serde(default)]
    raid: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SsdText {
    name: Spanned<String>,
    capacity_gb: Spanned<f64>,
    price: Spanned<f64>,
    #[serde(default)]
    random_reads: Option<Spanned<u32>>,
    #[serde(default)]
    random_writes: Option<Spanned<u32>>,
}

/// An error, and the range of bytes of the text that it is about.
struct Fault(Range<usize>, String);

impl Fault {
    fn of<T>(value: &Spanned<T>, problem: impl Into<String>) -> Self {
        Self(value.span(), problem.into())
    }

    fn in_text(self, text: &str) -> PriceError {
        let before = text.get(..self.0.start).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        PriceError {
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            problem: self.1,
        }
    }
}

impl Prices {
    /// The built-in table: the drives of "Solid-State Drive Caching with Differentiated Storage Services" (Intel IT,
    /// 2012), as far as its Tables 3 and 4 describe them.
    ///
    /// # Errors
    /// None: a test parses the table.
    pub fn built_in() -> Result<Self, PriceError> {
        Self::parse(BUILT_IN)
    }

    /// The same kinds of drives at prices of 2022 to 2025; the table names its sources.
    ///
    /// # Errors
    /// None: a test parses the table.
    pub fn today() -> Result<Self, PriceError> {
        Self::parse(TODAY)
    }

    /// Drives that are sold in 2026 at the prices of its spring; the table names its source.
    ///
    /// # Errors
    /// None: a test parses the table.
    pub fn of_2026() -> Result<Self, PriceError> {
        Self::parse(OF_2026)
    }

    /// The price of `bytes` of SSDs of this table, whole or not.
    #[must_use]
    pub fn ssd_price(&self, bytes: u64) -> f64 {
        self.ssd.price * bytes as f64 / self.ssd.capacity_bytes as f64
    }

    /// Parses a table in TOML, with the keys of `crates/sim/src/cost/prices.toml`.
    ///
    /// # Errors
    /// [`PriceError`] with the position of the error: not TOML, or a key that is unknown, missing or out of bounds.
    pub fn parse(text: &str) -> Result<Self, PriceError> {
        let file: FileText = toml::from_str(text).map_err(|error| {
            let message = error.message().lines().next().unwrap_or("malformed").to_owned();
            Fault(error.span().unwrap_or(0..0), message).in_text(text)
        })?;
        read(&file).map_err(|fault| fault.in_text(text))
    }

    /// The text of the built-in table, as a template.
    #[must_use]
    pub const fn built_in_text() -> &'static str {
        BUILT_IN
    }
}

fn read(file: &FileText) -> Result<Prices, Fault> {
    let currency = named("currency", &file.currency, NAME_CHARS_MAX)?;
    let date = file.date.as_ref().map(|date| named("date", date, NAME_CHARS_MAX)).transpose()?;
    let source = file.source.as_ref().map(|source| named("source", source, SOURCE_CHARS_MAX)).transpose()?;
    let kinds = file.hdd.get_ref();
    if kinds.is_empty() || kinds.len() > HDDS_MAX {
        return Err(Fault::of(&file.hdd, format!("there are 1 to {HDDS_MAX} kinds of disks, not {}", kinds.len())));
    }
    let mut hdds: Vec<Hdd> = Vec::with_capacity(kinds.len());
    for text in kinds {
        let hdd = hdd(text)?;
        if hdds.iter().any(|known| known.name == hdd.name) {
            return Err(Fault::of(&text.name, format!("there are two disks with the name {:?}", hdd.name)));
        }
        hdds.push(hdd);
    }
    let ssd = SsdPrice {
        name: named("name", &file.ssd.name, NAME_CHARS_MAX)?,
        capacity_bytes: capacity(&file.ssd.capacity_gb)?,
        price: within("price", &file.ssd.price, &PRICES)?,
        speed: speed(&file.ssd)?,
    };
    Ok(Prices { currency, date, source, whole_drives: file.whole_drives, hdds, ssd })
}

fn speed(text: &SsdText) -> Result<SsdSpeed, Fault> {
    let usual = SsdSpeed::default();
    let given = |key, value: &Option<Spanned<u32>>, usual| {
        value.as_ref().map_or(Ok(usual), |value| within(key, value, &PER_SECOND))
    };
    Ok(SsdSpeed {
        slc_drives: 0,
        reads: given("random_reads", &text.random_reads, usual.reads)?,
        writes: given("random_writes", &text.random_writes, usual.writes)?,
    })
}

fn hdd(text: &HddText) -> Result<Hdd, Fault> {
    let rpm = *text.rpm.get_ref();
    if !matches!(rpm, 7200 | 15000) {
        return Err(Fault::of(&text.rpm, format!("rpm = {rpm}: disks of 7200 or 15000 rpm are simulated")));
    }
    let raid = match text.raid.as_ref().map(|raid| (raid, raid.get_ref().as_str())) {
        None | Some((_, "raid0")) => Raid::Raid0,
        Some((_, "raid5")) => Raid::Raid5,
        Some((_, "raid6")) => Raid::Raid6,
        Some((at, other)) => return Err(Fault::of(at, format!("raid = {other:?}: there are raid0, raid5 and raid6"))),
    };
    let count = within("count", &text.count, &COUNTS)?;
    if count <= raid.parity() {
        return Err(Fault::of(&text.count, format!("count = {count}: the parity alone takes {}", raid.parity())));
    }
    Ok(Hdd {
        name: named("name", &text.name, NAME_CHARS_MAX)?,
        rpm,
        capacity_bytes: capacity(&text.capacity_gb)?,
        price: within("price", &text.price, &PRICES)?,
        count,
        raid,
    })
}

fn named(key: &str, value: &Spanned<String>, chars_max: usize) -> Result<String, Fault> {
    let name = value.get_ref();
    let is_fit = !name.trim().is_empty() && name.chars().count() <= chars_max && !name.chars().any(char::is_control);
    let problem =
        || Fault::of(value, format!("{key}: must have 1 to {chars_max} characters, none of them a control character"));
    is_fit.then(|| name.clone()).ok_or_else(problem)
}

fn capacity(value: &Spanned<f64>) -> Result<u64, Fault> {
    within("capacity_gb", value, &CAPACITIES_GB).map(|gb| (gb * GB) as u64)
}

fn within<T>(key: &str, value: &Spanned<T>, bounds: &RangeInclusive<T>) -> Result<T, Fault>
where
    T: PartialOrd + Copy + fmt::Display,
{
    let number = *value.get_ref();
    let problem = || format!("{key} = {number}: must be from {} to {}", bounds.start(), bounds.end());
    if bounds.contains(&number) { Ok(number) } else { Err(Fault::of(value, problem())) }
}
