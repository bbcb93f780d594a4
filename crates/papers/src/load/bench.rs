//! A benchmark of an index on a file or block device: inserts, look-ups, and look-ups during inserts.

use super::{Behind, Drive, Entries, Measured, Outcome, mix};
use nitro_console::error::Error;
use nitro_console::progress::Progress;
use nitro_device::{CompioClock, FileDevice, FileOptions, Reactor, spawn_thread};
use nitro_index::bufferhash::{BufferHash, Eviction, Plan};
use nitro_index::silt::{self, Rates, Silt};
use nitro_index::{Counters, Options, PAGE_BYTES, Shape, kind_of};
use nitro_port::{Clock as _, Device};
use serde::Serialize;
use smallvec::SmallVec;
use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// The number of the entry whose value is the number of entries inserted before the last sync.
const PROGRESS: u64 = u64::MAX;
/// Numbers from this one on are never inserted.
const ABSENT: u64 = 1 << 48;
/// Look-ups of absent entries for each look-up of an existing one.
const MISSES_PER_HIT: u64 = 10;
/// Absent entries that are looked up in one batch.
const MISSES_AT_ONCE: u64 = 64;
/// Insertions per second while hits are measured.
const FILLING_INSERTS_PER_SECOND: f64 = 50_000.0;

/// The data structure of the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Buffers in RAM, Bloom filters, sequential writes; the oldest entries are evicted.
    BufferHash,
    /// Log, hash and sorted stores; no entry is evicted.
    Silt,
}

/// The parameters of a benchmark.
#[derive(Debug, Clone)]
pub struct Bench {
    /// The data structure.
    pub kind: Kind,
    /// Sizes of keys and values.
    pub shape: Shape,
    /// The number of entries to insert.
    pub entries: u64,
    /// RAM that the index may use, in bytes.
    pub ram_bytes: u64,
    /// Bytes of a buffer of a BufferHash.
    pub buffer_bytes: u64,
    /// A regular file, which is created if it does not exist, or a block device.
    pub file: PathBuf,
    /// The number of look-ups of existing entries.
    pub lookups: u64,
    /// The number of look-ups in flight.
    pub depth: usize,
    /// The number of threads.
    pub threads: usize,
    /// The index is synced each time that this number of entries has been inserted.
    pub sync_every: u64,
}

/// The results of a benchmark.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The data structure.
    pub kind: &'static str,
    /// The number of entries that the index was to hold.
    pub entries: u64,
    /// The number of entries that existed when the index was opened, all with the right value; null for a new index.
    pub verified: Option<u64>,
    /// The number of entries inserted by this run.
    pub inserted: u64,
    /// Insertions per second, of all threads; null if no entry was missing.
    pub inserts_per_second: Option<f64>,
    /// The median latency of insertions.
    pub insert_p50_us: Option<f64>,
    /// The 99th percentile of the latency of insertions.
    pub insert_p99_us: Option<f64>,
    /// The longest latency of insertions.
    pub insert_max_us: Option<f64>,
    /// Look-ups of existing entries per second.
    pub hits_per_second: f64,
    /// Their median latency.
    pub hit_p50_us: f64,
    /// The 99th percentile of their latency.
    pub hit_p99_us: f64,
    /// Look-ups of missing entries per second.
    pub misses_per_second: f64,
    /// The 99th percentile of their latency.
    pub miss_p99_us: f64,
    /// Hits per second while entries are inserted again, so that background work continues; null if this would evict
    /// others.
    pub filling_hits_per_second: Option<f64>,
    /// The 99th percentile of their latency.
    pub filling_hit_p99_us: Option<f64>,
    /// Reads of the device for each look-up of an existing entry.
    pub reads_per_hit: f64,
    /// Reads of the device for each look-up of a missing entry.
    pub reads_per_miss: f64,
    /// Bytes written for each byte inserted.
    pub write_amplification: Option<f64>,
    /// Bytes written for each entry inserted.
    pub written_bytes_per_insert: Option<f64>,
    /// RAM of the index at the end, in bytes.
    pub ram_bytes: u64,
    /// The same for each entry.
    pub ram_bytes_per_entry: f64,
    /// RAM for each entry, as the mean over the second half of the fill.
    pub fill_ram_bytes_per_entry: Option<f64>,
    /// Random reads of 4 KiB per second of the device, at the same depth and with the same threads.
    pub device_reads_per_second: f64,
    /// The number of look-ups in flight.
    pub depth: usize,
    /// The number of threads.
    pub threads: usize,
}

