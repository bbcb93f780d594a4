//! Names: objects, and snapshots of them.

use crate::directory::{DIRECTORY, internal_record};
use crate::format::page::Totals;
use crate::format::record::{Kind, ObjectRecord, Record, Root, SNAPSHOT};
use crate::ledger::Ledger;
use crate::object::Object;
use crate::plan::StoreOptions;
use crate::{Error, Store, Volume};
use hashbrown::{HashMap, HashSet};
use nitro_port::Device;
use nitro_port::range_lock::ALL;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The maximum length of a name in bytes.
const NAME_BYTES_MAX: usize = 255;
/// The maximum number of objects in RAM that the directory has, too, and that were not changed since.
pub(crate) const LOADED_MAX: usize = 4096;
/// The number of attempts to list the objects while the collector frees pages of the directory.
const LIST_RETRIES: usize = 8;

/// The objects of a store in RAM: those in use, and those that were used or created most recently. The others are in the
/// [directory](crate::directory).
pub(crate) struct Objects {
    by_name: BTreeMap<String, Arc<Object>>,
    by_id: HashMap<u64, Arc<Object>>,
    /// The internal volume of the directory, if there is one.
    directory: Option<Arc<Object>>,
    /// The sums of the objects in the directory.
    pub(crate) totals: Totals,
    /// At least the number of objects in RAM that the directory has, and the journal does not.
    loaded: usize,
    /// The number of changes of the directory.
    pub(crate) moves: u64,
    /// The names of removed objects whose records are still in the directory, with their sizes in bytes.
    hidden: BTreeMap<String, u64>,
    hidden_totals: Totals,
    hidden_bytes: u64,
    /// Changes of `hidden` that are not in the journal yet.
    hiding: Vec<Record>,
    ledger: Arc<Ledger>,
    next_id: u64,
    /// Removed objects whose removal is not in the journal yet.
    removed: Vec<u64>,
}

impl Objects {
    pub(crate) fn new(ledger: Arc<Ledger>) -> Self {
        Self {
            by_name: BTreeMap::new(),
            by_id: HashMap::new(),
            directory: None,
            totals: Totals::default(),
            loaded: 0,
            moves: 0,
            hidden: BTreeMap::new(),
            hidden_totals: Totals::default(),
            hidden_bytes: 0,
            hiding: Vec::new(),
            ledger,
            next_id: 0,
            removed: Vec::new(),
        }
    }

    /// The internal volume of the directory, if it has pages.
    pub(crate) fn directory(&self) -> Option<&Arc<Object>> {
        self.directory.as_ref().filter(|directory| !directory.state.lock().is_empty())
    }

    /// The internal volume of the directory. It is created if there is none.
    pub(crate) fn directory_or_new(&mut self) -> Arc<Object> {
        if let Some(directory) = &self.directory {
            return Arc::clone(directory);
        }
        let record = internal_record(self.next_id);
        self.ledger.restore_name(record.journal_bytes());
        self.put(Object::new(record, &Arc::clone(&self.ledger)))
    }

    /// The number of objects in RAM.
    pub(crate) fn in_ram(&self) -> usize {
        self.by_id.len()
    }

    /// The sums of all objects of the store.
    pub(crate) fn all_totals(&self) -> Totals {
        let mut totals = self.totals;
        totals.remove(self.hidden_totals);
        for object in self.by_name.values() {
            let state = object.state.lock();
            if !state.record.in_directory {
                totals.add(Totals::of(&state.record));
            }
        }
        totals
    }

    /// Objects that are not in use, and that the journal has records of, with records of at least `bytes` if there are
    /// that many: the ones first that have been in RAM for the longest time.
    pub(crate) fn idle(&self, bytes: u64) -> Vec<Arc<Object>> {
        let mut idle: Vec<_> =
            self.by_name.values().filter(|object| is_idle(object) && object.state.lock().is_journaled()).collect();
        idle.sort_by_key(|object| object.id);
        let mut sum = 0;
        let enough = idle.into_iter().take_while(|object| {
            let before = sum;
            sum += object.state.lock().record.journal_bytes() as u64;
            before < bytes
        });
        enough.cloned().collect()
    }

    /// The records of idle objects that can be moved to the directory: those without changes that are not durable.
    pub(crate) fn idle_records(&self, bytes: u64) -> Vec<ObjectRecord> {
        let settled = |object: Arc<Object>| {
            let state = object.state.lock();
            state.is_settled().then(|| state.record.clone())
        };
        self.idle(bytes).into_iter().filter_map(settled).collect()
    }

