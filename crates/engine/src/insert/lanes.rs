//! The open WEUs for clean content, and eviction: the extents of an evicted WEU that are worth keeping are copied
//! forward into open WEUs.

use super::open_weu::{Entering, OpenWeu};
use super::stored_at;
use super::worker::write;
use crate::cache::Cache;
use crate::fingerprints::ContentPlace;
use crate::format::crc32c;
use crate::format::journal::{EVICTED_BYTES, Record};
use crate::format::stored::{Place, payload_range};
use crate::format::weu::{Entry, Head};
use bytes::Bytes;
use nitro_cache::admission::Shelf;
use nitro_cache::forward::{Leaving, Survivor};
use nitro_cache::weu::Stored;
use nitro_cache::{Append, Evicted};
use nitro_port::codec::Encoding;
use nitro_port::yielding::yield_now;
use nitro_port::{Clock, Device};
use nitro_units::{Generation, WeuId};

/// Extents copied forward before other tasks of the thread run.
const EXTENTS_PER_TURN: usize = 32;
/// Minimum of the maximum number of units that are evicted at once to make room.
const EVICTIONS_MIN: u32 = 64;

/// The open WEUs for clean content; on the heap, because the futures that open a cache hold them.
#[derive(Default)]
pub(crate) struct Lanes(Box<[Option<OpenWeu>; Shelf::COUNT]>);

impl Lanes {
    pub(super) fn get(&mut self, shelf: Shelf) -> Option<&mut OpenWeu> {
        self.0[shelf.index()].as_mut()
    }

    pub(super) fn take(&mut self, shelf: Shelf) -> Option<OpenWeu> {
        self.0[shelf.index()].take()
    }
}

impl<F: Device, C: Clock> Cache<F, C> {
    /// Evicts WEUs ahead of need: copies forward the extents worth keeping, and cleans up in bounded steps.
    pub(crate) async fn make_room(&self, lanes: &mut Lanes) {
        // Units full of pinned extents free nothing: what keeps others from being evicted may end meanwhile.
        for _ in 0..EVICTIONS_MIN + self.weu_count() {
            let leaving = {
                let mut manager = self.manager.lock();
                manager.wants_eviction().then(|| manager.begin_leaving()).flatten()
            };
            let Some(leaving) = leaving else { break };
            if leaving.keeps_any() && !self.queue.is_closed() {
                self.copy_forward(lanes, &leaving).await;
            }
            let discard = self.discards.are_on();
            let evicted = self.ledger.tell(EVICTED_BYTES as u64, |room| {
                let Evicted { weu, generation } = self.manager.lock().begin_eviction_of_rest(&leaving, discard)?;
                room.push(Record::Evicted { weu, generation });
                Some(weu)
            });
            let Some(weu) = evicted.await else { continue };
            self.empty(weu);
            if discard {
                let weu_bytes = u64::from(self.settings.manager.weu_bytes);
                let begun = self.clock.now();
                // A device that cannot discard only loses a hint.
                let done = self.flash.discard(self.slot_offset(weu), weu_bytes).await;
                if let Some(why) = self.discards.note(done.is_ok(), self.clock.now().saturating_sub(begun)) {
                    tracing::info!("evicted write-evict units are not discarded any more: {why}");
                }
                self.metrics.ssd_discarded_bytes.add(if done.is_ok() { weu_bytes } else { 0 });
                self.manager.lock().discarded(weu);
                self.room.notify(usize::MAX);
            }
        }
        while self.manager.lock().clean_step() {}
    }

    /// Copies forward the extents worth keeping of a WEU that is about to be evicted, with one read of it. Extents that
    /// cannot be read, or fail their check, are lost with the rest: they are clean.
    async fn copy_forward(&self, lanes: &mut Lanes, leaving: &Leaving) {
        let survivors = self.survivors(leaving);
        if survivors.is_empty() {
            return;
        }
        let Some(filling) = self.read_filling(leaving.weu, leaving.generation).await else { return };
        for (number, survivor) in survivors.iter().enumerate() {
            if let Some(extent) = filling.extent(self.place(&survivor.location), survivor)
                && !self.forward(lanes, leaving, survivor, extent).await
            {
                return;
            }
            if (number + 1).is_multiple_of(EXTENTS_PER_TURN) {
                yield_now().await;
            }
        }
    }

    fn survivors(&self, leaving: &Leaving) -> Vec<Survivor> {
        let (mut survivors, mut next) = (Vec::new(), Some(0));
        while let Some(from) = next {
            next = self.manager.lock().survivors(leaving, from, &mut survivors);
        }
        self.manager.lock().choose_survivors(leaving, &mut survivors);
        survivors
    }

