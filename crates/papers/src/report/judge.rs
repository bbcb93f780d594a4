//! Whether a claim holds.

use serde::Serialize;

/// Whether it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Holds {
    /// Every figure lies where the paper's do, within a quarter of them.
    Holds,
    /// Figures differ, but what is better and what is worse does not.
    InDirection,
    /// It does not.
    DoesNot,
    /// It was not looked at.
    NotMeasured,
}

impl Holds {
    /// For people.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::InDirection => "holds in direction",
            Self::DoesNot => "does not hold",
            Self::NotMeasured => "not measured",
        }
    }

    /// The worse of two; what was not measured is left out.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let rank = |holds| match holds {
            Self::NotMeasured => 0,
            Self::Holds => 1,
            Self::InDirection => 2,
            Self::DoesNot => 3,
        };
        if rank(other) > rank(self) { other } else { self }
    }

    /// For a condition.
    #[must_use]
    pub const fn of(is_so: bool, direction: bool) -> Self {
        match (is_so, direction) {
            (true, _) => Self::Holds,
            (false, true) => Self::InDirection,
            (false, false) => Self::DoesNot,
        }
    }
}

/// Where the paper's figures lie.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Band {
    /// The least.
    pub low: f64,
    /// The most.
    pub high: f64,
}

impl Band {
    /// From `low` to `high`.
    #[must_use]
    pub const fn new(low: f64, high: f64) -> Self {
        Self { low, high }
    }

    /// From `low` on.
    #[must_use]
    pub const fn from(low: f64) -> Self {
        Self { low, high: f64::INFINITY }
    }

    /// Whether figures lie in the band, widened by a quarter of each bound; else whether they have the sign that its middle has.
    #[must_use]
    pub fn judge(&self, figures: &[f64]) -> Holds {
        if figures.is_empty() {
            return Holds::NotMeasured;
        }
        let low = self.low - 0.25 * self.low.abs();
        let high = self.high + 0.25 * self.high.abs();
        let within = figures.iter().all(|figure| (low..=high).contains(figure));
        let is_gain = self.low + self.high.min(f64::MAX) > 0.0;
        let direction = figures.iter().all(|figure| if is_gain { *figure > 0.0 } else { *figure < 0.0 });
        Holds::of(within, direction)
    }
}

/// A claim of the paper and what became of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Verdict {
    /// The claim's name, such as `N2`.
    pub id: &'static str,
    /// What the paper says.
    pub claim: &'static str,
    /// What was found.
    pub found: String,
    /// Whether it holds.
    pub holds: Holds,
    /// Why not, or what is to be known about it.
    pub reason: String,
}

impl Verdict {
    /// A verdict without a reason.
    #[must_use]
    pub fn new(id: &'static str, claim: &'static str, found: impl Into<String>, holds: Holds) -> Self {
        Self { id, claim, found: found.into(), holds, reason: String::new() }
    }

    /// With what is to be known about it, unless it simply holds.
    #[must_use]
    pub fn because(mut self, reason: &str) -> Self {
        if self.holds != Holds::Holds {
            reason.clone_into(&mut self.reason);
        }
        self
    }

    /// With what is to be known about it in any case.
    #[must_use]
    pub fn noting(mut self, reason: &str) -> Self {
        reason.clone_into(&mut self.reason);
        self
    }
}

/// `a` beside `b`, in percent more (or, negative, less).
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
        assert_eq!(Band::from(254.0).judge(&[1000.0]), Holds::Holds);
        assert_eq!(gain.judge(&[]), Holds::NotMeasured);
        assert_eq!(Holds::Holds.and(Holds::InDirection), Holds::InDirection);
        assert_eq!(percents(&[1.26, -3.0]), "+1.3, −3.0 %");
    }
}
