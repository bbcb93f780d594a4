//! The collector: marks the chunks that recipes refer to, and empties containers with few live chunks by copying these
//! into other containers. Reads and writes continue meanwhile: chunks that are found as duplicates are also marked, and
//! new chunks are in newer containers.

use crate::access::{Access, OF_THE_STORE};
use crate::directory::View;
use crate::format::SECTOR_BYTES;
use crate::format::container::ContainerChunk;
use crate::format::record::{ObjectRecord, Root, SlotState};
use crate::format::region::ChunkKind;
use crate::lane::{GC_DATA_LANE, GC_RECIPE_LANE};
use crate::marks::Marks;
use crate::object::Change;
use crate::place::{Place, Reference};
use crate::refresh::Moves;
use crate::slots::Slot;
use crate::{Error, Progress, Store};
use bytes::Bytes;
use hashbrown::HashSet;
use nitro_log::FormatError;
use nitro_port::buf::BufMut;
use nitro_port::range_lock::ALL;
use nitro_port::yielding::yield_now;
use nitro_port::{Device, Work, WorkKind};
use nitro_units::Fingerprint;
use serde::Serialize;
use std::pin::pin;

/// The number of containers that are emptied between two commits.
const EMPTIED_AT_ONCE: usize = 8;
/// The share of a container that its metadata and the ends of its regions take.
const SLACK_SHARE: f64 = 0.05;
/// The number of chunks that are copied together.
const COPIED_AT_ONCE: usize = 256;
/// The number of moved chunks that are entered in the index together.
const MOVED_AT_ONCE: usize = 4096;
/// The number of references after which the walk yields to other tasks.
const REFERENCES_PER_TURN: usize = 4096;

/// Options of a collection.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CollectOptions {
    /// Containers with a smaller share of live data are emptied, if this frees at least one container; 1: all
    /// containers with dead data.
    pub alive_share_min: f64,
}

impl Default for CollectOptions {
    fn default() -> Self {
        Self { alive_share_min: 0.8 }
    }
}

/// The result of a collection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Collected {
    /// The number of containers that were examined.
    pub containers: u64,
    /// The number of chunks in them.
    pub chunks: u64,
    /// The number of these chunks that no recipe refers to.
    pub dead_chunks: u64,
    /// The number of containers that were freed.
    pub freed_containers: u64,
    /// The number of chunks that were copied out of them.
    pub copied_chunks: u64,
    /// Bytes of the containers that were freed, without those that the copies take.
    pub freed_bytes: u64,
    /// Bytes of the containers in use before the collection.
    pub used_bytes_before: u64,
    /// Bytes of the containers in use after the collection.
    pub used_bytes_after: u64,
}

/// The references of an object, at the beginning of the collection.
struct Reachable {
    name: String,
    root: Option<Root>,
    overlay: Vec<Change>,
}

/// A walk over recipes.
struct Walk<'a, D> {
    store: &'a Store<D>,
    /// The recipe blocks whose references were followed, without recipes of one block: small objects are many.
    seen: HashSet<(Fingerprint, u64)>,
    references: usize,
    /// Chunks that are not at the places in recipes, and their current places.
    moved: Vec<(Fingerprint, Place)>,
}

/// A container that is being emptied.
struct Leaving {
    slot: u32,
    kind: ChunkKind,
    alive: Vec<Reference>,
    dead: Vec<Fingerprint>,
    /// Bytes of all chunks.
    bytes: u64,
    /// Live chunks that need no copy, because they are elsewhere, too.
    elsewhere: Vec<(Fingerprint, Place)>,
}

impl<D: Device> Store<D> {
    /// Frees the containers with few live data.
    ///
    /// # Errors
    /// [`Error::Busy`] during another collection, or after [`stop_collection`](Self::stop_collection). If a recipe cannot be read, nothing is
    /// freed, because its references are unknown. [`Error::Full`]: there is no room for a copy. Or an error of the
    /// device.
    pub async fn collect(&self, options: &CollectOptions, progress: &Progress<'_>) -> Result<Collected, Error> {
        let collecting = pin!(self.collect_now(options, progress));
        // Writes that wait for room wait for each step of it.
        let collecting = pin!(Work::pressing_if(|| self.room.is_pressing(), collecting));
        Work::new(WorkKind::Collection, OF_THE_STORE).scope(collecting).await
    }

