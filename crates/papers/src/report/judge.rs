//! Verdicts on claims.

use super::Table;
use crate::claims;
use serde::Serialize;

/// Whether a claim holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Holds {
    /// Every figure of the claim is within a quarter of the paper's, above or below.
    Holds,
    /// A figure exceeds the paper's because the design is better; the reason says which part of it.
    Better,
    /// Figures differ, but every part of the claim, in every trace that it names, has the same sign and order.
    InDirection,
    /// The claim's figure depends on hardware or prices of its time, and no figure of today can be compared with it.
    NotComparable,
    /// A part of the claim was not measured.
    NotJudged,
    /// The claim does not hold, and a published figure of the trace itself shows that it cannot.
    ExplainedByTrace,
    /// The claim does not hold.
    DoesNot,
}

impl Holds {
    /// All verdicts, from the best to the worst.
    pub const ALL: [Self; 7] = [
        Self::Holds,
        Self::Better,
        Self::InDirection,
        Self::NotComparable,
        Self::NotJudged,
        Self::ExplainedByTrace,
        Self::DoesNot,
    ];

    /// The verdict in words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Better => "better",
            Self::InDirection => "holds in direction",
            Self::NotComparable => "not comparable",
            Self::NotJudged => "not judged",
            Self::ExplainedByTrace => "explained by the trace",
            Self::DoesNot => "does not hold",
        }
    }

    /// The verdict on a claim with two parts: the worse of the two. If one part was not judged, the claim is not
    /// judged, unless the other part does not hold.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        if other as u8 > self as u8 { other } else { self }
    }

    /// [`Holds`](Self::Holds) if `is_so`; else [`InDirection`](Self::InDirection) if `direction`; else
    /// [`DoesNot`](Self::DoesNot).
    #[must_use]
    pub const fn of(is_so: bool, direction: bool) -> Self {
        match (is_so, direction) {
            (true, _) => Self::Holds,
            (false, true) => Self::InDirection,
            (false, false) => Self::DoesNot,
        }
    }
}

/// The range of the paper's figures.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Band {
    /// The lower bound.
    pub low: f64,
    /// The upper bound.
    pub high: f64,
}

impl Band {
    /// The band from `low` to `high`.
    #[must_use]
    pub const fn new(low: f64, high: f64) -> Self {
        Self { low, high }
    }

    /// The band of one figure.
    #[must_use]
    pub const fn at(figure: f64) -> Self {
        Self::new(figure, figure)
    }

    /// Whether a figure is in the band, widened by a quarter of each bound.
    #[must_use]
    pub fn has(&self, figure: f64) -> bool {
        let low = self.low - 0.25 * self.low.abs();
        let high = self.high + 0.25 * self.high.abs();
        (low..=high).contains(&figure)
    }

    /// Whether a figure has the sign of the band; a band that includes figures on both sides of zero has no sign.
    #[must_use]
    pub fn has_sign_of(&self, figure: f64) -> bool {
        (self.low >= 0.0 && figure > 0.0) || (self.high <= 0.0 && figure < 0.0)
    }

    /// Whether all figures are in the band, or else whether they have its sign.
    #[must_use]
    pub fn judge(&self, figures: &[f64]) -> Holds {
        if figures.is_empty() {
            return Holds::NotJudged;
        }
        let all = |is_so: &dyn Fn(f64) -> bool| figures.iter().all(|figure| is_so(*figure));
        Holds::of(all(&|figure| self.has(figure)), all(&|figure| self.has_sign_of(figure)))
    }
}

/// A part of a claim: figures by name, in percent, and the paper's range of each.
#[derive(Debug, Clone)]
pub struct Part<'a> {
    /// What the figures are of, such as `read hits`.
    pub what: &'a str,
    /// Each figure's name, value, and the paper's range.
    pub figures: Vec<(&'a str, f64, Band)>,
}

impl<'a> Part<'a> {
    /// A part whose figures all have the same range.
    pub fn new(what: &'a str, names: &[&'a str], figures: &[f64], band: Band) -> Self {
        Self { what, figures: names.iter().zip(figures).map(|(name, figure)| (*name, *figure, band)).collect() }
    }

    /// The figures outside of their ranges.
    fn outside(&self) -> Option<String> {
        let told = |(name, figure, band): &(&str, f64, Band)| {
            let range = if band.low == band.high {
                percents(&[band.low])
            } else {
                percents(&[band.low, band.high]).replace(", ", " to ")
            };
            (!band.has(*figure)).then(|| format!("{name} {} (the paper: {range})", percents(&[*figure])))
        };
        let all: Vec<_> = self.figures.iter().filter_map(told).collect();
        (!all.is_empty()).then(|| format!("{}: {}", self.what, all.join(", ")))
    }
}

