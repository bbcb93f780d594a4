//! The contents and the RAM of the stores, by kind.

use super::Silt;
use nitro_port::Device;

/// The stores of one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// The number of stores.
    pub stores: u64,
    /// The number of their entries, replaced ones included.
    pub entries: u64,
    /// Their RAM in bytes, without the buffers of conversions and merges.
    pub ram_bytes: u64,
}

/// The stores of all partitions at one moment.
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
    /// The contents and the RAM of the stores, by kind.
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
