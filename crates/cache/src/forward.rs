//! Copying forward: extents of a victim that are worth keeping are copied in their stored form, with all their keys,
//! into an open unit, before the rest is evicted.
//!
//! The caller reads the unit once, checks each survivor's checksum, and stores it again: [`begin_leaving`],
//! [`survivors`], for each of them [`forward`], and [`begin_eviction_of_rest`]. The version of an entry does not
//! change: a newer one would override later records in the journal. If the first key was dropped, the content is copied
//! under another one that used it since, with a new version. Dups of an evicted entry are found by a *forwarding
//! table* of the filling, until the cleaner has pointed all of them to the new location: 12 bytes for each survivor
//! that ever had a dup, for two passes of the cleaner.
//!
//! [`begin_leaving`]: crate::CacheManager::begin_leaving
//! [`survivors`]: crate::CacheManager::survivors
//! [`forward`]: crate::CacheManager::forward
//! [`begin_eviction_of_rest`]: crate::CacheManager::begin_eviction_of_rest

use crate::eviction::Keep;
use crate::file_index::{Dup, Reference};
use crate::shelf::{Band, Lane, Shelf};
use crate::weu::{HEAT_MAX, Location};
use nitro_units::{ExtentKey, Generation, WeuId};
use std::collections::HashMap;

/// Passes of the cleaner after which no dup refers to a filling any more.
const PASSES_KEPT: u64 = 2;

/// A unit that is about to be evicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leaving {
    /// The unit.
    pub weu: WeuId,
    /// The generation of its filling.
    pub generation: Generation,
    pub(crate) keep: Keep,
    pub(crate) shelf: Shelf,
    /// Whether extents may survive because of their class, although the policy of eviction does not keep them.
    pub(crate) has_bands: bool,
    /// Whether it holds pinned extents.
    pub(crate) has_pinned: bool,
}

impl Leaving {
    /// Whether anything may survive.
    #[must_use]
    pub const fn keeps_any(&self) -> bool {
        self.keep.heat_min <= HEAT_MAX || self.has_bands || self.has_pinned
    }

    /// The shelf to which a survivor is copied.
    #[must_use]
    pub fn shelf_of(&self, survivor: &Survivor) -> Shelf {
        let lane = match self.shelf.lane {
            Lane::Side | Lane::Dirty if survivor.heat < self.keep.main_min && !survivor.pinned => Lane::Side,
            Lane::Main | Lane::Side | Lane::Dirty => Lane::Main,
        };
        Shelf { lane, band: survivor.band }
    }
}

/// An extent that is copied forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Survivor {
    /// The key that the header of its unit has.
    pub first: ExtentKey,
    /// The key under which it is copied: the first one, or the one of its heir.
    pub key: ExtentKey,
    /// What that key refers to.
    pub(crate) owner: Reference,
    /// Its location.
    pub location: Location,
    pub(crate) heat: u8,
    /// The band of its class.
    pub(crate) band: Band,
    /// It is copied independently of its heat.
    pub(crate) pinned: bool,
}

impl Survivor {
    /// Whether its first key was dropped, so that it is copied under another one.
    #[must_use]
    pub const fn is_inherited(&self) -> bool {
        matches!(self.owner, Reference::Dup(_))
    }
}

/// The new locations of the extents of an evicted filling.
#[derive(Debug)]
struct Forwarding {
    generation: Generation,
    /// The cleaner's pass in which the filling was evicted.
    pass: u64,
    /// By entry, in ascending order.
    places: Vec<(u16, WeuId, u16, Generation)>,
}

/// The forwarding tables.
#[derive(Debug, Default)]
pub(crate) struct Forwardings {
    by_weu: HashMap<WeuId, Vec<Forwarding>>,
}

impl Forwardings {
    /// Notes in pass `pass` of the cleaner that an extent was copied.
    pub(crate) fn note(&mut self, from: &Location, to: &Location, pass: u64) {
        let Location { weu, generation, entry, .. } = *from;
        let tables = self.by_weu.entry(weu).or_default();
        if tables.last().is_none_or(|table| table.generation != generation) {
            tables.push(Forwarding { generation, pass, places: Vec::new() });
        }
        if let Some(table) = tables.last_mut() {
            table.pass = pass;
            table.places.push((entry, to.weu, to.entry, to.generation));
        }
    }

    /// Where the content of a dup was copied to.
    pub(crate) fn find(&self, dup: &Dup) -> Option<(WeuId, u16, Generation)> {
        let table = self.by_weu.get(&dup.weu())?.iter().find(|table| dup.is_of(table.generation))?;
        let at = table.places.binary_search_by_key(&dup.entry(), |place| place.0).ok()?;
        table.places.get(at).map(|(_, weu, entry, generation)| (*weu, *entry, *generation))
    }

    /// Drops the tables that no dup needs any more.
    pub(crate) fn clean(&mut self, pass: u64) {
        self.by_weu.retain(|_, tables| {
            tables.retain(|table| table.pass + PASSES_KEPT > pass);
            !tables.is_empty()
        });
    }

    pub(crate) fn ram_bytes(&self) -> usize {
        let places = self.by_weu.values().flatten().map(|table| table.places.capacity());
        places.sum::<usize>() * size_of::<(u16, WeuId, u16, Generation)>()
            // Not the table's capacity, which depends on the random seed of its hash function.
            + self.by_weu.len() * size_of::<(WeuId, Vec<Forwarding>)>()
    }
}
