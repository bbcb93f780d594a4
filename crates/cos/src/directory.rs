//! The directory: objects that are not in RAM, by name.
//!
//! The records of objects in use are in RAM and in the journal, which bounds their number. The others are in the pages
//! of a B+ tree, see [`page`](crate::format::page). The pages are the chunks of an internal volume: they are replaced
//! copy on write, reach the disk with a commit, and are cached on the SSD like recipe blocks.
//!
//! - A record in RAM is newer than that in the directory, or equal to it. The flag `in_directory` tells that there is
//!   one. A record that was read from the directory gets into the journal before it is changed.
//! - An object that is removed is hidden by a record in the journal, until its record is removed from the directory
//!   together with those of others. So a removal needs no room for new pages.
//! - Changes of pages, and the removals of records from RAM that belong to them, are made under the lock of
//!   [`Objects`], under which a commit gathers the records of its batch. So they are durable together.
//! - [`Objects::moves`] counts these changes. A look-up that found nothing in a page is repeated if it has changed.

use crate::access::Access;
use crate::chunks::fingerprint_of;
use crate::format::page::{Child, Entries, Head, PAGE_BYTES, Page, Totals, child_of};
use crate::format::record::{Kind, ObjectRecord, Root};
use crate::format::region::ChunkKind;
use crate::lane::RECIPE_LANE;
use crate::namespace::Objects;
use crate::object::{Change, Object};
use crate::place::Reference;
use crate::tree::NodeKey;
use crate::{Error, Store};
use bytes::Bytes;
use futures_util::lock::{Mutex as AsyncMutex, MutexGuard};
use hashbrown::HashSet;
use lru::LruCache;
use nitro_log::FormatError;
use nitro_port::range_lock::ALL;
use nitro_port::yielding::yield_now;
use nitro_port::{Device, Work};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::pin::pin;
use std::sync::Arc;

/// The name of the internal volume; names of objects have no `#`.
pub(crate) const DIRECTORY: &str = "#directory";
/// Bytes of a chunk of the internal volume, for its size only: pages are shorter.
const CHUNK_BYTES: u32 = 16 << 10;
/// RAM of a page, whose records are decoded.
const PAGE_RAM_BYTES: u64 = 3 * PAGE_BYTES as u64;
/// The pages that a new record may change beyond the leaf: the root, and a path of splits.
const PAGES_A_RECORD: usize = 8;
/// Objects are hidden until their records in the journal take more than this part of the bound for all objects.
const HIDDEN_SHARE: u64 = 8;
/// The maximum number of pages that are changed together, which bounds their RAM.
const PAGES_AT_ONCE: usize = 128;
/// The number of attempts to read a page that is replaced and collected meanwhile.
const RETRIES: usize = 8;
/// The number of pages after which a walk yields.
const PAGES_PER_TURN: usize = 16;

/// The directory's state in RAM.
pub(crate) struct Directory {
    /// Locked while pages are changed.
    changing: AsyncMutex<()>,
    pages: Mutex<LruCache<NodeKey, Arc<Page>>>,
    pages_max: u64,
}

impl Directory {
    /// A directory that keeps up to `bytes` bytes of pages in RAM.
    pub(crate) fn new(bytes: u64) -> Self {
        let pages_max = (bytes / PAGE_RAM_BYTES).max(1);
        let capacity = NonZeroUsize::new(pages_max as usize).unwrap_or(NonZeroUsize::MIN);
        Self { changing: AsyncMutex::new(()), pages: Mutex::new(LruCache::new(capacity)), pages_max }
    }

    /// The maximum RAM of pages in bytes.
    pub(crate) fn ram_bytes_max(&self) -> u64 {
        self.pages_max * PAGE_RAM_BYTES
    }

    /// The RAM of pages in bytes.
    pub(crate) fn ram_bytes(&self) -> u64 {
        self.pages.lock().len() as u64 * PAGE_RAM_BYTES
    }
}

