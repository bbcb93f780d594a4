//! Chunks: each content is stored once, and verified when it is read.

use crate::access::Access;
use crate::format::SECTOR_BYTES;
use crate::format::node::Node;
use crate::format::record::SlotState;
use crate::format::region::{CHUNKS_MAX, ChunkKind, Prepared, RegionChunk, RegionHead};
use crate::locality::FingerprintMap;
use crate::place::{Place, Reference};
use crate::ssd::PieceKind;
use crate::{Error, Store};
use bytes::Bytes;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use nitro_port::buf::BufMut;
use nitro_port::codec::{Compression, Compressor, Encoding};
use nitro_port::yielding::yield_now;
use nitro_port::{Device, DeviceError};
use nitro_units::Fingerprint;
use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;

/// The maximum number of bytes of a read.
pub(crate) const READ_BYTES_MAX: usize = 1 << 20;
/// The maximum number of reads of the device at the same time, for one request.
const READS_AT_ONCE: usize = 64;
/// The maximum number of look-ups of a chunk that is being moved.
const MOVES_MAX: usize = 3;

thread_local! {
    static COMPRESSOR: RefCell<Compressor> = RefCell::new(Compressor::new(Compression::None));
}

/// Compresses with the compressor of this thread. Returns the bytes themselves if they do not shrink by a sixteenth.
pub(crate) fn compress(compression: Compression, bytes: &Bytes) -> (Encoding, Bytes) {
    COMPRESSOR.with_borrow_mut(|compressor| {
        compressor.use_codec(compression);
        compressor.compress(bytes)
    })
}

/// The chunks of a region, decompressed.
pub(crate) struct Region {
    pub(crate) head: RegionHead,
    raw: Bytes,
}

impl Region {
    pub(crate) fn new(bytes: &Bytes, seed: u64, at: u64) -> Option<Self> {
        let head = RegionHead::decode(bytes, seed, at)?;
        let raw = head.payload(bytes, seed, at)?;
        Some(Self { head, raw })
    }

    /// Copies the region if its chunks are a slice of a larger read, which would stay in RAM with them.
    fn detached(mut self) -> Self {
        if self.head.encoding == Encoding::Raw {
            self.raw = BufMut::copy_of(&self.raw).freeze();
        }
        self
    }

    /// The chunk with this number, if it has this fingerprint.
    pub(crate) fn chunk(&self, number: u16, fingerprint: &Fingerprint) -> Option<Bytes> {
        let index = usize::from(number.checked_sub(self.head.first)?);
        let chunk = self.head.chunks.get(index).filter(|c| c.fingerprint == *fingerprint)?;
        let start: usize = self.head.chunks[..index].iter().map(|c| c.bytes as usize).sum();
        Some(self.raw.slice(start..start + chunk.bytes as usize))
    }

    /// Bytes of all chunks of the region.
    pub(crate) fn raw_bytes(&self) -> usize {
        self.raw.len()
    }

    /// All chunks, with their numbers.
    pub(crate) fn chunks(&self) -> impl Iterator<Item = (u16, Fingerprint, Bytes)> {
        let mut start = 0;
        (self.head.first..).zip(&self.head.chunks).map(move |(number, chunk)| {
            let bytes = self.raw.slice(start..start + chunk.bytes as usize);
            start += chunk.bytes as usize;
            (number, chunk.fingerprint, bytes)
        })
    }
}

/// Consecutive blocks of a container.
pub(crate) struct Blocks {
    /// The offset of the first block in the container.
    from: u64,
    bytes: Bytes,
}

impl Blocks {
    /// The bytes of a region of the container, if the blocks include it.
    pub(crate) fn region(&self, place: Place) -> Option<Bytes> {
        let start = place.offset().checked_sub(self.from)? as usize;
        let end = start + place.region_bytes();
        (end <= self.bytes.len()).then(|| self.bytes.slice(start..end))
    }
}

/// Regions of a container that were read together.
#[derive(Debug, Default)]
pub(crate) struct Run {
    places: Vec<Place>,
    /// The sequence number of the container.
    sequence: u64,
    /// The regions as they are on the device, in the order of their places; `None`: not there.
    bytes: Vec<Option<Bytes>>,
    /// The regions are slices of one read.
    shares_bytes: bool,
}

