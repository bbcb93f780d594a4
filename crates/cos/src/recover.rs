//! Start of a store: replays the journal, and recovers the containers that were open when the last run ended.

use crate::format::container::ContainerChunk;
use crate::format::record::{Record, SlotState};
use crate::format::region::RegionHead;
use crate::format::{BLOCK_SECTORS, SECTOR_BYTES};
use crate::lane::Open;
use crate::namespace::Objects;
use crate::object::{Change, Object};
use crate::slots::{Slot, Slots};
use crate::{Error, Store};
use nitro_port::Device;
use nitro_port::buf::BufMut;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The number of containers between two progress messages of a start that enters many containers in the index.
const TOLD_EVERY: usize = 2048;

/// Applies the records of the journal. Returns the sequence numbers up to which the index and the summary vector are
/// complete.
pub(crate) fn replay(records: Vec<Record>, slots: &mut Slots, objects: &mut Objects) -> Result<(u64, u64), Error> {
    let mut upto = (0, 0);
    let mut found: BTreeMap<u64, Object> = BTreeMap::new();
    let mut hidden = BTreeMap::new();
    for record in records {
        match record {
            Record::Object(record) => match found.get_mut(&record.id) {
                Some(object) => {
                    // It may have been renamed.
                    hidden.remove(&record.name);
                    let state = object.state.get_mut();
                    // Changes that were logged before a recipe was written are in the recipe.
                    if state.record.recipe != record.recipe {
                        state.overlay.clear();
                    }
                    state.record = *record;
                }
                None => {
                    hidden.remove(&record.name);
                    found.insert(record.id, Object::restored(*record, objects.ledger()));
                }
            },
            Record::Removed { id } => {
                found.remove(&id);
            }
            Record::Slot(record) => {
                if !slots.restore(&record) {
                    return Err(Error::Damaged {
                        what: format!("the journal names container {}, which does not exist", record.slot),
                    });
                }
            }
            Record::Chunk { object, index, reference } => {
                if let Some(object) = found.get_mut(&object) {
                    object.state.get_mut().overlay.insert(index, Change { reference, since: 0 });
                }
            }
            Record::Hidden { size_bytes, name } => drop(hidden.insert(name, size_bytes)),
            Record::Unhidden { name } => drop(hidden.remove(&name)),
            Record::Quota { containers } => slots.restore_quota(Some(containers).filter(|c| *c > 0)),
            Record::Indexed { sequence } => upto.0 = sequence,
            Record::Summarised { sequence } => upto.1 = sequence,
        }
    }
    slots.restored();
    found.into_values().for_each(|object| objects.restore(object));
    objects.restore_hidden(hidden);
    Ok(upto)
}

/// Seals the open containers, adds missing fingerprints to the index and the summary vector, and begins a new epoch of
/// the journal.
pub(crate) async fn finish<D: Device>(store: &Store<D>, (indexed, summarised): (u64, u64)) -> Result<(), Error> {
    store.upto.set_indexed(indexed);
    store.upto.set_summarised(summarised);
    let mut newer: Vec<(u32, Slot)> = {
        let state = store.state.lock();
        let first = indexed.min(summarised);
        state.slots.iter().filter(|(_, s)| s.state != SlotState::Free && (s.sequence > first || s.leaving)).collect()
    };
    match store.fill_reserve().await {
        Err(error @ Error::NoRoom(_)) => {
            tracing::warn!("the store has no storage in reserve for a collection: {error}")
        }
        result => result?,
    }
    newer.sort_by_key(|(_, slot)| slot.sequence);
    let count = newer.len();
    for (done, (slot, held)) in newer.into_iter().enumerate() {
        if done > 0 && done.is_multiple_of(TOLD_EVERY) {
            tracing::info!("the store is being recovered: {done} of {count} containers are in its index");
        }
        if held.state == SlotState::Open {
            let open = reopen(store, slot, held).await?;
            store.opened.lock().insert(slot, Arc::clone(&open));
            store.seal(&open).await?;
            continue;
        }
        match store.read_container(slot).await {
            Ok(chunks) if held.sequence > indexed || held.leaving => {
                store.index_container(slot, &chunks).await?;
                store.state.lock().slots.set_leaving(slot, false);
            }
            Ok(chunks) => {
                let tables = store.tables();
                chunks.iter().for_each(|chunk| tables.summary.insert(&chunk.fingerprint));
            }
            // Its chunks are still found at the places in recipes; new chunks with the same content are stored again.
            Err(error) => tracing::warn!(slot, "a container's metadata cannot be read: {error}"),
        }
    }
    match store.directory_totals().await {
        Ok(totals) => store.objects.lock().totals = totals,
        Err(error) => tracing::warn!("the directory of objects cannot be read: {error}"),
    }
    store.checkpoint().await
}

/// Recovers the part of an open container that is on the device.
async fn reopen<D: Device>(store: &Store<D>, slot: u32, held: Slot) -> Result<Arc<Open>, Error> {
    let mut bytes = BufMut::with_len(store.superblock.container_bytes as usize);
    let filled = (usize::from(held.sectors) * SECTOR_BYTES).min(bytes.len());
    let at = store.container_at(slot);
    let read = store.device.read(at, filled).await?;
    bytes[..filled].copy_from_slice(&read);
    let mut chunks = Vec::new();
    let mut sector = 0;
    while sector < held.sectors {
        let start = usize::from(sector) * SECTOR_BYTES;
        let head = RegionHead::decode(&read[start..], store.superblock.seed, at + start as u64);
        match head.filter(|h| h.sequence == held.sequence && usize::from(h.first) == chunks.len() && h.sectors > 0) {
            Some(head) => {
                let sectors = head.sectors;
                let known = head.chunks.iter().map(|c| ContainerChunk { fingerprint: c.fingerprint, sector, sectors });
                chunks.extend(known);
                sector += sectors;
            }
            // A commit started a new block.
            None => sector = (sector + 1).next_multiple_of(BLOCK_SECTORS),
        }
    }
    if chunks.len() != usize::from(held.chunks) {
        tracing::warn!(slot, found = chunks.len(), expected = held.chunks, "an open container was damaged");
    }
    Ok(Arc::new(Open::restored((slot, held.sequence), bytes, held.sectors, chunks)))
}
