//! Open containers. Each lane fills one container at a time, so that the data of a stream are stored together
//! (stream-informed layout, Zhu et al. 2008, §4.2).

use crate::format::container::{self, ContainerChunk};
use crate::format::record::SlotState;
use crate::format::region::{ChunkKind, Prepared};
use crate::format::{BLOCK_BYTES, BLOCK_SECTORS, SECTOR_BYTES};
use crate::known::State;
use crate::place::Place;
use crate::slots::Slots;
use crate::{Error, Store};
use nitro_port::buf::BufMut;
use nitro_port::{Device, ErrorKind, Work};
use parking_lot::Mutex;
use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;

/// The number of lanes for clients' data.
pub(crate) const DATA_LANES: usize = 6;
/// The lane of recipes.
pub(crate) const RECIPE_LANE: usize = DATA_LANES;
/// The collector's lanes.
pub(crate) const GC_DATA_LANE: usize = DATA_LANES + 1;
pub(crate) const GC_RECIPE_LANE: usize = DATA_LANES + 2;
pub(crate) const LANES: usize = DATA_LANES + 3;
/// The number of free slots that data leave to recipes and the collector, and that recipes leave to the collector.
pub(crate) const DATA_RESERVE: u32 = 4;
const RECIPE_RESERVE: u32 = 2;
/// The maximum number of chunks of a container, with any compression: their list is in RAM while the container is open.
const CHUNKS_MAX: usize = 32 << 10;
/// A lower bound of the bytes of a chunk in a container: its entries in the region's header and in the metadata
/// section.
const CHUNK_BYTES_MIN: usize = 40;

/// An open container.
pub(crate) struct Open {
    pub(crate) slot: u32,
    pub(crate) sequence: u64,
    content: Mutex<Content>,
}

struct Content {
    bytes: BufMut,
    /// The number of filled sectors.
    end: u16,
    /// The number of bytes that are on the device.
    written: usize,
    chunks: Vec<ContainerChunk>,
    /// Whether the metadata section was appended: only the write is left.
    is_full: bool,
}

impl Open {
    fn new(slot: u32, sequence: u64, container_bytes: usize) -> Self {
        let bytes = BufMut::with_len(container_bytes);
        let content = Content { bytes, end: 0, written: 0, chunks: Vec::new(), is_full: false };
        Self { slot, sequence, content: Mutex::new(content) }
    }

    /// An open container as a crash left it: the content of its first sectors.
    pub(crate) fn restored((slot, sequence): (u32, u64), bytes: BufMut, end: u16, chunks: Vec<ContainerChunk>) -> Self {
        let written = usize::from(end) * SECTOR_BYTES;
        let content = Content { bytes, end, written: written / BLOCK_BYTES * BLOCK_BYTES, chunks, is_full: false };
        Self { slot, sequence, content: Mutex::new(content) }
    }

    /// Appends a region; `None` if there is no room. `at`: the offset of the container on the device.
    fn put(&self, region: &Prepared, seed: u64, at: u64) -> Option<Vec<Place>> {
        let mut content = self.content.lock();
        let content = &mut *content;
        let start = usize::from(content.end) * SECTOR_BYTES;
        let sectors = region.sectors();
        let end = start + usize::from(sectors) * SECTOR_BYTES;
        let count = content.chunks.len() + region.chunks.len();
        let needed = end.next_multiple_of(BLOCK_BYTES) + container::section_bytes(count);
        if content.is_full || needed > content.bytes.len() || count > CHUNKS_MAX {
            return None;
        }
        let first = content.chunks.len() as u16;
        region.encode(&mut content.bytes[start..end], first, self.sequence, seed, at + start as u64);
        let sector = content.end;
        content.end += sectors;
        let known = region.chunks.iter().map(|c| ContainerChunk { fingerprint: c.fingerprint, sector, sectors });
        content.chunks.extend(known);
        Some(
            (first..content.chunks.len() as u16)
                .map(|n| Place { slot: self.slot, sector, sectors, number: n })
                .collect(),
        )
    }

    fn is_empty(&self) -> bool {
        self.content.lock().end == 0
    }

    /// A copy of a region's bytes; `None` if the container does not have it.
    pub(crate) fn region(&self, place: Place) -> Option<BufMut> {
        let content = self.content.lock();
        let start = place.offset() as usize;
        let end = start + place.region_bytes();
        (end <= usize::from(content.end) * SECTOR_BYTES).then(|| BufMut::copy_of(&content.bytes[start..end]))
    }

