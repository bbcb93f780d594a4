//! A generated trace, measured.

use nitro_sim::policies::{Lru, Policy};
use nitro_trace::synth::{BLOCK_BYTES, FiuLike};
use nitro_trace::{Op, Reader, Request, Summary, TraceError, summarize};

/// The sizes of the LRU caches, in percent of the file system.
pub(super) const CACHE_PERCENTS: [f64; 5] = [0.1, 0.5, 1.0, 2.0, 5.0];

/// The hits of an LRU cache of 4 KiB blocks, in percent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Hits {
    /// Blocks read that hit, of all blocks read.
    pub(super) reads: f64,
    /// Blocks read or written that hit, of all.
    pub(super) all: f64,
}

/// The statistics of a generated trace.
pub(super) struct Measured {
    pub(super) summary: Summary,
    /// Those of its records.
    pub(super) records: Summary,
    /// By size of the cache, as in [`CACHE_PERCENTS`].
    pub(super) lru: Vec<Hits>,
}

impl Measured {
    /// Generates a trace and measures it.
    pub(super) fn new(like: &FiuLike) -> Result<Self, TraceError> {
        let blocks = like.volume_bytes * like.scale / BLOCK_BYTES as f64;
        let caches = CACHE_PERCENTS.map(|percent| Watched::new((blocks * percent / 100.0) as u32));
        let mut watching = Watching { reader: like.reader()?, caches: caches.into(), read: 0, written: 0 };
        let summary = summarize(&mut watching)?;
        let Watching { caches, read, written, .. } = watching;
        let percent = |part: u64, whole: u64| 100.0 * part as f64 / whole.max(1) as f64;
        let hits = |cache: &Watched| Hits {
            reads: percent(cache.read_hits, read),
            all: percent(cache.read_hits + cache.write_hits, read + written),
        };
        let records = summarize(&mut like.records()?)?;
        Ok(Self { summary, records, lru: caches.iter().map(hits).collect() })
    }

    /// Blocks of 4 KiB that are read.
    pub(super) fn read(&self) -> f64 {
        self.summary.reads.bytes as f64 / BLOCK_BYTES as f64
    }

    /// Blocks of 4 KiB that are written.
    pub(super) fn written(&self) -> f64 {
        self.summary.writes.bytes as f64 / BLOCK_BYTES as f64
    }

    /// The median size of a request in KiB: an upper bound, exact for sizes that are powers of two.
    pub(super) fn median_kib(&self) -> f64 {
        let sizes = &self.summary.sizes;
        let half = sizes.iter().sum::<u64>() / 2;
        let mut below = 0;
        let class = sizes.iter().position(|count| {
            below += count;
            below > half
        });
        class.map_or(0.0, |class| f64::from(class as u32).exp2() / 2.0)
    }

    /// The mean size of a request in KiB.
    pub(super) fn mean_kib(&self) -> f64 {
        mean_kib(&self.summary)
    }

    /// The mean size of a record in KiB.
    pub(super) fn record_kib(&self) -> f64 {
        mean_kib(&self.records)
    }

    /// The share of requests of at most 8 KiB, in percent.
    pub(super) fn small_percent(&self) -> f64 {
        let sizes = &self.summary.sizes;
        // Class 4 is 512 · 2⁴ bytes.
        100.0 * sizes.iter().take(5).sum::<u64>() as f64 / sizes.iter().sum::<u64>().max(1) as f64
    }

    /// The share of blocks that are accessed for the first time, in percent.
    pub(super) fn first_percent(&self) -> f64 {
        100.0 * self.summary.footprint_bytes as f64 / BLOCK_BYTES as f64 / (self.read() + self.written()).max(1.0)
    }
}

/// The mean size of reads and writes in KiB.
fn mean_kib(summary: &Summary) -> f64 {
    let Summary { reads, writes, .. } = summary;
    (reads.bytes + writes.bytes) as f64 / 1024.0 / (reads.count + writes.count).max(1) as f64
}

/// An LRU cache of blocks, and its hits.
struct Watched {
    cache: Lru,
    read_hits: u64,
    write_hits: u64,
}

impl Watched {
    fn new(blocks: u32) -> Self {
        Self { cache: Lru::new(blocks), read_hits: 0, write_hits: 0 }
    }
}

/// A reader whose requests pass through caches.
struct Watching<R> {
    reader: R,
    caches: Vec<Watched>,
    read: u64,
    written: u64,
}

impl<R: Reader> Reader for Watching<R> {
    fn next(&mut self, request: &mut Request) -> Result<bool, TraceError> {
        if !self.reader.next(request)? {
            return Ok(false);
        }
        let write = request.op == Op::Write;
        let blocks = request.blocks(BLOCK_BYTES);
        *if write { &mut self.written } else { &mut self.read } += blocks.end - blocks.start;
        for Watched { cache, read_hits, write_hits } in &mut self.caches {
            let hits = blocks.clone().filter(|block| cache.access(*block)).count() as u64;
            *if write { write_hits } else { read_hits } += hits;
        }
        Ok(true)
    }

    fn inner(&self) -> Option<&dyn Reader> {
        Some(&self.reader)
    }
}