    async fn collect_now(&self, options: &CollectOptions, progress: &Progress<'_>) -> Result<Collected, Error> {
        let Some(_alone) = self.collecting.try_lock() else {
            return Err(Error::Busy("a collection is under way already, or the store is growing"));
        };
        self.check_poison()?;
        let used_bytes_before = self.used_bytes();
        let _running = self.room.begin();
        self.counters.collections.add(1);
        self.purge_hidden_if_room().await?;
        self.flush_trees().await?;
        // Open containers could not be examined.
        self.seal_lanes().await?;
        let reachable = self.begin_marking().await;
        let result = self.collect_marked(&reachable, options, progress).await;
        self.state.lock().marks = None;
        let mut collected = result?;
        (collected.used_bytes_before, collected.used_bytes_after) = (used_bytes_before, self.used_bytes());
        Ok(collected)
    }

    fn used_bytes(&self) -> u64 {
        let state = self.state.lock();
        u64::from(state.slots.used()) * u64::from(self.superblock.container_bytes)
    }

    /// Begins to mark chunks that are found. Chunks that are stored later are in newer containers, or are marked when
    /// they are found; all earlier ones are reachable from the returned objects, and from those in the returned
    /// directory.
    async fn begin_marking(&self) -> (Vec<Reachable>, Option<View>) {
        // At this moment, no task is between finding or storing a chunk and adding the reference to it.
        let _nobody = self.mutating.alone(ALL).await;
        let objects = self.objects.lock();
        let mut state = self.state.lock();
        let sealed = state.slots.iter().filter(|(_, s)| s.state == SlotState::Sealed);
        state.marks = Some(Marks::new(sealed.map(|(slot, s)| (slot, s.chunks))));
        drop(state);
        let reachable = objects.all().into_iter().map(|object| {
            let state = object.state.lock();
            let overlay = state.overlay.values().copied().collect();
            Reachable { name: state.record.name.clone(), root: state.record.root, overlay }
        });
        (reachable.chain(self.unfinished_streams()).collect(), Self::directory_view(&objects))
    }

    /// What the streams refer to that are being imported.
    fn unfinished_streams(&self) -> impl Iterator<Item = Reachable> {
        let (overlay, roots) = self.unfinished.references();
        let name = || "a stream that is being imported".to_owned();
        let of_root = move |root| Reachable { name: name(), root: Some(root), overlay: Vec::new() };
        roots.into_iter().map(of_root).chain([Reachable { name: name(), root: None, overlay }])
    }

    async fn collect_marked(
        &self,
        (objects, directory): &(Vec<Reachable>, Option<View>),
        options: &CollectOptions,
        progress: &Progress<'_>,
    ) -> Result<Collected, Error> {
        let mut walk = Walk { store: self, seen: HashSet::new(), references: 0, moved: Vec::new() };
        for (object, done) in objects.iter().zip(0..) {
            progress("marking", done, objects.len() as u64);
            walk.object(object).await?;
        }
        if let Some(directory) = directory {
            let (mut done, all) = (0, self.objects.lock().totals.objects);
            let mark = async |records: Vec<&ObjectRecord>| {
                progress("marking", done, all);
                done += records.len() as u64;
                for record in records {
                    let (name, root) = (record.name.clone(), record.root);
                    walk.object(&Reachable { name, root, overlay: Vec::new() }).await?;
                }
                Ok(())
            };
            self.walk_directory(directory, mark).await?;
        }
        self.index_moved(&mut walk.moved).await?;
        self.flush_index().await?;
        let (mut collected, chosen) = self.choose(options);
        let mut moves = Moves::default();
        for (some, done) in chosen.chunks(EMPTIED_AT_ONCE).zip(0..) {
            self.room.check_stop()?;
            progress("emptying containers", (done * EMPTIED_AT_ONCE) as u64, chosen.len() as u64);
            self.empty(some, &mut collected, &mut moves).await?;
        }
        progress("recipes", 0, 1);
        self.refresh(&mut moves).await?;
        Ok(collected)
    }