/// A reason that names the figures which are more than a quarter outside of the paper's ranges, and then `why`.
#[must_use]
pub fn reason(parts: &[Part<'_>], why: &str) -> String {
    let outside: Vec<_> = parts.iter().filter_map(Part::outside).collect();
    match (outside.as_slice(), why) {
        ([], why) => why.to_owned(),
        (_, "") => format!("outside of the paper's range: {}", outside.join("; ")),
        _ => format!("outside of the paper's range: {}. {why}", outside.join("; ")),
    }
}

/// Judges "up to `best`": the figure farthest from zero is within a quarter of `best`, and none has another sign.
#[must_use]
pub fn judge_up_to(best: f64, figures: &[f64]) -> Holds {
    let band = Band::at(best);
    let farthest = figures.iter().copied().reduce(|a, b| if a.abs() > b.abs() { a } else { b });
    let Some(farthest) = farthest else { return Holds::NotJudged };
    let signs = figures.iter().all(|figure| band.has_sign_of(*figure));
    Holds::of(signs && band.has(farthest), signs)
}

/// The claims that a published figure of a trace may decide: at most a quarter of the paper's.
pub(crate) const EXPLAINABLE: [&str; 2] = ["N1", "N21"];

/// A claim of a paper and the verdict on it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Verdict {
    /// The claim's identifier, such as `N2`.
    pub id: &'static str,
    /// What the paper says.
    pub claim: &'static str,
    /// The figures that were measured.
    pub found: String,
    /// Whether the claim holds.
    pub holds: Holds,
    /// The reason of the verdict, or a note on it.
    pub reason: String,
}

impl Verdict {
    /// A verdict on the claim `id`, without a reason.
    ///
    /// # Panics
    /// If there is no such claim.
    #[must_use]
    pub fn new(id: &'static str, found: impl Into<String>, holds: Holds) -> Self {
        Self { id, claim: claims::text(id), found: found.into(), holds, reason: String::new() }
    }

    /// The verdict on a claim that was not judged, with the reason.
    #[must_use]
    pub fn not_judged(id: &'static str, why: &str) -> Self {
        Self::new(id, "–", Holds::NotJudged).noting(why)
    }

    /// Adds a reason, unless the claim holds.
    #[must_use]
    pub fn because(mut self, reason: &str) -> Self {
        if self.holds != Holds::Holds {
            reason.clone_into(&mut self.reason);
        }
        self
    }

    /// Adds a note, whether or not the claim holds.
    #[must_use]
    pub fn noting(mut self, reason: &str) -> Self {
        reason.clone_into(&mut self.reason);
        self
    }

    /// Marks a claim that does not hold as explained by a published figure of the trace, and names an experiment that
    /// would settle it.
    ///
    /// # Panics
    /// If the claim is not among those that a figure of a trace may decide.
    #[must_use]
    pub fn explained_by_trace(mut self, why: &str, settled_by: &str) -> Self {
        assert!(EXPLAINABLE.contains(&self.id), "{} is not explained by a trace", self.id);
        if self.holds == Holds::DoesNot {
            self.holds = Holds::ExplainedByTrace;
            self.reason = format!("{why}. What would settle it: {settled_by}");
        }
        self
    }
}

/// Verdicts as a table, for those that stand beside the report's own.
#[must_use]
pub fn judged(title: &str, verdicts: &[Verdict]) -> Table {
    let mut table = Table::new(title, &["claim", "here", "verdict"]);
    let row = |verdict: &Verdict| vec![verdict.id.to_owned(), verdict.found.clone(), verdict.holds.words().to_owned()];
    table.rows.extend(verdicts.iter().map(row));
    table
}

/// The difference of `a` to `b`, in percent of `b`.
#[must_use]
pub fn percent_more(a: f64, b: f64) -> f64 {
    if b == 0.0 { 0.0 } else { (a / b - 1.0) * 100.0 }
}

