//! The simulator on one core: plain policies over a Zipf trace of the size that libCacheSim was measured with; Nitro
//! over traces with and without writes; the modelled SSD; and the gain of a second thread in a sweep.

use crate::load::{Failure, Rng, thread_cpu_time};
use nitro_model::{FtlSettings, Geometry, HybridSettings, Lpn, Nanos, PageMappedSettings, PageRun, Ssd, Timing};
use nitro_sim::policies::{Feed, PolicyKind};
use nitro_sim::sweep::{SweepProgress, sweep};
use nitro_sim::workload::{self, Stored};
use nitro_sim::{Settings, simulate};
use nitro_trace::synth::Zipf;
use nitro_trace::{Reader, Request, TraceError};
use std::collections::HashSet;
use std::time::{Duration, Instant};

const OBJECTS: u32 = 500_000;
const EXTENT_BYTES: u32 = 8192;
/// The number of page writes measured.
const PAGES: u64 = 20_000_000;

/// Runs all benchmarks of the simulator.
pub fn run() -> Result<(), Failure> {
    policies()?;
    all_of_nitro()?;
    ssd("weus", FtlSettings::Hybrid(HybridSettings::default()), true)?;
    let spacious = PageMappedSettings { over_provisioning: 0.28, ..PageMappedSettings::default() };
    ssd("pages", FtlSettings::PageMapped(spacious), false)?;
    sweeps()
}

/// Nitro over traces with different shares of writes.
pub fn all_of_nitro() -> Result<(), Failure> {
    [("reads", 0.0), ("mixed", 0.2), ("writes", 0.8)].into_iter().try_for_each(|(name, share)| nitro(name, share))
}

fn policies() -> Result<(), Failure> {
    let zipf = Zipf { objects: 5_000_000, exponent: 0.9, requests: 20_000_000, ..Zipf::default() };
    let (mut reader, mut request) = (zipf.reader()?, Request::default());
    let mut names = Vec::with_capacity(zipf.requests as usize);
    while reader.next(&mut request)? {
        names.push(request.offset);
    }
    for (name, kind) in [
        ("lru", PolicyKind::Lru),
        ("fifo", PolicyKind::Fifo),
        ("clock", PolicyKind::Clock),
        ("arc", PolicyKind::Arc),
        ("s3-fifo", PolicyKind::S3Fifo),
    ] {
        let mut policy = kind.build(OBJECTS);
        let begun = thread_cpu_time();
        let mut feed = Feed::new(&mut *policy);
        names.iter().for_each(|name| feed.push(*name));
        let counts = feed.finish();
        let seconds = since(begun);
        println!(
            "policy-{name} requests={} misses={} requests_per_second={:.0} bytes_per_object={:.1}",
            counts.requests,
            counts.misses,
            counts.requests as f64 / seconds,
            policy.ram_bytes() as f64 / policy.len().max(1) as f64
        );
    }
    Ok(())
}

/// The CPU time of this thread since `begun`, in seconds.
fn since(begun: Duration) -> f64 {
    thread_cpu_time().saturating_sub(begun).as_secs_f64()
}

fn zipf(write_share: f64, requests: u64) -> Zipf {
    Zipf { objects: 1_000_000, exponent: 0.9, requests, write_share, object_bytes: EXTENT_BYTES, ..Zipf::default() }
}

fn stored(zipf: &Zipf) -> Result<Stored, Failure> {
    Ok(workload::stored(&|| Ok(Box::new(zipf.reader()?)), EXTENT_BYTES)?)
}

/// All features of Nitro over extents of which a cache of 1 GiB holds a part.
fn nitro(name: &str, write_share: f64) -> Result<(), Failure> {
    let zipf = zipf(write_share, 10_000_000);
    let begun = thread_cpu_time();
    let workload = stored(&zipf)?;
    let prepared = workload.pieces() as f64 / since(begun);
    let (mut reader, mut request, mut distinct) = (zipf.reader()?, Request::default(), HashSet::new());
    while reader.next(&mut request)? {
        distinct.insert(request.offset);
    }
    let begun = thread_cpu_time();
    let outcome = simulate(&mut workload.replay(), &Settings::new(1 << 30), &mut |_| true)?;
    println!(
        "nitro-{name} extents={} extents_per_second={:.0} insertions={} prepared_per_second={prepared:.0} \
         ram_per_distinct_extent={:.1}",
        workload.pieces(),
        workload.pieces() as f64 / since(begun),
        outcome.measured.inserted_bytes / u64::from(EXTENT_BYTES),
        outcome.ram_bytes as f64 / distinct.len() as f64
    );
    Ok(())
}

/// Writes to a full SSD of 4 GiB with timing: whole write-evict units, or single pages at random.
fn ssd(name: &str, settings: FtlSettings, weus: bool) -> Result<(), Failure> {
    let geometry = settings.geometry_for(Geometry::default(), 4 << 30)?;
    let pages = if weus { geometry.block_pages() } else { 1 };
    let mut ssd = Ssd::new(settings.build(geometry)?, Timing::for_geometry(&geometry));
    let units = (4u64 << 30) / u64::from(geometry.page_bytes) / u64::from(pages);
    let (mut rng, mut now) = (Rng(1), Nanos::ZERO);
    let mut write = |unit: u64| -> Result<(), Failure> {
        now = ssd.write(now, PageRun { first: Lpn(unit as u32 * pages), pages })?;
        Ok(())
    };
    (0..units).try_for_each(&mut write)?;
    let begun = thread_cpu_time();
    (0..PAGES / u64::from(pages)).try_for_each(|_| write(rng.below(units)))?;
    println!(
        "ssd-{name} page_writes_per_second={:.0} write_amplification={:.2}",
        PAGES as f64 / since(begun),
        ssd.counters().write_amplification()
    );
    Ok(())
}

fn sweeps() -> Result<(), Failure> {
    let zipf = zipf(0.2, 1_000_000);
    let open = || -> Result<Box<dyn Reader>, TraceError> { Ok(Box::new(zipf.reader()?)) };
    let points: Vec<Settings> = (1..=16).map(|n| Settings::new(n << 26)).collect();
    let time = |threads| -> Result<f64, Failure> {
        let begun = Instant::now();
        sweep(&open, &points, threads, None, &SweepProgress::default())?;
        Ok(begun.elapsed().as_secs_f64())
    };
    let (one, two) = (time(1)?, time(2)?);
    println!("sweep points={} one_thread_s={one:.2} two_threads_s={two:.2} speed_up={:.2}", points.len(), one / two);
    Ok(())
}
