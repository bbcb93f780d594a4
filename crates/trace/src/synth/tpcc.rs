//! A load shaped as TPC-C: transactions with random reads and writes of small pages, with the benchmark's own skew.
//!
//! Mix, rows, sizes of rows and the distribution of customers and items (`NURand`) are those of the TPC Benchmark C
//! specification. The layout on disk, the pages, the delay of writes and the log are assumptions.

use super::operations::{Operations, OperationsReader, Step};
use crate::TraceError;
use crate::rng::Rng;
use nitro_cache::builtin;
use nitro_units::ClassId;
use std::collections::{HashSet, VecDeque};

/// A page of the database: InnoDB's 16 KiB.
const PAGE_BYTES: u64 = 16 << 10;
/// Rows and bytes of a row for each warehouse (TPC-C specification, clause 1.2.1, Table 1.2.1).
const CUSTOMERS: (u64, u64) = (30_000, 655);
const STOCK: (u64, u64) = (100_000, 306);
const ORDER_LINES: (u64, u64) = (300_000, 54);
/// Districts of a warehouse, and customers of a district.
const DISTRICTS: u64 = 10;
/// Space that indices and free space of pages take, as a multiple of the rows: an assumption.
const OVERHEAD: f64 = 1.5;
/// The number of changed pages, as a share of the database, that wait in RAM before they are written: an assumption.
const DIRTY_SHARE: u64 = 200;
/// The log is one area, written in turns; a write for this number of transactions (group commit): assumptions.
const LOG_BYTES: u64 = 8 << 20;
const LOG_WRITE_BYTES: u64 = 16 << 10;
const COMMITS: u64 = 4;
/// The file system's journal is written once for this number of transactions: an assumption.
const JOURNAL_EVERY: u64 = 100;

/// The load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TpccLike {
    /// Bytes of the database: 155 GB in Azor's evaluation.
    pub database_bytes: u64,
    /// The number of transactions.
    pub transactions: u64,
    /// The seed: another one results in another trace.
    pub seed: u64,
}

impl TpccLike {
    /// Bytes of the volume.
    #[must_use]
    pub const fn volume_bytes(&self) -> u64 {
        self.database_bytes + 2 * LOG_BYTES
    }

    /// The reader of the trace. The time of a request is the number of its transaction in milliseconds.
    ///
    /// # Errors
    /// The database is smaller than a warehouse, or larger than 2⁵⁰ bytes.
    pub fn reader(&self) -> Result<OperationsReader<Warehouses>, TraceError> {
        let one = Warehouses::bytes_of_one();
        if self.database_bytes < one || self.database_bytes > 1 << 50 {
            return Err(TraceError::setting("the database has a warehouse of about 100 MB to 1 PiB"));
        }
        Ok(OperationsReader::new(Warehouses::new(self, self.database_bytes / one), self.transactions, self.seed))
    }
}

/// A table: pages in order of the keys.
#[derive(Debug, Clone, Copy)]
struct Table {
    first: u64,
    pages: u64,
}

impl Table {
    /// The page of a row, given as a share of the table.
    const fn page(self, row: u64, rows: u64) -> u64 {
        self.first + (row as u128 * self.pages as u128 / rows as u128) as u64
    }
}

/// The database of [`TpccLike`].
#[derive(Debug, Clone)]
pub struct Warehouses {
    count: u64,
    customers: Table,
    stock: Table,
    order_lines: Table,
    /// The page of order lines to which each warehouse appends, counted from its first.
    appended: Vec<u64>,
    /// Changed pages, from the oldest on.
    dirty: VecDeque<u64>,
    is_dirty: HashSet<u64>,
    dirty_max: usize,
    log_at: u64,
    journal_at: u64,
    database_bytes: u64,
}

/// `NURand` (TPC-C specification, clause 2.1.6) with C = 0: a number from 0 to below `rows`.
fn nu_rand(rng: &mut Rng, a: u64, rows: u64) -> u64 {
    (rng.below(a + 1) | rng.below(rows)) % rows
}

impl Warehouses {
    fn bytes_of_one() -> u64 {
        let rows = CUSTOMERS.0 * CUSTOMERS.1 + STOCK.0 * STOCK.1 + ORDER_LINES.0 * ORDER_LINES.1;
        (rows as f64 * OVERHEAD) as u64
    }

    fn new(load: &TpccLike, count: u64) -> Self {
        let pages = load.database_bytes / PAGE_BYTES;
        let all = (CUSTOMERS.0 * CUSTOMERS.1 + STOCK.0 * STOCK.1 + ORDER_LINES.0 * ORDER_LINES.1) as f64;
        let mut first = 0;
        let mut table = |(rows, bytes): (u64, u64)| {
            let taken = ((pages as f64 * (rows * bytes) as f64 / all) as u64).max(count);
            first += taken;
            Table { first: first - taken, pages: taken }
        };
        Self {
            count,
            customers: table(CUSTOMERS),
            stock: table(STOCK),
            order_lines: table(ORDER_LINES),
            appended: vec![0; count as usize],
            dirty: VecDeque::new(),
            is_dirty: HashSet::new(),
            dirty_max: (pages / DIRTY_SHARE).max(16) as usize,
            log_at: 0,
            journal_at: 0,
            database_bytes: load.database_bytes,
        }
    }

    fn read(page: u64, steps: &mut VecDeque<Step>) {
        steps.push_back(Step::read(page * PAGE_BYTES, PAGE_BYTES, ClassId::UNCLASSIFIED));
    }

