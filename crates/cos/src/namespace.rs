//! Names: objects, and snapshots of them.

use crate::format::record::{Kind, ObjectRecord, Root};
use crate::ledger::Ledger;
use crate::object::Object;
use crate::plan::StoreOptions;
use crate::{Error, Store, Volume};
use hashbrown::HashMap;
use nitro_port::Device;
use nitro_port::range_lock::ALL;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The maximum length of a name in bytes.
const NAME_BYTES_MAX: usize = 255;
/// The separator between the name of an object and that of its snapshot.
const SNAPSHOT: char = '@';

/// The objects of a store.
pub(crate) struct Objects {
    by_name: BTreeMap<String, Arc<Object>>,
    by_id: HashMap<u64, Arc<Object>>,
    ledger: Arc<Ledger>,
    next_id: u64,
    /// Removed objects whose removal is not in the journal yet.
    removed: Vec<u64>,
}

impl Objects {
    pub(crate) fn new(ledger: Arc<Ledger>) -> Self {
        Self { by_name: BTreeMap::new(), by_id: HashMap::new(), ledger, next_id: 0, removed: Vec::new() }
    }

    pub(crate) fn ledger(&self) -> &Arc<Ledger> {
        &self.ledger
    }

    pub(crate) fn by_id(&self, id: u64) -> Option<Arc<Object>> {
        self.by_id.get(&id).cloned()
    }

    pub(crate) fn all(&self) -> Vec<Arc<Object>> {
        self.by_name.values().cloned().collect()
    }

    pub(crate) fn get(&self, name: &str) -> Option<Arc<Object>> {
        self.by_name.get(name).cloned()
    }

    /// Adds an object that the ledger counts already.
    fn put(&mut self, object: Object) -> Arc<Object> {
        self.next_id = self.next_id.max(object.id + 1);
        let object = Arc::new(object);
        self.by_id.insert(object.id, Arc::clone(&object));
        self.by_name.insert(object.name(), Arc::clone(&object));
        object
    }

    /// Adds an object that was read from the journal.
    pub(crate) fn restore(&mut self, mut object: Object) {
        let state = object.state.get_mut();
        self.ledger.restore_object(&state.record);
        self.ledger.restore_changes(state.overlay.len());
        *object.durable_modified_ns.get_mut() = state.record.modified_ns;
        self.put(object);
    }

    fn remove(&mut self, name: &str) -> Option<Arc<Object>> {
        let object = self.by_name.remove(name)?;
        self.by_id.remove(&object.id);
        self.removed.push(object.id);
        object.state.lock().remove();
        Some(object)
    }

    pub(crate) fn take_removed(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.removed)
    }

    pub(crate) fn put_back_removed(&mut self, removed: Vec<u64>) {
        self.removed.extend(removed);
    }
}

/// A description of an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ObjectInfo {
    /// The name; that of a snapshot contains an `@`.
    pub name: String,
    /// The kind of the object.
    pub kind: Kind,
    /// The size in bytes.
    pub size_bytes: u64,
    /// Bytes of a chunk; for a stream, the target of the mean.
    pub chunk_bytes: u32,
    /// Whether it is read-only.
    pub read_only: bool,
    /// The number of bytes that were imported, if the import was interrupted.
    pub incomplete_at: Option<u64>,
    /// The time of creation, in seconds since 1970.
    pub created: u64,
}

fn check_part(name: &str, part: &str) -> Result<(), Error> {
    let refuse = |why| Err(Error::Name { name: name.to_owned(), why });
    if part.is_empty() {
        return refuse("it is empty");
    }
    if name.len() > NAME_BYTES_MAX {
        return refuse("it has more than 255 bytes");
    }
    if part.contains([SNAPSHOT, '#']) || part.chars().any(char::is_control) {
        return refuse("it must not contain '@', '#' or control characters");
    }
    if part.starts_with('-') {
        return refuse("it begins with a '-'");
    }
    Ok(())
}

fn check_name(name: &str) -> Result<(), Error> {
    check_part(name, name)
}

