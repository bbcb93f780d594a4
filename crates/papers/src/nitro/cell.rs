//! A simulation, and the outcomes of many.

use super::work::Work;
use hashbrown::HashMap;
use nitro_sim::Settings;
use nitro_sim::{Measures, Outcome};

/// A simulation: a trace and the cache that it is run through.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// The trace.
    pub work: Work,
    /// The cache's settings.
    pub settings: Settings,
}

impl Cell {
    fn key(&self) -> String {
        format!("{} {:?}", self.work.key(), self.settings)
    }
}

/// The outcomes of cells, by key.
#[derive(Debug, Clone, Default)]
pub struct Outcomes {
    by_key: HashMap<String, Outcome>,
    failures: Vec<String>,
}

impl Outcomes {
    pub(super) fn insert(&mut self, cell: &Cell, outcome: Outcome) {
        self.by_key.insert(cell.key(), outcome);
    }

    pub(super) fn fail(&mut self, why: String) {
        if !self.failures.contains(&why) {
            self.failures.push(why);
        }
    }

    /// Adds the outcomes of further cells.
    pub(super) fn add(&mut self, others: Self) {
        self.by_key.extend(others.by_key);
        others.failures.into_iter().for_each(|why| self.fail(why));
    }

    /// The outcome of a cell, if it has one.
    #[must_use]
    pub fn outcome(&self, cell: &Cell) -> Option<&Outcome> {
        self.by_key.get(&cell.key())
    }

    /// The measurements of a cell, if it ran.
    #[must_use]
    pub fn measures(&self, cell: &Cell) -> Option<&Measures> {
        self.outcome(cell).map(|outcome| &outcome.measured)
    }

    /// The reasons why cells could not run, each once.
    #[must_use]
    pub fn failures(&self) -> &[String] {
        &self.failures
    }
}
