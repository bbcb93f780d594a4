//! Statistics of a store.

use crate::Store;
use crate::counters::Counters;
use crate::format::record::SlotState;
use crate::format::region::ChunkKind;
use crate::format::{SECTOR_BYTES, container};
use crate::ssd::SsdStats;
use nitro_port::Device;
use serde::Serialize;

/// Statistics of a store: its content, and its resources.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Stats {
    /// The number of objects, snapshots included.
    pub objects: u64,
    /// The number of snapshots.
    pub snapshots: u64,
    /// Bytes of all objects, holes included.
    pub logical_bytes: u64,
    /// Bytes of stored content, recipes and containers' metadata, including dead ones.
    pub stored_bytes: u64,
    /// The part of `stored_bytes` in recipes.
    pub recipe_bytes: u64,
    /// The number of stored chunks, recipe blocks included.
    pub chunks: u64,
    /// The number of containers in use.
    pub containers_used: u32,
    /// The number of containers of the store.
    pub containers: u32,
    /// Bytes of the device that the store uses.
    pub size_bytes: u64,
    /// Bytes of the device up to which it grows by itself; `None`: it does not.
    pub grows_to_bytes: Option<u64>,
    /// The quota in bytes, if there is one.
    pub quota_bytes: Option<u64>,
    /// Bytes of a container.
    pub container_bytes: u32,
    /// The approximate RAM in use, in bytes.
    pub ram_bytes: u64,
    /// The maximum RAM of the open store in bytes, see [`Store::ram_parts`].
    pub ram_need_bytes: u64,
    /// Statistics of the SSD, if the store has one.
    pub ssd: Option<SsdStats>,
    /// Counters since the store was opened.
    pub counters: Counters,
}

impl<D: Device> Store<D> {
    /// The statistics of the store.
    pub fn stats(&self) -> Stats {
        let totals = self.objects.lock().all_totals();
        let quota_bytes = self.quota_bytes();
        let (size_bytes, grows_to_bytes) = (self.size_bytes(), self.grows_to());
        let ram_bytes = self.ram_bytes();
        let ssd = self.ssd_stats();
        let state = self.state.lock();
        let (mut stored_bytes, mut recipe_bytes, mut chunks) = (0, 0, 0);
        for (_, slot) in state.slots.iter().filter(|(_, s)| s.state != SlotState::Free) {
            let bytes =
                u64::from(slot.sectors) * SECTOR_BYTES as u64 + container::section_bytes(slot.chunks.into()) as u64;
            stored_bytes += bytes;
            recipe_bytes += if slot.kind == ChunkKind::Recipe { bytes } else { 0 };
            chunks += u64::from(slot.chunks);
        }
        Stats {
            objects: totals.objects,
            snapshots: totals.snapshots,
            logical_bytes: totals.logical_bytes,
            stored_bytes,
            recipe_bytes,
            chunks,
            containers_used: state.slots.used(),
            containers: state.slots.count(),
            size_bytes,
            grows_to_bytes,
            quota_bytes,
            container_bytes: self.superblock.container_bytes,
            ram_bytes,
            ram_need_bytes: self.ram_need_bytes(),
            ssd,
            counters: self.counters(),
        }
    }
}
