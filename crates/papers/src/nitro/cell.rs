//! One simulation, and the outcomes of many.

use super::work::Work;
use hashbrown::HashMap;
use nitro_sim::Settings;
use nitro_sim::{Measures, Outcome};

/// A trace and the cache that it is run through.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cell {
    /// The trace.
    pub work: Work,
    /// The cache.
    pub settings: Settings,
}

impl Cell {
    fn key(&self) -> String {
        format!("{} {:?}", self.work.key(), self.settings)
    }
}

/// Outcomes by their cells.
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

    /// A cell's outcome, if it has one.
    #[must_use]
    pub fn outcome(&self, cell: &Cell) -> Option<&Outcome> {
        self.by_key.get(&cell.key())
    }

    /// What a cell measured, if it ran.
    #[must_use]
    pub fn measures(&self, cell: &Cell) -> Option<&Measures> {
        self.outcome(cell).map(|outcome| &outcome.measured)
    }

    /// Why cells could not run, each reason once.
    #[must_use]
    pub fn failures(&self) -> &[String] {
        &self.failures
    }
}
