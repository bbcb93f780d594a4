//! Metadata first, with DRAM of several sizes (claim A2).

use super::Scale;
use super::bed::{Load, Point, Run};
use super::dram::{Dram, Reads};
use super::parameters::{SFS, SFS_DRAM};
use super::tables::{figure, measured};
use crate::report::{Band, Bars, Chart, Holds, Section, Table, Verdict, judge_up_to, percent_more};
use nitro_console::error::Error;
use nitro_console::size::Size;

/// The paper's loss by misses of metadata in DRAM, and its change of latency by two-level selection, in percent.
const LOSS: f64 = 71.0;
const LATENCY: f64 = -23.0;

/// The runs with DRAM of one size.
struct WithDram {
    bytes: u64,
    /// The disks alone, with all metadata in DRAM.
    kept: Run,
    none: Run,
    base: Run,
    two_level: Run,
    data: Reads,
    metadata: Reads,
}

impl WithDram {
    fn measure(load: &Load<'_>, cache_bytes: u64, bytes: u64, scale: &Scale) -> Result<Self, Error> {
        let with = |keeps_metadata| Load { dram: Dram { bytes, keeps_metadata }, ..*load };
        let base = Point::associative(cache_bytes);
        let mut runs = with(false).run(&[Point::NONE, base, base.two_level()], scale)?.into_iter();
        let [none, base, two_level] = std::array::from_fn(|_| runs.next().unwrap_or_default());
        let kept = with(true).run(&[Point::NONE], scale)?.into_iter().next().unwrap_or_default();
        let behind = with(false).through_dram(scale)?;
        Ok(Self { bytes, kept, none, base, two_level, data: behind.data, metadata: behind.first_level })
    }

    /// The loss of the disks alone because DRAM misses metadata, in percent.
    fn loss(&self) -> f64 {
        -percent_more(self.none.per_second, self.kept.per_second)
    }

    /// The change of latency by two-level selection, in percent.
    fn latency(&self) -> f64 {
        percent_more(self.two_level.response_ms, self.base.response_ms)
    }
}

/// A2: the losses with each DRAM, of which the largest is 71 %, and the change of latency with the paper's DRAM.
fn judge(losses: &[f64], latency: f64) -> Holds {
    judge_up_to(LOSS, losses).and(Band::at(LATENCY).judge(&[latency]))
}

/// Why the figures differ from the paper's, from the hits of the run with the paper's DRAM.
fn why(losses: &[f64], latency: f64, theirs: &WithDram) -> String {
    let worst = losses.iter().copied().fold(0.0, f64::max);
    let mut parts = Vec::new();
    if !Band::at(LOSS).has(worst) {
        parts.push(format!(
            "misses of metadata cost at most {worst:.0} %: with the paper's DRAM, {:.0} % of the reads of metadata and {:.0} % of \
             those of data hit it",
            theirs.metadata.hit_percent(),
            theirs.data.hit_percent()
        ));
    }
    if !Band::at(LATENCY).has(latency) {
        parts.push(format!(
            "two-level selection changes latency by {latency:+.1} %, at {:.1} % hits in the cache against {:.1} % without it, \
             while disks are busy for {:.0} and {:.0} % of the time",
            theirs.two_level.hit_percent, theirs.base.hit_percent, theirs.two_level.disks_percent, theirs.base.disks_percent
        ));
    }
    parts.join("; ")
}

/// Runs the file server's load with DRAM of each size.
pub(super) fn section(load: &Load<'_>, cache_bytes: u64, scale: &Scale) -> Result<Section, Error> {
    let sizes = SFS_DRAM.map(|gb| scale.bytes(gb, scale.sfs));
    let all =
        sizes.iter().map(|bytes| WithDram::measure(load, cache_bytes, *bytes, scale)).collect::<Result<Vec<_>, _>>()?;
    let paper = SFS_DRAM.iter().position(|gb| *gb == SFS.dram).unwrap_or_default();
    let mut table = Table::new(
        "SPECsfs by size of DRAM",
        &[
            "DRAM",
            "metadata found in it",
            "data found in it",
            "HDDs, all metadata in DRAM",
            "HDDs",
            "loss by misses of metadata",
            "base cache",
            "two-level selection",
            "change of latency",
        ],
    );
    for with in &all {
        table.rows.push(vec![
            Size(with.bytes).to_string(),
            format!("{:.1} %", with.metadata.hit_percent()),
            format!("{:.1} %", with.data.hit_percent()),
            figure(with.kept.per_second),
            figure(with.none.per_second),
            format!("{:.1} %", with.loss()),
            figure(with.base.per_second),
            figure(with.two_level.per_second),
            format!("{:+.1} %", with.latency()),
        ]);
    }
    let losses: Vec<f64> = all.iter().map(WithDram::loss).collect();
    let theirs = &all[paper];
    let text = format!(
        "loss of HDDs by misses of metadata: {} % (DRAM of {}); change of latency by two-level selection with the paper's \
         DRAM: {:+.1} %",
        losses.iter().map(|loss| format!("{loss:.1}")).collect::<Vec<_>>().join(", "),
        sizes.map(|bytes| Size(bytes).to_string()).join(", "),
        theirs.latency()
    );
    let speeds = |of: &dyn Fn(&WithDram) -> f64| all.iter().map(|with| Some(of(with))).collect::<Vec<_>>();
    let chart = Chart::Bars(Bars {
        title: "SPECsfs: operations per second by size of DRAM".into(),
        y_label: "operations per second".into(),
        log_y: false,
        groups: sizes.map(|bytes| Size(bytes).to_string()).to_vec(),
        bars: vec![
            ("HDDs alone".into(), speeds(&|with| with.none.per_second)),
            ("base cache".into(), speeds(&|with| with.base.per_second)),
            ("two-level selection".into(), speeds(&|with| with.two_level.per_second)),
            ("HDDs, all metadata in DRAM".into(), speeds(&|with| with.kept.per_second)),
        ],
    });
    let runs = [theirs.none.clone(), theirs.base.clone(), theirs.two_level.clone()];
    let names = ["HDDs alone", "base cache", "two-level selection"];
    Ok(Section {
        id: "azor-metadata",
        title: "SPECsfs: metadata first".into(),
        text: "The loss by misses of metadata compares the disks alone behind DRAM in LRU order with the same DRAM in addition to \
               all metadata. Operations per second; latency is the mean response time of requests behind DRAM. The cache is fully \
               associative."
            .into(),
        charts: vec![chart],
        tables: vec![table, measured("SPECsfs with the paper's DRAM", "operations/s", &names, &runs)],
        verdicts: vec![
            Verdict::new("A2", text, judge(&losses, theirs.latency())).because(&why(&losses, theirs.latency(), theirs)),
        ],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_judge_can_fail() {
        assert_eq!(judge(&[71.0, 30.0, 2.0], -23.0), Holds::Holds);
        assert_eq!(judge(&[30.0, 2.0], -23.0), Holds::InDirection, "half of the loss");
        assert_eq!(judge(&[71.0, 2.0], -3.0), Holds::InDirection);
        assert_eq!(judge(&[71.0, -1.0], -23.0), Holds::DoesNot, "a gain by misses");
        assert_eq!(judge(&[71.0, 2.0], 3.0), Holds::DoesNot, "more latency");
    }
}
