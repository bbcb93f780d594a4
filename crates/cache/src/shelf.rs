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

/// A band of priority. The lowest band is evicted first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "&'static str")]
pub struct Band(u8);

impl Band {
    /// The number of bands.
    pub const COUNT: usize = 4;
    /// The band that is evicted first.
    pub(crate) const LOWEST: Self = Self(0);
    /// The default band.
    pub const NORMAL: Self = Self(1);
    /// From the first to be evicted to the last.
    pub const ALL: [Self; Self::COUNT] = [Self(0), Self(1), Self(2), Self(3)];

    /// Its name in configurations.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self.0 {
            0 => "low",
            1 => "normal",
            2 => "high",
            _ => "highest",
        }
    }

    /// The band of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|band| band.name() == name)
    }

    /// Its index in [`ALL`](Self::ALL).
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The band that represents this one if there are only `bands`: adjacent bands are merged.
    pub(crate) const fn merged(self, bands: usize) -> Self {
        Self((self.index() * bands / Self::COUNT) as u8)
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
            .ok_or_else(|| format!("there is no priority {name:?}; there are: low, normal, high, highest"))
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
    /// The band, chosen by classes.
    pub band: Band,
}

impl Shelf {
    /// The number of shelves for clean content.
    pub const COUNT: usize = Lane::CLEAN.len() * Band::COUNT;

    /// The shelves for clean content.
    pub fn clean() -> impl Iterator<Item = Self> {
        Band::ALL.into_iter().flat_map(|band| Lane::CLEAN.map(|lane| Self { lane, band }))
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