    /// Makes room for another object that the directory has. Fails if too many are in use.
    fn make_room_for_loaded(&mut self) -> Result<(), Error> {
        if self.loaded < LOADED_MAX {
            return Ok(());
        }
        self.by_name.retain(|_, object| {
            let is_kept = !is_idle(object) || object.state.lock().is_journaled();
            if !is_kept {
                self.by_id.remove(&object.id);
            }
            is_kept
        });
        self.loaded = self.by_name.values().filter(|object| !object.state.lock().is_journaled()).count();
        match self.loaded < LOADED_MAX {
            true => Ok(()),
            false => Err(Error::Objects { namespace_bytes: self.ledger.bounds().namespace_bytes }),
        }
    }

    /// Adds an object that the directory has.
    fn load(&mut self, record: ObjectRecord) -> Result<Arc<Object>, Error> {
        self.make_room_for_loaded()?;
        self.loaded += 1;
        let record = ObjectRecord { id: self.next_id, in_directory: true, ..record };
        Ok(self.put(Object::loaded(record, &Arc::clone(&self.ledger))))
    }

    /// Removes an object from RAM whose record the directory has now, unless it is in use or was changed.
    pub(crate) fn move_out(&mut self, record: &ObjectRecord) {
        let Some(object) = self.by_name.get(&record.name) else {
            // It was removed meanwhile.
            self.ledger.restore_name(Record::hidden_bytes(&record.name));
            return self.hide(&record.name, record.size_bytes);
        };
        let mut state = object.state.lock();
        if is_idle(object) && state.is_settled() && state.record == *record {
            state.remove();
            drop(state);
            self.removed.push(record.id);
            self.by_name.remove(&record.name);
            self.by_id.remove(&record.id);
        } else {
            state.record.in_directory = true;
            state.note_changed();
        }
    }

    pub(crate) fn ledger(&self) -> &Arc<Ledger> {
        &self.ledger
    }

    pub(crate) fn by_id(&self, id: u64) -> Option<Arc<Object>> {
        self.by_id.get(&id).cloned()
    }

    /// All objects in RAM, and the internal volume of the directory.
    pub(crate) fn all(&self) -> Vec<Arc<Object>> {
        self.by_name.values().chain(&self.directory).cloned().collect()
    }

    /// The objects in RAM that have names for users.
    pub(crate) fn named(&self) -> impl Iterator<Item = &Arc<Object>> {
        self.by_name.values()
    }

    pub(crate) fn get(&self, name: &str) -> Option<Arc<Object>> {
        self.by_name.get(name).cloned()
    }

    /// Adds an object that the ledger counts already.
    fn put(&mut self, object: Object) -> Arc<Object> {
        self.next_id = self.next_id.max(object.id + 1);
        let object = Arc::new(object);
        self.by_id.insert(object.id, Arc::clone(&object));
        let name = object.name();
        if name == DIRECTORY {
            self.directory = Some(Arc::clone(&object));
        } else {
            self.by_name.insert(name, Arc::clone(&object));
        }
        object
    }

    /// Adds an object that was read from the journal.
    pub(crate) fn restore(&mut self, mut object: Object) {
        let state = object.state.get_mut();
        self.ledger.restore_name(state.record.journal_bytes());
        self.ledger.restore_changes(state.overlay.len());
        *object.durable_modified_ns.get_mut() = state.record.modified_ns;
        self.put(object);
    }

    pub(crate) fn remove(&mut self, name: &str) -> Option<Arc<Object>> {
        let object = self.by_name.remove(name)?;
        self.by_id.remove(&object.id);
        self.removed.push(object.id);
        let mut state = object.state.lock();
        state.remove();
        if state.record.in_directory {
            self.ledger.restore_name(Record::hidden_bytes(name));
            self.hide(name, state.record.size_bytes);
        }
        drop(state);
        Some(object)
    }

