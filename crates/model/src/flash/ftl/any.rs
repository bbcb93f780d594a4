//! A translation layer that is chosen at run time.

use super::{CoDesigned, CoDesignedSettings, Ftl, Hybrid, HybridSettings, PageMapped, PageMappedSettings};
use crate::{Error, Flash, Geometry, Lpn, Medium, PageRun, Ppn};
use serde::Serialize;

/// A translation layer and its settings.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(tag = "ftl", rename_all = "kebab-case")]
pub enum FtlSettings {
    /// Hybrid mapping: the unmodified SSD of the Nitro paper.
    Hybrid(HybridSettings),
    /// Page mapping.
    PageMapped(PageMappedSettings),
    /// An SSD designed together with the cache: the modified SSD of the Nitro paper.
    CoDesigned(CoDesignedSettings),
}

impl FtlSettings {
    /// Creates the layer on erased flash.
    ///
    /// # Errors
    /// A setting or the geometry is out of bounds, or the SSD is too small.
    pub fn build(self, geometry: Geometry) -> Result<AnyFtl, Error> {
        Ok(match self {
            Self::Hybrid(settings) => AnyFtl::Hybrid(Hybrid::new(geometry, settings)?),
            Self::PageMapped(settings) => AnyFtl::PageMapped(PageMapped::new(geometry, settings)?),
            Self::CoDesigned(settings) => AnyFtl::CoDesigned(CoDesigned::new(geometry, settings)?),
        })
    }

    /// Superblocks that the host may use on an SSD of `blocks` superblocks.
    ///
    /// # Errors
    /// A setting is out of bounds, or the SSD is too small.
    pub fn logical_blocks(&self, blocks: u32) -> Result<u32, Error> {
        match self {
            Self::Hybrid(settings) => settings.logical_blocks(blocks),
            Self::PageMapped(settings) => settings.logical_blocks(blocks),
            Self::CoDesigned(settings) => settings.logical_blocks(blocks),
        }
    }

    /// `geometry` with the smallest number of superblocks that gives the host `logical_bytes`.
    ///
    /// # Errors
    /// A setting or the geometry is out of bounds, or the SSD has more pages than 32 bits can number.
    pub fn geometry_for(&self, geometry: Geometry, logical_bytes: u64) -> Result<Geometry, Error> {
        geometry.check()?;
        let wanted = logical_bytes.div_ceil(geometry.block_bytes()).max(1);
        let too_large = Error::TooLarge { pages: wanted.saturating_mul(geometry.block_pages().into()) };
        let (mut low, mut high) = (1, u32::MAX / geometry.block_pages() - 1);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.logical_blocks(middle) {
                Ok(logical) if u64::from(logical) >= wanted => high = middle,
                Ok(_) | Err(Error::TooSmall { .. }) => low = middle + 1,
                Err(error) => return Err(error),
            }
        }
        if u64::from(self.logical_blocks(low)?) < wanted {
            return Err(too_large);
        }
        Ok(Geometry { superblocks: low, ..geometry })
    }
}

/// A translation layer of any kind.
#[derive(Debug)]
pub enum AnyFtl {
    /// Hybrid mapping.
    Hybrid(Hybrid),
    /// Page mapping.
    PageMapped(PageMapped),
    /// An SSD designed together with the cache.
    CoDesigned(CoDesigned),
}

/// Calls a method of the layer inside.
macro_rules! each {
    ($any:expr, $ftl:ident => $call:expr) => {
        match $any {
            AnyFtl::Hybrid($ftl) => $call,
            AnyFtl::PageMapped($ftl) => $call,
            AnyFtl::CoDesigned($ftl) => $call,
        }
    };
}

impl Ftl for AnyFtl {
    fn flash(&self) -> &Flash {
        each!(self, ftl => ftl.flash())
    }

    fn logical_pages(&self) -> u32 {
        each!(self, ftl => ftl.logical_pages())
    }

    fn lookup(&self, lpn: Lpn) -> Option<Ppn> {
        each!(self, ftl => ftl.lookup(lpn))
    }

    fn write<M: Medium>(&mut self, run: PageRun, medium: &mut M) {
        each!(self, ftl => ftl.write(run, medium));
    }

    fn read(&mut self, run: PageRun) {
        each!(self, ftl => ftl.read(run));
    }

    fn note_partial(&mut self, pages: u32) {
        each!(self, ftl => ftl.note_partial(pages));
    }

    fn trim<M: Medium>(&mut self, run: PageRun, medium: &mut M) {
        each!(self, ftl => ftl.trim(run, medium));
    }

    fn victim(&self) -> Option<PageRun> {
        each!(self, ftl => ftl.victim())
    }
}
