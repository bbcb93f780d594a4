//! Updates recipes after a collection: references to copied chunks get the new places, so that reading them needs no
//! look-up in the index. Blocks keep their fingerprints, which do not depend on places. Changed blocks are copied and
//! written as any block is.

use crate::access::Access;
use crate::format::record::Root;
use crate::object::Object;
use crate::place::{Place, Reference};
use crate::{Error, Store};
use hashbrown::HashMap;
use nitro_port::Device;
use nitro_port::yielding::yield_now;
use nitro_units::Fingerprint;
use std::future::Future;
use std::pin::Pin;

/// Maximum number of moves that are remembered: 24 bytes each. For further moves, recipes keep the old places.
const MOVES_MAX: usize = 4 << 20;
/// How often the update of a recipe is retried because it was written meanwhile; after that, writes of the recipe are
/// blocked.
const TRIES: usize = 3;
/// Blocks after which the task yields.
const BLOCKS_PER_TURN: usize = 16;

/// Where chunks were, and where they are now.
#[derive(Default)]
pub(crate) struct Moves {
    /// By place and fingerprint: a container may be filled anew while others are being emptied.
    places: HashMap<(u64, u64), u64>,
    blocks: usize,
    /// Blocks that were looked at, and what became of them.
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

/// Where a block is now, if it is elsewhere or was written again.
type Refreshed<'a> = Pin<Box<dyn Future<Output = Result<Option<Place>, Error>> + 'a>>;

impl<D: Device> Store<D> {
    /// Updates the places of moved chunks in all recipes. A store without room for that keeps the old places; the
    /// chunks are then found through the index.
    pub(crate) async fn refresh(&self, moves: &mut Moves) -> Result<(), Error> {
        if moves.places.is_empty() {
            return Ok(());
        }
        let objects = self.objects.lock().all();
        for object in objects {
            match self.refresh_object(&object, moves).await {
                Err(error) if error.is_full() || matches!(error, Error::Missing { .. } | Error::Damaged { .. }) => {
                    tracing::warn!("{:?} goes on to name old places: {error}", object.name());
                }
                result => result?,
            }
        }
        self.commit().await
    }

    async fn refresh_object(&self, object: &Object, moves: &mut Moves) -> Result<(), Error> {
        for change in object.state.lock().overlay.values_mut() {
            if let Some(reference) = &mut change.reference
                && let Some(place) = moves.get(reference)
            {
                reference.place = place;
                // Until a look at its container tells.
                change.since = 0;
            }
        }
        for tries in 0..=TRIES {
            // In the end whoever would write the recipe waits.
            let _flushing = if tries == TRIES { Some(object.flushing.lock().await) } else { None };
            let Some(root) = object.state.lock().record.root else { return Ok(()) };
            let Some(place) = self.refresh_block(root.reference, root.levels, moves).await? else { return Ok(()) };
            let mut state = object.state.lock();
            if state.record.root == Some(root) {
                let reference = Reference { place, ..root.reference };
                state.record.root = Some(Root { reference, ..root });
                state.note_changed();
                return Ok(());
            }
        }
        Ok(())
    }

    /// A block of a level, 1 for one that names chunks, and all beneath it.
    fn refresh_block<'a>(&'a self, reference: Reference, level: u8, moves: &'a mut Moves) -> Refreshed<'a> {
        Box::pin(async move {
            let key = (reference.fingerprint, reference.place.pack());
            if let Some(seen) = moves.seen.get(&key) {
                return Ok(*seen);
            }
            moves.blocks += 1;
            if moves.blocks.is_multiple_of(BLOCKS_PER_TURN) {
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
                    _ => self.refresh_block(entry.reference, level - 1, moves).await?,
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
            moves.seen.insert(key, place);
            Ok(place)
        })
    }
}
