//! A load with its DRAM, disks and SSD, in virtual time.

use super::Scale;
use super::dram::{Behind, Dram};
use crate::report::say;
use nitro_cache::admission::{AdmissionKind, WritePolicy};
use nitro_console::error::Error;
use nitro_sim::sweep::{SweepProgress, sweep};
use nitro_sim::timing::{Cpu, Disks, Load as Arrival, Origin, Raid, SsdSpeed, Timing};
use nitro_sim::{Outcome, Settings, Variant, Warmup};
use nitro_trace::synth::OPERATION_NS;
use nitro_trace::{Reader, TraceError};

/// Extents are blocks of XFS, for which Azor has a counter each.
pub(super) const EXTENT_BYTES: u32 = 4096;
/// Disks, their size in bytes, and chunks of the RAID-0 (Azor's talk, "Experimental setup").
pub(super) const SPINDLES: u32 = 12;
pub(super) const DISK_BYTES: u64 = 500_000_000_000;
pub(super) const CHUNK_BYTES: u64 = 64 << 10;

/// Opens the trace of a load with a seed at its beginning.
pub(super) type Open<'a> = &'a (dyn Fn(u64) -> Result<Box<dyn Reader>, TraceError> + Sync);

/// A load.
#[derive(Clone, Copy)]
pub(super) struct Load<'a> {
    /// The name in progress messages.
    pub(super) name: &'a str,
    pub(super) open: Open<'a>,
    /// Bytes of a disk.
    pub(super) disk_bytes: u64,
    /// Operations that fill the caches, and operations that are measured.
    pub(super) warmup: u64,
    pub(super) measured: u64,
    /// Requests in progress.
    pub(super) depth: u32,
    /// The least response time of a request, in nanoseconds: the processor's work on it.
    pub(super) cpu_ns: u64,
    pub(super) dram: Dram,
    /// The number of seeds over which figures are averaged.
    pub(super) seeds: u64,
}

/// The cache of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Point {
    pub(super) variant: Variant,
    pub(super) cache_bytes: u64,
    pub(super) admission: AdmissionKind,
    pub(super) write_policy: WritePolicy,
}

impl Point {
    /// The disks alone.
    pub(super) const NONE: Self = Self {
        variant: Variant::None,
        cache_bytes: 0,
        admission: AdmissionKind::All,
        write_policy: WritePolicy::Allocate,
    };

    /// A direct-mapped cache that admits everything.
    pub(super) const fn direct_mapped(cache_bytes: u64) -> Self {
        Self { variant: Variant::Extent { ways: 1 }, cache_bytes, ..Self::NONE }
    }

    /// A fully associative cache that admits everything: one set of all places.
    pub(super) const fn associative(cache_bytes: u64) -> Self {
        let ways = (cache_bytes / EXTENT_BYTES as u64) as u32;
        Self { variant: Variant::Extent { ways }, cache_bytes, ..Self::NONE }
    }

    /// The same with two-level selection, with Azor's counters for all blocks of the disks.
    pub(super) const fn two_level(self) -> Self {
        Self { admission: AdmissionKind::TwoLevelStatic, ..self }
    }

    pub(super) const fn writing(self, write_policy: WritePolicy) -> Self {
        Self { write_policy, ..self }
    }

    fn settings(&self, load: &Load<'_>) -> Settings {
        let timing = Timing {
            load: Arrival::Closed(load.depth),
            origin: Origin::Tps,
            disks: Disks {
                spindles: SPINDLES,
                raid: Raid::Raid0,
                stripe_bytes: CHUNK_BYTES,
                disk_bytes: load.disk_bytes.max(16 * CHUNK_BYTES),
                ..Disks::default()
            },
            nvram_bytes: 0,
            ssd: SsdSpeed::azor(),
            ssd_merges: true,
            cpu: Cpu { request_ns: load.cpu_ns, ..Cpu::default() },
            ..Timing::default()
        };
        Settings {
            extent_bytes: EXTENT_BYTES,
            variant: self.variant,
            admission: self.admission,
            write_policy: self.write_policy,
            dedup: false,
            compress: false,
            warmup: if load.warmup == 0 { Warmup::None } else { Warmup::Time(load.warmup * OPERATION_NS) },
            timing: Some(timing),
            ..Settings::new(self.cache_bytes)
        }
    }
}