/// Runs the benchmark and shows its progress on standard error.
///
/// # Errors
/// The file cannot be used, holds another index, or does not hold the entries that were inserted.
pub fn run(args: &Bench) -> Result<Report, Error> {
    if args.shape.value_bytes < 8 {
        return Err(Error::new("--value-bytes", "a value must hold a number of 8 bytes here").or("choose 8 or more"));
    }
    let options = Options { shape: args.shape, entries: args.entries, ram_bytes: args.ram_bytes };
    match args.kind {
        Kind::BufferHash => {
            let plan = Plan::with_buffers(&options, args.buffer_bytes).map_err(|e| Error::with_sources("index", &e))?;
            let made = |device, seed| BufferHash::create(device, plan, Eviction::Fifo, seed);
            let opened = |device| BufferHash::open(device, Eviction::Fifo);
            bench(args, "bufferhash", plan.flash_bytes, made, opened)
        }
        Kind::Silt => {
            // One entry more, which stores the progress of an earlier run.
            let options = Options { entries: args.entries + 1, ..options };
            let plan = silt::Plan::new(&options).map_err(|e| Error::with_sources("--ram", &e))?;
            let made = |device, seed| Silt::create(device, plan, Rates::default(), seed);
            let opened = |device| Silt::open(device, Rates::default());
            bench(args, "silt", plan.flash_bytes, made, opened)
        }
    }
}

/// Opens the device of an index; also returns whether it holds an index already.
fn device(args: &Bench, reactor: &Reactor, flash_bytes: u64) -> Result<(Arc<FileDevice>, bool), Error> {
    let what = format!("--file {}", args.file.display());
    let options = FileOptions::new(&args.file);
    if !args.file.exists() {
        let device = options.create(flash_bytes).map_err(|e| Error::with_sources(&what, &e))?;
        return Ok((Arc::new(device), false));
    }
    let device = Arc::new(options.open().map_err(|e| Error::with_sources(&what, &e))?);
    match reactor.block_on(kind_of(&device)) {
        Ok(_) => Ok((device, true)),
        // A run that was killed before it created its index leaves zeroes.
        Err(nitro_index::Error::NotAnIndex(_)) if reactor.block_on(is_blank(&device)) => Ok((device, false)),
        Err(error) => {
            Err(Error::with_sources(&what, &error).or("name a file that does not exist yet, or one with an index"))
        }
    }
}

async fn is_blank(device: &impl Device) -> bool {
    device.read(0, 2 * PAGE_BYTES).await.is_ok_and(|bytes| bytes.iter().all(|b| *b == 0))
}

