//! Reading without the places in recipes, as Data Domain's file system does (Zhu, Li and Patterson, FAST 2008; Allu et
//! al., USENIX ATC 2018): each recipe block and each chunk is looked up by its fingerprint. For experiments, which measure
//! what places save: see [`Settings::places`](crate::Settings::places).

use crate::access::Access;
use crate::format::SECTOR_BYTES;
use crate::format::record::SlotState;
use crate::format::region::ChunkKind;
use crate::place::{Place, Reference};
use crate::{Error, Store};
use futures_util::future::{LocalBoxFuture, try_join_all};
use nitro_port::{Device, DeviceError};
use nitro_units::Fingerprint;

/// The place of a content in an index, packed into a number.
pub type PackedPlace = u64;

/// An index of contents that a store asks instead of its own, see [`Store::use_index`].
pub trait ContentIndex: Send + Sync {
    /// The place of a content, if the index has one. Unless `is_exact`, the place may be that of another content, with a
    /// part of the same fingerprint; the store then asks again.
    fn get<'a>(
        &'a self,
        fingerprint: &'a Fingerprint,
        is_exact: bool,
    ) -> LocalBoxFuture<'a, Result<Option<PackedPlace>, DeviceError>>;

    /// Enters the place of a content.
    fn enter(&self, fingerprint: &Fingerprint, place: PackedPlace);
}

/// A part of a store's device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Part {
    /// Superblocks and journal.
    Journal,
    /// The summary vector.
    Summary,
    /// The fingerprint index.
    Index,
    /// The list of a container's chunks.
    Metadata,
    /// Regions of recipe blocks, and of pages of the directory.
    Recipe,
    /// Regions of chunks.
    Data,
    /// Behind the store.
    Behind,
}

impl<D: Device> Store<D> {
    /// Looks contents up in another index from now on, and enters the contents of all sealed containers in it. The store's
    /// own index is still kept up to date.
    ///
    /// # Errors
    /// A container's metadata cannot be read; then the store uses its own index.
    pub async fn use_index(&self, index: Box<dyn ContentIndex>) -> Result<(), Error> {
        let slots: Vec<_> = self.state.lock().slots.iter().filter(|(_, s)| s.state == SlotState::Sealed).collect();
        for (slot, _) in slots {
            for (number, chunk) in (0..).zip(self.read_container(slot).await?) {
                index.enter(&chunk.fingerprint, chunk.place(slot, number).pack());
            }
        }
        // The first one stays.
        let _given = self.other_index.set(index);
        Ok(())
    }

    /// The part of the device that has this byte.
    pub fn part_at(&self, offset: u64) -> Part {
        let layout = self.tables().layout;
        match offset {
            at if at >= layout.end => Part::Behind,
            at if (layout.index_at..layout.metadata_end).contains(&at) => Part::Index,
            at if (layout.summary_at..layout.index_at).contains(&at) => Part::Summary,
            at if at < layout.containers_at || (layout.journals_at..layout.summary_at).contains(&at) => Part::Journal,
            at => {
                let container_bytes = u64::from(self.superblock.container_bytes);
                let within = at - layout.containers_at;
                let held = self.state.lock().slots.get((within / container_bytes) as u32);
                let is_list = held.state == SlotState::Sealed
                    && within % container_bytes >= u64::from(held.sectors) * SECTOR_BYTES as u64;
                match held.kind {
                    _ if is_list => Part::Metadata,
                    ChunkKind::Recipe => Part::Recipe,
                    ChunkKind::Data => Part::Data,
                }
            }
        }
    }

    /// References with the places that look-ups find, for stores that do not use the places in recipes.
    pub(crate) async fn placed(&self, references: &[Reference], access: Access) -> Result<Vec<Reference>, Error> {
        let look_up = async |reference: &Reference| {
            let place = self.place_of(&reference.fingerprint, access).await?;
            Ok::<_, Error>(Reference { place, ..*reference })
        };
        if access == Access::Random && self.settings.nsio_parallel {
            return try_join_all(references.iter().map(look_up)).await;
        }
        // The metadata that one look-up loads answer the next ones.
        let mut placed = Vec::with_capacity(references.len());
        for reference in references {
            placed.push(look_up(reference).await?);
        }
        Ok(placed)
    }

    async fn place_of(&self, fingerprint: &Fingerprint, access: Access) -> Result<Place, Error> {
        if let Some(place) = self.state.lock().locality.get(fingerprint) {
            return Ok(place);
        }
        let loads = access != Access::Random || self.settings.nsio_metadata;
        if let Some(place) = self.find_by_short(fingerprint, loads).await {
            return Ok(place);
        }
        for is_exact in [false, true] {
            self.counters.index_lookups.add(1);
            let place = match self.other_index.get() {
                Some(other) => other.get(fingerprint, is_exact).await?.map(Place::unpack),
                None => self.own_indexed_place(fingerprint).await?,
            };
            let Some(place) = place else { continue };
            if !loads {
                // If it is wrong, the region that is read there shows it, and the chunk is looked up exactly.
                return Ok(place);
            }
            self.load_container(place.slot).await?;
            if let Some(place) = self.state.lock().locality.get(fingerprint) {
                return Ok(place);
            }
        }
        Err(Error::Missing { fingerprint: *fingerprint })
    }
}
