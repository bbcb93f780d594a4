//! Records that are valid, but not requests.

use std::fmt;

/// The records of a trace that are valid, but not requests: how many of which kind.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Others {
    kinds: Vec<(&'static str, u64)>,
}

impl Others {
    /// Counts a record of `kind`, a phrase in the plural.
    pub(crate) fn note(&mut self, kind: &'static str) {
        match self.kinds.iter_mut().find(|(noted, _)| *noted == kind) {
            Some((_, count)) => *count += 1,
            None => self.kinds.push((kind, 1)),
        }
    }

    /// The number of all of them.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.kinds.iter().map(|(_, count)| count).sum()
    }

    /// Whether there are records of `kind`.
    #[must_use]
    pub fn contains(&self, kind: &str) -> bool {
        self.kinds.iter().any(|(noted, _)| *noted == kind)
    }
}

/// The kinds with their numbers, in the order of their first occurrence.
impl fmt::Display for Others {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (kind, count)) in self.kinds.iter().enumerate() {
            let separator = if number == 0 { "" } else { ", " };
            write!(f, "{separator}{count} {kind}")?;
        }
        Ok(())
    }
}
