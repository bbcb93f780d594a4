//! Which volumes a cache knows: the numbers under which their extents are cached stay theirs over restarts.

use crate::cache::Cache;
use crate::error::Error;
use crate::format::journal::Record;
use crate::port::{Clock, Device};
use nitro_cache::ObjectId;
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// A volume, as the cache remembers it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeEntry {
    /// Its name, at most 255 bytes.
    pub name: String,
    /// Size of its origin in bytes.
    pub origin_bytes: u64,
    /// The origin's state when the cache last knew it to be unchanged by others, in a form that only the host
    /// understands; zeroes: not known.
    pub stamp: [u8; 16],
    /// The mode that it was last served in, in a form that only the host understands.
    pub mode: u8,
}

impl VolumeEntry {
    fn record(&self, object: ObjectId) -> Record {
        let Self { name, origin_bytes, stamp, mode } = self.clone();
        Record::Volume { object, name, origin_bytes, uuid: stamp, mode }
    }
}

/// All volumes of a cache.
#[derive(Debug, Default)]
pub(crate) struct Registry(Mutex<BTreeMap<ObjectId, VolumeEntry>>);

impl Registry {
    pub(crate) fn restore(&self, volumes: BTreeMap<ObjectId, VolumeEntry>) {
        *self.0.lock() = volumes;
    }

    pub(crate) fn records(&self) -> Vec<Record> {
        self.0.lock().iter().map(|(object, entry)| entry.record(*object)).collect()
    }
}

impl<F: Device, C: Clock> Cache<F, C> {
    /// The volumes that the cache knows, by the numbers of their extents' keys.
    pub fn volumes(&self) -> BTreeMap<ObjectId, VolumeEntry> {
        self.volumes.0.lock().clone()
    }

    /// Remembers a volume, or what has changed of it; gives its number: that of the volume of the same name, else a new
    /// one. Durable with the next commit; see [`sync`](Self::sync).
    pub fn remember_volume(&self, entry: VolumeEntry) -> Option<ObjectId> {
        let mut all = self.volumes.0.lock();
        let known = all.iter().find(|(_, known)| known.name == entry.name).map(|(object, _)| *object);
        let object = known.or_else(|| (0..u16::MAX).map(ObjectId).find(|object| !all.contains_key(object)))?;
        if all.get(&object) != Some(&entry) {
            self.ledger.push(entry.record(object));
            all.insert(object, entry);
        }
        Some(object)
    }

    /// Forgets a volume, which must have nothing dirty any more, and everything that is cached of it.
    ///
    /// # Errors
    /// [`Error::Poisoned`] where the cache device fails.
    pub async fn forget_volume(&self, object: ObjectId) -> Result<(), Error> {
        let Some(entry) = self.volumes.0.lock().get(&object).cloned() else { return Ok(()) };
        self.forget_object(object, entry.origin_bytes).await;
        // Another volume may get its number.
        self.released_by_log(object).await?;
        self.manager.lock().set_stuck(object, false);
        self.shares.remove(object);
        self.volumes.0.lock().remove(&object);
        self.ledger.push(Record::VolumeRemoved { object });
        self.sync().await
    }

    /// Makes what the cache remembers durable.
    ///
    /// # Errors
    /// [`Error::Poisoned`] where the cache device fails.
    pub async fn sync(&self) -> Result<(), Error> {
        self.commit().await
    }
}