/// The fingerprint of a chunk: BLAKE3, cut to 160 bits.
#[must_use]
pub fn fingerprint_of(bytes: &[u8]) -> Fingerprint {
    nitro_port::codec::FingerprintHash::Blake3.of(bytes)
}

/// The chunks of a source: their fingerprints and ranges.
pub(crate) type Cuts = [(Fingerprint, Range<usize>)];

impl<D: Device> Store<D> {
    /// Stores the chunks that are not in the store yet. Returns a reference to each chunk.
    pub(crate) async fn store_chunks(
        &self,
        (kind, lane): (ChunkKind, usize),
        source: &Bytes,
        pieces: &Cuts,
        access: Access,
    ) -> Result<Vec<Reference>, Error> {
        let fingerprints: Vec<Fingerprint> = pieces.iter().map(|(f, _)| *f).collect();
        let mut places = self.find(&fingerprints, access).await?;
        match kind {
            ChunkKind::Data if self.settings.compare_duplicates => self.compare(source, pieces, &mut places).await?,
            ChunkKind::Data => {}
            ChunkKind::Recipe => self.compare_nodes(source, pieces, &mut places).await,
        }
        // Of chunks that occur several times in the source, the first is stored.
        let mut first: FingerprintMap<usize> = FingerprintMap::default();
        let mut new = Vec::new();
        let is_same = |a: usize, b: usize| source[pieces[a].1.clone()] == source[pieces[b].1.clone()];
        for (i, fingerprint) in fingerprints.iter().enumerate() {
            if places[i].is_some() {
                continue;
            }
            match first.get(fingerprint) {
                Some(_) if kind == ChunkKind::Recipe => new.push(i),
                Some(earlier) if self.settings.compare_duplicates && !is_same(*earlier, i) => {
                    self.counters.false_duplicates.add(1);
                    new.push(i);
                }
                Some(_) => {}
                None => {
                    first.insert(*fingerprint, i);
                    new.push(i);
                }
            }
        }
        self.counters.chunks(kind, pieces.len() - new.len(), new.len());
        if !new.is_empty() {
            let regions = self.prepare(kind, source, pieces, &new);
            let put = self.append(lane, &regions).await?;
            for (i, place) in new.iter().zip(put) {
                places[*i] = Some(place);
            }
        }
        let located = fingerprints.iter().zip(&places);
        let located = located.map(|(f, place)| Reference {
            fingerprint: *f,
            place: place.or_else(|| first.get(f).and_then(|i| places[*i])).unwrap_or_default(),
        });
        Ok(located.collect())
    }

    /// Accepts only duplicates whose bytes are equal.
    async fn compare(&self, source: &Bytes, pieces: &Cuts, places: &mut [Option<Place>]) -> Result<(), Error> {
        for ((fingerprint, range), found) in pieces.iter().zip(places) {
            let Some(place) = *found else { continue };
            let there = self.locate(&Reference { fingerprint: *fingerprint, place }, Access::Disk).await;
            if there.is_ok_and(|(_, bytes)| bytes == source[range.clone()]) {
                continue;
            }
            self.counters.false_duplicates.add(1);
            *found = None;
        }
        Ok(())
    }

    /// Accepts only recipe blocks with the same places, because the places in an older block with the same content may
    /// be out of date.
    async fn compare_nodes(&self, source: &Bytes, pieces: &Cuts, places: &mut [Option<Place>]) {
        for ((fingerprint, range), found) in pieces.iter().zip(places) {
            let Some(place) = *found else { continue };
            let there = self.node(&Reference { fingerprint: *fingerprint, place }, Access::Disk).await.ok();
            let given = Node::decode(&source[range.clone()]).ok();
            if there.is_none_or(|there| given.is_none_or(|given| given.entries != there.entries)) {
                *found = None;
            }
        }
    }

