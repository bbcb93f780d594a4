//! The write policies on misses (claim A1).

use super::Scale;
use super::bed::{Load, Point, Run};
use super::tables::{bars, measured};
use crate::report::{Band, Holds, Section, Verdict, judge_up_to, percent_more, percents};
use nitro_cache::admission::WritePolicy;
use nitro_console::error::Error;

/// The paper's gains over HDDs, in percent, and the difference between policies.
const GAINS: Band = Band::new(11.0, 66.0);
const SPREAD: f64 = 50.0;

/// Azor's names of the policies.
const NAMES: [(&str, WritePolicy); 3] = [
    ("hdd-ssd (allocate)", WritePolicy::Allocate),
    ("hdd-upd (update)", WritePolicy::Update),
    ("hdd-inv (invalidate)", WritePolicy::Invalidate),
];

/// Operations per second without a cache and with each policy, and the hit ratio with each policy in percent.
#[derive(Debug, Clone, Copy)]
struct Found {
    none: f64,
    with: [f64; 3],
    hits: [f64; 3],
}

impl Found {
    fn of(runs: &[Run]) -> Self {
        let of = |at: usize| runs.get(at).cloned().unwrap_or_default();
        Self {
            none: of(0).per_second,
            with: [1, 2, 3].map(|at| of(at).per_second),
            hits: [1, 2, 3].map(|at| of(at).hit_percent),
        }
    }

    fn gains(&self) -> [f64; 3] {
        self.with.map(|with| percent_more(with, self.none))
    }

    /// The difference between the best and the worst policy, in percent.
    fn spread(&self) -> f64 {
        let best = self.with.into_iter().fold(0.0, f64::max);
        percent_more(best, self.with.into_iter().fold(f64::INFINITY, f64::min))
    }
}

/// A1: each policy gains 11 to 66 %, they differ by up to 50 %, and allocation on writes has fewer hits than updates alone,
/// because it evicts useful blocks.
fn judge(found: &Found) -> Holds {
    let evicts = if found.hits[0] < found.hits[1] { Holds::Holds } else { Holds::DoesNot };
    GAINS.judge(&found.gains()).and(judge_up_to(SPREAD, &[found.spread()])).and(evicts)
}

/// The parts of the claim that do not have the paper's sign, or its size.
fn why(found: &Found) -> String {
    let mut parts = Vec::new();
    let gains = found.gains();
    if found.hits[0] >= found.hits[1] {
        parts.push(format!(
            "allocation on writes has {:.1} % hits against {:.1} % with updates alone: what is written here is read again \
             soon enough to be worth its place",
            found.hits[0], found.hits[1]
        ));
    }
    if !gains.iter().all(|gain| GAINS.has(*gain)) {
        parts.push(format!("gains of {} are not all within the paper's 11 to 66 %", percents(&gains)));
    }
    if !Band::at(SPREAD).has(found.spread()) {
        parts.push(format!("the policies differ by {:.0} %", found.spread()));
    }
    parts.join("; ")
}

/// Runs the write policies under the file server's load.
pub(super) fn section(load: &Load<'_>, cache_bytes: u64, scale: &Scale) -> Result<Section, Error> {
    let mut points = vec![Point::NONE];
    points.extend(NAMES.map(|(_, policy)| Point::associative(cache_bytes).writing(policy)));
    let runs = load.run(&points, scale)?;
    let names: Vec<&str> = ["HDDs alone"].into_iter().chain(NAMES.map(|(name, _)| name)).collect();
    let found = Found::of(&runs);
    let text = format!(
        "operations/s over HDDs alone: {} (hdd-ssd, hdd-upd, hdd-inv); best over worst: {:+.0} %; hits: {}",
        percents(&found.gains()),
        found.spread(),
        found.hits.map(|hits| format!("{hits:.1}")).join(", ") + " %"
    );
    Ok(Section {
        id: "azor-write-policies",
        title: "SPECsfs: the write policy on misses".into(),
        text: "What happens in the cache when the origin is written to: the content is stored (hdd-ssd), stored if the block is \
               cached (hdd-upd), or dropped (hdd-inv). The cache is fully associative and admits everything."
            .into(),
        charts: vec![bars("SPECsfs: operations per second by write policy", "operations per second", &names, &runs)],
        tables: vec![measured("SPECsfs by write policy", "operations/s", &names, &runs)],
        verdicts: vec![Verdict::new("A1", text, judge(&found)).because(&why(&found))],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_judge_can_fail() {
        let paper = Found { none: 100.0, with: [111.0, 166.0, 150.0], hits: [20.0, 30.0, 25.0] };
        assert_eq!(judge(&paper), Holds::Holds);
        assert_eq!(judge(&Found { with: [105.0, 110.0, 108.0], ..paper }), Holds::InDirection);
        assert_eq!(judge(&Found { with: [95.0, 166.0, 150.0], ..paper }), Holds::DoesNot, "a loss");
        let no_harm = Found { hits: [31.0, 30.0, 25.0], ..paper };
        assert_eq!(judge(&no_harm), Holds::DoesNot, "allocation evicts nothing useful");
        assert!(why(&no_harm).contains("31.0 %") && why(&paper).is_empty());
    }
}