/// The outcome of a run; with several seeds, the means.
#[derive(Debug, Clone, Default)]
pub(super) struct Run {
    /// Operations of the load per second.
    pub(super) per_second: f64,
    /// Extents that were read from the cache, of those read behind DRAM, in percent.
    pub(super) hit_percent: f64,
    /// The mean response time of requests behind DRAM, in milliseconds.
    pub(super) response_ms: f64,
    /// The share of time in which disks and SSD were busy, in percent.
    pub(super) disks_percent: f64,
    pub(super) ssd_percent: f64,
    /// Bytes written to the SSD.
    pub(super) ssd_written: f64,
    /// RAM of index and counters in bytes.
    pub(super) ram_bytes: f64,
}

impl Run {
    fn of(outcome: &Outcome, operations: u64) -> Self {
        let (measured, pace) = (&outcome.measured, outcome.measured.pace.unwrap_or_default());
        let (reads, writes) = (measured.reads as f64, measured.writes as f64);
        let response = pace.read_response.mean_us * reads + pace.write_response.mean_us * writes;
        Self {
            per_second: if pace.seconds > 0.0 { operations as f64 / pace.seconds } else { 0.0 },
            hit_percent: measured.read_extent_hit_ratio * 100.0,
            response_ms: if reads + writes > 0.0 { response / (reads + writes) / 1e3 } else { 0.0 },
            disks_percent: pace.disks_busy * 100.0,
            ssd_percent: pace.ssd_busy * 100.0,
            ssd_written: measured.ssd_bytes_written as f64,
            ram_bytes: outcome.ram_bytes as f64,
        }
    }
}

impl Run {
    /// The means of runs.
    fn mean(runs: &[Self]) -> Self {
        let of = |figure: fn(&Self) -> f64| runs.iter().map(figure).sum::<f64>() / runs.len().max(1) as f64;
        Self {
            per_second: of(|run| run.per_second),
            hit_percent: of(|run| run.hit_percent),
            response_ms: of(|run| run.response_ms),
            disks_percent: of(|run| run.disks_percent),
            ssd_percent: of(|run| run.ssd_percent),
            ssd_written: of(|run| run.ssd_written),
            ram_bytes: of(|run| run.ram_bytes),
        }
    }
}

impl Load<'_> {
    /// Simulates the load with each cache, and each seed; returns the means.
    pub(super) fn run(&self, points: &[Point], scale: &Scale) -> Result<Vec<Run>, Error> {
        say(&format!("{}: {} simulations", self.name, points.len() * self.seeds as usize));
        let settings: Vec<Settings> = points.iter().map(|point| point.settings(self)).collect();
        let mut by_seed = Vec::new();
        for seed in scale.seed..scale.seed + self.seeds {
            let open = || Ok(Box::new(Behind::new((self.open)(seed)?, self.dram)) as Box<dyn Reader>);
            let swept = sweep(&open, &settings, scale.threads, None, &SweepProgress::default());
            let outcomes = swept.map_err(|error| Error::with_sources(self.name, &error))?;
            by_seed.push(outcomes.iter().map(|outcome| Run::of(outcome, self.measured)).collect::<Vec<_>>());
        }
        let of_point = |at: usize| by_seed.iter().filter_map(|runs| runs.get(at).cloned()).collect::<Vec<_>>();
        Ok((0..points.len()).map(|at| Run::mean(&of_point(at))).collect())
    }

    /// Reads the trace with the first seed through DRAM alone, to its end.
    pub(super) fn through_dram(&self, scale: &Scale) -> Result<Behind<Box<dyn Reader>>, Error> {
        let failed = |error: TraceError| Error::with_sources(self.name, &error);
        let mut behind = Behind::new((self.open)(scale.seed).map_err(failed)?, self.dram);
        let mut request = nitro_trace::Request::default();
        while behind.next(&mut request).map_err(failed)? {}
        Ok(behind)
    }
}
