//! Extents of WEUs that are still in RAM, being filled or written.

use bytes::Bytes;
use nitro_cache::Location;
use nitro_port::codec::Encoding;
use nitro_units::{Fingerprint, Generation, WeuId};
use parking_lot::Mutex;

/// An extent, with the fingerprint by which the indexes know it, if they do.
type Extent = (Encoding, Bytes, Option<Fingerprint>);

#[derive(Debug)]
struct ResidentWeu {
    weu: WeuId,
    generation: Generation,
    extents: Vec<Extent>,
}

impl ResidentWeu {
    fn is(&self, weu: WeuId, generation: Generation) -> bool {
        self.weu == weu && self.generation == generation
    }
}

/// The WEUs in RAM: a handful.
#[derive(Debug, Default)]
pub(crate) struct Resident(Mutex<Vec<ResidentWeu>>);

impl Resident {
    pub(crate) fn open(&self, weu: WeuId, generation: Generation) {
        self.0.lock().push(ResidentWeu { weu, generation, extents: Vec::new() });
    }

    /// Adds the payload of the entry that the manager will name next, and the fingerprint that it will be indexed by.
    pub(crate) fn push(&self, weu: WeuId, encoding: Encoding, payload: Bytes, fingerprint: Option<Fingerprint>) {
        if let Some(resident) = self.0.lock().iter_mut().find(|r| r.weu == weu) {
            resident.extents.push((encoding, payload, fingerprint));
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
        let resident = all.iter().find(|r| r.is(location.weu, location.generation))?;
        let (encoding, payload, _) = resident.extents.get(usize::from(location.entry))?;
        Some((*encoding, payload.clone()))
    }

    /// The entry of a unit whose extent has this fingerprint; `None`: the unit is not in RAM.
    pub(crate) fn find(&self, weu: WeuId, generation: Generation, fingerprint: &Fingerprint) -> Option<Option<u16>> {
        let all = self.0.lock();
        let resident = all.iter().find(|r| r.is(weu, generation))?;
        let entry = resident.extents.iter().position(|(_, _, of)| of.as_ref() == Some(fingerprint));
        Some(entry.and_then(|entry| u16::try_from(entry).ok()))
    }
}
