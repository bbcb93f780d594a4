//! How many claims of each paper have which verdict.

use super::{Holds, Verdict};
use crate::claims::PAPERS;

/// The verdicts on a paper's claims, in the order of the claims.
pub(super) struct OfPaper<'a> {
    /// The paper's name.
    pub(super) name: &'static str,
    pub(super) verdicts: Vec<&'a Verdict>,
}

impl OfPaper<'_> {
    /// Each verdict that occurs, from the best to the worst, and how often it does.
    pub(super) fn counts(&self) -> Vec<(Holds, usize)> {
        counts(&self.verdicts)
    }
}

/// Each verdict that occurs, from the best to the worst, and how often it does.
pub(super) fn counts(verdicts: &[&Verdict]) -> Vec<(Holds, usize)> {
    let count = |holds| verdicts.iter().filter(|verdict| verdict.holds == holds).count();
    Holds::ALL.map(|holds| (holds, count(holds))).into_iter().filter(|(_, count)| *count > 0).collect()
}

/// Counts in words: `12 hold, 3 not judged`.
pub(super) fn words(counts: &[(Holds, usize)]) -> String {
    counts.iter().map(|(holds, count)| format!("{count} {}", holds.words())).collect::<Vec<_>>().join(", ")
}

/// The papers with verdicts.
pub(super) fn by_paper<'a>(verdicts: &[&'a Verdict]) -> Vec<OfPaper<'a>> {
    let of = |(letter, name): (char, &'static str)| OfPaper {
        name,
        verdicts: verdicts.iter().filter(|verdict| verdict.id.starts_with(letter)).copied().collect(),
    };
    PAPERS.into_iter().map(of).filter(|paper| !paper.verdicts.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims;

    #[test]
    fn every_claim_is_of_one_paper_and_each_verdict_is_counted_once() {
        let verdicts: Vec<_> = claims::all().map(|claim| Verdict::new(claim.id, "", Holds::DoesNot)).collect();
        let papers = verdicts.iter().collect::<Vec<_>>();
        let papers = by_paper(&papers);
        assert_eq!(papers.iter().map(|paper| paper.verdicts.len()).sum::<usize>(), verdicts.len());
        assert_eq!(papers.len(), PAPERS.len());
        let mixed = [Holds::DoesNot, Holds::Holds, Holds::DoesNot].map(|holds| Verdict::new("N1", "", holds));
        let counts = counts(&mixed.iter().collect::<Vec<_>>());
        assert_eq!(counts, [(Holds::Holds, 1), (Holds::DoesNot, 2)]);
        assert_eq!(words(&counts), "1 holds, 2 does not hold");
    }
}