    /// The bytes that are not on the device yet, up to the end of a block, with their offset. Later regions begin after
    /// that block.
    fn unwritten(&self, container_bytes: usize) -> Option<(usize, BufMut, (u16, u16))> {
        let mut content = self.content.lock();
        let content = &mut *content;
        if content.is_full {
            // Always a buffer of the same size, so that the pool can reuse it.
            let rest = &content.bytes[content.written..];
            let mut bytes = BufMut::with_len(container_bytes);
            bytes[..rest.len()].copy_from_slice(rest);
            bytes.truncate(rest.len());
            return Some((content.written, bytes, (content.end, content.chunks.len() as u16)));
        }
        let filled = usize::from(content.end) * SECTOR_BYTES;
        let end = filled.next_multiple_of(BLOCK_BYTES);
        if end <= content.written {
            return None;
        }
        content.bytes[filled..end].fill(0);
        content.end = content.end.next_multiple_of(BLOCK_SECTORS);
        let bytes = BufMut::copy_of(&content.bytes[content.written..end]);
        Some((content.written, bytes, (content.end, content.chunks.len() as u16)))
    }

    fn written(&self, upto: usize) {
        let mut content = self.content.lock();
        content.written = content.written.max(upto);
    }

    /// Appends the metadata section, after which nothing can be added. Returns the container's chunks.
    fn finish(&self, seed: u64, at: u64) -> Vec<ContainerChunk> {
        let mut content = self.content.lock();
        let content = &mut *content;
        if !content.is_full {
            let filled = usize::from(content.end) * SECTOR_BYTES;
            let start = filled.next_multiple_of(BLOCK_BYTES);
            let end = start + container::section_bytes(content.chunks.len());
            content.bytes[filled..start].fill(0);
            content.end = (start / SECTOR_BYTES) as u16;
            let section = &mut content.bytes[start..end];
            container::encode(section, &content.chunks, self.sequence, seed, at + start as u64);
            content.bytes.truncate(end);
            content.is_full = true;
        }
        content.chunks.clone()
    }

    /// The chunks so far.
    pub(crate) fn chunks(&self) -> Vec<ContainerChunk> {
        self.content.lock().chunks.clone()
    }
}

/// The maximum number of chunks of a container.
pub(crate) fn chunks_max(container_bytes: u32) -> usize {
    (container_bytes as usize / CHUNK_BYTES_MIN).min(CHUNKS_MAX)
}

/// The open container of a lane.
pub(crate) type Lane = Option<Arc<Open>>;

/// A free slot that was taken; it is put back on drop unless it is kept.
struct Claimed<'a> {
    slot: Option<u32>,
    state: &'a Mutex<State>,
}

impl Claimed<'_> {
    fn slot(&self) -> u32 {
        self.slot.unwrap_or_default()
    }

    fn keep(mut self) -> u32 {
        self.slot.take().unwrap_or_default()
    }
}

impl Drop for Claimed<'_> {
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            self.state.lock().slots.put_back(slot);
        }
    }
}

impl<D: Device> Store<D> {
    /// The offset of a container on the device.
    pub(crate) fn container_at(&self, slot: u32) -> u64 {
        self.containers_at + u64::from(slot) * u64::from(self.superblock.container_bytes)
    }

    /// Appends regions to the container of a lane, and to new containers when it is full. Returns the places of the
    /// chunks.
    pub(crate) async fn append(&self, lane: usize, regions: &[Prepared]) -> Result<Vec<Place>, Error> {
        let mut places = Vec::new();
        let mut held = self.lanes[lane].lock().await;
        for region in regions {
            let put = loop {
                let open = match &*held {
                    Some(open) => Arc::clone(open),
                    None => self.open_container(lane, region.kind, &mut held).await?,
                };
                if let Some(put) = open.put(region, self.superblock.seed, self.container_at(open.slot)) {
                    break put;
                }
                if open.is_empty() {
                    let what = format!("a region of {} sectors does not fit into any container", region.sectors());
                    return Err(Error::Damaged { what });
                }
                self.seal(&open).await?;
                *held = None;
            };
            let mut state = self.state.lock();
            for (chunk, place) in region.chunks.iter().zip(&put) {
                state.locality.put_open(chunk.fingerprint, *place);
            }
            drop(state);
            self.counters.stored(region);
            places.extend(put);
        }
        Ok(places)
    }

    async fn open_container(&self, lane: usize, kind: ChunkKind, held: &mut Lane) -> Result<Arc<Open>, Error> {
        self.check_poison()?;
        let slot = self.claim_slot(lane, kind).await?;
        let mut state = self.state.lock();
        let sequence = state.slots.begin(slot, kind);
        let open = Arc::new(Open::new(slot, sequence, self.superblock.container_bytes as usize));
        // Under the lock of the slots, so that every open slot is in `opened`.
        self.opened.lock().insert(slot, Arc::clone(&open));
        drop(state);
        *held = Some(Arc::clone(&open));
        Ok(open)
    }

    /// Takes a free slot, and reserves storage for a whole container, so that later writes find room.
    async fn claim_slot(&self, lane: usize, kind: ChunkKind) -> Result<u32, Error> {
        let spared = match lane {
            RECIPE_LANE => RECIPE_RESERVE,
            GC_DATA_LANE | GC_RECIPE_LANE => 0,
            _ => DATA_RESERVE,
        };
        let claimed = {
            let mut state = self.state.lock();
            let taken = state.slots.take(kind, spared);
            Claimed { slot: Some(taken.ok_or_else(|| self.full(&state.slots))?), state: &self.state }
        };
        match self.reserve_container(claimed.slot()).await {
            Ok(()) => Ok(claimed.keep()),
            Err(error) if error.is_full() => {
                drop(claimed);
                self.state.lock().slots.take_reserved(spared).ok_or(error)
            }
            Err(error) => Err(error),
        }
    }