fn bench<I, M, O>(
    args: &Bench,
    kind: &'static str,
    flash_bytes: u64,
    make: impl FnOnce(Arc<FileDevice>, u64) -> M,
    open: impl FnOnce(Arc<FileDevice>) -> O,
) -> Result<Report, Error>
where
    I: Measured,
    M: Future<Output = Result<I, nitro_index::Error>>,
    O: Future<Output = Result<I, nitro_index::Error>>,
{
    let (shape, what) = (args.shape, format!("--file {}", args.file.display()));
    let reactor = Reactor::new().map_err(|e| Error::with_sources("the reactor", &e))?;
    let (device, exists) = device(args, &reactor, flash_bytes)?;
    let index = if exists {
        reactor.block_on(open(Arc::clone(&device)))
    } else {
        reactor.block_on(make(Arc::clone(&device), RandomState::new().hash_one(0)))
    };
    let index = Arc::new(index.map_err(|e| Error::with_sources(&what, &e))?);
    if index.shape() != shape {
        let Shape { key_bytes, value_bytes } = index.shape();
        let why = format!("it holds an index with keys of {key_bytes} bytes and values of {value_bytes}");
        return Err(Error::new(what, why).or("choose the same with --key-bytes and --value-bytes"));
    }
    let behind = Behind::start(&index)?;
    let run = Run { args, entries: Entries(shape), index };
    let begun = if exists { run.synced(&reactor)? } else { 0 };
    let verified = if exists { Some(run.verify(begun)?) } else { None };
    let ram = RamMean::default();
    let filled = run.fill(&reactor, begun, &ram)?;
    let after_fill = run.index.counters();
    let hits = run.look_up(args.lookups)?;
    let after_hits = run.index.counters();
    let misses = run.miss(args.lookups * MISSES_PER_HIT)?;
    let counters = run.index.counters();
    let filling = if args.kind == Kind::Silt { Some(run.look_up_while_filling(args.lookups)?) } else { None };
    behind.end()?;
    let raw = run.read_device(&device, flash_bytes, args.lookups.min(200_000))?;
    let inserted = args.entries.saturating_sub(begun);
    let given = inserted as f64 * shape.entry_bytes() as f64;
    let of_fill = |value: f64| (inserted > 0).then_some(value);
    let reads = |reads: u64, of: u64| reads as f64 / of.max(1) as f64;
    let latency = |share| filled.as_ref().map(|f| f.latencies.quantile_us(share));
    Ok(Report {
        kind,
        entries: args.entries,
        verified,
        inserted,
        inserts_per_second: filled.as_ref().map(Outcome::per_second),
        insert_p50_us: latency(0.5),
        insert_p99_us: latency(0.99),
        insert_max_us: filled.as_ref().map(|f| f.latencies.max_us()),
        hits_per_second: hits.per_second(),
        hit_p50_us: hits.latencies.quantile_us(0.5),
        hit_p99_us: hits.latencies.quantile_us(0.99),
        misses_per_second: misses.per_second(),
        miss_p99_us: misses.latencies.quantile_us(0.99),
        filling_hits_per_second: filling.as_ref().map(Outcome::per_second),
        filling_hit_p99_us: filling.as_ref().map(|f| f.latencies.quantile_us(0.99)),
        reads_per_hit: reads(after_hits.hit_reads - after_fill.hit_reads, after_hits.hits - after_fill.hits),
        reads_per_miss: reads(counters.miss_reads - after_fill.miss_reads, counters.misses - after_fill.misses),
        write_amplification: of_fill(after_fill.written_bytes as f64 / given),
        written_bytes_per_insert: of_fill(after_fill.written_bytes as f64 / inserted as f64),
        ram_bytes: counters.ram_bytes,
        ram_bytes_per_entry: counters.ram_bytes as f64 / args.entries as f64,
        fill_ram_bytes_per_entry: ram.mean(),
        device_reads_per_second: raw,
        depth: args.depth,
        threads: args.threads,
    })
}

/// The mean of samples of RAM use.
#[derive(Default)]
struct RamMean(Cell<(f64, u32)>);

impl RamMean {
    fn add(&self, counters: &Counters) {
        let (sum, count) = self.0.get();
        self.0.set((sum + counters.ram_bytes as f64 / counters.entries.max(1) as f64, count + 1));
    }

    fn mean(&self) -> Option<f64> {
        let (sum, count) = self.0.get();
        (count > 0).then(|| sum / f64::from(count))
    }
}

struct Run<'a, I> {
    args: &'a Bench,
    entries: Entries,
    index: Arc<I>,
}

