//! A load shaped as TPC-H: a data warehouse that is only read, with sequential scans of tables, and random reads of
//! indices and of the rows that they point to.
//!
//! The sizes of the tables, and the tables that each query reads, are those of the TPC Benchmark H specification (clauses
//! 4.2.5 and 2.4). Everything else is an assumption: no trace of such a run is public. The assumptions are those of a
//! database that joins by nested loops over indices, as MySQL of 2011 did: a query scans the table that it starts from, and
//! probes the others page by page through their indices.

use super::ZipfSampler;
use super::operations::{Operations, OperationsReader, Step};
use super::permutation::Permutation;
use crate::TraceError;
use crate::rng::Rng;
use nitro_units::ClassId;
use std::collections::VecDeque;

/// A page of the database: InnoDB's 16 KiB.
const PAGE_BYTES: u64 = 16 << 10;
/// A request of a scan: Linux reads 128 KiB ahead.
const SCAN_BYTES: u64 = 128 << 10;
/// Allocation groups of the file system (mkfs.xfs for striped volumes). XFS of Linux 2.6.18 begins each new file in the next
/// group (`inode32`, `fs.xfs.rotorstep` 1; Linux, Documentation/filesystems/xfs.txt). That a file is contiguous in its group
/// is an assumption.
const GROUPS: u64 = 32;
/// The share of the database that is indices: an assumption.
const INDEX_SHARE: f64 = 0.5;

/// The tables, without the two that have 25 rows and fewer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Table {
    Supplier,
    Part,
    PartSupp,
    Customer,
    Orders,
    LineItem,
}
use Table::{Customer, LineItem, Orders, Part, PartSupp, Supplier};

/// The sizes of the tables in MB with scale factor 1 (TPC-H specification, clause 4.2.5, Table 3).
const SIZES: [(Table, f64); 6] =
    [(Supplier, 2.0), (Part, 30.0), (PartSupp, 110.0), (Customer, 26.0), (Orders, 149.0), (LineItem, 641.0)];

