//! Look-ups of content through short fingerprints.

use super::Short;
use super::page::{Entry, Owner, Owners};
use crate::Store;
use crate::format::container::ContainerChunk;
use crate::format::record::SlotState;
use crate::place::Place;
use crate::slots::Slot;
use crate::ssd::Ssd;
use nitro_port::Device;
use nitro_units::Fingerprint;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// The maximum number of containers whose metadata a look-up reads.
const READ_MAX: usize = 3;

impl<D: Device> Store<D> {
    /// The SSD, if it has short fingerprints.
    fn ssd_with_short(&self) -> Option<Arc<Ssd>> {
        self.ssd.get().filter(|ssd| ssd.short().is_some())
    }

    /// The place of a content according to the short fingerprints on the SSD and the metadata of the container that
    /// they name. It is marked for the collector. `None`: the index knows. `loads`: whether the fingerprints of the
    /// container are loaded into RAM.
    pub(crate) async fn find_by_short(&self, fingerprint: &Fingerprint, loads: bool) -> Option<Place> {
        let ssd = self.ssd_with_short()?;
        let short = ssd.short()?;
        let mut reads = 0;
        let mut tried: Vec<Owner> = Vec::new();
        for owner in ssd.owners(short, fingerprint).await {
            if tried.contains(&owner) {
                continue;
            }
            tried.push(owner);
            let slot = short.owners.slot(owner);
            let held = self.state.lock().slots.get(slot);
            if !short.owners.is_of(owner, &held) {
                short.tallies.stale.fetch_add(1, Relaxed);
                continue;
            }
            if held.state != SlotState::Sealed || held.leaving {
                continue;
            }
            if reads == READ_MAX {
                break;
            }
            reads += 1;
            // Where it cannot be read, the index decides.
            let Ok(chunks) = self.read_container(slot).await else { continue };
            let Some(place) = place_in(slot, &chunks, fingerprint) else {
                short.tallies.false_tags.fetch_add(1, Relaxed);
                continue;
            };
            if let Some(place) = self.take_place(place, &held, fingerprint, loads.then_some(&chunks[..])) {
                short.tallies.found.fetch_add(1, Relaxed);
                return Some(place);
            }
        }
        None
    }

    /// Marks a place for the collector, if the container in its slot is still the one that was `held`. `load`: the
    /// container's chunks, if they are to be loaded into RAM. Otherwise, the content may be known in RAM.
    pub(crate) fn take_place(
        &self,
        place: Place,
        held: &Slot,
        fingerprint: &Fingerprint,
        load: Option<&[ContainerChunk]>,
    ) -> Option<Place> {
        let mut state = self.state.lock();
        let now = state.slots.get(place.slot);
        if now.sequence != held.sequence || now.state != SlotState::Sealed || now.leaving {
            return state.find(fingerprint);
        }
        match load {
            Some(chunks) => {
                if !state.locality.has(place.slot) {
                    state.locality.load(place.slot, chunks);
                }
                state.find_at(fingerprint, place)
            }
            None => {
                state.note_alive(place);
                Some(place)
            }
        }
    }

    /// Enters a container's chunks in the short fingerprints on the SSD, if it has them.
    pub(crate) async fn note_short(&self, slot: u32, fingerprints: impl Iterator<Item = &Fingerprint>) {
        let Some(ssd) = self.ssd_with_short() else { return };
        let Some(short) = ssd.short() else { return };
        let owner = short.owners.owner(slot, self.state.lock().slots.get(slot).sequence);
        fingerprints.for_each(|fingerprint| short.note(fingerprint, owner));
        ssd.merge_if_full(short, &self.purge(short.owners)).await;
    }

    /// Writes short fingerprints that are in RAM to the SSD, before it is closed.
    pub(crate) async fn merge_short(&self, ssd: &Ssd) {
        if let Some(Short { owners, .. }) = ssd.short() {
            ssd.merge_all(&self.purge(*owners)).await;
        }
    }

    fn purge(&self, owners: Owners) -> impl Fn(&mut Vec<Entry>) {
        move |entries| {
            let state = self.state.lock();
            entries.retain(|entry| owners.is_of(entry.owner, &state.slots.get(owners.slot(entry.owner))));
        }
    }
}

/// Where a container has a content. The full fingerprint decides, because entries are short and may be out of date.
fn place_in(slot: u32, chunks: &[ContainerChunk], fingerprint: &Fingerprint) -> Option<Place> {
    let (number, chunk) = (0..).zip(chunks).find(|(_, chunk)| chunk.fingerprint == *fingerprint)?;
    Some(chunk.place(slot, number))
}