fn check_snapshot_name(name: &str) -> Result<(), Error> {
    let Some((object, snapshot)) = name.split_once(SNAPSHOT) else {
        return Err(Error::Name { name: name.to_owned(), why: "a snapshot is named OBJECT@NAME" });
    };
    check_part(name, object)?;
    check_part(name, snapshot)
}

impl<D: Device> Store<D> {
    pub(crate) fn object(&self, name: &str) -> Result<Arc<Object>, Error> {
        self.objects.lock().get(name).ok_or_else(|| Error::NoObject(name.to_owned()))
    }

    fn enter(&self, record: impl FnOnce(u64) -> ObjectRecord, name: &str) -> Result<Arc<Object>, Error> {
        self.check_poison()?;
        let mut objects = self.objects.lock();
        if objects.get(name).is_some() {
            return Err(Error::Exists(name.to_owned()));
        }
        let record = record(objects.next_id);
        self.ledger.add_object(&record)?;
        Ok(objects.put(Object::new(record, &self.ledger)))
    }

    pub(crate) fn create_object(
        &self,
        name: &str,
        kind: Kind,
        (size_bytes, chunk_bytes): (u64, u32),
        root: Option<Root>,
        created: u64,
    ) -> Result<Arc<Object>, Error> {
        check_name(name)?;
        let record = |id| ObjectRecord {
            id,
            kind,
            read_only: false,
            incomplete: false,
            chunk_bytes,
            size_bytes,
            root,
            created,
            token: 0,
            imported_bytes: 0,
            recipe: 0,
            modified_ns: created.saturating_mul(1_000_000_000),
            name: name.to_owned(),
        };
        self.enter(record, name)
    }

    /// Creates a volume of zeroes, with chunks of the store's size unless given. Durable after the next
    /// [`commit`](Self::commit).
    ///
    /// # Errors
    /// [`Error::Name`], [`Error::Exists`], [`Error::Objects`], or [`Error::Setting`] for the chunk size.
    pub fn create_volume(
        &self,
        name: &str,
        size_bytes: u64,
        chunk_bytes: Option<u32>,
        created: u64,
    ) -> Result<(), Error> {
        let chunk_bytes = chunk_bytes.unwrap_or(self.superblock.chunk_bytes);
        if !StoreOptions::CHUNK_BYTES.contains(&chunk_bytes) || !chunk_bytes.is_power_of_two() {
            let why = "it must be a power of two from 4096 to 131072".to_owned();
            return Err(Error::Setting { what: "bytes of a chunk", given: chunk_bytes.into(), why });
        }
        self.create_object(name, Kind::Volume, (size_bytes, chunk_bytes), None, created).map(drop)
    }

    /// Creates a volume to import a source of `size_bytes`, and opens it; or continues an interrupted import of the
    /// same source, identified by `token`. Returns the offset at which to continue. The volume cannot be opened
    /// otherwise until [`finish_import`](Self::finish_import).
    ///
    /// # Errors
    /// As [`create_volume`](Self::create_volume).
    pub fn begin_import(
        self: &Arc<Self>,
        name: &str,
        size_bytes: u64,
        (chunk_bytes, token): (Option<u32>, u64),
        created: u64,
    ) -> Result<(Volume<D>, u64), Error> {
        self.check_poison()?;
        if let Ok(object) = self.object(name) {
            let record = object.state.lock().record.clone();
            let wanted = chunk_bytes.unwrap_or(record.chunk_bytes);
            if !record.incomplete {
                return Err(Error::Exists(name.to_owned()));
            }
            if (record.size_bytes, record.token, record.chunk_bytes) == (size_bytes, token, wanted) {
                return Ok((Volume::new(self, object), record.imported_bytes));
            }
            // An import of another source: its content will be found as duplicates.
            self.objects.lock().remove(name);
        }
        self.create_volume(name, size_bytes, chunk_bytes, created)?;
        let object = self.object(name)?;
        {
            let mut state = object.state.lock();
            (state.record.incomplete, state.record.token) = (true, token);
        }
        Ok((Volume::new(self, object), 0))
    }

