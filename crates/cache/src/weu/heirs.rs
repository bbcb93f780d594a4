//! The entries of a slot to which other keys than their first one refer, or referred: *dups*. If the first key of such an
//! entry is dropped, the dup that used it last is its *heir*: under the key of the heir, it can still be copied forward.

use super::bits::Bits;
use super::slots::WeuTable;
use nitro_units::WeuId;

/// What is known of a slot's entries because of dups.
#[derive(Debug, Default)]
pub(super) struct Keys {
    /// Whether a dup ever referred to an entry.
    shared: Bits,
    /// Whether the first key of an entry ceased to refer to it.
    orphans: Bits,
    /// For some of these, in ascending order, the number of the dup that used it last.
    heirs: Vec<(u16, u32)>,
}

impl Keys {
    pub(super) fn ram_bytes(&self) -> usize {
        let heirs = self.heirs.capacity() * size_of::<(u16, u32)>();
        size_of::<Self>() + self.shared.ram_bytes() + self.orphans.ram_bytes() + heirs
    }
}

impl WeuTable {
    fn keys_mut(&mut self, weu: WeuId) -> &mut Keys {
        self.slot_mut(weu).keys.get_or_insert_default()
    }

    /// Notes that a dup refers to an entry.
    pub(crate) fn share(&mut self, weu: WeuId, entry: u16) {
        self.keys_mut(weu).shared.set(entry);
    }

    /// Whether a dup ever referred to an entry.
    pub(crate) fn is_shared(&self, weu: WeuId, entry: u16) -> bool {
        self.slot(weu).keys.as_ref().is_some_and(|keys| keys.shared.has(entry))
    }

    /// Notes that the first key of an entry does not refer to it any more.
    pub(crate) fn orphan(&mut self, weu: WeuId, entry: u16) {
        self.keys_mut(weu).orphans.set(entry);
    }

    /// Notes that a dup refers to an entry and was used. It becomes the heir if the first key does not refer to the entry.
    pub(crate) fn used_by(&mut self, weu: WeuId, entry: u16, dup: u32) {
        let Some(keys) = self.slot_mut(weu).keys.as_mut().filter(|keys| keys.orphans.has(entry)) else { return };
        match keys.heirs.binary_search_by_key(&entry, |heir| heir.0) {
            Ok(at) => keys.heirs[at].1 = dup,
            Err(at) => keys.heirs.insert(at, (entry, dup)),
        }
    }

    /// The dup that used an entry last since its first key was dropped. It may refer to something else by now.
    pub(crate) fn heir(&self, weu: WeuId, entry: u16) -> Option<u32> {
        let heirs = &self.slot(weu).keys.as_ref()?.heirs;
        heirs.binary_search_by_key(&entry, |heir| heir.0).ok().map(|at| heirs[at].1)
    }
}
