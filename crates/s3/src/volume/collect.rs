//! Garbage: objects that no generation needs any more, and those that servers left behind which ended, or lost the volume.
//!
//! What a generation has replaced is deleted once that generation is written. What was left behind is found by going through all
//! objects: one is garbage if neither the last generation nor what comes next has it, and if its name says a generation that exists,
//! so that no server can still make it part of the volume. That is done once after each opening, and when more is garbage than the
//! list of it takes.

use super::{State, Volume};
use crate::format::{DATA, Id, SEGMENTS, data_name, manifest_name, parse_data, parse_segment, segment_name};
use crate::store::Store;
use futures_util::future::LocalBoxFuture;
use nitro_port::Clock;
use std::collections::VecDeque;

/// Most objects that a request deletes.
const DELETED_AT_ONCE: usize = 1000;

#[derive(Debug, Clone, Copy)]
enum Item {
    Data(u64, Id),
    Segment(u64, Id),
    Manifest(u64),
}

/// Where a search for what was left behind is.
#[derive(Debug, Clone)]
struct Search {
    folder: &'static str,
    after: Option<String>,
    /// The last generation when it began.
    generation: u64,
}

impl Search {
    fn new(generation: u64) -> Self {
        Self { folder: DATA, after: None, generation }
    }
}

/// What is to be deleted.
#[derive(Debug)]
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
        let page = self.store.list(search.folder, search.after.as_deref()).await;
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        match page {
            Ok(page) => {
                for name in &page {
                    self.judge(state, search.generation, name);
                }
                state.garbage.search = match page.into_iter().next_back() {
                    Some(last) => {
                        search.after = Some(last);
                        Some(search)
                    }
                    None if search.folder == DATA => Some(Search { folder: SEGMENTS, after: None, ..search }),
                    None => None,
                };
            }
            Err(error) => tracing::warn!("objects that are not needed any more stay: {error}"),
        }
        self.is_collecting.set(false);
        self.wake_runner();
    }

    /// Whether an object was left behind.
    fn judge(&self, state: &mut State, generation: u64, name: &str) {
        if let Some((chunk, id)) = parse_data(name) {
            let is_sealed =
                || state.chunks.get(&chunk).and_then(|chunk| chunk.sealed.as_ref()).is_some_and(|s| s.id == id);
            let committing = || state.committing.as_ref().and_then(|runs| runs.get(chunk));
            let is_needed =
                state.map.get(chunk) == id || state.pending.get(chunk) == Some(id) || committing() == Some(id);
            if id.generation <= generation && !is_needed && !is_sealed() {
                state.garbage.add_data(chunk, id);
            }
        } else if let Some((index, id)) = parse_segment(name)
            && id.generation <= generation
            && state.segments.get(index as usize) != Some(&id)
        {
            state.garbage.add_segment(index, id);
        }
    }
}
