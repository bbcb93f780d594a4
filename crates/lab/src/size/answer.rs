//! The answer: the smallest cache that hits enough, what more and less would do, and on what it rests.

use super::contents::{Contents, Origin};
use super::drive::Drive;
use super::short;
use crate::args::SizeArgs;
use crate::source::failed;
use nitro_console::error::Error;
use nitro_sim::mrc::Curve;
use nitro_sim::sizing::{Point, Sample, Totals};
use nitro_sim::{Knob, Settings, adapt};
use serde::Serialize;
use std::path::Path;

/// The share of reads that shall hit if no option names one.
pub(super) const USUAL_HITS: f64 = 0.9;
/// If no cache hits that much, the answer hits so much less than the largest one.
pub(super) const LESS: f64 = 0.01;

/// A question: which cache for this trace?
#[derive(Clone, Copy)]
pub(super) struct Question<'a> {
    pub(super) sample: &'a Sample,
    pub(super) base: Settings,
    pub(super) contents: &'a Contents,
    /// Whether an option sets a knob.
    pub(super) asked: &'a dyn Fn(Knob) -> bool,
    pub(super) threads: usize,
}

/// The kinds of cache that are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Kind {
    /// As the options say.
    Asked,
    /// Without compression.
    Uncompressed,
    /// Without deduplication.
    Undeduplicated,
    /// Without both.
    Plain,
    /// As asked, but everything is admitted, and the unit that was used longest ago is evicted.
    AdmitAllLru,
}

/// The curve of one kind of cache.
#[derive(Debug, Serialize)]
pub(super) struct OfKind {
    pub(super) kind: Kind,
    pub(super) points: Vec<Point>,
}

/// What another trace says to the answer.
#[derive(Debug, Serialize)]
pub(super) struct Checked {
    pub(super) trace: String,
    /// The recommended size on that trace.
    pub(super) point: Point,
    /// The size that it needs for the same hits; `None`: no size reaches them.
    pub(super) own: Option<Point>,
}

/// The answer.
#[derive(Debug, Serialize)]
pub(super) struct Answer {
    pub(super) trace: String,
    pub(super) extent_bytes: u32,
    /// What the trace does.
    #[serde(flatten)]
    pub(super) totals: Totals,
    /// Bytes of all extents that it reads or writes.
    pub(super) touched_bytes: u64,
    /// The share of the extents that was simulated; 1: all.
    pub(super) sample_rate: f64,
    pub(super) contents: Contents,
    /// The share of the extents read that was asked for.
    pub(super) wanted_hit_ratio: f64,
    /// Whether a cache reaches it; if not, the recommended one hits a point less than the best one.
    pub(super) reached: bool,
    /// Whether the size was given.
    pub(super) size_was_given: bool,
    /// The answer.
    pub(super) recommended: Point,
    /// The smallest cache that can be simulated; a smaller one might hit as much if it is the answer.
    pub(super) least_cache_bytes: u64,
    /// Twice the size.
    pub(super) doubled: Point,
    /// The most that a cache hits.
    pub(super) best: Point,
    /// The size that hits as much without compression; `None`: compression is off, or no size does.
    pub(super) uncompressed: Option<Point>,
    pub(super) drive: Drive,
    /// The simulated curves.
    pub(super) curves: Vec<OfKind>,
    /// LRU of single extents, without deduplication and compression (SHARDS).
    pub(super) lru: Curve,
    pub(super) cross_checks: Vec<Checked>,
}

impl Question<'_> {
    /// The settings of a kind of cache.
    fn settings(&self, kind: Kind, cache_bytes: u64) -> Settings {
        let mut settings = Settings { cache_bytes, ..self.base };
        let compress = settings.compress && !matches!(kind, Kind::Uncompressed | Kind::Plain);
        let dedup = settings.dedup && !matches!(kind, Kind::Undeduplicated | Kind::Plain);
        self.contents.apply(&mut settings, compress, dedup);
        adapt(&mut settings, self.asked);
        if kind == Kind::AdmitAllLru {
            let paper = Settings::new(cache_bytes);
            (settings.admission, settings.eviction) = (paper.admission, paper.eviction);
        }
        settings
    }

    /// The kinds that differ for this trace and these options.
    fn kinds(&self) -> Vec<Kind> {
        let compresses = self.contents.compression.origin != Origin::Off;
        let dedups = match self.contents.dedup.origin {
            Origin::Off | Origin::Assumed => false,
            Origin::Trace | Origin::Image | Origin::Given => true,
        };
        let all = [
            (Kind::Asked, true),
            (Kind::Uncompressed, compresses),
            (Kind::Undeduplicated, dedups),
            (Kind::Plain, compresses && dedups),
            (Kind::AdmitAllLru, !(self.asked)(Knob::Admission) && !(self.asked)(Knob::Eviction)),
        ];
        all.into_iter().filter(|(_, differs)| *differs).map(|(kind, _)| kind).collect()
    }

    fn points(&self, kind: Kind, sizes: &[u64]) -> Result<Vec<Point>, Error> {
        let all: Vec<Settings> = sizes.iter().map(|size| self.settings(kind, *size)).collect();
        self.sample.points(&all, self.threads).map_err(failed)
    }

    fn curves(&self, sizes: &[u64]) -> Result<Vec<OfKind>, Error> {
        let kinds = self.kinds();
        let all: Vec<Settings> =
            kinds.iter().flat_map(|kind| sizes.iter().map(|size| self.settings(*kind, *size))).collect();
        let points = self.sample.points(&all, self.threads).map_err(failed)?;
        let of_kinds = kinds.into_iter().zip(points.chunks(sizes.len()));
        Ok(of_kinds.map(|(kind, points)| OfKind { kind, points: points.to_vec() }).collect())
    }

    /// The smallest cache of a kind that hits `ratio`, between the points of its curve.
    fn smallest(&self, kind: Kind, points: &[Point], ratio: f64) -> Result<Option<Point>, Error> {
        let settings = |size| self.settings(kind, size);
        self.sample.smallest(points, ratio, &settings, self.threads).map_err(failed)
    }

    /// A point of a size that is in no curve.
    fn one(&self, cache_bytes: u64) -> Result<Point, Error> {
        let points = self.points(Kind::Asked, &[cache_bytes])?;
        points.first().copied().ok_or_else(|| Error::told("simulation: it has no result"))
    }
}