    /// Chooses the containers to empty, those with the least live data first.
    fn choose(&self, options: &CollectOptions) -> (Collected, Vec<(u32, Slot)>) {
        let container_bytes = f64::from(self.superblock.container_bytes);
        let state = self.state.lock();
        let mut collected = Collected::default();
        let mut chosen = Vec::new();
        let Some(marks) = &state.marks else { return (collected, Vec::new()) };
        for (slot, held) in state.slots.iter() {
            if held.state != SlotState::Sealed || !marks.covers(slot) {
                continue;
            }
            let alive = marks.alive(slot);
            collected.containers += 1;
            collected.chunks += u64::from(held.chunks);
            collected.dead_chunks += u64::from(u32::from(held.chunks).saturating_sub(alive));
            let share = f64::from(alive) / f64::from(held.chunks.max(1));
            // Live data over the capacity of a container: containers that were sealed early are worth emptying, too.
            let filled = share * f64::from(held.sectors) * SECTOR_BYTES as f64 / container_bytes;
            if filled < options.alive_share_min && (filled < 1.0 - SLACK_SHARE || share < 1.0) {
                chosen.push((filled, slot, held));
            }
        }
        drop(state);
        chosen.sort_by(|a, b| a.0.total_cmp(&b.0));
        let chosen: Vec<_> =
            [ChunkKind::Data, ChunkKind::Recipe].iter().flat_map(|kind| worthwhile(&chosen, *kind)).collect();
        (collected, chosen)
    }

    /// Copies the live chunks of some containers to other containers, and frees the former.
    async fn empty(&self, chosen: &[(u32, Slot)], collected: &mut Collected, moves: &mut Moves) -> Result<(), Error> {
        let mut leaving = Vec::new();
        for (slot, held) in chosen {
            match self.read_container(*slot).await {
                Ok(chunks) => leaving.push(self.begin_leaving(*slot, held, &chunks)),
                Err(error) => tracing::warn!(slot, "a container is left as it is: {error}"),
            }
        }
        // Commit before copies can be in the index: after a crash, a start then enters the originals in the index
        // again.
        let mut failed = self.commit().await.err();
        let mut emptied = Vec::new();
        for mut container in leaving {
            let mut copied = 0;
            let result = loop {
                let result = match &failed {
                    Some(_) => Ok(()),
                    None => self.copy_alive(&mut container, &mut copied, moves).await,
                };
                match result {
                    // The containers that were emptied before have room for the rest.
                    Err(error) if error.is_full() && !emptied.is_empty() => {
                        failed = self.release(std::mem::take(&mut emptied), collected).await.err();
                    }
                    result => break result,
                }
            };
            match result {
                Ok(()) if failed.is_none() => {
                    collected.copied_chunks += (container.alive.len() - container.elsewhere.len()) as u64;
                    emptied.push(container);
                    continue;
                }
                Ok(()) => {}
                Err(error @ (Error::Damaged { .. } | Error::Missing { .. })) => {
                    tracing::warn!(container.slot, "a container is left as it is: {error}");
                }
                Err(error) => failed = Some(error),
            }
            self.state.lock().slots.set_leaving(container.slot, false);
        }
        self.release(emptied, collected).await?;
        failed.map_or(Ok(()), Err)
    }

    /// Frees containers, once the copies are durable and in the index.
    async fn release(&self, emptied: Vec<Leaving>, collected: &mut Collected) -> Result<(), Error> {
        if emptied.is_empty() {
            return Ok(());
        }
        self.commit().await?;
        for (fingerprint, place) in emptied.iter().flat_map(|container| &container.elsewhere) {
            self.index_content(fingerprint, *place).await?;
        }
        self.flush_index().await?;
        for container in &emptied {
            self.unindex(container.slot, &container.dead).await?;
            self.state.lock().slots.release(container.slot);
        }
        collected.freed_containers += emptied.len() as u64;
        collected.freed_bytes += emptied.iter().map(|c| self.freed_bytes(c)).sum::<u64>();
        self.counters.freed_containers.add(emptied.len() as u64);
        self.commit().await?;
        self.room.freed(emptied.len());
        Ok(())
    }

