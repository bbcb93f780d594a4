//! Look-up of content: first in the locality cache, then in the summary vector, then in the index. A hit in the index
//! loads a whole container's fingerprints into the locality cache.

use crate::access::Access;
use crate::format::container::{self, ContainerChunk};
use crate::format::record::SlotState;
use crate::format::{BLOCK_BYTES, SECTOR_BYTES};
use crate::locality::Locality;
use crate::marks::Marks;
use crate::place::Place;
use crate::slots::Slots;
use crate::{Error, Store};
use futures_util::future::try_join_all;
use nitro_index::FlashIndex;
use nitro_port::{Device, Work};
use nitro_units::Fingerprint;
use std::pin::pin;

/// The number of concurrent operations on the index.
const ENTERED_AT_ONCE: usize = 64;

/// State that changes together: slots, fingerprints in RAM, and the collector's marks.
pub(crate) struct State {
    pub(crate) slots: Slots,
    pub(crate) locality: Locality,
    pub(crate) marks: Option<Marks>,
}

impl State {
    /// The place of a content that is known in RAM. The chunk is marked for the collector.
    pub(crate) fn find(&mut self, fingerprint: &Fingerprint) -> Option<Place> {
        let place = self.locality.get(fingerprint)?;
        self.note_alive(place);
        Some(place)
    }

    /// As [`find`](Self::find), for a content that is at `place` according to the index.
    pub(crate) fn find_at(&mut self, fingerprint: &Fingerprint, place: Place) -> Option<Place> {
        if self.locality.holds(place, fingerprint) {
            self.locality.prefer(fingerprint, place);
        }
        self.find(fingerprint)
    }

    /// Marks a chunk for the collector as referenced.
    pub(crate) fn note_alive(&mut self, place: Place) {
        if let Some(marks) = &mut self.marks {
            marks.mark(place);
        }
    }
}

impl<D: Device> Store<D> {
    /// The places of contents that are in the store. They are marked, so that a collection in progress keeps them.
    pub(crate) async fn find(&self, fingerprints: &[Fingerprint], access: Access) -> Result<Vec<Option<Place>>, Error> {
        let mut found: Vec<_> = {
            let mut state = self.state.lock();
            fingerprints.iter().map(|f| state.find(f)).collect()
        };
        self.counters.locality_hits.add(found.iter().flatten().count() as u64);
        if access == Access::Random && !self.settings.nsio_dedup {
            return Ok(found);
        }
        if access == Access::Random && !self.settings.nsio_metadata {
            self.find_by_region(fingerprints, &mut found).await?;
            return Ok(found);
        }
        if access == Access::Random && self.settings.nsio_parallel {
            let tables = self.tables();
            let lookups = fingerprints.iter().zip(&mut found).map(async |(fingerprint, found)| {
                if found.is_none() && tables.summary.may_contain(fingerprint) {
                    *found = self.find_in_index(fingerprint).await?;
                }
                Ok::<_, Error>(())
            });
            Box::pin(try_join_all(lookups)).await?;
            return Ok(found);
        }
        let tables = self.tables();
        for (fingerprint, found) in fingerprints.iter().zip(&mut found) {
            if found.is_none() && tables.summary.may_contain(fingerprint) {
                // A container that was read for an earlier fingerprint may contain this one.
                *found = self.state.lock().find(fingerprint);
                if found.is_none() {
                    *found = self.find_in_index(fingerprint).await?;
                }
            }
        }
        Ok(found)
    }

    /// The place of a content according to the index.
    pub(crate) async fn indexed_place(&self, fingerprint: &Fingerprint) -> Result<Option<Place>, Error> {
        self.counters.index_lookups.add(1);
        if let Some(other) = self.other_index.get() {
            return Ok(other.get(fingerprint, true).await?.map(Place::unpack));
        }
        self.own_indexed_place(fingerprint).await
    }

    /// The place of a content according to the store's own index.
    pub(crate) async fn own_indexed_place(&self, fingerprint: &Fingerprint) -> Result<Option<Place>, Error> {
        let value = self.tables().index.get(&fingerprint.0).await?;
        let value = value.and_then(|v| <[u8; Place::BYTES]>::try_from(&v[..]).ok());
        Ok(value.map(|v| Place::unpack(u64::from_le_bytes(v))))
    }

    /// Finds contents that are not in RAM through the index and the regions that it names, concurrently. No other
    /// contents of these containers are loaded, because they are not expected to be needed.
    async fn find_by_region(&self, fingerprints: &[Fingerprint], found: &mut [Option<Place>]) -> Result<(), Error> {
        let mut rest: Vec<_> = fingerprints.iter().zip(found).filter(|(_, found)| found.is_none()).collect();
        let at_once = if self.settings.nsio_parallel { ENTERED_AT_ONCE } else { 1 };
        let tables = self.tables();
        for some in rest.chunks_mut(at_once) {
            let lookups = some.iter_mut().map(async |(fingerprint, found)| {
                if tables.summary.may_contain(fingerprint) {
                    **found = self.find_in_region(fingerprint).await?;
                }
                Ok::<_, Error>(())
            });
            try_join_all(lookups).await?;
        }
        Ok(())
    }

