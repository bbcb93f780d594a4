//! Statistics of a trace.

mod distinct;

use crate::rng::hash;
use crate::{Op, Reader, Request, TraceError};
use distinct::Distinct;
use hashbrown::HashMap;
use nitro_cache::pattern::{StreamDetector, StreamSettings};
use serde::Serialize;
use std::fmt;

/// Bytes of a block, the unit in which addresses are counted.
const BLOCK_BYTES: u64 = 4096;
/// Distinct blocks and fingerprints are counted exactly up to this number.
const DISTINCT_MAX: usize = 1 << 22;
/// Most objects whose streams are tracked, in a kilobyte each; requests to further objects count as random.
const STREAM_OBJECTS_MAX: usize = 1 << 16;
/// Seeds of hashes.
const ADDRESS: u64 = 1;
const OBJECT: u64 = 2;

/// Requests of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Operations {
    /// The number of requests.
    pub count: u64,
    /// The sum of their lengths in bytes.
    pub bytes: u64,
}

/// Statistics of a trace; see [`summarize`].
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Summary {
    /// Requests of all kinds.
    pub requests: u64,
    /// Reads.
    pub reads: Operations,
    /// Writes.
    pub writes: Operations,
    /// Trims.
    pub trims: Operations,
    /// Flushes.
    pub flushes: Operations,
    /// Requests whose operation is not known.
    pub others: Operations,
    /// The earliest time, in ns.
    pub first_ns: u64,
    /// The latest time, in ns.
    pub last_ns: u64,
    /// Requests whose time is before that of the preceding request.
    pub out_of_order: u64,
    /// Objects (volumes, disks, files).
    pub objects: u64,
    /// The end of the address space in bytes: the highest end of a request.
    pub address_end: u64,
    /// Bytes of distinct 4 KiB blocks that were read or written.
    pub footprint_bytes: u64,
    /// Bytes of distinct 4 KiB blocks that were read.
    pub read_footprint_bytes: u64,
    /// Bytes of distinct 4 KiB blocks that were written.
    pub written_footprint_bytes: u64,
    /// The working set: bytes of distinct 4 KiB blocks that were read or written more than once. A cache can have hits
    /// only on these.
    pub working_set_bytes: u64,
    /// Reads and writes that begin at the end of one of the object's last 32 streams of requests, or within 16 KiB
    /// after it.
    pub sequential: u64,
    /// Reads and writes by size: element `n` counts those of at most 512 · 2ⁿ bytes that the elements before do not
    /// count.
    pub sizes: Vec<u64>,
    /// Blocks with fingerprints.
    pub prints: u64,
    /// Distinct fingerprints.
    pub unique_prints: u64,
    /// Blocks written with fingerprints.
    pub written_prints: u64,
    /// Distinct fingerprints of written blocks.
    pub unique_written_prints: u64,
    /// Bytes of requests whose compressed size is known.
    pub compressible_bytes: u64,
    /// The compressed size of these requests in bytes.
    pub compressed_bytes: u64,
    /// Whether all counts are exact. Counts of distinct items above 4 million are estimates, with an error of about 0.1
    /// %.
    pub exact: bool,
    /// Bad records that were skipped.
    pub skipped: u64,
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

impl Summary {
    /// The time from the first to the last request, in ns.
    #[must_use]
    pub const fn span_ns(&self) -> u64 {
        self.last_ns - self.first_ns
    }

    /// The share of reads and writes that continue a stream, from 0 to 1.
    #[must_use]
    pub fn sequential_share(&self) -> f64 {
        share(self.sequential, self.reads.count + self.writes.count)
    }

    /// The share of reads among reads and writes, from 0 to 1.
    #[must_use]
    pub fn read_share(&self) -> f64 {
        share(self.reads.count, self.reads.count + self.writes.count)
    }

    /// The share of blocks with fingerprints whose content occurred before, from 0 to 1.
    #[must_use]
    pub fn duplicate_share(&self) -> f64 {
        share(self.prints.saturating_sub(self.unique_prints), self.prints)
    }

    /// The same share among written blocks.
    #[must_use]
    pub fn written_duplicate_share(&self) -> f64 {
        share(self.written_prints.saturating_sub(self.unique_written_prints), self.written_prints)
    }

    /// Bytes per compressed byte; 0 if it is not known.
    #[must_use]
    pub fn compression_ratio(&self) -> f64 {
        share(self.compressible_bytes, self.compressed_bytes)
    }
}

/// The counters while a trace is read.
struct Counter {
    summary: Summary,
    last_ns: u64,
    read: Distinct,
    written: Distinct,
    touched: Distinct,
    /// Blocks of `touched` that occurred again; once `touched` keeps a sample, only blocks of the sample are added.
    again: Distinct,
    streams: HashMap<u32, StreamDetector>,
    objects: Distinct,
    prints: Distinct,
    written_prints: Distinct,
}

impl Counter {
    fn new(distinct_max: usize) -> Self {
        let distinct = || Distinct::new(distinct_max);
        Self {
            summary: Summary::default(),
            last_ns: 0,
            read: distinct(),
            written: distinct(),
            touched: distinct(),
            again: distinct(),
            streams: HashMap::new(),
            objects: distinct(),
            prints: distinct(),
            written_prints: distinct(),
        }
    }

    fn add(&mut self, request: &Request) {
        let summary = &mut self.summary;
        let operations = match request.op {
            Op::Read => &mut summary.reads,
            Op::Write => &mut summary.writes,
            Op::Trim => &mut summary.trims,
            Op::Flush => &mut summary.flushes,
            Op::Other => &mut summary.others,
        };
        operations.count += 1;
        operations.bytes = operations.bytes.saturating_add(request.len);
        if summary.requests == 0 {
            summary.first_ns = request.time_ns;
        } else if request.time_ns < self.last_ns {
            summary.out_of_order += 1;
        }
        self.last_ns = request.time_ns;
        summary.first_ns = summary.first_ns.min(request.time_ns);
        summary.last_ns = summary.last_ns.max(request.time_ns);
        summary.requests += 1;
        summary.address_end = summary.address_end.max(request.end());
        if let Some(bytes) = request.compressed_bytes {
            summary.compressible_bytes = summary.compressible_bytes.saturating_add(request.len);
            summary.compressed_bytes += u64::from(bytes);
        }
        self.objects.add(hash(OBJECT, request.object.into()));
        if matches!(request.op, Op::Read | Op::Write) {
            self.add_addresses(request);
            self.add_prints(request);
        }
    }

    fn add_addresses(&mut self, request: &Request) {
        let class = request.len.div_ceil(512).next_power_of_two().trailing_zeros() as usize;
        let sizes = &mut self.summary.sizes;
        sizes.resize(sizes.len().max(class + 1), 0);
        sizes[class] += 1;
        self.add_stream(request);
        let object = hash(ADDRESS, request.object.into());
        for block in request.blocks(BLOCK_BYTES) {
            let address = hash(object, block);
            if !self.touched.add(address) {
                self.again.add(address);
            }
            let own = if request.op == Op::Write { &mut self.written } else { &mut self.read };
            own.add(address);
        }
    }

    fn add_stream(&mut self, request: &Request) {
        if !self.streams.contains_key(&request.object) && self.streams.len() >= STREAM_OBJECTS_MAX {
            return;
        }
        // The first request of a stream is never sequential; with this threshold, all others are.
        let settings = StreamSettings { threshold_bytes: 1, ..StreamSettings::default() };
        let streams = self.streams.entry(request.object).or_insert_with(|| StreamDetector::new(settings));
        self.summary.sequential += u64::from(streams.read(request.offset, request.len).sequential);
    }

    fn add_prints(&mut self, request: &Request) {
        let count = request.fingerprints.len() as u64;
        self.summary.prints += count;
        if request.op == Op::Write {
            self.summary.written_prints += count;
        }
        for print in &request.fingerprints {
            let (word, _) = print.0.as_chunks::<8>();
            let content = hash(u64::from_le_bytes(word[0]), u64::from_le_bytes(word[1]));
            self.prints.add(content);
            if request.op == Op::Write {
                self.written_prints.add(content);
            }
        }
    }

    fn finish(mut self, skipped: u64) -> Summary {
        self.again.sample_as(&self.touched);
        let counts = [&self.read, &self.written, &self.touched, &self.objects, &self.prints, &self.written_prints];
        Summary {
            objects: self.objects.count(),
            footprint_bytes: self.touched.count() * BLOCK_BYTES,
            read_footprint_bytes: self.read.count() * BLOCK_BYTES,
            written_footprint_bytes: self.written.count() * BLOCK_BYTES,
            working_set_bytes: self.again.count() * BLOCK_BYTES,
            unique_prints: self.prints.count(),
            unique_written_prints: self.written_prints.count(),
            exact: counts.iter().all(|count| count.is_exact()),
            skipped,
            ..self.summary
        }
    }
}

/// Reads a trace to its end and returns its statistics. Takes less than 700 MiB of memory for traces of any length.
///
/// # Errors
/// The reader's.
pub fn summarize(reader: &mut dyn Reader) -> Result<Summary, TraceError> {
    let mut counter = Counter::new(DISTINCT_MAX);
    let mut request = Request::default();
    while reader.next(&mut request)? {
        counter.add(&request);
    }
    Ok(counter.finish(reader.skipped().count))
}

/// A number of bytes, formatted for people.
struct Bytes(u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
        let unit = (self.0.max(1).ilog2() / 10) as usize;
        if unit == 0 {
            return write!(f, "{} B", self.0);
        }
        write!(f, "{:.1} {}", self.0 as f64 / (1u64 << (10 * unit)) as f64, UNITS[unit])
    }
}

