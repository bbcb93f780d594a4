//! The state of each device.

use super::Flash;
use nitro_cache::weu::Space;
use nitro_port::Device;
use serde::Serialize;
use std::sync::atomic::Ordering;

/// The state of one of several devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceState {
    /// In use.
    Caching,
    /// It failed, or it was missing at a start: it is not used again until the cache is formatted.
    Lost,
}

/// Counters of one of several devices since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct DeviceCounters {
    /// Reads.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes written, without superblocks.
    pub written_bytes: u64,
    /// Reads and writes that failed.
    pub errors: u64,
}

/// One of the devices of a cache that has several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DeviceStatus {
    /// Its number, from 0.
    pub number: u32,
    /// Its state.
    pub health: DeviceState,
    /// Why it is lost.
    pub reason: Option<String>,
    /// Its size in bytes; 0: it is not there.
    pub size_bytes: u64,
    /// The use of the space of its write-evict units.
    pub space: Space,
    /// Its counters.
    pub counters: DeviceCounters,
}

impl<F: Device> Flash<F> {
    /// The state of each device, with the use of its space; empty for a single device.
    pub(crate) fn status(&self, spaces: &[Space]) -> Vec<DeviceStatus> {
        if !self.is_striped() {
            return Vec::new();
        }
        let each = self.members.iter().enumerate().zip(spaces).map(|((number, member), space)| {
            let counters = &member.counters;
            let [reads, read_bytes, writes, written_bytes, errors] =
                [&counters.reads, &counters.read_bytes, &counters.writes, &counters.written_bytes, &counters.errors]
                    .map(|counter| counter.load(Ordering::Relaxed));
            DeviceStatus {
                number: number as u32,
                health: if self.is_in_use(number) { DeviceState::Caching } else { DeviceState::Lost },
                reason: member.reason.get().cloned().filter(|_| !self.is_in_use(number)),
                size_bytes: member.device.as_ref().map_or(0, |device| device.geometry().size_bytes),
                space: *space,
                counters: DeviceCounters { reads, read_bytes, writes, written_bytes, errors },
            }
        });
        each.collect()
    }
}
