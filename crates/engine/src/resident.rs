//! Extents of WEUs that are still in RAM, being filled or written.

use bytes::Bytes;
use nitro_cache::Location;
use nitro_port::codec::Encoding;
use nitro_units::{Generation, WeuId};
use parking_lot::Mutex;

#[derive(Debug)]
struct ResidentWeu {
    weu: WeuId,
    generation: Generation,
    extents: Vec<(Encoding, Bytes)>,
}

/// The WEUs in RAM: a handful.
#[derive(Debug, Default)]
pub(crate) struct Resident(Mutex<Vec<ResidentWeu>>);

impl Resident {
    pub(crate) fn open(&self, weu: WeuId, generation: Generation) {
        self.0.lock().push(ResidentWeu { weu, generation, extents: Vec::new() });
    }

    /// Adds the payload of the entry that the manager will name next.
    pub(crate) fn push(&self, weu: WeuId, encoding: Encoding, payload: Bytes) {
        if let Some(resident) = self.0.lock().iter_mut().find(|r| r.weu == weu) {
            resident.extents.push((encoding, payload));
        }
    }

    /// Removes the last payload, for which there was no room.
    pub(crate) fn pop(&self, weu: WeuId) {
        if let Some(resident) = self.0.lock().iter_mut().find(|r| r.weu == weu) {
            resident.extents.pop();
        }
    }

    /// Removes a WEU that is on the SSD, or could not be written.
    pub(crate) fn close(&self, weu: WeuId) {
        let mut all = self.0.lock();
        let closed = all.iter().position(|r| r.weu == weu).map(|at| all.swap_remove(at));
        drop(all);
        drop(closed); // some hundred buffers, freed without the lock
    }

    pub(crate) fn get(&self, location: &Location) -> Option<(Encoding, Bytes)> {
        let all = self.0.lock();
        let is = |r: &&ResidentWeu| r.weu == location.weu && r.generation == location.generation;
        all.iter().find(is)?.extents.get(usize::from(location.entry)).cloned()
    }
}