    /// Bytes of a container without those of its copies.
    fn freed_bytes(&self, container: &Leaving) -> u64 {
        let copies = (container.alive.len() - container.elsewhere.len()) as u64;
        let all = (container.alive.len() + container.dead.len()).max(1) as u64;
        u64::from(self.superblock.container_bytes).saturating_sub(container.bytes * copies / all)
    }

    /// Forbids new references to a container; all earlier references have been marked.
    fn begin_leaving(&self, slot: u32, held: &Slot, chunks: &[ContainerChunk]) -> Leaving {
        let bytes = u64::from(held.sectors) * SECTOR_BYTES as u64;
        let (alive, dead, elsewhere) = (Vec::new(), Vec::new(), Vec::new());
        let mut leaving = Leaving { slot, kind: held.kind, alive, dead, bytes, elsewhere };
        let mut state = self.state.lock();
        let state = &mut *state;
        state.slots.set_leaving(slot, true);
        state.locality.forget(slot);
        for (number, chunk) in (0..).zip(chunks) {
            let fingerprint = chunk.fingerprint;
            match state.marks.as_ref().is_none_or(|marks| marks.is_alive(slot, number)) {
                true => leaving.alive.push(Reference { fingerprint, place: chunk.place(slot, number) }),
                false => leaving.dead.push(fingerprint),
            }
        }
        leaving
    }

    /// Copies the live chunks of a container elsewhere, starting with chunk `copied`. If duplicates may have been stored
    /// (`nsio_dedup` is off), chunks that are elsewhere, too, are not copied.
    async fn copy_alive(&self, container: &mut Leaving, copied: &mut usize, moves: &mut Moves) -> Result<(), Error> {
        let lane = match container.kind {
            ChunkKind::Data => GC_DATA_LANE,
            ChunkKind::Recipe => GC_RECIPE_LANE,
        };
        for some in container.alive[*copied..].chunks(COPIED_AT_ONCE) {
            let (all, elsewhere) = (some.len(), self.find_elsewhere(container.kind, some).await?);
            let mut kept = Vec::with_capacity(all);
            for (reference, place) in some.iter().zip(elsewhere) {
                match place {
                    Some(place) => {
                        moves.note(reference, place);
                        container.elsewhere.push((reference.fingerprint, place));
                    }
                    None => kept.push(*reference),
                }
            }
            let some = kept;
            let bytes = self.read_chunks(&some, Access::Disk).await?;
            let mut source = BufMut::with_len(bytes.iter().map(Bytes::len).sum());
            let mut pieces = Vec::with_capacity(some.len());
            let mut at = 0;
            for (reference, bytes) in some.iter().zip(&bytes) {
                source[at..at + bytes.len()].copy_from_slice(bytes);
                pieces.push((reference.fingerprint, at..at + bytes.len()));
                at += bytes.len();
            }
            let places = self.copy_chunks((container.kind, lane), &source.freeze(), &pieces).await?;
            some.iter().zip(places).for_each(|(reference, place)| moves.note(reference, place));
            *copied += all;
        }
        self.counters.copied_chunks.add((container.alive.len() - container.elsewhere.len()) as u64);
        Ok(())
    }

    /// Other places of chunks that are in a container that is being emptied.
    async fn find_elsewhere(&self, kind: ChunkKind, chunks: &[Reference]) -> Result<Vec<Option<Place>>, Error> {
        // With equal fingerprints, the bytes may still differ if they are compared.
        if kind == ChunkKind::Recipe || self.settings.nsio_dedup || self.settings.compare_duplicates {
            return Ok(vec![None; chunks.len()]);
        }
        let fingerprints: Vec<Fingerprint> = chunks.iter().map(|chunk| chunk.fingerprint).collect();
        self.find(&fingerprints, Access::Disk).await
    }

    /// Enters the current places of moved chunks in the index. Their containers are made durable first, because the
    /// index must not contain places of data that a crash undoes.
    async fn index_moved(&self, moved: &mut Vec<(Fingerprint, Place)>) -> Result<(), Error> {
        if moved.is_empty() {
            return Ok(());
        }
        self.commit().await?;
        for (fingerprint, place) in moved.drain(..) {
            self.index_content(&fingerprint, place).await?;
        }
        Ok(())
    }
}

