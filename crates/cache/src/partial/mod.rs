//! Writes of a part of an extent, in write-through: what becomes of the extent in the cache. The server and the simulator
//! follow the same rule.
//!
//! A part of an extent that is cached, wherever, is merged with it. Parts of an extent that is not cached wait in RAM until they
//! make up the whole, as those of writes in sequence do that are not aligned. If that does not happen in time, the rest of the
//! extent is read from the origin where it is worth it, and if few have been read for those that were written.

mod covered;
mod waiting;

pub use covered::Covered;
pub use waiting::{Gathered, Waiting};

/// RAM in bytes for parts that wait.
pub const WAITING_BYTES: u64 = 1 << 20;

/// How a write of a part of an extent that is not cached is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum PartialWrites {
    /// The extent stays uncached.
    Merge,
    /// Its parts wait for further ones; then the rest is read from the origin if the extent is worth it.
    #[default]
    Worth,
    /// The rest is read from the origin (Nitro §6.2 on Mail).
    Fetch,
}

/// What becomes of the parts of an extent that is not cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Nothing: the extent stays uncached.
    Leave,
    /// They wait for further parts.
    Wait,
    /// The rest is read from the origin.
    Fetch,
    /// They are the whole extent.
    Whole,
}

impl PartialWrites {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Merge, Self::Worth, Self::Fetch];

    /// Its name in configurations and on command lines.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Merge => "merge",
            Self::Worth => "worth",
            Self::Fetch => "fetch",
        }
    }

    /// The treatment of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|how| how.name() == name)
    }

    /// Whether parts may wait.
    #[must_use]
    pub const fn keeps_parts(self) -> bool {
        matches!(self, Self::Worth)
    }

    /// What becomes of the parts of an extent that is not cached. `is_whole`: they are all of it.
    #[must_use]
    pub const fn fate(self, is_whole: bool) -> Fate {
        match self {
            Self::Merge => Fate::Leave,
            Self::Worth | Self::Fetch if is_whole => Fate::Whole,
            Self::Worth => Fate::Wait,
            Self::Fetch => Fate::Fetch,
        }
    }
}

crate::by_name::by_name!(PartialWrites, "treatment of partial writes");
