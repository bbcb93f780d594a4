//! The modelled SSD under a cache: its wear and, if timing is modelled, its latencies.

use crate::Error;
use crate::settings::{Settings, Variant};
use nitro_model::{
    AnyFtl, CoDesignedSettings, Counters, Ftl, FtlSettings, Geometry, HybridSettings, Lpn, Nanos, PageMappedSettings,
    PageRun, Ssd, VictimPolicy,
};

/// The bounds of the size of a page; pages have the size of extents otherwise.
const PAGE_BYTES_MIN: u32 = 4096;
const PAGE_BYTES_MAX: u32 = 8192;
/// Bytes of an erase block (Nitro §5.3).
const ERASE_BLOCK_BYTES: u32 = 128 << 10;

/// A modelled SSD.
pub(crate) enum Model {
    /// The wear only.
    Worn(Box<AnyFtl>),
    /// The wear and the latencies.
    Timed(Box<Ssd<AnyFtl>>),
    /// The wear, and the time of each read of an idle SSD.
    Idle(Box<AnyFtl>, Nanos),
}

/// The SSD, and the arrival time of requests.
pub(crate) struct Flash {
    model: Model,
    page_bytes: u32,
    /// Whether the SSD needs to know reads.
    notes_reads: bool,
    /// Whether neighbouring extents of one request are one command.
    merges: bool,
    /// The direction of the last command, the time of its request, and the page after its last one.
    last: (Direction, Nanos, u32),
    /// The time until which the SSD has requests, and the sum of the times in which it had any.
    busy_until: Nanos,
    busy: Nanos,
    /// The current time.
    pub(crate) now: Nanos,
}

/// The direction of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Read,
    Write,
}

/// The translation layer of a variant.
fn layer(variant: Variant) -> FtlSettings {
    let aligned = PageMappedSettings { over_provisioning: 0.07, victims: VictimPolicy::Greedy, aligned: false };
    match variant {
        Variant::WeuLruMod => FtlSettings::CoDesigned(CoDesignedSettings::default()),
        Variant::Extent { .. } | Variant::ExtentLruTrim => FtlSettings::PageMapped(aligned),
        Variant::ExtentLruMod => FtlSettings::PageMapped(PageMappedSettings { over_provisioning: 0.0, ..aligned }),
        _ => FtlSettings::Hybrid(HybridSettings::default()),
    }
}

impl Flash {
    /// The SSD for `settings`, and the number of its bytes that the cache may use.
    pub(crate) fn new(settings: &Settings) -> Result<(Self, u64), Error> {
        let page_bytes = settings.extent_bytes.clamp(PAGE_BYTES_MIN, PAGE_BYTES_MAX);
        let geometry = Geometry {
            page_bytes,
            pages_per_block: ERASE_BLOCK_BYTES / page_bytes,
            stripe: (settings.weu_bytes / ERASE_BLOCK_BYTES).max(1),
            ..Geometry::default()
        };
        // All variants have the same flash: that of an SSD with hybrid mapping that offers `cache_bytes`.
        let sold = FtlSettings::Hybrid(HybridSettings::default());
        let sold = sold.geometry_for(geometry, settings.cache_bytes)?;
        let layer = layer(settings.variant);
        let geometry = match settings.variant {
            Variant::WeuLruMod | Variant::ExtentLruMod => sold,
            _ => {
                let times = settings.timing.map_or(1, |timing| timing.ssd_times);
                layer.geometry_for(geometry, settings.cache_bytes.saturating_mul(times.into()))?
            }
        };
        let ftl = layer.build(geometry)?;
        let logical = u64::from(ftl.logical_pages()) * u64::from(page_bytes);
        let usable = match settings.variant {
            Variant::WeuLruMod | Variant::ExtentLruMod => logical,
            _ => settings.cache_bytes,
        };
        let notes_reads = settings.variant == Variant::WeuLruMod;
        let model = match settings.timing {
            Some(timing) if timing.ssd_is_idle => Model::Idle(Box::new(ftl), timing.ssd.read_time()),
            Some(timing) => {
                let speed = timing.ssd.timing(&geometry);
                Model::Timed(Box::new(Ssd::new(ftl, speed)))
            }
            None => Model::Worn(Box::new(ftl)),
        };
        let merges = settings.timing.is_some_and(|timing| timing.ssd_merges);
        let last = (Direction::Read, Nanos::ZERO, 0);
        let (busy_until, busy, now) = (Nanos::ZERO, Nanos::ZERO, Nanos::ZERO);
        Ok((Self { model, page_bytes, notes_reads, merges, last, busy_until, busy, now }, usable))
    }