    /// Gives objects in RAM, which the journal has records of, other names: from the first to the second of each pair.
    ///
    /// # Errors
    /// [`Error::Objects`] if the journal has no room for the records; then nothing is changed.
    pub(crate) fn rename(&mut self, names: &[(String, String)]) -> Result<(), Error> {
        let longer = |(old, new): &(String, String)| new.len().saturating_sub(old.len()) + Record::hidden_bytes(old);
        let room: usize = names.iter().map(longer).sum();
        self.ledger.reserve_names(room)?;
        for (old, new) in names {
            let Some(object) = self.by_name.remove(old) else { continue };
            let mut state = object.state.lock();
            self.ledger.restore_name(new.len());
            self.ledger.remove_name(old.len());
            if state.record.in_directory {
                self.ledger.restore_name(Record::hidden_bytes(old));
                self.hide(old, state.record.size_bytes);
            }
            state.record.in_directory = self.unhide(new);
            state.record.name.clone_from(new);
            state.note_changed();
            drop(state);
            self.by_name.insert(new.clone(), object);
        }
        self.ledger.remove_name(room);
        Ok(())
    }

    /// Hides the record of a name in the directory. The ledger counts the journal's record of this already.
    pub(crate) fn hide(&mut self, name: &str, size_bytes: u64) {
        self.hiding.push(Record::Hidden { size_bytes, name: name.to_owned() });
        if self.hidden.contains_key(name) {
            self.ledger.remove_name(Record::hidden_bytes(name));
        } else {
            self.note_hidden(name.to_owned(), size_bytes);
        }
    }

    fn note_hidden(&mut self, name: String, size_bytes: u64) {
        self.hidden_bytes += Record::hidden_bytes(&name) as u64;
        self.hidden_totals.add(Totals::named(&name, size_bytes));
        self.hidden.insert(name, size_bytes);
    }

    /// Restores what the journal says of hidden names.
    pub(crate) fn restore_hidden(&mut self, hidden: BTreeMap<String, u64>) {
        for (name, size_bytes) in hidden {
            self.ledger.restore_name(Record::hidden_bytes(&name));
            self.note_hidden(name, size_bytes);
        }
    }

    /// Ends the hiding of a name. Returns whether it was hidden.
    fn unhide(&mut self, name: &str) -> bool {
        let Some(size_bytes) = self.hidden.remove(name) else { return false };
        self.ledger.remove_name(Record::hidden_bytes(name));
        self.hidden_bytes -= Record::hidden_bytes(name) as u64;
        self.hidden_totals.remove(Totals::named(name, size_bytes));
        true
    }

    pub(crate) fn hidden(&self) -> &BTreeMap<String, u64> {
        &self.hidden
    }

    /// Bytes of the journal's records of hidden names.
    pub(crate) fn hidden_bytes(&self) -> u64 {
        self.hidden_bytes
    }

    /// Notes that the directory has no record of a name any more.
    pub(crate) fn note_purged(&mut self, name: &str) {
        if self.unhide(name) {
            self.hiding.push(Record::Unhidden { name: name.to_owned() });
        } else if let Some(object) = self.by_name.get(name) {
            // It was created again.
            let mut state = object.state.lock();
            state.record.in_directory = false;
            state.note_changed();
        }
    }

    /// Removes the directory, all of whose objects are hidden.
    pub(crate) fn remove_directory(&mut self) {
        let hidden: Vec<String> = self.hidden.keys().cloned().collect();
        hidden.iter().for_each(|name| self.note_purged(name));
        if let Some(directory) = self.directory.take() {
            self.by_id.remove(&directory.id);
            self.removed.push(directory.id);
            directory.state.lock().remove();
        }
        self.totals = Totals::default();
        self.moves += 1;
    }

    /// The names that a walk of the directory must pass over.
    pub(crate) fn shadowed(&self) -> HashSet<String> {
        self.by_name.keys().chain(self.hidden.keys()).cloned().collect()
    }

    /// Takes what the journal is not told yet: the removed objects, and the changes of hidden names.
    pub(crate) fn take_untold(&mut self) -> (Vec<u64>, Vec<Record>) {
        (std::mem::take(&mut self.removed), std::mem::take(&mut self.hiding))
    }

    pub(crate) fn put_back(&mut self, removed: Vec<u64>, mut hiding: Vec<Record>) {
        self.removed.extend(removed);
        hiding.append(&mut self.hiding);
        self.hiding = hiding;
    }
}

/// An object that was found by its name.
enum Named {
    InRam(Arc<Object>),
    InDirectory(Box<ObjectRecord>),
}