/// The containers of a kind, if emptying all of them frees at least one container.
fn worthwhile(chosen: &[(f64, u32, Slot)], kind: ChunkKind) -> Vec<(u32, Slot)> {
    let of_kind = chosen.iter().filter(|(_, _, held)| held.kind == kind);
    let filled: f64 = of_kind.clone().map(|(filled, _, _)| filled).sum();
    let needed = (filled * (1.0 + SLACK_SHARE)).ceil() as usize;
    match of_kind.clone().count() {
        count if needed < count => of_kind.map(|(_, slot, held)| (*slot, *held)).collect(),
        _ => Vec::new(),
    }
}

impl<D: Device> Walk<'_, D> {
    /// Marks all chunks to which an object refers.
    async fn object(&mut self, object: &Reachable) -> Result<(), Error> {
        let result = async {
            for change in &object.overlay {
                if let Some(reference) = &change.reference {
                    self.mark(reference, change.since).await?;
                }
            }
            match &object.root {
                Some(root) => self.tree(root).await,
                None => Ok(()),
            }
        };
        result.await.map_err(|error| match error {
            Error::Missing { .. } | Error::Damaged { .. } => Error::Damaged {
                what: format!("{:?}: {error}; nothing is collected until it is repaired or deleted", object.name),
            },
            other => other,
        })
    }

    async fn tree(&mut self, root: &Root) -> Result<(), Error> {
        let mut rest = vec![(root.reference, 0, root.levels)];
        while let Some((reference, since, level)) = rest.pop() {
            let place = self.mark(&reference, since).await?;
            if level == 0 || (root.levels > 1 && !self.seen.insert((reference.fingerprint, place.pack()))) {
                continue;
            }
            let node = self.store.node(&Reference { place, ..reference }, Access::Disk).await?;
            if node.level + 1 != level {
                let (structure, field, value) = ("recipe block", "level", node.level.into());
                return Err(FormatError::Field { structure, field, value }.into());
            }
            for entry in node.entries.iter().flatten() {
                if level == 1 {
                    self.mark(&entry.reference, node.since).await?;
                } else {
                    rest.push((entry.reference, node.since, level - 1));
                }
            }
        }
        Ok(())
    }

    /// Marks a chunk at its current place, and returns this place.
    async fn mark(&mut self, reference: &Reference, since: u64) -> Result<Place, Error> {
        self.references += 1;
        if self.references.is_multiple_of(REFERENCES_PER_TURN) {
            self.store.room.check_stop()?;
            yield_now().await;
        }
        let place = reference.place;
        if self.is_right(reference, since) {
            return Ok(place);
        }
        // The container may be newer than the recipe: its metadata show whether it holds the chunk.
        let _ = self.store.load_container(place.slot).await;
        {
            let mut state = self.store.state.lock();
            if state.locality.holds(place, &reference.fingerprint) {
                state.note_alive(place);
                return Ok(place);
            }
        }
        self.mark_moved(reference.fingerprint).await
    }

    /// Whether a chunk is certainly at the place in a recipe, where it is then marked.
    fn is_right(&self, reference: &Reference, since: u64) -> bool {
        let mut state = self.store.state.lock();
        let slot = state.slots.get(reference.place.slot);
        let right = slot.state != SlotState::Free && slot.sequence <= since;
        if right {
            state.note_alive(reference.place);
        }
        right
    }

    /// A chunk that is not at the place in a recipe must be in the index. It is marked, and its place is entered in the
    /// index again.
    async fn mark_moved(&mut self, fingerprint: Fingerprint) -> Result<Place, Error> {
        let found: Option<Place> = self.store.find(&[fingerprint], Access::Disk).await?[0];
        let place = found.ok_or(Error::Missing { fingerprint })?;
        self.moved.push((fingerprint, place));
        if self.moved.len() >= MOVED_AT_ONCE {
            self.store.index_moved(&mut self.moved).await?;
        }
        Ok(place)
    }
}