    /// Changes a page that was read; the oldest changed page is written if there are too many.
    fn change(&mut self, page: u64, steps: &mut VecDeque<Step>) {
        if self.is_dirty.insert(page) {
            self.dirty.push_back(page);
        }
        if self.dirty.len() > self.dirty_max
            && let Some(oldest) = self.dirty.pop_front()
        {
            self.is_dirty.remove(&oldest);
            steps.push_back(Step::write(oldest * PAGE_BYTES, PAGE_BYTES, ClassId::UNCLASSIFIED));
        }
    }

    fn customer(&self, rng: &mut Rng, warehouse: u64) -> u64 {
        let in_district = CUSTOMERS.0 / DISTRICTS;
        let row = rng.below(DISTRICTS) * in_district + nu_rand(rng, 1023, in_district);
        self.customers.page(warehouse * CUSTOMERS.0 + row, CUSTOMERS.0 * self.count)
    }

    fn stock(&self, rng: &mut Rng, warehouse: u64) -> u64 {
        let item = nu_rand(rng, 8191, STOCK.0);
        self.stock.page(warehouse * STOCK.0 + item, STOCK.0 * self.count)
    }

    /// The page of order lines that is `back` pages before the last one of a warehouse.
    fn order_lines(&self, warehouse: u64, back: u64) -> u64 {
        let each = (self.order_lines.pages / self.count).max(1);
        let at = (self.appended[warehouse as usize] / ROWS_OF_APPENDS + each - back % each) % each;
        (self.order_lines.first + warehouse * each + at).min(self.order_lines.first + self.order_lines.pages - 1)
    }
}

/// Orders whose lines fill a page: ten lines of 54 bytes each.
const ROWS_OF_APPENDS: u64 = PAGE_BYTES / 540;

impl Operations for Warehouses {
    fn add(&mut self, number: u64, rng: &mut Rng, steps: &mut VecDeque<Step>) {
        let warehouse = rng.below(self.count);
        // The mix of clause 5.2.3: 45 % new orders, 43 % payments, 4 % each of the others.
        match rng.below(100) {
            0..45 => {
                Self::read(self.customer(rng, warehouse), steps);
                // 5 to 15 items (clause 2.4.1.3); 1 % of them from another warehouse.
                for _ in 0..5 + rng.below(11) {
                    let from = if rng.below(100) == 0 { rng.below(self.count) } else { warehouse };
                    let page = self.stock(rng, from);
                    Self::read(page, steps);
                    self.change(page, steps);
                }
                self.appended[warehouse as usize] += 1;
                let page = self.order_lines(warehouse, 0);
                Self::read(page, steps);
                self.change(page, steps);
            }
            45..88 => {
                let page = self.customer(rng, warehouse);
                Self::read(page, steps);
                self.change(page, steps);
            }
            88..92 => {
                Self::read(self.customer(rng, warehouse), steps);
                Self::read(self.order_lines(warehouse, rng.below(64)), steps);
            }
            92..96 => {
                // The oldest new order of each district: one of the last 900 of 3,000 (clause 1.2.1).
                for _ in 0..DISTRICTS {
                    let pages = [self.order_lines(warehouse, 30 + rng.below(4)), self.customer(rng, warehouse)];
                    for page in pages {
                        Self::read(page, steps);
                        self.change(page, steps);
                    }
                }
            }
            // The stock of the items of the last 20 orders of a district, 200 lines (clause 2.8).
            _ => (0..200).for_each(|_| Self::read(self.stock(rng, warehouse), steps)),
        }
        if number.is_multiple_of(COMMITS) {
            let at = self.database_bytes + self.log_at;
            steps.push_back(Step::write(at, LOG_WRITE_BYTES, ClassId::UNCLASSIFIED));
            self.log_at = (self.log_at + LOG_WRITE_BYTES) % LOG_BYTES;
        }
        if number.is_multiple_of(JOURNAL_EVERY) {
            let at = self.database_bytes + LOG_BYTES + self.journal_at;
            steps.push_back(Step::write(at, 4096, builtin::JOURNAL));
            self.journal_at = (self.journal_at + 4096) % LOG_BYTES;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Op, Reader, Request};
    use std::collections::HashMap;

    #[test]
    fn the_load_has_the_benchmarks_skew_and_stays_on_its_volume() {
        let load = TpccLike { database_bytes: 256 << 20, transactions: 20_000, seed: 1 };
        let all: Vec<Request> = load.reader().unwrap().requests().map(Result::unwrap).collect();
        assert!(all.iter().all(|r| r.end() <= load.volume_bytes()));
        let writes = all.iter().filter(|r| r.op == Op::Write).count() as f64 / all.len() as f64;
        assert!((0.15..0.45).contains(&writes), "{writes}");
        let mut counts: HashMap<u64, u64> = HashMap::new();
        all.iter().filter(|r| r.op == Op::Read).for_each(|r| *counts.entry(r.offset).or_default() += 1);
        let mut counts: Vec<u64> = counts.into_values().collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let hot: u64 = counts[..counts.len() / 5].iter().sum();
        let share = hot as f64 / counts.iter().sum::<u64>() as f64;
        // Leutenegger and Dias (SIGMOD 1993) found that pages are far less skewed than rows.
        assert!((0.3..0.9).contains(&share), "{share}");
    }
}
