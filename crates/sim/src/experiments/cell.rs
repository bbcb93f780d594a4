//! One simulation, and the outcomes of many.

use super::Work;
use crate::outcome::{Measures, Outcome};
use crate::settings::Settings;
use hashbrown::HashMap;
use serde::{Deserialize, Serialize};

/// A trace and the cache that it is run through.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cell {
    /// The trace.
    pub work: Work,
    /// The cache.
    pub settings: Settings,
}

impl Cell {
    /// Names it: the same in every run of the same version.
    #[must_use]
    pub fn key(&self) -> String {
        format!("{:?} {:?}", self.work, self.settings)
    }
}

/// An outcome, or why there is none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Result {
    /// It ran.
    Done(Box<Outcome>),
    /// It could not.
    Failed(String),
}

/// Outcomes by their cells.
#[derive(Debug, Clone, Default)]
pub struct Outcomes {
    by_key: HashMap<String, Result>,
}

impl Outcomes {
    /// Adds one.
    pub fn insert(&mut self, key: String, result: Result) {
        self.by_key.insert(key, result);
    }

    /// Whether a cell has run, with or without success.
    #[must_use]
    pub fn has(&self, cell: &Cell) -> bool {
        self.by_key.contains_key(&cell.key())
    }

    /// A cell's outcome, if it has one.
    #[must_use]
    pub fn outcome(&self, cell: &Cell) -> Option<&Outcome> {
        match self.by_key.get(&cell.key())? {
            Result::Done(outcome) => Some(outcome),
            Result::Failed(_) => None,
        }
    }

    /// What a cell measured, if it ran.
    #[must_use]
    pub fn measures(&self, cell: &Cell) -> Option<&Measures> {
        self.outcome(cell).map(|outcome| &outcome.measured)
    }

    /// Why cells could not run, each reason once.
    #[must_use]
    pub fn failures(&self) -> Vec<&str> {
        let failed = self.by_key.values().filter_map(|result| match result {
            Result::Done(_) => None,
            Result::Failed(why) => Some(why.as_str()),
        });
        let mut all: Vec<_> = failed.collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}
