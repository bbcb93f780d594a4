//! The RAM of a store.

use crate::Store;
use crate::access::Patterns;
use crate::ahead::Ahead;
use crate::format::record::OBJECT_BYTES;
use crate::lane::{self, LANES};
use crate::ledger::Bounds;
use crate::locality::Locality;
use crate::namespace::LOADED_MAX;
use crate::plan::Plan;
use nitro_index::FlashIndex;
use nitro_port::Device;
use serde::Serialize;

/// RAM of an object: its name, its entries in maps, and its record during a checkpoint.
const OBJECT_RAM_BYTES: u64 = 1536;
/// RAM of a change in an overlay: with the slack of trees, and its record during a checkpoint.
const CHANGE_RAM_BYTES: u64 = 360;
/// RAM of a slot, with its record.
const SLOT_RAM_BYTES: u64 = 96;
/// RAM of a chunk of an open container.
const OPEN_CHUNK_RAM_BYTES: u64 = 2 * 24;
/// The factor by which regions may exceed their planned size: incompressible regions, and chunks larger than a region.
const REGION_SLACK: u64 = 2;

/// A part of the RAM that a store may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct RamPart {
    /// The use of the part.
    pub what: &'static str,
    /// The maximum size in bytes.
    pub bytes: u64,
}

impl<D: Device> Store<D> {
    /// The parts of the RAM of an open store, each with its maximum. The RAM of requests in progress is not included:
    /// the caller bounds their number.
    pub fn ram_parts(&self) -> Vec<RamPart> {
        let now = self.tables.superblock();
        // What it takes when it has grown as far as it does by itself.
        let largest = Plan::grown(&now, now.grows_to).ok().flatten();
        let superblock = largest.unwrap_or(now);
        let bounds = Bounds::of(&superblock);
        let tables = superblock.index_ram_bytes + superblock.summary_bytes;
        let chunks = lane::chunks_max(superblock.container_bytes);
        let open = u64::from(superblock.container_bytes) * 2 + chunks as u64 * OPEN_CHUNK_RAM_BYTES;
        let locality = Locality::ram_bytes_max(self.settings.locality_containers, LANES, chunks);
        let part = |what, bytes| RamPart { what, bytes };
        vec![
            part("fingerprint index", superblock.index_ram_bytes),
            part("summary of fingerprints", superblock.summary_bytes),
            part("both of them anew, to grow", if largest.is_some() { tables } else { 0 }),
            part("fingerprints of containers", locality),
            part("decompressed regions", self.settings.region_cache_bytes * REGION_SLACK),
            part("blocks of recipes", self.settings.recipe_cache_bytes),
            part("open containers", open * LANES as u64),
            part("containers' states", u64::from(superblock.containers) * SLOT_RAM_BYTES),
            part("objects", (bounds.namespace_bytes / OBJECT_BYTES as u64 + LOADED_MAX as u64) * OBJECT_RAM_BYTES),
            part("pages of the directory", self.directory.ram_bytes_max()),
            part("overwritten chunks", bounds.changes as u64 * CHANGE_RAM_BYTES),
            part("read-ahead", if self.readahead_bytes() > 0 { Ahead::RAM_BYTES_MAX } else { 0 }),
            part("patterns of access", Patterns::RAM_BYTES_MAX),
            part("SSD", self.ssd.get().map_or(0, |ssd| ssd.ram_need_bytes())),
        ]
    }

    /// The maximum RAM of an open store in bytes: the sum of its [parts](Self::ram_parts).
    pub fn ram_need_bytes(&self) -> u64 {
        self.ram_parts().iter().map(|part| part.bytes).sum()
    }

    /// The approximate RAM in use, in bytes.
    pub(crate) fn ram_bytes(&self) -> u64 {
        let (locality, slots) = {
            let state = self.state.lock();
            (state.locality.ram_bytes(), u64::from(state.slots.count()) * SLOT_RAM_BYTES)
        };
        let open = self.opened.lock().len() as u64 * u64::from(self.superblock.container_bytes);
        let regions: usize = self.regions.lock().iter().map(|(_, region)| region.raw_bytes()).sum();
        let nodes: usize = self.nodes.lock().iter().map(|(_, node)| size_of_val(&node.entries[..])).sum();
        let objects = self.objects.lock().in_ram() as u64 * OBJECT_RAM_BYTES;
        self.tables().index.counters().ram_bytes
            + self.tables.superblock().summary_bytes
            + locality
            + slots
            + open
            + self.ssd.get().map_or(0, |ssd| ssd.ram_bytes())
            + (regions + nodes) as u64
            + objects
            + self.directory.ram_bytes()
            + self.ledger.changes() as u64 * CHANGE_RAM_BYTES
    }
}