    /// Whether a command continues the one before, as a part of the same request.
    fn continues(&mut self, direction: Direction, run: PageRun) -> bool {
        let next = run.first.0 + run.pages;
        let last = std::mem::replace(&mut self.last, (direction, self.now, next));
        self.merges && last == (direction, self.now, run.first.0)
    }

    /// Notes that a command that arrived now ends at `done`.
    fn note_busy(&mut self, done: Nanos) -> Nanos {
        let begin = self.busy_until.max(self.now);
        self.busy = self.busy + Nanos(done.0.saturating_sub(begin.0));
        self.busy_until = self.busy_until.max(done);
        done
    }

    /// The time in which the SSD has had requests.
    pub(crate) const fn busy(&self) -> Nanos {
        self.busy
    }

    fn run(&self, offset: u64, bytes: u64) -> PageRun {
        let page = u64::from(self.page_bytes);
        let first = offset / page;
        PageRun { first: Lpn(first as u32), pages: ((offset + bytes).div_ceil(page) - first) as u32 }
    }

    /// Writes bytes; returns the time when the write ends.
    pub(crate) fn write(&mut self, offset: u64, bytes: u64) -> Result<Nanos, Error> {
        let run = self.run(offset, bytes);
        let continues = self.continues(Direction::Write, run);
        let done = match &mut self.model {
            Model::Worn(ftl) | Model::Idle(ftl, _) => {
                ftl.write(run, &mut ());
                return Ok(self.now);
            }
            Model::Timed(ssd) if continues => ssd.write_on(run)?,
            Model::Timed(ssd) => ssd.write(self.now, run)?,
        };
        Ok(self.note_busy(done))
    }

    /// Reads bytes; returns the time when the read ends.
    pub(crate) fn read(&mut self, offset: u64, bytes: u64) -> Result<Nanos, Error> {
        let run = self.run(offset, bytes);
        let continues = self.continues(Direction::Read, run);
        let done = match &mut self.model {
            Model::Worn(ftl) if self.notes_reads => {
                ftl.read(run);
                return Ok(self.now);
            }
            Model::Worn(_) => return Ok(self.now),
            Model::Idle(_, read_time) => return Ok(self.now + *read_time),
            Model::Timed(ssd) if continues => ssd.read_on(run)?,
            Model::Timed(ssd) => ssd.read(self.now, run)?,
        };
        Ok(self.note_busy(done))
    }

    /// Trims bytes.
    pub(crate) fn trim(&mut self, offset: u64, bytes: u64) -> Result<(), Error> {
        let run = self.run(offset, bytes);
        match &mut self.model {
            Model::Worn(ftl) | Model::Idle(ftl, _) => ftl.trim(run, &mut ()),
            Model::Timed(ssd) => drop(ssd.trim(self.now, run)?),
        }
        Ok(())
    }

    /// The offset of the WEU that the SSD would evict next, in bytes.
    pub(crate) fn victim(&self) -> Option<u64> {
        let run = match &self.model {
            Model::Worn(ftl) | Model::Idle(ftl, _) => ftl.victim(),
            Model::Timed(ssd) => ssd.victim(),
        }?;
        Some(u64::from(run.first.0) * u64::from(self.page_bytes))
    }

    /// The counters of the SSD.
    pub(crate) fn counters(&self) -> Counters {
        match &self.model {
            Model::Worn(ftl) | Model::Idle(ftl, _) => *ftl.flash().counters(),
            Model::Timed(ssd) => *ssd.counters(),
        }
    }

    pub(crate) const fn page_bytes(&self) -> u32 {
        self.page_bytes
    }
}