/// The record of the internal volume.
pub(crate) fn internal_record(id: u64) -> ObjectRecord {
    ObjectRecord {
        id,
        kind: Kind::Volume,
        read_only: false,
        incomplete: false,
        in_directory: false,
        chunk_bytes: CHUNK_BYTES,
        size_bytes: u64::from(CHUNK_BYTES),
        root: None,
        created: 0,
        token: 0,
        imported_bytes: 0,
        recipe: 0,
        modified_ns: 0,
        name: DIRECTORY.to_owned(),
    }
}

fn damaged(number: u64, why: &str) -> Error {
    Error::Damaged { what: format!("page {number} of the directory of objects: {why}") }
}

/// The internal volume at one moment, so that a walk finds each object that was in the directory then.
pub(crate) struct View {
    root: Option<Root>,
    overlay: BTreeMap<u64, Change>,
    /// The names whose records are not valid: RAM has newer ones, or the objects are hidden.
    shadowed: HashSet<String>,
}

/// Where the pages of a walk or a look-up are read from.
enum Pages<'a> {
    Now(&'a Object),
    Then(&'a View),
}

impl<D: Device> Store<D> {
    /// Reads a page.
    async fn page(&self, pages: &Pages<'_>, number: u64, access: Access) -> Result<Arc<Page>, Error> {
        let mut tries = 0;
        loop {
            let reference = match pages {
                Pages::Now(directory) => self.resolve(directory, number..number + 1, access).await?.pop().flatten(),
                Pages::Then(view) => match view.overlay.get(&number) {
                    Some(change) => change.reference,
                    None => self.resolve_root(view.root, number).await?,
                },
            };
            let reference = reference.ok_or_else(|| damaged(number, "it does not exist"))?;
            match self.page_at(&reference, access).await {
                // It was replaced and collected after it was resolved.
                Err(Error::Missing { .. }) if tries < RETRIES && matches!(pages, Pages::Now(_)) => tries += 1,
                Ok(page) if page.number != number => return Err(damaged(number, "another page is in its place")),
                result => return result,
            }
        }
    }

    async fn page_at(&self, reference: &Reference, access: Access) -> Result<Arc<Page>, Error> {
        let key = self.node_key(reference);
        if let Some(page) = self.directory.pages.lock().get(&key) {
            return Ok(Arc::clone(page));
        }
        let found = match access {
            Access::Disk => None,
            _ => self.block_on_ssd(reference).await.filter(|b| fingerprint_of(b) == reference.fingerprint),
        };
        let page = match found {
            Some(bytes) => Arc::new(Page::decode(&bytes)?),
            None => {
                self.counters.directory_reads.add(1);
                let (place, bytes) = self.locate(reference, access).await?;
                if access.keeps_recipes() && (place == reference.place || !self.settings.places) {
                    self.keep_node(reference, &bytes).await;
                }
                Arc::new(Page::decode(&bytes)?)
            }
        };
        if access != Access::Disk && self.node_key(reference) == key {
            self.directory.pages.lock().put(key, Arc::clone(&page));
        }
        Ok(page)
    }

    /// The record of an object in the directory.
    pub(crate) async fn directory_record(&self, directory: &Object, name: &str) -> Result<Option<ObjectRecord>, Error> {
        self.counters.directory_lookups.add(1);
        let pages = Pages::Now(directory);
        let mut page = self.page(&pages, 0, Access::Random).await?;
        loop {
            let Entries::Pages { level, children } = &page.entries else {
                return Ok(page.object(name).cloned());
            };
            let below = *level;
            let Some(child) = children.get(child_of(children, name)) else { return Ok(None) };
            page = self.page(&pages, child.page, Access::Random).await?;
            check_level(&page, below)?;
        }
    }

    /// The directory at this moment; `objects` are locked.
    pub(crate) fn directory_view(objects: &Objects) -> Option<View> {
        let directory = objects.directory()?;
        let state = directory.state.lock();
        let (root, overlay) = (state.record.root, state.overlay.clone());
        Some(View { root, overlay, shadowed: objects.shadowed() })
    }

    /// Visits the objects that were in the directory only, in the order of names, some at a time.
    pub(crate) async fn walk_directory<F>(&self, view: &View, mut visit: F) -> Result<(), Error>
    where
        F: AsyncFnMut(Vec<&ObjectRecord>) -> Result<(), Error>,
    {
        let pages = Pages::Then(view);
        let mut rest = vec![(0, None)];
        let mut read: usize = 0;
        while let Some((number, above)) = rest.pop() {
            let page = self.page(&pages, number, Access::Disk).await?;
            if let Some(above) = above {
                check_level(&page, above)?;
            }
            match &page.entries {
                Entries::Objects(records) => {
                    visit(records.iter().filter(|record| !view.shadowed.contains(&record.name)).collect()).await?;
                }
                Entries::Pages { level, children } => {
                    rest.extend(children.iter().rev().map(|child| (child.page, Some(*level))));
                }
                Entries::Unused => return Err(damaged(number, "it is not in use")),
            }
            read += 1;
            if read.is_multiple_of(PAGES_PER_TURN) {
                yield_now().await;
            }
        }
        Ok(())
    }

    /// The sums of the objects in the directory, read from its root.
    pub(crate) async fn directory_totals(&self) -> Result<Totals, Error> {
        let Some(directory) = self.objects.lock().directory().cloned() else { return Ok(Totals::default()) };
        Ok(self.page(&Pages::Now(&directory), 0, Access::Disk).await?.head.totals)
    }

    /// Begins a change of the directory. The directory is created if there is none.
    async fn edit<'a>(&'a self, changing: MutexGuard<'a, ()>) -> Result<Edit<'a, D>, Error> {
        if self.objects.lock().directory().is_none() {
            // Programs that know no directory must not open the store from now on.
            self.change_superblock(|superblock| superblock.directory = true).await?;
        }
        let directory = self.objects.lock().directory_or_new();
        let mut edit = Edit { store: self, directory, pages: BTreeMap::new(), changed: BTreeSet::new(), changing };
        if edit.directory.state.lock().is_empty() {
            edit.pages.insert(0, Page::root());
            edit.changed.insert(0);
        }
        edit.load(0).await?;
        Ok(edit)
    }

    /// Removes hidden objects from the directory, so that the journal need not hide them any more.
    pub(crate) async fn purge_hidden(&self) -> Result<(), Error> {
        loop {
            let changing = self.directory.changing.lock().await;
            let names: Vec<String> = {
                let mut objects = self.objects.lock();
                if objects.hidden().is_empty() {
                    return Ok(());
                }
                if objects.hidden().len() as u64 >= objects.totals.objects {
                    objects.remove_directory();
                    return Ok(());
                }
                objects.hidden().keys().cloned().collect()
            };
            let mut edit = self.edit(changing).await?;
            let mut purged = Vec::new();
            for name in names {
                edit.remove(&name).await?;
                purged.push(name);
                if edit.changed.len() + PAGES_A_RECORD > self.pages_at_once() {
                    break;
                }
            }
            edit.apply(|objects| purged.iter().for_each(|name| objects.note_purged(name))).await?;
        }
    }

    /// As [`purge_hidden_if_room`](Self::purge_hidden_if_room), if the journal should not hide more objects.
    pub(crate) async fn purge_hidden_if_many(&self) -> Result<(), Error> {
        let hidden = self.objects.lock().hidden_bytes();
        if hidden <= self.ledger.bounds().namespace_bytes / HIDDEN_SHARE {
            return Ok(());
        }
        self.purge_hidden_if_room().await
    }

    /// As [`purge_hidden`](Self::purge_hidden), if there is room for new pages.
    pub(crate) async fn purge_hidden_if_room(&self) -> Result<(), Error> {
        let purging = pin!(self.purge_hidden());
        unless_full(Work::pressing(purging).await, "removed objects are hidden only")
    }

    /// Makes room for more objects in RAM and in the journal: if little is left, moves objects that are not in use to
    /// the directory, the ones first that have been in RAM for the longest time.
    pub(crate) async fn make_room_for_objects(&self) -> Result<(), Error> {
        if !self.ledger.is_namespace_high() {
            return Ok(());
        }
        // If there is no room for pages, the caller finds out whether there is room for the object.
        let moving = pin!(self.move_to_directory());
        unless_full(Work::pressing(moving).await, "objects stay in RAM")
    }

    /// The maximum number of pages that are changed together.
    fn pages_at_once(&self) -> usize {
        self.ledger.bounds().changes_at_once().min(PAGES_AT_ONCE)
    }

    /// As [`make_room_for_objects`](Self::make_room_for_objects), whether or not there is room.
    async fn move_to_directory(&self) -> Result<(), Error> {
        // The recipes of objects in the directory have all changes.
        let idle = self.objects.lock().idle(self.ledger.namespace_surplus());
        for object in &idle {
            self.flush_tree(object).await?;
        }
        drop(idle);
        self.commit().await?;
        let changing = self.directory.changing.lock().await;
        let mut records = self.objects.lock().idle_records(self.ledger.namespace_surplus());
        if records.is_empty() {
            return Ok(());
        }
        let mut edit = self.edit(changing).await?;
        records.sort_by(|a, b| a.name.cmp(&b.name));
        let mut moved = Vec::new();
        for record in records {
            edit.insert(ObjectRecord { in_directory: false, ..record.clone() }).await?;
            moved.push(record);
            if edit.changed.len() + PAGES_A_RECORD > self.pages_at_once() {
                edit = edit.move_out(std::mem::take(&mut moved)).await?;
            }
        }
        edit.move_out(moved).await.map(drop)
    }

    /// Updates the records of the directory with `update`, which is called for each, and returns the new place of its
    /// root if that has changed.
    pub(crate) async fn update_directory<F>(&self, mut update: F) -> Result<(), Error>
    where
        F: AsyncFnMut(&ObjectRecord) -> Result<Option<Root>, Error>,
    {
        let Some(view) = Self::directory_view(&self.objects.lock()) else { return Ok(()) };
        self.walk_directory(&view, async |records| {
            let mut new = Vec::new();
            for record in records {
                if let Some(root) = update(record).await? {
                    new.push((record, root));
                }
            }
            for some in new.chunks(self.pages_at_once().saturating_sub(PAGES_A_RECORD).max(1)) {
                Work::pressing(pin!(self.update_records(some))).await?;
            }
            Ok(())
        })
        .await
    }

    /// Changes the roots of records, unless they were changed meanwhile.
    async fn update_records(&self, records: &[(&ObjectRecord, Root)]) -> Result<(), Error> {
        let mut edit = self.edit(self.directory.changing.lock().await).await?;
        for (old, root) in records {
            let now = edit.find(&old.name).await?;
            if let Some(now) = now.filter(|now| now.root == old.root) {
                edit.insert(ObjectRecord { root: Some(*root), ..now }).await?;
            }
        }
        edit.apply(|_| ()).await.map(drop)
    }
}

/// Reports that there is no room as a warning instead of an error.
fn unless_full(result: Result<(), Error>, what: &str) -> Result<(), Error> {
    match result {
        Err(error) if error.is_full() => {
            tracing::warn!("{what}: {error}");
            Ok(())
        }
        result => result,
    }
}

fn check_level(page: &Page, above: u8) -> Result<(), Error> {
    if page.level().checked_add(1) == Some(above) {
        return Ok(());
    }
    let (structure, field, value) = ("page of the directory", "level", page.level().into());
    Err(FormatError::Field { structure, field, value }.into())
}

/// Changes of pages that become visible together.
struct Edit<'a, D: Device> {
    store: &'a Store<D>,
    directory: Arc<Object>,
    pages: BTreeMap<u64, Page>,
    changed: BTreeSet<u64>,
    changing: MutexGuard<'a, ()>,
}

