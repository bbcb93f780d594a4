//! Garbage: objects that no generation needs any more, and those that servers left behind which ended, or lost the volume.
//!
//! What a generation has replaced is deleted once that generation is written. What was left behind is found by going through all
//! objects: one is garbage if neither the last generation nor a snapshot nor what comes next has it, and if its name says a generation
//! that exists, so that no server can still make it part of the volume. That is done once after each opening, when a snapshot was
//! deleted, and when more is garbage than the list of it takes.
//!
//! A snapshot may have an object only if it is of the object's generation or a later one. So what is newer than all snapshots is deleted
//! when it is replaced, and for the rest a search reads the snapshots' manifests, and segments as it comes to them.

use super::{State, Volume};
use crate::error::S3Error;
use crate::format::{
    DATA, Id, SEGMENT_CHUNKS, SEGMENTS, SNAPSHOTS, Snapshot, data_name, manifest_name, parse_data, parse_segment,
    parse_snapshot, segment_name, snapshot_name,
};
use crate::open::{Held, held, segment};
use crate::store::Store;
use futures_util::future::LocalBoxFuture;
use nitro_port::Clock;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// Most objects that a request deletes.
const DELETED_AT_ONCE: usize = 1000;

#[derive(Debug, Clone, Copy)]
enum Item {
    Data(u64, Id),
    Segment(u64, Id),
    Manifest(u64),
    Snapshot(Id),
}

/// Where a search for what was left behind is.
struct Search {
    folder: &'static str,
    after: Option<String>,
    /// The last generation when it began.
    generation: u64,
    /// The snapshots that there were; `None`: they have not been read yet.
    held: Option<Rc<Vec<(Snapshot, Held)>>>,
    /// Their segments of the part of the volume where the search is; `None`: one is missing.
    segments: BTreeMap<Id, Option<Rc<[Id]>>>,
    part: u64,
}

impl Search {
    fn new(generation: u64) -> Self {
        Self { folder: DATA, after: None, generation, held: None, segments: BTreeMap::new(), part: 0 }
    }

    fn held(&self) -> &[(Snapshot, Held)] {
        self.held.as_deref().map_or(&[], Vec::as_slice)
    }

    /// Whether a snapshot that has not been read may have what was written for a generation.
    fn may_be_held(&self, now: &[Snapshot], generation: u64) -> bool {
        let is_read = |snapshot: &&Snapshot| self.held().iter().any(|(read, _)| read.id == snapshot.id);
        now.iter().filter(|snapshot| snapshot.generation >= generation).any(|snapshot| !is_read(&snapshot))
    }
}

/// What is to be deleted.
pub(super) struct Garbage {
    noted: VecDeque<Item>,
    noted_max: usize,
    search: Option<Search>,
    /// Some was not noted: another search finds it.
    has_more: bool,
}

impl Garbage {
    pub(super) fn new(stale: Vec<u64>, generation: u64, noted_max: usize) -> Self {
        let noted = stale.into_iter().map(Item::Manifest).collect();
        Self { noted, noted_max, search: Some(Search::new(generation)), has_more: false }
    }

    fn add(&mut self, item: Item) {
        if self.noted.len() < self.noted_max {
            self.noted.push_back(item);
        } else {
            self.has_more = true;
        }
    }

    pub(super) fn add_data(&mut self, chunk: u64, id: Id) {
        if !id.is_hole() {
            self.add(Item::Data(chunk, id));
        }
    }

    pub(super) fn add_segment(&mut self, index: u64, id: Id) {
        if !id.is_hole() {
            self.add(Item::Segment(index, id));
        }
    }

    /// Notes the manifest of a snapshot that was deleted; a search finds what only it had.
    pub(super) fn add_snapshot(&mut self, id: Id) {
        self.add(Item::Snapshot(id));
        self.has_more = true;
    }

    pub(super) fn add_manifest(&mut self, generation: u64) {
        // No search finds it, and there is one for each generation alone.
        self.noted.push_back(Item::Manifest(generation));
    }
}

