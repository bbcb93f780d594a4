//! Slots whose surviving extents are copied forward before the rest is evicted, and the state of single entries for
//! this.

use super::slots::WeuTable;
use crate::shelf::{Lane, Shelf};
use nitro_units::{ClassId, WeuId};

impl WeuTable {
    /// The shelf of a slot.
    pub(crate) fn shelf(&self, weu: WeuId) -> Shelf {
        self.slot(weu).shelf
    }

    /// The lane of a slot.
    pub(crate) fn lane(&self, weu: WeuId) -> Lane {
        self.shelf(weu).lane
    }

    /// Marks a slot as leaving: it is served as before, but is neither chosen for eviction nor named by new journal
    /// records.
    pub(crate) fn leave(&mut self, weu: WeuId) {
        self.slot_mut(weu).leaving = true;
        self.order_mut().leave(weu);
    }

    /// Whether a slot is leaving.
    pub(crate) fn is_leaving(&self, weu: WeuId) -> bool {
        self.slot(weu).leaving
    }

    /// How often an entry was used again.
    pub(crate) fn heat(&self, weu: WeuId, entry: u16) -> u8 {
        self.slot(weu).heats.get(entry)
    }

    /// Sets how often an entry counts as used again.
    pub(crate) fn set_heat(&mut self, weu: WeuId, entry: u16, heat: u8) {
        self.slot_mut(weu).heats.set(entry, heat);
    }

    /// The class that an entry was stored for.
    pub(crate) fn class_of(&self, weu: WeuId, entry: u16) -> ClassId {
        self.slot(weu).class_of(entry)
    }
}