    async fn find_in_region(&self, fingerprint: &Fingerprint) -> Result<Option<Place>, Error> {
        if let Some(place) = self.find_by_short(fingerprint, false).await {
            return Ok(Some(place));
        }
        let Some(place) = self.indexed_place(fingerprint).await? else { return Ok(None) };
        let held = self.state.lock().slots.get(place.slot);
        // After a container's regions, there may be regions of a container with the same sequence number that a crash
        // undid.
        let is_within = place.sector + place.sectors <= held.sectors && place.number < held.chunks;
        if held.state != SlotState::Sealed || held.leaving || !is_within {
            return Ok(self.state.lock().find(fingerprint));
        }
        let region = match self.read_regions(&[place], 1).await {
            Ok(mut regions) => regions.pop().flatten(),
            // Content that cannot be read cannot be referred to; it is stored again.
            Err(Error::Device(_)) => None,
            Err(error) => return Err(error),
        };
        let is_there = region.is_some_and(|region| {
            region.head.sequence == held.sequence && region.chunk(place.number, fingerprint).is_some()
        });
        if !is_there {
            return Ok(self.state.lock().find(fingerprint));
        }
        let found = self.take_place(place, &held, fingerprint, None);
        if found == Some(place) {
            self.note_short(place.slot, [fingerprint].into_iter()).await;
        }
        Ok(found)
    }

    async fn find_in_index(&self, fingerprint: &Fingerprint) -> Result<Option<Place>, Error> {
        if let Some(place) = self.find_by_short(fingerprint, true).await {
            return Ok(Some(place));
        }
        let Some(place) = self.indexed_place(fingerprint).await? else { return Ok(None) };
        let slot = place.slot;
        match self.load_container(slot).await {
            Ok(()) => {
                let found = self.state.lock().find_at(fingerprint, place);
                if let Some(place) = found {
                    self.note_short(place.slot, [fingerprint].into_iter()).await;
                }
                Ok(found)
            }
            // Content that cannot be read cannot be referred to; it is stored again.
            Err(error @ (Error::Damaged { .. } | Error::Device(_))) => {
                tracing::warn!(slot, "a container's metadata cannot be read: {error}");
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Loads the fingerprints of a container into RAM, unless it is being emptied.
    pub(crate) async fn load_container(&self, slot: u32) -> Result<(), Error> {
        let held = {
            let state = self.state.lock();
            if state.locality.has(slot) {
                return Ok(());
            }
            state.slots.get(slot)
        };
        if held.state != SlotState::Sealed || held.leaving {
            return Ok(());
        }
        let chunks = self.read_container(slot).await?;
        let mut state = self.state.lock();
        let now = state.slots.get(slot);
        if now.sequence == held.sequence && now.state == SlotState::Sealed && !now.leaving && !state.locality.has(slot)
        {
            state.locality.load(slot, &chunks);
        }
        Ok(())
    }

    /// Reads a sealed container's metadata section.
    pub(crate) async fn read_container(&self, slot: u32) -> Result<Vec<ContainerChunk>, Error> {
        let held = self.state.lock().slots.get(slot);
        let start = usize::from(held.sectors) * SECTOR_BYTES;
        let at = self.container_at(slot) + start as u64;
        let len = container::section_bytes(held.chunks.into());
        let fits = start.is_multiple_of(BLOCK_BYTES) && start + len <= self.superblock.container_bytes as usize;
        let section = match fits {
            true => Some(self.device.read(at, len).await?),
            false => None,
        };
        self.counters.metadata_reads.add(1);
        section
            .and_then(|section| container::decode(&section, held.sequence, self.superblock.seed, at))
            .ok_or_else(|| Error::Damaged { what: format!("the metadata of container {slot}") })
    }

    /// Enters the place of a content in the index.
    pub(crate) async fn index_content(&self, fingerprint: &Fingerprint, place: Place) -> Result<(), Error> {
        if let Some(other) = self.other_index.get() {
            other.enter(fingerprint, place.pack());
        }
        if let Some(next) = self.tables.next()
            && let Err(error) = next.enter(fingerprint, place).await
        {
            // The store goes on as it is.
            tracing::warn!("the store does not grow: {error}");
            self.tables.prepare(None);
        }
        self.tables().enter(fingerprint, place).await
    }

    /// Enters the chunks of a container in the index.
    pub(crate) async fn index_container(&self, slot: u32, chunks: &[ContainerChunk]) -> Result<(), Error> {
        let numbered: Vec<_> = (0..).zip(chunks).collect();
        for some in numbered.chunks(ENTERED_AT_ONCE) {
            let entering =
                some.iter().map(|(number, chunk)| self.index_content(&chunk.fingerprint, chunk.place(slot, *number)));
            try_join_all(entering).await?;
        }
        self.note_short(slot, chunks.iter().map(|chunk| &chunk.fingerprint)).await;
        Ok(())
    }

    /// Removes the contents of a freed container from the index, unless it has other places for them.
    pub(crate) async fn unindex(&self, slot: u32, fingerprints: &[Fingerprint]) -> Result<(), Error> {
        for fingerprint in fingerprints {
            if self.indexed_place(fingerprint).await?.is_some_and(|place| place.slot == slot) {
                Work::pressing(pin!(self.tables().index.remove(&fingerprint.0))).await?;
            }
        }
        Ok(())
    }
}