    /// Stores chunks again, even if they are in the store already. Returns their places.
    pub(crate) async fn copy_chunks(
        &self,
        (kind, lane): (ChunkKind, usize),
        source: &Bytes,
        pieces: &Cuts,
    ) -> Result<Vec<Place>, Error> {
        let all: Vec<usize> = (0..pieces.len()).collect();
        let regions = self.prepare(kind, source, pieces, &all);
        self.append(lane, &regions).await
    }

    /// Compresses chunks into regions.
    fn prepare(&self, kind: ChunkKind, source: &Bytes, pieces: &Cuts, new: &[usize]) -> Vec<Prepared> {
        let region_bytes = self.superblock.region_bytes as usize;
        let mut regions = Vec::new();
        let mut rest = new;
        while !rest.is_empty() {
            let mut raw_bytes = 0;
            let count = rest.iter().take(CHUNKS_MAX).take_while(|i| {
                let len = pieces[**i].1.len();
                let fits = raw_bytes == 0 || raw_bytes + len <= region_bytes;
                raw_bytes += len;
                fits
            });
            let (some, others) = rest.split_at(count.count());
            rest = others;
            regions.push(self.prepare_region(kind, source, some.iter().map(|i| &pieces[*i])));
        }
        regions
    }

    fn prepare_region<'a>(
        &self,
        kind: ChunkKind,
        source: &Bytes,
        pieces: impl Iterator<Item = &'a (Fingerprint, Range<usize>)> + Clone,
    ) -> Prepared {
        let chunks: Vec<_> =
            pieces.clone().map(|(f, range)| RegionChunk { fingerprint: *f, bytes: range.len() as u32 }).collect();
        let raw = joined(source, pieces.map(|(_, range)| range));
        let raw_bytes = raw.len() as u32;
        let (encoding, payload) = compress(self.superblock.compression, &raw);
        Prepared { kind, chunks, encoding, payload, raw_bytes }
    }

    /// Reads chunks. Neighbouring regions are read with one read, and chunks that were moved are looked up.
    pub(crate) async fn read_chunks(&self, references: &[Reference], access: Access) -> Result<Vec<Bytes>, Error> {
        let Some(ssd) = self.ssd.keeping(PieceKind::Data).filter(|_| access == Access::Random) else {
            return self.read_from_disk(references, access).await;
        };
        let pieces: Vec<_> = references.iter().map(|r| self.piece(&ssd, r)).collect();
        let mut found = self.read_from_ssd(&ssd, references, &pieces).await;
        let missing: Vec<usize> = (0..found.len()).filter(|i| found[*i].is_none()).collect();
        if !missing.is_empty() {
            let wanted: Vec<Reference> = missing.iter().map(|i| references[*i]).collect();
            for (i, chunk) in missing.iter().zip(self.read_from_disk(&wanted, access).await?) {
                self.keep_chunk(&ssd, &pieces[*i], &references[*i], &chunk).await;
                found[*i] = Some(chunk);
            }
        }
        Ok(found.into_iter().flatten().collect())
    }

    async fn read_from_disk(&self, references: &[Reference], access: Access) -> Result<Vec<Bytes>, Error> {
        let placed;
        let references = if self.settings.places {
            references
        } else {
            placed = Box::pin(self.placed(references, access)).await?;
            &placed[..]
        };
        let mut wanted: Vec<Place> = references.iter().map(|r| Place { number: 0, ..r.place }).collect();
        // Outdated places may differ in size from the region that is there now.
        wanted.sort_by_key(order);
        wanted.dedup();
        let regions = self.read_regions(&wanted, READS_AT_ONCE).await?;
        let mut chunks = Vec::with_capacity(references.len());
        for reference in references {
            let at = wanted.binary_search_by_key(&order(&reference.place), order);
            let region = at.ok().and_then(|at| regions[at].as_ref());
            chunks.push(match region.and_then(|r| r.chunk(reference.place.number, &reference.fingerprint)) {
                Some(chunk) => chunk,
                None => self.read_moved(reference.fingerprint).await?.1,
            });
        }
        Ok(chunks)
    }

    /// Reads a chunk; also returns its place.
    pub(crate) async fn locate(&self, reference: &Reference, access: Access) -> Result<(Place, Bytes), Error> {
        let placed;
        let reference = if self.settings.places {
            reference
        } else {
            placed = Box::pin(self.placed(std::slice::from_ref(reference), access)).await?;
            placed.first().unwrap_or(reference)
        };
        let region = self.read_regions(&[reference.place], 1).await?.pop().flatten();
        match region.and_then(|r| r.chunk(reference.place.number, &reference.fingerprint)) {
            Some(chunk) => Ok((reference.place, chunk)),
            None => self.read_moved(reference.fingerprint).await,
        }
    }

    /// Reads a chunk that is not at the place in its recipe.
    async fn read_moved(&self, fingerprint: Fingerprint) -> Result<(Place, Bytes), Error> {
        self.counters.moved.add(1);
        for _ in 0..MOVES_MAX {
            let known = self.state.lock().locality.get(&fingerprint);
            let place = match known {
                Some(place) => Some(place),
                None => self.indexed_place(&fingerprint).await?,
            };
            let Some(place) = place else { break };
            let region = self.read_regions(&[place], 1).await?.pop().flatten();
            if let Some(chunk) = region.and_then(|r| r.chunk(place.number, &fingerprint)) {
                return Ok((place, chunk));
            }
            // The chunk may be in the process of being moved.
            yield_now().await;
        }
        Err(Error::Missing { fingerprint })
    }

    /// Reads regions, whose places must be ordered by slot and sector, without repetitions. `None`: the region is
    /// damaged, or not at this place any more. `at_once`: the maximum number of reads of the device at the same time.
    pub(crate) async fn read_regions(
        &self,
        places: &[Place],
        at_once: usize,
    ) -> Result<Vec<Option<Arc<Region>>>, Error> {
        let mut regions: Vec<_> = places.iter().map(|p| self.cached_region(*p)).collect();
        let missing: Vec<usize> = (0..places.len()).filter(|i| regions[*i].is_none()).collect();
        let reads = self.runs(places, &missing).into_iter().map(|run| async move {
            let some: Vec<Place> = run.iter().map(|i| places[*i]).collect();
            self.read_run(some).await.map(|read| (run, self.decode(&read)))
        });
        let mut reads = stream::iter(reads).buffer_unordered(at_once);
        while let Some((run, decoded)) = reads.try_next().await? {
            for (i, region) in run.iter().zip(decoded) {
                regions[*i] = region;
            }
        }
        Ok(regions)
    }

    pub(crate) fn cached_region(&self, place: Place) -> Option<Arc<Region>> {
        let slot = self.state.lock().slots.get(place.slot);
        if slot.state == SlotState::Free {
            return None;
        }
        self.regions.lock().get(&(place.slot, slot.sequence, place.sector)).cloned()
    }

    /// Reads regions of one container with one read.
    pub(crate) async fn read_run(&self, places: Vec<Place>) -> Result<Run, Error> {
        let mut run = Run { bytes: vec![None; places.len()], places, ..Run::default() };
        let places = &run.places;
        let (Some(first), Some(last)) = (places.first(), places.last()) else { return Ok(run) };
        let slot = self.state.lock().slots.get(first.slot);
        if slot.state == SlotState::Free {
            return Ok(run);
        }
        run.sequence = slot.sequence;
        let open = self.opened.lock().get(&first.slot).cloned();
        if let Some(open) = open {
            run.bytes = places.iter().map(|p| open.region(*p).map(BufMut::freeze)).collect();
            return Ok(run);
        }
        let blocks = match self.read_blocks(*first, *last).await {
            Ok(blocks) => blocks,
            // A bad region must not prevent its neighbours from being read.
            Err(error) if places.len() == 1 => return Err(error.into()),
            Err(_) => {
                for (place, bytes) in places.iter().zip(&mut run.bytes) {
                    *bytes = Box::pin(self.read_run(vec![*place])).await?.bytes.pop().flatten();
                }
                return Ok(run);
            }
        };
        self.counters.region_reads.add(1);
        self.counters.region_read_bytes.add(blocks.bytes.len() as u64);
        run.bytes = places.iter().map(|p| blocks.region(*p)).collect();
        run.shares_bytes = places.len() > 1;
        Ok(run)
    }

    /// Reads a container from one region to another, in whole blocks of the device, within the container.
    pub(crate) async fn read_blocks(&self, first: Place, last: Place) -> Result<Blocks, DeviceError> {
        let block = self.device.geometry().block_bytes.max(SECTOR_BYTES as u32) as u64;
        let from = first.offset() / block * block;
        let end = (last.offset() + last.region_bytes() as u64).next_multiple_of(block);
        let bytes = match end.min(self.superblock.container_bytes.into()).saturating_sub(from) {
            0 => Bytes::new(),
            len => {
                let noted = self.reads.begin();
                let bytes = self.device.read(self.container_at(first.slot) + from, len as usize).await?;
                noted.end(bytes.len());
                bytes
            }
        };
        Ok(Blocks { from, bytes })
    }

    /// Decompresses regions, and keeps them in RAM. `None`: it is damaged, or not at this place.
    pub(crate) fn decode(&self, run: &Run) -> Vec<Option<Arc<Region>>> {
        let regions = run.places.iter().zip(&run.bytes);
        regions.map(|(place, bytes)| self.decode_region(bytes.as_ref()?, *place, run)).collect()
    }

    fn decode_region(&self, bytes: &Bytes, place: Place, run: &Run) -> Option<Arc<Region>> {
        let at = self.container_at(place.slot) + place.offset();
        let region = Region::new(bytes, self.superblock.seed, at)?;
        let region = Arc::new(if run.shares_bytes { region.detached() } else { region });
        if region.head.sequence == run.sequence {
            self.regions.lock().put((place.slot, run.sequence, place.sector), Arc::clone(&region));
        }
        Some(region)
    }
}

