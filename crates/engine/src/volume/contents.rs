//! Fingerprints of dirty extents, for origins that use fingerprints: destaged extents need not be hashed again.

use nitro_units::{ExtentIndex, Fingerprint};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

/// For each extent, the dirty version and its fingerprint. Extents that a start found dirty are not included.
#[derive(Debug, Default)]
pub(crate) struct DirtyContents {
    is_kept: AtomicBool,
    known: Mutex<HashMap<ExtentIndex, (u64, Fingerprint)>>,
}

impl DirtyContents {
    /// Begins to keep fingerprints.
    pub(super) fn keep(&self) {
        self.is_kept.store(true, Ordering::Relaxed);
    }

    /// Notes a dirty extent. To be called while the manager is locked, so that [`forget`](Self::forget) comes later.
    pub(crate) fn note(&self, index: ExtentIndex, version: u64, fingerprint: Fingerprint) {
        if self.is_kept.load(Ordering::Relaxed) {
            self.known.lock().insert(index, (version, fingerprint));
        }
    }

    /// The fingerprint of a version of an extent.
    pub(super) fn get(&self, index: ExtentIndex, version: u64) -> Option<Fingerprint> {
        self.known.lock().get(&index).filter(|(known, _)| *known == version).map(|(_, fingerprint)| *fingerprint)
    }

    /// Notes that a version is not dirty any more.
    pub(super) fn forget(&self, index: ExtentIndex, version: u64) {
        let mut known = self.known.lock();
        if known.get(&index).is_some_and(|(newest, _)| *newest == version) {
            known.remove(&index);
        }
    }

    /// Notes that nothing is dirty any more.
    pub(super) fn clear(&self) {
        self.known.lock().clear();
    }
}