/// A table for people.
impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let about = if self.exact { "" } else { " (about)" };
        writeln!(f, "requests      {}", self.requests)?;
        for (name, operations) in [
            ("reads", self.reads),
            ("writes", self.writes),
            ("trims", self.trims),
            ("flushes", self.flushes),
            ("others", self.others),
        ] {
            if operations.count > 0 {
                let percent = 100.0 * share(operations.count, self.requests);
                writeln!(f, "  {name:<11} {} ({percent:.1} %), {}", operations.count, Bytes(operations.bytes))?;
            }
        }
        writeln!(f, "time          {:.3} s", self.span_ns() as f64 / 1e9)?;
        if self.out_of_order > 0 {
            writeln!(f, "  out of order {}", self.out_of_order)?;
        }
        writeln!(f, "objects       {}", self.objects)?;
        writeln!(f, "address space {}", Bytes(self.address_end))?;
        writeln!(f, "footprint     {}{about}", Bytes(self.footprint_bytes))?;
        writeln!(f, "  read        {}", Bytes(self.read_footprint_bytes))?;
        writeln!(f, "  written     {}", Bytes(self.written_footprint_bytes))?;
        writeln!(f, "working set   {} touched more than once{about}", Bytes(self.working_set_bytes))?;
        writeln!(f, "sequential    {:.1} % of reads and writes", 100.0 * self.sequential_share())?;
        if self.prints > 0 {
            writeln!(f, "duplicates    {:.1} % of {} blocks{about}", 100.0 * self.duplicate_share(), self.prints)?;
            let percent = 100.0 * self.written_duplicate_share();
            writeln!(f, "  written     {percent:.1} % of {} blocks", self.written_prints)?;
        }
        if self.compressed_bytes > 0 {
            writeln!(f, "compression   {:.2} : 1", self.compression_ratio())?;
        }
        if self.skipped > 0 {
            writeln!(f, "bad records   {} left out", self.skipped)?;
        }
        for (class, &count) in self.sizes.iter().enumerate().filter(|(_, count)| **count > 0) {
            let percent = 100.0 * share(count, self.reads.count + self.writes.count);
            writeln!(f, "  up to {:<10} {percent:>5.1} %", Bytes(512 << class).to_string())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(distinct_max: usize, blocks: impl Iterator<Item = u64>) -> Summary {
        let mut counter = Counter::new(distinct_max);
        for block in blocks {
            counter.add(&Request { offset: block * BLOCK_BYTES, len: BLOCK_BYTES, ..Request::default() });
        }
        counter.finish(0)
    }

    #[test]
    fn a_working_set_above_the_exact_count_is_estimated_within_a_few_percent() {
        const BLOCKS: u64 = 200_000;
        // The first quarter is repeated at once, the second one after all blocks: most repeats are of sampled blocks.
        let trace = || (0..BLOCKS / 4).chain(0..BLOCKS).chain(BLOCKS / 4..BLOCKS / 2);
        let exact = summary(BLOCKS as usize, trace());
        assert_eq!((exact.working_set_bytes, exact.exact), (BLOCKS / 2 * BLOCK_BYTES, true));
        for distinct_max in [10_000, 50_000] {
            let estimate = summary(distinct_max, trace());
            let error = estimate.working_set_bytes as f64 / exact.working_set_bytes as f64 - 1.0;
            assert!(!estimate.exact && error.abs() < 0.05, "{distinct_max}: {error}");
        }
    }
}
