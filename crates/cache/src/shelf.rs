//! Lane and band: the kinds of content that are kept in units of their own.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The lane of content: units of different lanes are filled concurrently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Lane {
    /// Content that is expected to stay.
    #[default]
    Main,
    /// Content that a policy separates from the rest.
    Side,
    /// Dirty content. Policies of admission do not choose this lane.
    Dirty,
}

impl Lane {
    /// The lanes from which policies choose.
    pub const CLEAN: [Self; 2] = [Self::Main, Self::Side];

    /// Its index in [`CLEAN`](Self::CLEAN).
    #[must_use]
    pub const fn index(self) -> usize {
        match self {
            Self::Main | Self::Dirty => 0,
            Self::Side => 1,
        }
    }
}

/// A band of priority. The lowest band is evicted first. Of the sixteen steps, four have words as names; those between them
/// have numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "&'static str")]
pub struct Band(u8);

impl Band {
    /// The number of steps.
    pub const STEPS: usize = 16;
    /// The number of words.
    pub const COUNT: usize = 4;
    /// The band that is evicted first.
    pub(crate) const LOWEST: Self = Self(0);
    /// The default band.
    pub const NORMAL: Self = Self(7);
    /// Those with words, from the first to be evicted to the last.
    pub const ALL: [Self; Self::COUNT] = [Self(3), Self::NORMAL, Self(11), Self(15)];
    /// The names of the steps.
    const NAMES: [&'static str; Self::STEPS] =
        ["0", "1", "2", "low", "4", "5", "6", "normal", "8", "9", "10", "high", "12", "13", "14", "highest"];

    /// Its name in configurations.
    #[must_use]
    pub const fn name(self) -> &'static str {
        Self::NAMES[self.index()]
    }

    /// All steps, from the first to be evicted to the last.
    pub fn steps() -> impl DoubleEndedIterator<Item = Self> {
        (0..Self::STEPS as u8).map(Self)
    }

    /// The band of that name or number.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::steps().find(|band| band.name() == name || band.0.to_string() == name)
    }

    /// Its number among all steps.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize % Self::STEPS
    }

    /// The number of its word in [`ALL`](Self::ALL): of the lowest word that is not below it.
    #[must_use]
    pub const fn level(self) -> usize {
        self.index() * Self::COUNT / Self::STEPS
    }

    /// The place of this band in an order of `bands`, if the bands `used` are distinguished, which are in ascending order:
    /// adjacent ones are merged.
    pub(crate) fn place(self, used: &[Self], bands: usize) -> Self {
        let place = used.iter().position(|band| *band >= self).unwrap_or(0);
        Self((place * bands / used.len().max(1)) as u8)
    }
}

impl Default for Band {
    fn default() -> Self {
        Self::NORMAL
    }
}

impl From<Band> for &'static str {
    fn from(band: Band) -> Self {
        band.name()
    }
}

impl TryFrom<String> for Band {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        Self::named(&name)
            .ok_or_else(|| format!("there is no priority {name:?}; there are: low, normal, high, highest, and 0 to 15"))
    }
}

impl fmt::Display for Band {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The kind of content in an open unit: units of different shelves are filled concurrently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Shelf {
    /// The lane, chosen by policies.
    pub lane: Lane,
    /// The place in the order of bands, chosen by classes.
    pub band: Band,
}

impl Shelf {
    /// The number of shelves for clean content.
    pub const COUNT: usize = Lane::CLEAN.len() * Band::STEPS;

    /// The shelves for clean content.
    pub fn clean() -> impl Iterator<Item = Self> {
        Band::steps().flat_map(|band| Lane::CLEAN.map(|lane| Self { lane, band }))
    }

    /// Its index in [`clean`](Self::clean).
    #[must_use]
    pub const fn index(self) -> usize {
        self.band.index() * Lane::CLEAN.len() + self.lane.index()
    }
}

impl From<Lane> for Shelf {
    /// The shelf of a lane, without classes.
    fn from(lane: Lane) -> Self {
        Self { lane, band: Band::default() }
    }
}