fn best(points: &[Point]) -> Option<Point> {
    points.iter().copied().max_by(|a, b| a.read_extent_hit_ratio.total_cmp(&b.read_extent_hit_ratio))
}

impl Answer {
    /// Answers a question about the traces `trace`.
    pub(super) fn new(question: &Question<'_>, args: &SizeArgs, trace: String) -> Result<Self, Error> {
        let (sample, given) = (question.sample, question.base.cache_bytes);
        let asked = question.settings(Kind::Asked, given);
        if given > 0 {
            asked.check().map_err(failed)?;
        }
        let curves = question.curves(&sample.sizes(&asked))?;
        let of = |kind| curves.iter().find(|curve| curve.kind == kind).map_or(&[][..], |curve| curve.points.as_slice());
        let Some(best) = best(of(Kind::Asked)) else { return Err(Error::told("simulation: it has no result")) };
        if best.read_extents == 0 {
            return Err(Error::new("--warmup", "no reads are left after it").or("give a shorter one"));
        }
        let wanted = args.hits.map_or(USUAL_HITS, |percent| percent / 100.0);
        let reached = best.read_extent_hit_ratio >= wanted;
        let aim = if reached { wanted } else { best.read_extent_hit_ratio - LESS };
        let recommended = match given {
            0 => question.smallest(Kind::Asked, of(Kind::Asked), aim)?.unwrap_or(best),
            size => question.one(size)?,
        };
        let aim = if given > 0 { recommended.read_extent_hit_ratio } else { aim };
        let doubled = question.one(sample.rounded(recommended.cache_bytes * 2))?;
        let uncompressed = question.smallest(Kind::Uncompressed, of(Kind::Uncompressed), aim)?;
        let drive = Drive::new(args, recommended.cache_bytes, recommended.written_bytes_per_day())?;
        Ok(Self {
            trace,
            extent_bytes: sample.extent_bytes,
            totals: sample.totals,
            touched_bytes: sample.touched_bytes(),
            sample_rate: sample.rate,
            contents: question.contents.clone(),
            wanted_hit_ratio: wanted,
            reached,
            size_was_given: given > 0,
            recommended,
            least_cache_bytes: sample.least_bytes(&asked),
            doubled,
            best,
            uncompressed,
            drive,
            curves,
            lru: sample.curve.clone(),
            cross_checks: Vec::new(),
        })
    }

    /// The options of `nitro-lab sim` that simulate the answer.
    pub(super) fn simulated_with(&self, args: &SizeArgs) -> String {
        let Contents { compression, dedup, .. } = self.contents;
        let mean: f64 = [compression.mean, dedup.mean].into_iter().flatten().product();
        let is_set = compression.origin != Origin::Trace && mean > 1.0;
        let is_own = |knob: &Knob| match knob {
            Knob::Size | Knob::Compression => false,
            Knob::Compress => !is_set,
            _ => true,
        };
        let own =
            args.given().filter(|(knob, _)| is_own(knob)).map(|(knob, text)| format!(" {} {text}", knob.option()));
        let ratio = if is_set { format!(" --compression-ratio {mean}") } else { String::new() };
        let read: String = args.read_options.words().map(|word| format!(" {word}")).collect();
        format!("--cache-size {}{}{ratio}{read}", self.recommended.cache_bytes, own.collect::<String>())
    }
}

impl Checked {
    /// Puts the question to another trace.
    pub(super) fn new(question: &Question<'_>, path: &Path, answer: &Answer) -> Result<Self, Error> {
        let sample = question.sample;
        let point = question.one(answer.recommended.cache_bytes.max(sample.least_bytes(&question.base)))?;
        let points = question.points(Kind::Asked, &sample.sizes(&question.base))?;
        let own = question.smallest(Kind::Asked, &points, answer.recommended.read_extent_hit_ratio)?;
        Ok(Self { trace: short(path), point, own })
    }
}
