//! Newtypes of the model's numbers and counts.

use std::ops::{Add, Range};
use std::time::Duration;

/// The value for "none" in maps of 32-bit numbers.
pub(crate) const NONE: u32 = u32::MAX;

/// The number of a logical page, as the host uses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lpn(pub u32);

/// The number of a physical page: block number × pages per block + the page's position in its block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ppn(pub u32);

/// The number of a block as a translation layer sees it: a superblock of [`Geometry::stripe`](crate::Geometry::stripe)
/// erase blocks that are filled in turn and erased together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId(pub u32);

impl BlockId {
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Consecutive logical pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageRun {
    /// The first page.
    pub first: Lpn,
    /// The number of pages.
    pub pages: u32,
}

impl PageRun {
    /// One page.
    #[must_use]
    pub const fn one(lpn: Lpn) -> Self {
        Self { first: lpn, pages: 1 }
    }

    /// The page numbers. The run must end at or below 2³² - 1.
    pub(crate) const fn range(self) -> Range<u32> {
        self.first.0..self.first.0 + self.pages
    }

    /// The run, cut at the boundaries of blocks of `block_pages`: `(block number, positions in it)`.
    pub(crate) fn by_block(self, block_pages: u32) -> impl Iterator<Item = (u32, Range<u32>)> {
        let Range { start, end } = self.range();
        let blocks = if start == end { 0..0 } else { start / block_pages..(end - 1) / block_pages + 1 };
        blocks.map(move |block| {
            let base = block * block_pages;
            (block, start.max(base) - base..(end - base).min(block_pages))
        })
    }
}

/// Virtual time since an arbitrary fixed moment, or a duration, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, serde::Serialize)]
pub struct Nanos(pub u64);

impl Nanos {
    /// The moment from which time is counted.
    pub const ZERO: Self = Self(0);

    /// A duration of `us` microseconds.
    #[must_use]
    pub const fn from_us(us: u64) -> Self {
        Self(us * 1000)
    }
}

impl Add for Nanos {
    type Output = Self;

    fn add(self, span: Self) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl From<Duration> for Nanos {
    fn from(duration: Duration) -> Self {
        Self(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Nanos> for Duration {
    fn from(nanos: Nanos) -> Self {
        Self::from_nanos(nanos.0)
    }
}