    /// Reserves storage on the device for the container of a slot.
    async fn reserve_container(&self, slot: u32) -> Result<(), Error> {
        let (at, len) = (self.container_at(slot), u64::from(self.superblock.container_bytes));
        let result = self.device.reserve(at, len).await;
        match result {
            Err(error) if error.kind == ErrorKind::NoSpace => {
                // A part of the storage may have been allocated; errors of releasing it do not matter.
                let _ = self.device.discard(at, len).await;
                Err(Error::NoRoom(error))
            }
            Err(error) if error.kind != ErrorKind::Unsupported => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Reserves the storage that is needed to free space: for what is not in containers, and for a few containers.
    ///
    /// # Errors
    /// [`Error::NoRoom`], or an error of the device.
    pub(crate) async fn fill_reserve(&self) -> Result<(), Error> {
        for Range { start, end } in self.tables().layout.parts() {
            match self.device.reserve(start, end - start).await {
                Err(error) if error.kind == ErrorKind::NoSpace => return Err(Error::NoRoom(error)),
                Err(error) if error.kind != ErrorKind::Unsupported => return Err(error.into()),
                _ => {}
            }
        }
        loop {
            let taken = self.state.lock().slots.take_for_reserve();
            let Some(slot) = taken else { return Ok(()) };
            let claimed = Claimed { slot: Some(slot), state: &self.state };
            self.reserve_container(slot).await?;
            self.state.lock().slots.reserve(claimed.keep());
        }
    }

    /// Frees slots whose release is in the journal. Their storage is released as well, unless it is kept as a reserve.
    pub(crate) async fn freed(&self, slots: impl Iterator<Item = u32>) {
        for slot in slots {
            let is_wanted = self.state.lock().slots.wants_reserved();
            if is_wanted && self.reserve_container(slot).await.is_ok() {
                self.state.lock().slots.reserve(slot);
                continue;
            }
            // If the device cannot discard, it merely keeps unused bytes.
            let _ = self.device.discard(self.container_at(slot), self.superblock.container_bytes.into()).await;
            self.state.lock().slots.reuse(slot);
        }
    }

    fn full(&self, slots: &Slots) -> Error {
        let (used, containers) = (slots.used(), slots.count());
        let container_bytes = u64::from(self.superblock.container_bytes);
        match slots.quota().filter(|quota| *quota < containers) {
            Some(quota) => Error::Quota {
                used_bytes: u64::from(used) * container_bytes,
                quota_bytes: u64::from(quota) * container_bytes,
            },
            None => Error::Full { used, containers },
        }
    }

    /// Writes the rest of a container and its metadata section, and enters its chunks in the index. After a failure,
    /// the container is unchanged in RAM, and sealing it can be repeated.
    pub(crate) async fn seal(&self, open: &Open) -> Result<(), Error> {
        // Others may wait for the lane.
        Work::pressing(pin!(self.seal_now(open))).await
    }

    async fn seal_now(&self, open: &Open) -> Result<(), Error> {
        let at = self.container_at(open.slot);
        let chunks = open.finish(self.superblock.seed, at);
        // The index first: a sealed container counts as indexed.
        self.index_container(open.slot, &chunks).await?;
        self.write_unwritten(open, SlotState::Sealed).await?;
        let mut state = self.state.lock();
        state.locality.sealed(open.slot);
        self.opened.lock().remove(&open.slot);
        Ok(())
    }

    /// Writes the content of a lane's container to the device.
    pub(crate) async fn write_lane(&self, lane: usize) -> Result<(), Error> {
        let held = self.lanes[lane].lock().await;
        match &*held {
            Some(open) => self.write_unwritten(open, SlotState::Open).await,
            None => Ok(()),
        }
    }

    async fn write_unwritten(&self, open: &Open, then: SlotState) -> Result<(), Error> {
        if let Some((from, bytes, (sectors, chunks))) = open.unwritten(self.superblock.container_bytes as usize) {
            let upto = from + bytes.len();
            self.counters.written_bytes.add(bytes.len() as u64);
            self.device.write(self.container_at(open.slot) + from as u64, bytes.freeze()).await?;
            open.written(upto);
            let mut state = self.state.lock();
            match then {
                SlotState::Sealed => state.slots.sealed(open.slot, sectors, chunks),
                _ => state.slots.written(open.slot, sectors, chunks),
            }
        }
        Ok(())
    }

    /// Seals the open containers of all lanes, so that a later start finds the metadata of each container with one
    /// read.
    pub(crate) async fn seal_lanes(&self) -> Result<(), Error> {
        for lane in &self.lanes {
            let mut held = lane.lock().await;
            if let Some(open) = &*held {
                self.seal(open).await?;
                *held = None;
            }
        }
        Ok(())
    }
}