/// A query: the table that is scanned, and the tables that are probed, with the number of probes as a share of their
/// pages.
type Query = (Option<Table>, &'static [(Table, f64)]);

/// The 22 queries in the order of their numbers. The tables are those of the specification (clause 2.4); which is scanned,
/// and how much of the others is probed, are assumptions from the selectivity of the predicates: there are indices on dates
/// and on all keys.
const QUERIES: [Query; 22] = [
    (Some(LineItem), &[]),
    (Some(Part), &[(PartSupp, 0.1), (Supplier, 0.5)]),
    (Some(Customer), &[(Orders, 0.3), (LineItem, 0.1)]),
    (None, &[(Orders, 0.2), (LineItem, 0.05)]),
    (Some(Customer), &[(Orders, 0.3), (LineItem, 0.1), (Supplier, 0.5)]),
    (None, &[(LineItem, 0.15)]),
    (Some(Supplier), &[(LineItem, 0.1), (Orders, 0.2), (Customer, 0.5)]),
    (Some(Part), &[(LineItem, 0.05), (Orders, 0.1), (Customer, 0.3), (Supplier, 0.5)]),
    (Some(Part), &[(LineItem, 0.1), (PartSupp, 0.3), (Orders, 0.2), (Supplier, 1.0)]),
    (None, &[(Orders, 0.1), (LineItem, 0.05), (Customer, 0.5)]),
    (Some(Supplier), &[(PartSupp, 0.1)]),
    (None, &[(LineItem, 0.1), (Orders, 0.1)]),
    (Some(Customer), &[(Orders, 0.5)]),
    (None, &[(LineItem, 0.05), (Part, 0.5)]),
    (None, &[(LineItem, 0.1), (Supplier, 0.5)]),
    (Some(PartSupp), &[(Part, 1.0), (Supplier, 0.2)]),
    (Some(Part), &[(LineItem, 0.02)]),
    (Some(LineItem), &[(Orders, 0.1), (Customer, 0.2)]),
    (Some(Part), &[(LineItem, 0.02)]),
    (Some(Part), &[(PartSupp, 0.1), (LineItem, 0.02), (Supplier, 0.5)]),
    (Some(Supplier), &[(LineItem, 0.1), (Orders, 0.2)]),
    (Some(Customer), &[(Orders, 0.1)]),
];

/// The load.
#[derive(Debug, Clone, PartialEq)]
pub struct TpchLike {
    /// Bytes of the database: 28 GB in Azor's evaluation.
    pub database_bytes: u64,
    /// Bytes of the volume: 12 disks of 500 GB in Azor's evaluation.
    pub volume_bytes: u64,
    /// Whether each table and each table's indices are a file of its own; otherwise the database is one contiguous file.
    pub file_per_table: bool,
    /// The exponent of Zipf's law for the pages of a file that are probed; 0: all are probed equally, as TPC-H's keys are
    /// uniformly distributed.
    pub skew: f64,
    /// How often all queries run, each time in order and with other parameters.
    pub rounds: u32,
    /// The seed: another one results in another trace.
    pub seed: u64,
}

impl TpchLike {
    /// The number of queries, each of which is an operation.
    #[must_use]
    pub const fn queries(&self) -> u64 {
        self.rounds as u64 * QUERIES.len() as u64
    }

    /// The reader of the trace. The time of a request is the number of its query in milliseconds.
    ///
    /// # Errors
    /// The database is smaller than 64 MiB, or a group of the volume has no room for its largest file; or the skew is
    /// not from 0 to 100.
    pub fn reader(&self) -> Result<OperationsReader<Warehouse>, TraceError> {
        let has_room = self.volume_bytes / GROUPS >= self.database_bytes / 2 && self.volume_bytes <= 1 << 60;
        if self.database_bytes < 1 << 26 || !has_room {
            return Err(TraceError::setting(
                "the database has 64 MiB or more, and the volume 16 times as many to 2^60",
            ));
        }
        Ok(OperationsReader::new(Warehouse::new(self)?, self.queries(), self.seed))
    }
}

/// A file: consecutive pages of the volume.
#[derive(Debug, Clone)]
struct File {
    first: u64,
    pages: u64,
    /// The pages that are probed, by rank, and the page of each rank.
    popular: ZipfSampler,
    order: Permutation,
}

impl File {
    /// The offset of a page on the volume.
    const fn at(&self, page: u64) -> u64 {
        (self.first + page) * PAGE_BYTES
    }

    fn probe(&self, rng: &mut Rng, steps: &mut VecDeque<Step>) {
        let page = self.order.of(self.popular.sample(rng) - 1);
        steps.push_back(Step::read(self.at(page), PAGE_BYTES, ClassId::UNCLASSIFIED));
    }

    fn scan(&self, steps: &mut VecDeque<Step>) {
        let each = SCAN_BYTES / PAGE_BYTES;
        for page in (0..self.pages).step_by(each as usize) {
            let pages = each.min(self.pages - page);
            steps.push_back(Step::read(self.at(page), pages * PAGE_BYTES, ClassId::UNCLASSIFIED));
        }
    }
}

/// The database of [`TpchLike`].
#[derive(Debug, Clone)]
pub struct Warehouse {
    /// The rows and the indices of each table.
    tables: Vec<(Table, File, File)>,
}

impl Warehouse {
    fn new(load: &TpchLike) -> Result<Self, TraceError> {
        let (all, mut files, mut end) = (SIZES.iter().map(|(_, size)| size).sum::<f64>(), 0, 0);
        let group_pages = load.volume_bytes / GROUPS / PAGE_BYTES;
        let mut file = |share: f64| {
            let pages = ((load.database_bytes / PAGE_BYTES) as f64 * share).max(1.0) as u64;
            let first = if load.file_per_table { files * group_pages } else { end };
            (files, end) = (files + 1, end + pages);
            let order = Permutation::new(pages, load.seed ^ files);
            ZipfSampler::new(pages, load.skew).map(|popular| File { first, pages, popular, order })
        };
        let mut tables = Vec::new();
        for (table, size) in SIZES {
            tables.push((table, file(size / all * (1.0 - INDEX_SHARE))?, file(size / all * INDEX_SHARE)?));
        }
        Ok(Self { tables })
    }

    /// The rows and the indices of a table.
    fn files(&self, table: Table) -> Option<(&File, &File)> {
        let found = self.tables.iter().find(|(known, ..)| *known == table);
        found.map(|(_, rows, index)| (rows, index))
    }
}

impl Operations for Warehouse {
    fn add(&mut self, number: u64, rng: &mut Rng, steps: &mut VecDeque<Step>) {
        let (scanned, probed) = QUERIES[(number % QUERIES.len() as u64) as usize];
        if let Some((rows, _)) = scanned.and_then(|table| self.files(table)) {
            rows.scan(steps);
        }
        // The probes of all tables are mixed, as in nested loops.
        let files = probed.iter().filter_map(|(table, share)| Some((self.files(*table)?, share)));
        let mut left: Vec<(&File, &File, u64)> =
            files.map(|((rows, index), share)| (rows, index, (rows.pages as f64 * share).max(1.0) as u64)).collect();
        let mut all: u64 = left.iter().map(|(.., probes)| probes).sum();
        while all > 0 {
            let mut at = rng.below(all);
            all -= 1;
            for (rows, index, probes) in &mut left {
                if at < *probes {
                    *probes -= 1;
                    index.probe(rng, steps);
                    rows.probe(rng, steps);
                    break;
                }
                at -= *probes;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Op, Reader, Request};

    #[test]
    fn queries_read_every_table_within_the_volume_and_scans_are_sequential() {
        let load = TpchLike {
            database_bytes: 64 << 20,
            volume_bytes: 1 << 30,
            file_per_table: true,
            skew: 0.0,
            rounds: 1,
            seed: 1,
        };
        let all: Vec<Request> = load.reader().unwrap().requests().map(Result::unwrap).collect();
        assert!(all.iter().all(|r| r.op == Op::Read && r.end() <= load.volume_bytes));
        // The first query scans line items: two thirds of the rows, which are half of the database.
        let first: Vec<_> = all.iter().filter(|r| r.time_ns == 0).collect();
        let bytes: u64 = first.iter().map(|r| r.len).sum();
        assert!((20 << 20..24 << 20).contains(&bytes), "{bytes}");
        let follow = first.windows(2).filter(|pair| pair[0].end() == pair[1].offset).count();
        assert!(follow * 10 > first.len() * 9, "{follow} of {}", first.len());
        assert_eq!(all.last().map(|r| r.time_ns), Some(21 * super::super::operations::OPERATION_NS));
        let again: Vec<Request> = load.reader().unwrap().requests().map(Result::unwrap).collect();
        assert_eq!(all, again, "the same seed gives the same trace");
    }
}