impl<I: Measured> Run<'_, I> {
    fn drive(&self, depth: usize) -> Drive {
        Drive { threads: self.args.threads, depth }
    }

    /// The number of entries inserted before the last sync.
    fn synced(&self, reactor: &Reactor) -> Result<u64, Error> {
        let found = reactor
            .block_on(self.index.get(&self.entries.key(PROGRESS)))
            .map_err(|e| Error::with_sources("index", &e))?;
        let number = found.and_then(|v| v.get(..8).and_then(|b| b.try_into().ok())).map_or(0, u64::from_le_bytes);
        Ok(number.min(self.args.entries))
    }

    /// Looks up all entries that were synced; fails if one is missing or has a wrong value.
    fn verify(&self, synced: u64) -> Result<u64, Error> {
        let entries = self.entries;
        let progress = Progress::counting(synced, "entries compared");
        let compared = self.drive(self.args.depth).run(
            &self.index,
            0..synced,
            async move |index: &I, n| {
                let found = index.get(&entries.key(n)).await?;
                Ok(found.is_some_and(|value| value[..] == *entries.value(n)))
            },
            |n| progress.show(n),
        )?;
        progress.end();
        if compared.wrong > 0 {
            let why = format!("{} of {synced} entries that were synced are missing, or are wrong", compared.wrong);
            return Err(Error::new("index", why).or("if the file was not changed by anything else, please report this"));
        }
        Ok(compared.right)
    }

    /// Inserts the missing entries, with a sync at intervals.
    fn fill(&self, reactor: &Reactor, from: u64, ram: &RamMean) -> Result<Option<Outcome>, Error> {
        let (entries, total) = (self.entries, self.args.entries);
        let progress = Progress::counting(total, "entries inserted");
        let mut filled: Option<Outcome> = None;
        let mut at = from;
        while at < total {
            let upto = (at + self.args.sync_every).min(total);
            let insert = async move |index: &I, n| {
                index.insert(&entries.key(n), &entries.value(n)).await?;
                Ok(true)
            };
            let show = |n| {
                progress.show(n);
                if n > total / 2 {
                    ram.add(&self.index.counters());
                }
            };
            let mut part = self.drive(self.args.threads).run(&self.index, at..upto, insert, show)?;
            let begun = std::time::Instant::now();
            let synced = async {
                let mut value = entries.value(PROGRESS);
                value[..8].copy_from_slice(&upto.to_le_bytes());
                self.index.insert(&entries.key(PROGRESS), &value).await?;
                self.index.sync().await
            };
            reactor.block_on(synced).map_err(|e| Error::with_sources("index", &e))?;
            part.elapsed += begun.elapsed();
            match &mut filled {
                Some(filled) => filled.add(&part),
                None => filled = Some(part),
            }
            at = upto;
        }
        progress.end();
        Ok(filled)
    }

    /// Looks up `count` existing entries in random order.
    fn look_up(&self, count: u64) -> Result<Outcome, Error> {
        let (entries, total) = (self.entries, self.args.entries);
        let progress = Progress::counting(count, "hits");
        let look = async move |index: &I, n| {
            let n = mix(n) % total;
            let found = index.get(&entries.key(n)).await?;
            Ok(found.is_some_and(|v| v[..] == *entries.value(n)))
        };
        let looked = self.drive(self.args.depth).run(&self.index, 0..count, look, |n| progress.show(n))?;
        progress.end();
        if looked.wrong > 0 {
            let why = format!("{} of {count} look-ups did not find their entry", looked.wrong);
            return Err(Error::new("index", why)
                .or("a full BufferHash evicts its oldest entries: give fewer --entries, or a new file"));
        }
        Ok(looked)
    }

    /// As [`look_up`](Self::look_up), while entries are inserted again by another thread.
    fn look_up_while_filling(&self, count: u64) -> Result<Outcome, Error> {
        let (entries, total) = (self.entries, self.args.entries);
        let (index, ended) = (Arc::clone(&self.index), Arc::new(AtomicBool::new(false)));
        let until = Arc::clone(&ended);
        let writer = spawn_thread("write", move || async move {
            let clock = CompioClock::new();
            for n in 0.. {
                if until.load(Relaxed) {
                    break;
                }
                let due = Duration::from_secs_f64(n as f64 / FILLING_INSERTS_PER_SECOND);
                if n % 64 == 0 && clock.now() < due {
                    clock.sleep(due - clock.now()).await;
                }
                let again = mix(n + total) % total;
                index.insert(&entries.key(again), &entries.value(again)).await?;
            }
            Ok(())
        });
        let writer = writer.map_err(|e| Error::with_sources("threads", &e))?;
        let looked = self.look_up(count);
        ended.store(true, Relaxed);
        let written: Result<(), nitro_index::Error> =
            writer.join().map_err(|_| Error::new("index", "the inserting thread panicked"))?;
        written.map_err(|e| Error::with_sources("index", &e))?;
        looked
    }

    /// Looks up `count` absent entries in batches.
    fn miss(&self, count: u64) -> Result<Outcome, Error> {
        let entries = self.entries;
        let progress = Progress::counting(count, "misses");
        let look = async move |index: &I, numbers: Range<u64>| {
            let keys: SmallVec<[_; MISSES_AT_ONCE as usize]> = numbers.map(|n| entries.key(ABSENT + n)).collect();
            let found = index.get_many(&keys).await?;
            Ok(found.iter().filter(|found| found.is_none()).count() as u64)
        };
        let drive = self.drive(self.args.depth);
        let looked = drive.run_batches(&self.index, 0..count, MISSES_AT_ONCE, look, |n| progress.show(n))?;
        progress.end();
        Ok(looked)
    }

    /// Reads random pages, with the same number of reads in flight.
    fn read_device(&self, device: &Arc<FileDevice>, bytes: u64, count: u64) -> Result<f64, Error> {
        let pages = bytes / PAGE_BYTES as u64;
        let device = Arc::clone(device);
        let read = async move |_: &I, n| {
            let offset = mix(n) % pages * PAGE_BYTES as u64;
            device.read(offset, PAGE_BYTES).await.map_err(nitro_index::Error::from).map(|_| true)
        };
        Ok(self.drive(self.args.depth).run(&self.index, 0..count, read, |_| ())?.per_second())
    }
}