impl<D: Device> Edit<'_, D> {
    async fn load(&mut self, number: u64) -> Result<&Page, Error> {
        if !self.pages.contains_key(&number) {
            let page = self.store.page(&Pages::Now(&self.directory), number, Access::Random).await?;
            self.pages.insert(number, (*page).clone());
        }
        self.pages.get(&number).ok_or_else(|| damaged(number, "it does not exist"))
    }

    /// A page that was loaded, to be changed.
    fn change(&mut self, number: u64) -> Result<&mut Page, Error> {
        self.changed.insert(number);
        self.pages.get_mut(&number).ok_or_else(|| damaged(number, "it does not exist"))
    }

    fn head(&mut self) -> Result<&mut Head, Error> {
        Ok(&mut self.change(0)?.head)
    }

    /// The path to the leaf that has a name: the pages above it with the index of the child, and the leaf.
    async fn descend(&mut self, name: &str) -> Result<(Vec<(u64, usize)>, u64), Error> {
        let (mut path, mut at) = (Vec::new(), 0);
        loop {
            let (level, index, child) = match &self.load(at).await?.entries {
                Entries::Objects(_) => return Ok((path, at)),
                Entries::Unused => return Err(damaged(at, "it is not in use")),
                Entries::Pages { level, children } => {
                    let index = child_of(children, name);
                    let child = children.get(index).ok_or_else(|| damaged(at, "it has no entries"))?;
                    (*level, index, child.page)
                }
            };
            path.push((at, index));
            check_level(self.load(child).await?, level)?;
            at = child;
        }
    }

    async fn find(&mut self, name: &str) -> Result<Option<ObjectRecord>, Error> {
        let (_, leaf) = self.descend(name).await?;
        Ok(self.load(leaf).await?.object(name).cloned())
    }

    async fn insert(&mut self, record: ObjectRecord) -> Result<(), Error> {
        let (path, leaf) = self.descend(&record.name).await?;
        let more = Totals::of(&record);
        let put = self.change(leaf)?.put(record);
        let (old, is_last) = put.ok_or_else(|| damaged(leaf, "it has no objects"))?;
        let totals = &mut self.head()?.totals;
        totals.add(more);
        if let Some(old) = old {
            totals.remove(Totals::of(&old));
        }
        self.split(path, leaf, is_last).await
    }

    /// Splits pages that are too large, from a leaf upwards.
    async fn split(&mut self, mut path: Vec<(u64, usize)>, leaf: u64, is_last: bool) -> Result<(), Error> {
        let (mut at, mut is_last) = (leaf, is_last);
        while self.load(at).await?.encoded_bytes() > PAGE_BYTES {
            let number = self.allocate().await?;
            if at == 0 {
                self.grow(number)?;
                path = vec![(0, 0)];
                at = number;
                continue;
            }
            let Some((above, index)) = path.pop() else { return Err(damaged(at, "no page is above it")) };
            let (name, upper) = self.change(at)?.split(number, is_last);
            self.pages.insert(number, upper);
            self.changed.insert(number);
            let Entries::Pages { children, .. } = &mut self.change(above)?.entries else {
                return Err(damaged(above, "it has no pages below"));
            };
            is_last = index + 1 == children.len();
            children.insert(index + 1, Child { name, page: number });
            at = above;
        }
        Ok(())
    }

    /// Moves the entries of the root to a new page below it.
    fn grow(&mut self, number: u64) -> Result<(), Error> {
        let root = self.change(0)?;
        let level = match &root.entries {
            Entries::Pages { level, .. } => level + 1,
            _ => 1,
        };
        let children = vec![Child { name: String::new(), page: number }];
        let entries = std::mem::replace(&mut root.entries, Entries::Pages { level, children });
        self.pages.insert(number, Page { number, head: Head::default(), entries });
        self.changed.insert(number);
        Ok(())
    }

    /// The number of a page for new content.
    async fn allocate(&mut self) -> Result<u64, Error> {
        let Head { unused, pages, .. } = *self.head()?;
        if unused == 0 {
            self.head()?.pages = pages + 1;
            return Ok(pages);
        }
        let page = self.load(unused).await?;
        if page.entries != Entries::Unused {
            return Err(damaged(unused, "it is in use, and also listed as unused"));
        }
        let next = page.head.unused;
        self.head()?.unused = next;
        Ok(unused)
    }

    /// Removes an object, and the pages that have no entries after that.
    async fn remove(&mut self, name: &str) -> Result<Option<ObjectRecord>, Error> {
        let (mut path, leaf) = self.descend(name).await?;
        if self.load(leaf).await?.object(name).is_none() {
            return Ok(None);
        }
        let page = self.change(leaf)?;
        let record = page.take(name);
        let mut is_empty = page.entries == Entries::Objects(Vec::new());
        if let Some(record) = &record {
            self.head()?.totals.remove(Totals::of(record));
        }
        let mut at = leaf;
        while is_empty && let Some((above, index)) = path.pop() {
            let next = self.head()?.unused;
            let head = Head { unused: next, ..Head::default() };
            *self.change(at)? = Page { number: at, head, entries: Entries::Unused };
            self.head()?.unused = at;
            let page = self.change(above)?;
            let Entries::Pages { children, .. } = &mut page.entries else {
                return Err(damaged(above, "it has no pages below"));
            };
            children.remove(index);
            is_empty = children.is_empty();
            if is_empty && above == 0 {
                page.entries = Entries::Objects(Vec::new());
            }
            at = above;
        }
        Ok(record)
    }

    /// Stores the changed pages. Then makes them visible, together with a change of the objects in RAM.
    async fn apply(self, change: impl FnOnce(&mut Objects)) -> Result<Self, Error> {
        let Self { store, directory, mut pages, changed, changing } = self;
        let mut permit = store.permit(changed.len()).await?;
        let mutating = store.mutating.shared(ALL).await;
        let since = store.state.lock().slots.sequence();
        let mut source = Vec::new();
        let mut pieces = Vec::with_capacity(changed.len());
        pages.retain(|number, _| changed.contains(number));
        for page in pages.values() {
            let start = source.len();
            page.encode(&mut source);
            pieces.push((fingerprint_of(&source[start..]), start..source.len()));
        }
        let source = Bytes::from(source);
        let references = store.store_chunks((ChunkKind::Recipe, RECIPE_LANE), &source, &pieces, Access::Disk).await?;
        for ((page, reference), (_, range)) in pages.values().zip(&references).zip(&pieces) {
            store.keep_node(reference, &source[range.clone()]).await;
            store.directory.pages.lock().put(store.node_key(reference), Arc::new(page.clone()));
        }
        let head = pages.get(&0).map(|page| page.head);
        {
            let mut objects = store.objects.lock();
            let mut state = directory.state.lock();
            for (number, reference) in pages.keys().zip(&references) {
                state.change(*number, Change { reference: Some(*reference), since }, &mut permit);
            }
            if let Some(head) = head {
                state.record.size_bytes = head.pages * u64::from(CHUNK_BYTES);
                objects.totals = head.totals;
            }
            state.note_changed();
            drop(state);
            objects.moves += 1;
            change(&mut objects);
        }
        drop(mutating);
        store.relieve_if_high().await?;
        pages.retain(|number, _| *number == 0);
        Ok(Self { store, directory, pages, changed: BTreeSet::new(), changing })
    }

    /// Applies the changes, and removes the objects from RAM that have not been changed since `records` were taken.
    async fn move_out(self, records: Vec<ObjectRecord>) -> Result<Self, Error> {
        if records.is_empty() {
            return Ok(self);
        }
        self.apply(|objects| records.iter().for_each(|record| objects.move_out(record))).await
    }
}