    /// Records durably that everything before `imported_bytes` was imported: an interrupted import continues there.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub async fn note_import(&self, volume: &Volume<D>, imported_bytes: u64) -> Result<(), Error> {
        {
            let mut state = volume.object().state.lock();
            state.record.imported_bytes = imported_bytes;
            state.note_changed();
        }
        self.commit().await
    }

    /// Completes an import. Durable when it returns.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub async fn finish_import(&self, volume: &Volume<D>) -> Result<(), Error> {
        {
            let mut state = volume.object().state.lock();
            (state.record.incomplete, state.record.token) = (false, 0);
            state.note_changed();
        }
        self.flush_tree(volume.object()).await?;
        self.commit().await
    }

    /// Removes the object of an import that cannot be completed. The next collection frees the chunks that only it
    /// refers to. Durable when it returns.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub async fn abandon_import(&self, volume: &Volume<D>) -> Result<(), Error> {
        self.check_poison()?;
        let name = volume.name();
        {
            let mut objects = self.objects.lock();
            let is_it = objects.get(&name).is_some_and(|object| object.id == volume.object().id);
            if is_it && volume.object().state.lock().record.incomplete {
                objects.remove(&name);
            }
        }
        self.commit().await
    }

    /// The objects, sorted by name.
    pub fn list(&self) -> Vec<ObjectInfo> {
        self.objects.lock().all().iter().map(|o| info(o)).collect()
    }

    /// The description of an object.
    ///
    /// # Errors
    /// [`Error::NoObject`].
    pub fn info(&self, name: &str) -> Result<ObjectInfo, Error> {
        self.object(name).map(|object| info(&object))
    }

    /// Creates `snapshot` (`OBJECT@NAME`) of the current state of its object. Writes in progress may or may not be
    /// included. The duration depends on the number of changes since the recipe was last written, not on the object's
    /// size. Durable when it returns.
    ///
    /// # Errors
    /// [`Error::Name`], [`Error::NoObject`], [`Error::Exists`], or as [`commit`](Self::commit).
    pub async fn snapshot(&self, snapshot: &str, created: u64) -> Result<(), Error> {
        check_snapshot_name(snapshot)?;
        let object = snapshot.split(SNAPSHOT).next().unwrap_or_default();
        self.copy(object, snapshot, true, created).await
    }

    /// Creates a volume with the current content of `source`, an object or a snapshot. As fast as
    /// [`snapshot`](Self::snapshot).
    ///
    /// # Errors
    /// As [`snapshot`](Self::snapshot).
    pub async fn clone_object(&self, source: &str, name: &str, created: u64) -> Result<(), Error> {
        check_name(name)?;
        self.copy(source, name, false, created).await
    }

    async fn copy(&self, source: &str, name: &str, read_only: bool, created: u64) -> Result<(), Error> {
        let object = self.object(source)?;
        if self.objects.lock().get(name).is_some() {
            return Err(Error::Exists(name.to_owned()));
        }
        {
            // No write is in progress in the copied state.
            let _alone = object.writing.alone(ALL).await;
            self.flush_tree(&object).await?;
            let _mutating = self.mutating.shared(ALL).await;
            let record = object.state.lock().record.clone();
            if record.incomplete {
                let why = "import it to its end first";
                return Err(Error::WrongKind { name: source.to_owned(), kind: record.kind, why });
            }
            self.enter(|id| ObjectRecord { id, read_only, created, name: name.to_owned(), ..record }, name)?;
        }
        self.commit().await
    }

    /// Removes an object or a snapshot. The next collection frees the chunks that only it refers to. Snapshots of a
    /// removed object are kept. Durable when it returns.
    ///
    /// # Errors
    /// [`Error::NoObject`], or as [`commit`](Self::commit).
    pub async fn delete(&self, name: &str) -> Result<(), Error> {
        self.check_poison()?;
        let removed = self.objects.lock().remove(name);
        removed.ok_or_else(|| Error::NoObject(name.to_owned()))?;
        self.commit().await
    }
}

fn info(object: &Object) -> ObjectInfo {
    let state = object.state.lock();
    let record = &state.record;
    ObjectInfo {
        name: record.name.clone(),
        kind: record.kind,
        size_bytes: record.size_bytes,
        chunk_bytes: record.chunk_bytes,
        read_only: record.read_only,
        incomplete_at: record.incomplete.then_some(record.imported_bytes),
        created: record.created,
    }
}