impl<S: Store, C: Clock> Volume<S, C> {
    /// The next request that deletes, or searches.
    pub(super) fn next_garbage(&self, state: &mut State) -> Option<LocalBoxFuture<'_, ()>> {
        let garbage = &mut state.garbage;
        if !garbage.noted.is_empty() {
            let count = garbage.noted.len().min(DELETED_AT_ONCE);
            let names = garbage.noted.drain(..count).map(|item| match item {
                Item::Data(chunk, id) => data_name(chunk, id),
                Item::Segment(index, id) => segment_name(index, id),
                Item::Manifest(generation) => manifest_name(generation),
                Item::Snapshot(id) => snapshot_name(id),
            });
            let names: Vec<String> = names.collect();
            return Some(Box::pin(self.delete(names)));
        }
        if garbage.search.is_none() && std::mem::take(&mut garbage.has_more) {
            garbage.search = Some(Search::new(state.generation));
        }
        let search = garbage.search.take()?;
        Some(Box::pin(self.search(search)))
    }

    async fn delete(&self, names: Vec<String>) {
        if let Err(error) = self.store.delete(&names).await {
            // The next opening finds them.
            tracing::warn!("{} objects that are not needed any more stay: {error}", names.len());
        }
        self.is_collecting.set(false);
        self.wake_runner();
    }

    /// Looks at one page of the list of all objects.
    async fn search(&self, mut search: Search) {
        match self.search_page(&mut search).await {
            Ok(false) => {}
            Ok(true) => self.state.borrow_mut().garbage.search = Some(search),
            Err(error) => tracing::warn!("objects that are not needed any more stay: {error}"),
        }
        self.is_collecting.set(false);
        self.wake_runner();
    }

    /// Whether there are more pages.
    async fn search_page(&self, search: &mut Search) -> Result<bool, S3Error> {
        if search.held.is_none() {
            search.held = Some(Rc::new(self.read_snapshots().await?));
        }
        let page = self.store.list(search.folder, search.after.as_deref()).await?;
        let found: Vec<(Item, u64, Id)> =
            page.iter().filter_map(|name| self.left_behind(search.generation, name)).collect();
        for (item, index, id) in found {
            let is_held = match item {
                Item::Data(..) => self.is_held(search, index, id).await?,
                Item::Segment(..) => {
                    search.held().iter().any(|(_, held)| held.segments.get(index as usize) == Some(&id))
                }
                Item::Manifest(_) | Item::Snapshot(_) => false,
            };
            let mut state = self.state.borrow_mut();
            // Snapshots may have been made since.
            let is_held =
                is_held || search.may_be_held(&state.snapshots, id.generation) && !matches!(item, Item::Snapshot(_));
            if !is_held {
                state.garbage.add(item);
            }
        }
        search.after = page.into_iter().next_back();
        if search.after.is_none() {
            search.segments.clear();
            search.folder = match search.folder {
                DATA => SEGMENTS,
                SEGMENTS => SNAPSHOTS,
                _ => return Ok(false),
            };
        }
        Ok(true)
    }

    /// What the snapshots have.
    async fn read_snapshots(&self) -> Result<Vec<(Snapshot, Held)>, S3Error> {
        let mut all = Vec::new();
        for snapshot in self.snapshots() {
            match held(&self.store, &self.original, &snapshot).await? {
                Some(held) => all.push((snapshot, held)),
                // It was deleted meanwhile; if not, everything that it may have stays.
                None => tracing::debug!("the manifest of the snapshot {} is missing", snapshot.name),
            }
        }
        Ok(all)
    }

    /// Whether a snapshot has an object of a chunk.
    async fn is_held(&self, search: &mut Search, chunk: u64, id: Id) -> Result<bool, S3Error> {
        let (part, all) = (chunk / SEGMENT_CHUNKS, search.held.clone().unwrap_or_default());
        if search.part != part {
            search.segments.clear();
            search.part = part;
        }
        for (_, held) in all.iter().filter(|(snapshot, _)| snapshot.generation >= id.generation) {
            let found = match (held.runs.get(chunk), held.segments.get(part as usize)) {
                (Some(found), _) => found,
                (None, Some(of_part)) if !of_part.is_hole() => {
                    match self.segment_of(search, held, part, *of_part).await? {
                        Some(chunks) => chunks.get((chunk % SEGMENT_CHUNKS) as usize).copied().unwrap_or(Id::HOLE),
                        // It stays, as what it may be.
                        None => id,
                    }
                }
                (None, _) => Id::HOLE,
            };
            if found == id {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn segment_of(
        &self,
        search: &mut Search,
        held: &Held,
        part: u64,
        id: Id,
    ) -> Result<Option<Rc<[Id]>>, S3Error> {
        if let Some(known) = search.segments.get(&id) {
            return Ok(known.clone());
        }
        let read = segment(&self.store, &held.header, part, id).await?.map(|segment| Rc::from(segment.chunks));
        search.segments.insert(id, read.clone());
        Ok(read)
    }

    /// An object that neither the last generation nor what comes next has, with its chunk or segment and its id; `None`: it is needed,
    /// or may be.
    fn left_behind(&self, generation: u64, name: &str) -> Option<(Item, u64, Id)> {
        let state = self.state.borrow();
        let (item, index, id, is_needed) = if let Some((chunk, id)) = parse_data(name) {
            let is_sealed =
                || state.chunks.get(&chunk).and_then(|chunk| chunk.sealed.as_ref()).is_some_and(|s| s.id == id);
            let committing = || state.committing.as_ref().and_then(|runs| runs.get(chunk));
            let is_needed = state.map.get(chunk) == id
                || state.pending.get(chunk) == Some(id)
                || committing() == Some(id)
                || is_sealed();
            (Item::Data(chunk, id), chunk, id, is_needed)
        } else if let Some((index, id)) = parse_segment(name) {
            (Item::Segment(index, id), index, id, state.segments.get(index as usize) == Some(&id))
        } else {
            let id = parse_snapshot(name)?;
            (Item::Snapshot(id), 0, id, state.snapshots.iter().any(|snapshot| snapshot.id == id))
        };
        (id.generation <= generation && !is_needed).then_some((item, index, id))
    }
}
