//! What the store's reads cost by the model of the disks, beside the least that the same reads could cost.

use nitro_cache::reads::{Kind, Piece};
use nitro_cos::{LearnedReads, ReadPlanner};
use nitro_device::hdd::HddModel;
use nitro_testkit::VirtualTime;
use parking_lot::Mutex;
use std::ops::Range;
use std::sync::Arc;

/// What the column says that compares with the least.
pub(super) const OF_LEAST: &str = "\"Disk time, of the least\" is the time that reads of containers keep the disks busy by \
    the model (a mean seek and half a turn for each disk that a request touches, and the transfer), divided by the least \
    time that these regions take, however they are divided into requests of at most 1 MiB, with what lies between them \
    read through or skipped.";
/// Points on a disk between which seeks are averaged.
const POINTS: u64 = 32;

/// The time that reads keep the disks busy, in seconds.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Planned {
    /// As they were made.
    pub(super) made: f64,
    /// With the same pieces divided into requests in the best way.
    pub(super) least: f64,
}

impl Planned {
    pub(super) fn since(&self, before: &Self) -> Self {
        Self { made: self.made - before.made, least: self.least - before.least }
    }

    /// What was made, of the least.
    pub(super) fn ratio(&self) -> f64 {
        if self.least > 0.0 { self.made / self.least } else { 1.0 }
    }
}

/// The learned costs decide, as in a server; what they decide is compared with what a model of the disks that is known
/// beforehand would.
#[derive(Clone)]
pub(super) struct JudgedReads(Arc<Judged>);

struct Judged {
    learned: LearnedReads<VirtualTime>,
    model: HddModel,
    /// The mean time until a disk's head is where a request begins, in seconds.
    positioning: f64,
    so_far: Mutex<Planned>,
}

impl JudgedReads {
    /// For disks of which data take `device_bytes` together.
    pub(super) fn new(clock: VirtualTime, model: HddModel, device_bytes: u64) -> Self {
        let share = device_bytes / u64::from(model.spindles.max(1));
        let span = model.span_bytes.unwrap_or(share).max(1);
        let point = |number: u64| share / POINTS * number;
        let pairs = (0..POINTS).flat_map(|from| (0..POINTS).map(move |to| (from, to)));
        let seeks: f64 = pairs.map(|(from, to)| model.seek(point(from), point(to), span).as_secs_f64()).sum();
        let positioning = seeks / (POINTS * POINTS) as f64 + model.rotation.as_secs_f64() / 2.0;
        let so_far = Mutex::default();
        Self(Arc::new(Judged { learned: LearnedReads::new(clock, true), model, positioning, so_far }))
    }

    pub(super) fn so_far(&self) -> Planned {
        *self.0.so_far.lock()
    }
}

impl Judged {
    /// The time that a request keeps disks busy: each that it touches has to position its head.
    fn cost(&self, bytes: Range<u64>) -> f64 {
        let stripe = self.model.stripe_bytes;
        let stripes = (bytes.end - 1) / stripe - bytes.start / stripe + 1;
        let disks = stripes.min(self.model.spindles.into());
        disks as f64 * self.positioning + self.model.transfer(bytes.end - bytes.start).as_secs_f64()
    }

    /// The least cost of reading the wanted pieces, over all ways to divide them into requests of at most `bytes_max`:
    /// `best[n]` is that of the first `n` of them.
    fn least(&self, wanted: &[Range<u64>], bytes_max: u64) -> f64 {
        let mut best = vec![0.0];
        for to in 0..wanted.len() {
            let fits = |from: &usize| *from == to || wanted[to].end - wanted[*from].start <= bytes_max;
            let ways = (0..=to).filter(fits).map(|from| best[from] + self.cost(wanted[from].start..wanted[to].end));
            best.push(ways.fold(f64::INFINITY, f64::min));
        }
        best.last().copied().unwrap_or_default()
    }
}

/// The places of pieces that begin at a byte of the device.
fn places(mut at: u64, pieces: &[Piece]) -> Vec<Range<u64>> {
    let place = |piece: &Piece| {
        at += piece.bytes;
        at - piece.bytes..at
    };
    pieces.iter().map(place).collect()
}

impl ReadPlanner for JudgedReads {
    fn plan(&self, at: u64, pieces: &[Piece], bytes_max: u64) -> Vec<Range<usize>> {
        let planned = self.0.learned.plan(at, pieces, bytes_max);
        let places = places(at, pieces);
        let wanted = pieces.iter().zip(&places).filter(|(piece, _)| piece.kind == Kind::Wanted && piece.bytes > 0);
        let wanted: Vec<_> = wanted.map(|(_, place)| place.clone()).collect();
        let made = planned.iter().map(|range| self.0.cost(places[range.start].start..places[range.end - 1].end));
        let mut so_far = self.0.so_far.lock();
        so_far.made += made.sum::<f64>();
        so_far.least += self.0.least(&wanted, bytes_max);
        planned
    }

    fn began(&self) {
        self.0.learned.began();
    }

    fn ended(&self, bytes: Option<u64>) {
        self.0.learned.ended(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_is_that_of_all_ways_to_divide() {
        let model = HddModel::rpm_7200().with_spindles(4, 64 << 10).with_span(1 << 30);
        let judged = JudgedReads::new(VirtualTime::default(), model, 1 << 30);
        let kib = |from: u64, to: u64| from << 10..to << 10;
        let wanted = [kib(0, 8), kib(20, 30), kib(70, 80), kib(90, 100), kib(600, 610), kib(612, 640), kib(700, 710)];
        for bytes_max in [16 << 10, 40 << 10, 128 << 10, 1 << 20] {
            let ways = (0_u32..1 << (wanted.len() - 1)).filter_map(|cuts| {
                let mut ranges: Vec<(Range<u64>, bool)> = vec![(wanted[0].clone(), true)];
                for (at, bytes) in wanted.iter().enumerate().skip(1) {
                    match ranges.last_mut() {
                        Some((last, alone)) if cuts & (1 << (at - 1)) == 0 => (last.end, *alone) = (bytes.end, false),
                        _ => ranges.push((bytes.clone(), true)),
                    }
                }
                let fits = ranges.iter().all(|(range, alone)| *alone || range.end - range.start <= bytes_max);
                fits.then(|| ranges.into_iter().map(|(range, _)| judged.0.cost(range)).sum::<f64>())
            });
            let least = ways.fold(f64::INFINITY, f64::min);
            assert!((judged.0.least(&wanted, bytes_max) - least).abs() < 1e-9);
        }
        assert!(judged.0.cost(kib(60, 68)) > 2.0 * judged.0.positioning, "two disks have to position their heads");
    }
}