/// Whether an object is in both maps of [`Objects`], and nowhere else.
fn is_idle(object: &Arc<Object>) -> bool {
    Arc::strong_count(object) == 2
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

pub(crate) fn check_name(name: &str) -> Result<(), Error> {
    check_part(name, name)
}

pub(crate) fn check_snapshot_name(name: &str) -> Result<(), Error> {
    let Some((object, snapshot)) = name.split_once(SNAPSHOT) else {
        return Err(Error::Name { name: name.to_owned(), why: "a snapshot is named OBJECT@NAME" });
    };
    check_part(name, object)?;
    check_part(name, snapshot)
}

impl<D: Device> Store<D> {
    /// Begins to change an object: the journal gets a record of it.
    ///
    /// # Errors
    /// [`Error::Objects`] if the journal has no room for the record.
    pub(crate) async fn begin_change(&self, object: &Object) -> Result<(), Error> {
        if !object.state.lock().is_journaled() {
            self.make_room_for_objects().await?;
            object.state.lock().begin_journaling()?;
        }
        Ok(())
    }

    /// Looks up a name, in RAM and in the directory. Also returns [`Objects::moves`] of the moment of the look-up.
    async fn look_up(&self, name: &str) -> Result<(Option<Named>, u64), Error> {
        loop {
            let (directory, moves) = {
                let objects = self.objects.lock();
                let moves = objects.moves;
                match (objects.get(name), objects.directory()) {
                    (Some(object), _) => return Ok((Some(Named::InRam(object)), moves)),
                    (None, None) => return Ok((None, moves)),
                    (None, Some(_)) if objects.hidden.contains_key(name) => return Ok((None, moves)),
                    (None, Some(directory)) => (Arc::clone(directory), moves),
                }
            };
            let found = self.directory_record(&directory, name).await;
            // Otherwise, the pages changed meanwhile.
            if self.objects.lock().moves == moves {
                return Ok((found?.map(|record| Named::InDirectory(Box::new(record))), moves));
            }
        }
    }

    /// The object with this name. If it is in the directory only, it is loaded into RAM.
    pub(crate) async fn object(&self, name: &str) -> Result<Arc<Object>, Error> {
        loop {
            let (found, moves) = self.look_up(name).await?;
            let record = match found {
                None => return Err(Error::NoObject(name.to_owned())),
                Some(Named::InRam(object)) => return Ok(object),
                Some(Named::InDirectory(record)) => *record,
            };
            let mut objects = self.objects.lock();
            if objects.moves == moves && objects.get(name).is_none() && !objects.hidden.contains_key(name) {
                return objects.load(record);
            }
        }
    }

    pub(crate) async fn check_new(&self, name: &str) -> Result<(), Error> {
        match self.look_up(name).await?.0 {
            Some(_) => Err(Error::Exists(name.to_owned())),
            None => Ok(()),
        }
    }

    /// Adds a new object. The caller has [made room](Self::make_room_for_objects) for it.
    pub(crate) async fn enter(&self, record: impl Fn(u64) -> ObjectRecord, name: &str) -> Result<Arc<Object>, Error> {
        self.check_poison()?;
        loop {
            let (found, moves) = self.look_up(name).await?;
            let mut objects = self.objects.lock();
            if found.is_some() || objects.get(name).is_some() {
                return Err(Error::Exists(name.to_owned()));
            }
            if objects.moves == moves {
                let record = record(objects.next_id);
                self.ledger.add_object(&record)?;
                let in_directory = objects.unhide(name);
                return Ok(objects.put(Object::new(ObjectRecord { in_directory, ..record }, &self.ledger)));
            }
        }
    }

    /// Removes an object if `is_it` accepts its record. Returns whether it did. Durable after the next commit.
    pub(crate) async fn remove_object(&self, name: &str, is_it: impl Fn(&ObjectRecord) -> bool) -> Result<bool, Error> {
        loop {
            let (found, moves) = self.look_up(name).await?;
            let Some(found) = found else { return Ok(false) };
            self.purge_hidden_if_many().await?;
            let mut objects = self.objects.lock();
            if let Some(object) = objects.get(name) {
                let is_it = is_it(&object.state.lock().record);
                if is_it {
                    objects.remove(name);
                }
                return Ok(is_it);
            }
            let Named::InDirectory(record) = found else { continue };
            if objects.moves == moves && !objects.hidden.contains_key(name) {
                let is_it = is_it(&record);
                if is_it {
                    self.ledger.add_hidden(name)?;
                    objects.hide(name, record.size_bytes);
                }
                return Ok(is_it);
            }
        }
    }

    pub(crate) async fn create_object(
        &self,
        name: &str,
        kind: Kind,
        (size_bytes, chunk_bytes): (u64, u32),
        root: Option<Root>,
        created: u64,
    ) -> Result<Arc<Object>, Error> {
        self.make_room_for_objects().await?;
        self.enter_object(name, kind, (size_bytes, chunk_bytes), root, created).await
    }

    /// As [`create_object`](Self::create_object); the caller has [made room](Self::make_room_for_objects).
    pub(crate) async fn enter_object(
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
            in_directory: false,
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
        self.enter(record, name).await
    }

    /// Creates a volume of zeroes, with chunks of the store's size unless given. Durable after the next
    /// [`commit`](Self::commit).
    ///
    /// # Errors
    /// [`Error::Name`], [`Error::Exists`], [`Error::Objects`], or [`Error::Setting`] for the chunk size.
    pub async fn create_volume(
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
        self.create_object(name, Kind::Volume, (size_bytes, chunk_bytes), None, created).await.map(drop)
    }

    /// Creates a volume to import a source of `size_bytes`, and opens it; or continues an interrupted import of the
    /// same source, identified by `token`. Returns the offset at which to continue. The volume cannot be opened
    /// otherwise until [`finish_import`](Self::finish_import).
    ///
    /// # Errors
    /// As [`create_volume`](Self::create_volume).
    pub async fn begin_import(
        self: &Arc<Self>,
        name: &str,
        size_bytes: u64,
        (chunk_bytes, token): (Option<u32>, u64),
        created: u64,
    ) -> Result<(Volume<D>, u64), Error> {
        self.check_poison()?;
        if self.look_up(name).await?.0.is_some() {
            let object = self.object(name).await?;
            let record = object.state.lock().record.clone();
            let wanted = chunk_bytes.unwrap_or(record.chunk_bytes);
            if !record.incomplete {
                return Err(Error::Exists(name.to_owned()));
            }
            if (record.size_bytes, record.token, record.chunk_bytes) == (size_bytes, token, wanted) {
                return Ok((Volume::new(self, object), record.imported_bytes));
            }
            // An import of another source: its content will be found as duplicates.
            drop(object);
            self.remove_object(name, |record| record.incomplete).await?;
        }
        self.create_volume(name, size_bytes, chunk_bytes, created).await?;
        let object = self.object(name).await?;
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
        self.begin_change(volume.object()).await?;
        {
            let mut state = volume.object().state.lock();
            state.check_there()?;
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
        self.begin_change(volume.object()).await?;
        {
            let mut state = volume.object().state.lock();
            state.check_there()?;
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
        let id = volume.object().id;
        self.remove_object(&volume.name(), |record| record.id == id && record.incomplete).await?;
        self.commit().await
    }

    /// The objects, sorted by name.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub async fn list(&self) -> Result<Vec<ObjectInfo>, Error> {
        let mut tries = 0;
        loop {
            let (mut listed, view, moves) = {
                let objects = self.objects.lock();
                let in_ram = objects.by_name.values().map(|object| info(&object.state.lock().record));
                (in_ram.collect::<Vec<_>>(), Self::directory_view(&objects), objects.moves)
            };
            if let Some(view) = view {
                let walked = self.walk_directory(&view, async |records| {
                    listed.extend(records.into_iter().map(info));
                    Ok(())
                });
                match walked.await {
                    // A collection freed a page that had been replaced meanwhile.
                    Err(Error::Missing { .. }) if tries < LIST_RETRIES && self.objects.lock().moves != moves => {
                        tries += 1;
                        continue;
                    }
                    result => result?,
                }
            }
            listed.sort_by(|a, b| a.name.cmp(&b.name));
            return Ok(listed);
        }
    }

    /// The description of an object.
    ///
    /// # Errors
    /// [`Error::NoObject`], or the directory cannot be read.
    pub async fn info(&self, name: &str) -> Result<ObjectInfo, Error> {
        let object = self.object(name).await?;
        let state = object.state.lock();
        Ok(info(&state.record))
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
        let object = self.object(source).await?;
        self.check_new(name).await?;
        self.make_room_for_objects().await?;
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
            let record = |id| ObjectRecord {
                id,
                read_only,
                created,
                in_directory: false,
                name: name.to_owned(),
                ..record.clone()
            };
            self.enter(record, name).await?;
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
        if !self.remove_object(name, |_| true).await? {
            return Err(Error::NoObject(name.to_owned()));
        }
        self.commit().await
    }
}

fn info(record: &ObjectRecord) -> ObjectInfo {
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
