//! What the stores hold and need, kind by kind.

use super::Silt;
use nitro_port::Device;

/// Of the stores of one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// How many there are.
    pub stores: u64,
    /// Entries in them, those that newer ones replace among them.
    pub entries: u64,
    /// Their RAM in bytes, without buffers that are in use only while something is converted or merged.
    pub ram_bytes: u64,
}

/// Of the stores of all partitions, at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StoreUsage {
    /// Logs.
    pub logs: Usage,
    /// Hash stores.
    pub hashes: Usage,
    /// Sorted stores.
    pub sorted: Usage,
}

impl<D: Device> Silt<D> {
    /// What the stores hold and need.
    pub fn usage(&self) -> StoreUsage {
        let mut usage = StoreUsage::default();
        for partition in &self.partitions {
            let stores = partition.stores();
            for log in [&stores.active].into_iter().chain(&stores.closed).chain(&stores.next) {
                usage.logs.stores += 1;
                usage.logs.entries += log.entries().0;
                usage.logs.ram_bytes += log.ram_bytes();
            }
            for store in &stores.hashes {
                usage.hashes.stores += 1;
                usage.hashes.entries += store.run.entries;
                usage.hashes.ram_bytes += store.filter.ram_bytes();
            }
            if let Some(store) = &stores.sorted {
                usage.sorted.stores += 1;
                usage.sorted.entries += store.run.entries;
                usage.sorted.ram_bytes += store.trie.ram_bytes();
            }
        }
        usage
    }
}