/// Figures with a sign, in percent: `+12, −3 %`.
#[must_use]
pub fn percents(figures: &[f64]) -> String {
    if figures.is_empty() {
        return "–".to_owned();
    }
    let one = |figure: &f64| format!("{}{:.1}", if *figure < 0.0 { '−' } else { '+' }, figure.abs());
    figures.iter().map(one).collect::<Vec<_>>().join(", ") + " %"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_judged_by_the_papers_range_and_sign() {
        let gain = Band::new(14.0, 25.0);
        assert_eq!(gain.judge(&[14.0, 31.0]), Holds::Holds);
        assert_eq!(gain.judge(&[14.0, 32.0]), Holds::InDirection);
        assert_eq!(gain.judge(&[14.0, -1.0]), Holds::DoesNot);
        let loss = Band::new(-22.0, -13.0);
        assert_eq!(loss.judge(&[-10.0, -27.0]), Holds::Holds);
        assert_eq!(loss.judge(&[-1.0]), Holds::InDirection);
        assert_eq!(loss.judge(&[1.0]), Holds::DoesNot);
        assert_eq!(gain.judge(&[]), Holds::NotJudged);
        // A band with figures on both sides of zero has no sign.
        assert_eq!(Band::new(-9.0, 20.0).judge(&[-11.0, 25.0]), Holds::Holds);
        assert_eq!(Band::new(-9.0, 20.0).judge(&[26.0]), Holds::DoesNot);
        assert_eq!(percents(&[1.26, -3.0]), "+1.3, −3.0 %");
    }

    #[test]
    fn a_reason_names_what_is_outside_of_the_papers_range_and_nothing_else() {
        let names = ["WebVM", "Homes"];
        let hits = Part::new("hits", &names, &[2.1, 14.0], Band::at(14.0));
        let bytes = Part::new("bytes", &names, &[-30.0, -70.0], Band::new(-53.0, -22.0));
        assert_eq!(
            reason(&[hits.clone(), bytes], "Because"),
            "outside of the paper's range: hits: WebVM +2.1 % (the paper: +14.0 %); bytes: Homes −70.0 % (the paper: −53.0 to \
             −22.0 %). Because"
        );
        assert_eq!(reason(&[Part::new("hits", &names, &[14.0, 15.0], Band::at(14.0))], ""), "");
        assert_eq!(reason(&[], "Because"), "Because");
        assert!(!reason(&[hits], "").ends_with(". "));
    }

    #[test]
    fn the_farthest_figure_is_held_against_up_to() {
        assert_eq!(judge_up_to(120.0, &[1.0, 95.0]), Holds::Holds);
        assert_eq!(judge_up_to(120.0, &[1.0, 35.0]), Holds::InDirection);
        assert_eq!(judge_up_to(120.0, &[1.0, 700.0]), Holds::InDirection);
        assert_eq!(judge_up_to(120.0, &[-1.0, 120.0]), Holds::DoesNot);
        assert_eq!(judge_up_to(-55.0, &[-3.0, -60.0]), Holds::Holds);
        assert_eq!(judge_up_to(-55.0, &[]), Holds::NotJudged);
    }

    #[test]
    fn at_most_a_quarter_of_the_claims_may_be_explained_by_the_trace() {
        for id in EXPLAINABLE {
            let paper = claims::CLAIMS.iter().filter(|claim| claim.id[..1] == id[..1]).count();
            let explainable = EXPLAINABLE.iter().filter(|other| other[..1] == id[..1]).count();
            assert!(explainable * 4 <= paper, "{explainable} of {paper}");
        }
        let verdict = Verdict::new("N1", "", Holds::DoesNot).explained_by_trace("so it is", "the trace");
        assert_eq!(verdict.reason, "so it is. What would settle it: the trace");
    }

    #[test]
    #[should_panic(expected = "N2 is not explained by a trace")]
    fn no_other_claim_is_explained_by_the_trace() {
        let _ = Verdict::new("N2", "", Holds::DoesNot).explained_by_trace("so it is", "the trace");
    }

    #[test]
    fn a_sentence_is_judged_by_its_worse_part() {
        assert_eq!(Holds::Holds.and(Holds::InDirection), Holds::InDirection);
        assert_eq!(Holds::NotJudged.and(Holds::Holds), Holds::NotJudged);
        assert_eq!(Holds::NotJudged.and(Holds::DoesNot), Holds::DoesNot);
        let explained = |holds| Verdict::new("N1", "", holds).explained_by_trace("so it is", "the trace");
        assert_eq!(explained(Holds::DoesNot).holds, Holds::ExplainedByTrace);
        assert_eq!(explained(Holds::InDirection).holds, Holds::InDirection);
    }
}