    /// Reads a whole WEU; `None`: it cannot be read, or has another filling.
    async fn read_filling(&self, weu: WeuId, generation: Generation) -> Option<Filling> {
        let weu_bytes = self.settings.manager.weu_bytes;
        let bytes = self.flash.read(self.slot_offset(weu), weu_bytes as usize).await;
        let bytes = bytes.inspect_err(|_| self.metrics.ssd_read_errors.add(1)).ok()?;
        let head = Head::decode(&bytes, weu_bytes).ok()?;
        if (head.weu, head.generation, head.epoch) != (weu, generation, self.superblock.epoch) {
            return None;
        }
        let entries = head.decode_table(bytes.get(head.table_offset as usize..)?, weu_bytes).ok()?;
        Some(Filling { bytes, entries })
    }

    /// Copies one extent forward. `false`: there is no room for any extent.
    async fn forward(&self, lanes: &mut Lanes, leaving: &Leaving, survivor: &Survivor, extent: Extent<'_>) -> bool {
        let shelf = leaving.shelf_of(survivor);
        let Extent { entry, encoding, payload } = extent;
        let (_, stored) = stored_at(entry, &self.place(&survivor.location));
        let within = entry.fingerprint.map(|plain| self.domain(survivor.key.object()).within(&plain));
        loop {
            let Some(open) = lanes.get(shelf) else {
                if !self.open_shelf(lanes, shelf) {
                    return false;
                }
                continue;
            };
            // The bytes first: once the manager has the new place, a reader may ask for it.
            self.resident.push(open.weu, encoding, payload.clone(), within);
            let (appended, latest) = {
                let mut manager = self.manager.lock();
                let appended = manager.forward(leaving, survivor, open.weu, within.as_ref(), stored);
                (appended, manager.version())
            };
            match appended {
                Some(Append::At(location)) => {
                    let Entry { fingerprint, class, version, .. } = *entry;
                    // The version of a first key stays: a newer one would outrank what the journal says of writes since.
                    let version = if survivor.is_inherited() { latest } else { version };
                    let entering = Entering { key: survivor.key, fingerprint, class, version };
                    open.put(&self.place(&location), entering, stored, encoding, &payload);
                    if let Some(within) = within.filter(|_| stored != Stored::Zero) {
                        let place = ContentPlace::new(location.weu, location.entry, location.generation, self.start);
                        self.moved.push(&within, place);
                    }
                    return true;
                }
                Some(Append::Full) => {
                    self.resident.pop(open.weu);
                    self.seal_shelf(lanes, shelf).await;
                }
                None => {
                    self.resident.pop(open.weu);
                    return true;
                }
            }
        }
    }

    /// Opens a WEU for a shelf, if a slot is free.
    pub(super) fn open_shelf(&self, lanes: &mut Lanes, shelf: Shelf) -> bool {
        let Some((weu, generation)) = self.manager.lock().open_weu_in(shelf) else { return false };
        self.set_start(weu, self.start);
        self.resident.open(weu, generation);
        lanes.0[shelf.index()] = Some(OpenWeu::new(weu, generation, self.settings.manager.weu_bytes, false));
        true
    }

    /// Writes a shelf's open WEU.
    async fn seal_shelf(&self, lanes: &mut Lanes, shelf: Shelf) {
        if let Some(mut open) = lanes.take(shelf) {
            let room = self.manager.lock().seal(open.weu);
            self.record_duplicates(&mut open, room);
            write(self, open).await;
        }
    }

    /// Removes the entries of a WEU whose eviction was begun from the indexes, some at a time, so that look-ups can run
    /// in between.
    pub(crate) fn empty(&self, weu: WeuId) {
        while self.manager.lock().evict_step(weu) {}
        self.room.notify(usize::MAX);
    }
}

/// The bytes of one read of a WEU.
struct Filling {
    bytes: Bytes,
    entries: Vec<Entry>,
}

/// An extent as it is stored.
struct Extent<'a> {
    entry: &'a Entry,
    encoding: Encoding,
    /// In its own memory.
    payload: Bytes,
}

impl Filling {
    /// A survivor's bytes, if their check against `place` succeeds.
    fn extent(&self, place: Place, survivor: &Survivor) -> Option<Extent<'_>> {
        let entry = self.entries.get(usize::from(survivor.location.entry))?;
        if (entry.key, entry.offset) != (survivor.first, survivor.location.offset) {
            return None;
        }
        if entry.stored_bytes == 0 {
            return Some(Extent { entry, encoding: Encoding::Raw, payload: Bytes::new() });
        }
        let stored = self.bytes.get(entry.offset as usize..(entry.offset + entry.stored_bytes) as usize)?;
        if entry.raw {
            let is_whole = place.mix(crc32c(stored)) == entry.checksum;
            return is_whole.then(|| Extent {
                entry,
                encoding: Encoding::Raw,
                payload: Bytes::copy_from_slice(stored),
            });
        }
        let (encoding, range) = payload_range(&place, stored)?;
        Some(Extent { entry, encoding, payload: Bytes::copy_from_slice(&stored[range]) })
    }
}
