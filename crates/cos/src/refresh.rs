//! Updates recipes after a collection: references to copied chunks get the new places, so that reads need no look-up in
//! the index. Blocks keep their fingerprints, which do not depend on places. Changed blocks are copied and stored like
//! other recipe blocks.

use crate::access::Access;
use crate::format::record::{ObjectRecord, Root};
use crate::object::Object;
use crate::place::{Place, Reference};
use crate::{Error, Store};
use hashbrown::HashMap;
use nitro_port::yielding::yield_now;
use nitro_port::{Device, Work};
use nitro_units::Fingerprint;
use std::future::Future;
use std::pin::Pin;

/// The maximum number of moves that are recorded, with 24 bytes each. Recipes keep the old places of further moves.
const MOVES_MAX: usize = 4 << 20;
/// The number of retries of the update of a recipe that was written meanwhile; after that, writes of the recipe are
/// blocked.
const TRIES: usize = 3;
/// The number of blocks after which the task yields.
const BLOCKS_PER_TURN: usize = 16;

/// The old and the new places of chunks.
#[derive(Default)]
pub(crate) struct Moves {
    /// By place and fingerprint: the slot of a container may be reused while others are being emptied.
    places: HashMap<(u64, u64), u64>,
    blocks: usize,
    /// The blocks that were processed, with the results, without recipes of one block: small objects are many.
    seen: HashMap<(Fingerprint, u64), Option<Place>>,
}

impl Moves {
    pub(crate) fn note(&mut self, from: &Reference, to: Place) {
        if self.places.len() < MOVES_MAX {
            self.places.insert(key(from), to.pack());
        }
    }

    fn get(&self, reference: &Reference) -> Option<Place> {
        self.places.get(&key(reference)).map(|to| Place::unpack(*to))
    }
}

fn key(reference: &Reference) -> (u64, u64) {
    let prefix = reference.fingerprint.0.first_chunk().map_or(0, |first| u64::from_le_bytes(*first));
    (reference.place.pack(), prefix)
}

/// Whether an error leaves the places of a recipe as they are.
fn keeps_outdated(error: &Error) -> bool {
    error.is_full() || matches!(error, Error::Missing { .. } | Error::Damaged { .. } | Error::Objects { .. })
}

/// The new place of a block, if it was moved or rewritten.
type Refreshed<'a> = Pin<Box<dyn Future<Output = Result<Option<Place>, Error>> + 'a>>;

impl<D: Device> Store<D> {
    /// Updates the places of moved chunks in all recipes. If the store has no room for this, recipes keep the old
    /// places, and the chunks are found through the index.
    pub(crate) async fn refresh(&self, moves: &mut Moves) -> Result<(), Error> {
        if moves.places.is_empty() {
            return Ok(());
        }
        let objects = self.objects.lock().all();
        for object in objects {
            match self.refresh_object(&object, moves).await {
                Err(error) if keeps_outdated(&error) => {
                    tracing::warn!("{:?} keeps outdated places: {error}", object.name());
                }
                result => result?,
            }
        }
        let updated = self.update_directory(async |record: &ObjectRecord| {
            let Some(root) = record.root else { return Ok(None) };
            match self.refresh_block(root.reference, (root.levels, root.levels), moves).await {
                Err(error) if keeps_outdated(&error) => {
                    tracing::warn!("{:?} keeps outdated places: {error}", record.name);
                    Ok(None)
                }
                result => Ok(result?.map(|place| Root { reference: Reference { place, ..root.reference }, ..root })),
            }
        });
        match updated.await {
            Err(error) if keeps_outdated(&error) => tracing::warn!("the directory keeps outdated places: {error}"),
            result => result?,
        }
        self.commit().await
    }

    async fn refresh_object(&self, object: &Object, moves: &mut Moves) -> Result<(), Error> {
        for change in object.state.lock().overlay.values_mut() {
            if let Some(reference) = &mut change.reference
                && let Some(place) = moves.get(reference)
            {
                reference.place = place;
                // So that the container is checked before the place is trusted.
                change.since = 0;
            }
        }
        for tries in 0..=TRIES {
            // In the last attempt, writers of the recipe wait.
            let _flushing = if tries == TRIES { Some(object.flushing.lock().await) } else { None };
            let Some(root) = object.state.lock().record.root else { return Ok(()) };
            let mut refreshing = self.refresh_block(root.reference, (root.levels, root.levels), moves);
            let place = Work::pressing_if(|| tries == TRIES, refreshing.as_mut()).await?;
            let Some(place) = place else { return Ok(()) };
            let mut state = object.state.lock();
            if state.record.root == Some(root) {
                state.begin_journaling()?;
                let reference = Reference { place, ..root.reference };
                state.record.root = Some(Root { reference, ..root });
                state.note_changed();
                return Ok(());
            }
        }
        Ok(())
    }

    /// Updates a block of a level (1 for a block of chunk references) of a recipe of `depth` levels, and all blocks below
    /// it.
    fn refresh_block<'a>(
        &'a self,
        reference: Reference,
        (level, depth): (u8, u8),
        moves: &'a mut Moves,
    ) -> Refreshed<'a> {
        Box::pin(async move {
            let key = (reference.fingerprint, reference.place.pack());
            if let Some(seen) = moves.seen.get(&key) {
                return Ok(*seen);
            }
            moves.blocks += 1;
            if moves.blocks.is_multiple_of(BLOCKS_PER_TURN) {
                self.room.check_stop()?;
                yield_now().await;
            }
            let moved = moves.get(&reference);
            let here = Reference { place: moved.unwrap_or(reference.place), ..reference };
            let node = self.node(&here, Access::Disk).await?;
            let mut new = None;
            for i in 0..node.entries.len() {
                let Some(entry) = node.get(i) else { continue };
                let place = match level {
                    0 | 1 => moves.get(&entry.reference),
                    _ => self.refresh_block(entry.reference, (level - 1, depth), moves).await?,
                };
                if let Some(place) = place {
                    let reference = Reference { place, ..entry.reference };
                    let new = new.get_or_insert_with(|| (*node).clone());
                    new.entries[i] = Some(crate::format::node::Entry { reference, ..entry });
                }
            }
            let place = match new {
                Some(new) => Some(self.write_node(new).await?.0.reference.place),
                None => moved,
            };
            if depth > 1 {
                moves.seen.insert(key, place);
            }
            Ok(place)
        })
    }
}