/// The order of regions on the device.
pub(crate) fn order(place: &Place) -> (u32, u16, u16) {
    (place.slot, place.sector, place.sectors)
}

/// The concatenated bytes of some ranges, without a copy if they are adjacent.
fn joined<'a>(source: &Bytes, mut ranges: impl Iterator<Item = &'a Range<usize>> + Clone) -> Bytes {
    let all = ranges.clone();
    let Some(first) = ranges.next() else { return Bytes::new() };
    let whole =
        ranges.try_fold(first.clone(), |whole, next| (whole.end == next.start).then_some(whole.start..next.end));
    if let Some(whole) = whole {
        return source.slice(whole);
    }
    let mut raw = BufMut::with_len(all.clone().map(ExactSizeIterator::len).sum());
    let mut at = 0;
    for range in all {
        raw[at..at + range.len()].copy_from_slice(&source[range.clone()]);
        at += range.len();
    }
    raw.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::region::HEADER_BYTES;
    use nitro_port::codec::Compressor;

    /// Bytes of one read.
    struct Read {
        bytes: Vec<u8>,
        _held: Arc<()>,
    }

    impl AsRef<[u8]> for Read {
        fn as_ref(&self) -> &[u8] {
            &self.bytes
        }
    }

    #[test]
    fn an_uncompressed_region_does_not_keep_what_was_read_beside_it() {
        let raw: Bytes = (0..4096_u32).map(|i| (i * 7) as u8).collect();
        let fingerprint = fingerprint_of(&raw);
        let chunks = vec![RegionChunk { fingerprint, bytes: raw.len() as u32 }];
        let (encoding, payload) = Compressor::new(Compression::None).compress(&raw);
        let raw_bytes = raw.len() as u32;
        let prepared = Prepared { kind: ChunkKind::Data, chunks, encoding, payload, raw_bytes };
        let len = usize::from(prepared.sectors()) * SECTOR_BYTES;
        assert!(len > HEADER_BYTES);
        let mut read = vec![0; 1 << 20];
        prepared.encode(&mut read[..len], 0, 5, 7, 4096);
        let held = Arc::new(());
        let read = Bytes::from_owner(Read { bytes: read, _held: Arc::clone(&held) });
        let region = Region::new(&read.slice(..len), 7, 4096).unwrap();
        drop(read);
        assert_eq!(Arc::strong_count(&held), 2);
        let region = region.detached();
        assert_eq!(Arc::strong_count(&held), 1);
        assert_eq!(region.chunk(0, &fingerprint).unwrap(), raw);
    }
}
