//! A volume of a store as a device for random reads and writes.

use crate::access::Access;
use crate::chunks::fingerprint_of;
use crate::format::node::Entry;
use crate::format::record::Kind;
use crate::format::region::ChunkKind;
use crate::lane::DATA_LANES;
use crate::ledger::Permit;
use crate::object::{Change, Object};
use crate::place::Reference;
use crate::{Error, Store};
use bytes::Bytes;
use futures_util::future::{join, try_join};
use nitro_port::buf::{BufMut, is_zero};
use nitro_port::range_lock::ALL;
use nitro_port::{Allocation, Device, DeviceError, ErrorKind, Geometry, Operation, Origin, Recipe, Urgency, Work};
use nitro_units::Fingerprint;
use std::ops::Range;
use std::pin::pin;
use std::slice::from_ref;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// The number of chunks whose references are resolved together.
const RESOLVED_AT_ONCE: u64 = 4096;
/// The number of retries of a read whose recipe was replaced meanwhile.
const RETRIES: usize = 3;
/// The maximum alignment that is reported to clients, in bytes.
const BLOCK_BYTES_MAX: u32 = 4096;

/// An open object.
pub struct Volume<D> {
    store: Arc<Store<D>>,
    object: Arc<Object>,
    lane: usize,
    /// Its requests are those of clients.
    is_served: bool,
}

impl<D: Device> Store<D> {
    /// Opens an object or a snapshot.
    ///
    /// # Errors
    /// [`Error::NoObject`]; [`Error::WrongKind`] if its import was interrupted; or the directory cannot be read.
    pub async fn open_volume(self: &Arc<Self>, name: &str) -> Result<Volume<D>, Error> {
        let object = self.object(name).await?;
        if object.state.lock().record.incomplete {
            let why = "its import was interrupted; import it again";
            return Err(Error::WrongKind { name: name.to_owned(), kind: object.kind, why });
        }
        Ok(Volume::new(self, object))
    }
}

impl<D> Clone for Volume<D> {
    fn clone(&self) -> Self {
        let (store, object) = (Arc::clone(&self.store), Arc::clone(&self.object));
        Self { store, object, lane: self.lane, is_served: self.is_served }
    }
}

impl<D: Device> Volume<D> {
    pub(crate) fn new(store: &Arc<Store<D>>, object: Arc<Object>) -> Self {
        let lane = object.id as usize % DATA_LANES;
        Self { store: Arc::clone(store), object, lane, is_served: false }
    }

    /// The volume for clients that it is served to: on the disk, all their requests share what clients at random have, in
    /// whatever order they come.
    #[must_use]
    pub fn served(self) -> Self {
        Self { is_served: true, ..self }
    }

    /// The work that a read is a part of.
    fn reading(&self, access: Access) -> Work {
        if self.is_served { Access::Random } else { access }.reading(self.object.id)
    }

    /// The work that a write is a part of.
    fn writing(&self, access: Access) -> Work {
        if self.is_served { Access::Random } else { access }.writing(self.object.id)
    }

    pub(crate) fn object(&self) -> &Object {
        &self.object
    }

    /// The same volume with another lane. Threads that write a volume concurrently should use different lanes.
    #[must_use]
    pub fn in_lane(&self, lane: usize) -> Self {
        Self { lane: lane % DATA_LANES, ..self.clone() }
    }

    /// The name of the object.
    pub fn name(&self) -> String {
        self.object.name()
    }

    /// What distinguishes the object from all others: the identity of its store and its number there, neither of which is
    /// used again.
    pub fn identity(&self) -> (u64, u64) {
        (self.store.superblock.identity, self.object.id)
    }

    /// The size in bytes.
    pub fn size_bytes(&self) -> u64 {
        self.object.state.lock().record.size_bytes
    }

    /// Bytes of a chunk.
    pub fn chunk_bytes(&self) -> u32 {
        self.object.chunk_bytes
    }

    /// The time of the last durable change, in nanoseconds since 1970.
    pub fn modified_ns(&self) -> u64 {
        self.object.durable_modified_ns.load(Relaxed)
    }

    /// Whether the object was deleted since the volume was opened.
    pub fn is_removed(&self) -> bool {
        self.object.state.lock().is_removed()
    }

    /// The store of the volume.
    pub fn store(&self) -> &Arc<Store<D>> {
        &self.store
    }

    /// Whether it is read-only, as snapshots and streams are.
    pub fn is_read_only(&self) -> bool {
        self.object.kind == Kind::Stream || self.object.state.lock().record.read_only
    }

    fn check_range(&self, offset: u64, len: u64) -> Result<(), Error> {
        let size = self.size_bytes();
        match offset.checked_add(len) {
            Some(end) if end <= size => Ok(()),
            _ => Err(Error::OutOfRange { name: self.name(), offset, len, size }),
        }
    }

    fn check_writable(&self, offset: u64, len: u64) -> Result<(), Error> {
        self.store.check_poison()?;
        let state = self.object.state.lock();
        let name = || state.record.name.clone();
        if state.is_removed() {
            return Err(Error::NoObject(name()));
        }
        if self.object.kind == Kind::Stream {
            let why = "it can only be read, or imported again";
            return Err(Error::WrongKind { name: name(), kind: Kind::Stream, why });
        }
        if state.record.read_only {
            return Err(Error::ReadOnly(name()));
        }
        drop(state);
        self.check_range(offset, len)
    }

    fn chunks(&self, offset: u64, len: u64) -> Range<u64> {
        let chunk = u64::from(self.object.chunk_bytes);
        offset / chunk..(offset + len).div_ceil(chunk)
    }

    /// The fingerprints of the chunks in a range, from the recipe alone; `None` for a chunk of zeroes. For volumes
    /// only.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], or the recipe cannot be read.
    pub async fn fingerprints(&self, offset: u64, len: u64) -> Result<Recipe, Error> {
        self.check_range(offset, len)?;
        let resolved = self.store.resolve(&self.object, self.chunks(offset, len), Access::Sequential).await?;
        Ok(resolved.into_iter().map(|r| r.map(|r| r.fingerprint)).collect())
    }

    /// Reads a range.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::Missing`] for content that is damaged, or an error of the device.
    pub async fn read_range(&self, offset: u64, len: usize) -> Result<Bytes, Error> {
        let whole = offset..offset.saturating_add(len as u64);
        Ok(self.read_ranges(from_ref(&whole)).await?.pop().unwrap_or_default())
    }

    /// Reads ranges, which are in order and do not overlap, with as few requests to the device as it takes. Those of a
    /// stream are read one after the other.
    ///
    /// # Errors
    /// As [`read_range`](Self::read_range).
    pub async fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, Error> {
        let (Some(first), Some(last)) = (ranges.first(), ranges.last()) else { return Ok(Vec::new()) };
        let (offset, len) = (first.start, last.end.saturating_sub(first.start));
        self.check_range(offset, len)?;
        let access = self.store.access(&self.object, offset, len);
        self.reading(access).scope(pin!(self.read_by(ranges, access))).await
    }

    async fn read_by(&self, ranges: &[Range<u64>], access: Access) -> Result<Vec<Bytes>, Error> {
        let (Some(first), Some(last)) = (ranges.first(), ranges.last()) else { return Ok(Vec::new()) };
        let (offset, len) = (first.start, last.end - first.start);
        if access == Access::Sequential {
            self.read_ahead(offset, len).await;
        }
        let mut tries = 0;
        loop {
            let before = self.object.state.lock().record.root;
            let result = match self.object.kind {
                Kind::Volume if access == Access::Monotonic => {
                    let last = (offset + len).saturating_sub(1) / u64::from(self.object.chunk_bytes);
                    let next = self.store.read_next_leaf(&self.object, last, access);
                    // Boxed, as the rare cases below are, so that the futures of all requests stay small.
                    Box::pin(join(self.read_volume(ranges, access), next)).await.0
                }
                Kind::Volume if access == Access::Random && self.store.settings.nsio_prefetch_bytes > 0 => {
                    Box::pin(self.read_with_more(ranges, access)).await
                }
                Kind::Volume => self.read_volume(ranges, access).await,
                Kind::Stream => Box::pin(self.read_stream_ranges(ranges, access)).await,
            };
            // A chunk that was collected meanwhile had been overwritten before.
            let is_replaced = || self.object.state.lock().record.root != before;
            match result {
                Err(Error::Missing { .. }) if tries < RETRIES && is_replaced() => tries += 1,
                result => return result,
            }
        }
    }

    async fn read_volume(&self, ranges: &[Range<u64>], access: Access) -> Result<Vec<Bytes>, Error> {
        let (Some(first), Some(last)) = (ranges.first(), ranges.last()) else { return Ok(Vec::new()) };
        let stretch = self.chunks(first.start, last.end - first.start);
        let resolved = self.store.resolve(&self.object, stretch.clone(), access).await?;
        let of_range = |range: &Range<u64>| {
            let chunks = self.chunks(range.start, range.end - range.start);
            &resolved[(chunks.start - stretch.start) as usize..(chunks.end - stretch.start) as usize]
        };
        let references: Vec<Reference> = ranges.iter().flat_map(of_range).flatten().copied().collect();
        let mut read = self.store.read_chunks(&references, access).await?.into_iter();
        ranges.iter().map(|range| self.join_chunks(range, of_range(range), &mut read)).collect()
    }

    /// Takes the bytes of a range from its chunks, which are the next ones that were read.
    fn join_chunks(
        &self,
        Range { start: offset, end }: &Range<u64>,
        resolved: &[Option<Reference>],
        read: &mut std::vec::IntoIter<Bytes>,
    ) -> Result<Bytes, Error> {
        let (offset, len) = (*offset, (end - offset) as usize);
        let chunk_bytes = u64::from(self.object.chunk_bytes);
        let chunks = self.chunks(offset, len as u64);
        let short = || {
            let references: Vec<Reference> = resolved.iter().flatten().copied().collect();
            self.short(&references)
        };
        if let [Some(_)] = resolved {
            let start = (offset - chunks.start * chunk_bytes) as usize;
            return match read.next() {
                Some(only) if start + len <= only.len() => Ok(only.slice(start..start + len)),
                _ => short(),
            };
        }
        let mut out = BufMut::with_len(len);
        for (index, reference) in chunks.zip(resolved) {
            let start = index * chunk_bytes;
            let from = offset.max(start);
            let to = (offset + len as u64).min(start + chunk_bytes);
            let target = &mut out[(from - offset) as usize..(to - offset) as usize];
            match reference {
                Some(_) => match read.next() {
                    Some(chunk) if chunk.len() as u64 >= to - start => {
                        target.copy_from_slice(&chunk[(from - start) as usize..(to - start) as usize]);
                    }
                    _ => return short(),
                },
                None => target.fill(0),
            }
        }
        Ok(out.freeze())
    }

    /// Reads one range of a volume.
    async fn read_one(&self, offset: u64, len: usize, access: Access) -> Result<Bytes, Error> {
        let range = offset..offset + len as u64;
        let read = self.read_volume(from_ref(&range), access).await?.pop();
        Ok(read.unwrap_or_default())
    }

    /// Reads ranges, and then what follows them into RAM ("simple prefetch").
    async fn read_with_more(&self, ranges: &[Range<u64>], access: Access) -> Result<Vec<Bytes>, Error> {
        let read = self.read_volume(ranges, access).await?;
        let end = ranges.last().map_or(0, |last| last.end);
        let more = u64::from(self.store.settings.nsio_prefetch_bytes).min(self.size_bytes().saturating_sub(end));
        if more > 0 {
            self.read_one(end, more as usize, access).await?;
        }
        Ok(read)
    }

    fn short(&self, references: &[Reference]) -> Result<Bytes, Error> {
        let what = format!("a chunk of {:?} does not have the size in its recipe ({references:?})", self.name());
        Err(Error::Damaged { what })
    }

    async fn read_stream_ranges(&self, ranges: &[Range<u64>], access: Access) -> Result<Vec<Bytes>, Error> {
        let mut read = Vec::with_capacity(ranges.len());
        for range in ranges {
            read.push(self.read_stream(range.start, (range.end - range.start) as usize, access).await?);
        }
        Ok(read)
    }

    async fn read_stream(&self, offset: u64, len: usize, access: Access) -> Result<Bytes, Error> {
        let end = offset + len as u64;
        let root = self.object.state.lock().record.root;
        let resolved = self.store.resolve_stream(root, offset..end, access).await?;
        let references: Vec<Reference> = resolved.iter().map(|(_, entry)| entry.reference).collect();
        let read = self.store.read_chunks(&references, access).await?;
        let mut out = BufMut::zeroed(len);
        for ((start, Entry { bytes, .. }), chunk) in resolved.into_iter().zip(read) {
            if chunk.len() as u64 != bytes {
                return self.short(&references);
            }
            let (from, to) = (offset.max(start), end.min(start + bytes));
            out[(from - offset) as usize..(to - offset) as usize]
                .copy_from_slice(&chunk[(from - start) as usize..(to - start) as usize]);
        }
        Ok(out.freeze())
    }

    /// Writes a range. Durable after the next [`commit`](Store::commit).
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::ReadOnly`] and [`Error::WrongKind`], with nothing changed; [`Error::Full`],
    /// [`Error::Quota`] or an error of the device. Large writes are done in parts: the parts before the failed one have
    /// then been written.
    pub async fn write_range(&self, offset: u64, data: Bytes) -> Result<(), Error> {
        self.write_believing(offset, data, &[]).await
    }

    /// As [`write_range`](Self::write_range), for whole chunks; the last one may extend beyond the end of the volume
    /// with zeroes.
    ///
    /// # Errors
    /// As [`write_range`](Self::write_range).
    pub async fn write_padded(&self, offset: u64, data: Bytes) -> Result<(), Error> {
        let len = (data.len() as u64).min(self.size_bytes().saturating_sub(offset));
        self.check_writable(offset, len)?;
        let chunk_bytes = u64::from(self.object.chunk_bytes);
        let whole = offset.is_multiple_of(chunk_bytes) && (data.len() as u64).is_multiple_of(chunk_bytes);
        if !whole {
            return self.write_range(offset, data.slice(..len as usize)).await;
        }
        self.store.begin_change(&self.object).await?;
        let chunks = self.chunks(offset, data.len() as u64);
        let _shared = self.object.writing.shared(chunks.clone()).await;
        let access = Access::Sequential;
        self.writing(access).scope(pin!(self.write_chunks(chunks, data, &[], access))).await
    }

    /// As [`write_range`](Self::write_range). `known` has the fingerprints (BLAKE3, cut to 160 bits) of the chunks that
    /// the range touches, as far as they are known, or is empty. The fingerprints of partly written chunks are ignored.
    async fn write_believing(&self, offset: u64, data: Bytes, known: &[Option<Fingerprint>]) -> Result<(), Error> {
        let len = data.len() as u64;
        self.check_writable(offset, len)?;
        if len == 0 {
            return Ok(());
        }
        self.store.begin_change(&self.object).await?;
        let access = self.store.access(&self.object, offset, len);
        self.writing(access).scope(pin!(self.write_by(offset, data, known, access))).await
    }

    async fn write_by(
        &self,
        offset: u64,
        data: Bytes,
        known: &[Option<Fingerprint>],
        access: Access,
    ) -> Result<(), Error> {
        let len = data.len() as u64;
        let chunk_bytes = u64::from(self.object.chunk_bytes);
        let chunks = self.chunks(offset, len);
        let (start, end) = (chunks.start * chunk_bytes, chunks.end * chunk_bytes);
        if (start, end) == (offset, offset + len) {
            let _shared = self.object.writing.shared(chunks.clone()).await;
            return self.write_chunks(chunks, data, known, access).await;
        }
        let _alone = self.object.writing.alone(chunks.clone()).await;
        let mut whole = BufMut::zeroed((end - start) as usize);
        let size = self.size_bytes();
        // The chunks at both ends keep the bytes that are not written.
        let ends = [(start, offset), (offset + len, end.min(size))];
        let old = |(from, to): (u64, u64)| async move {
            if from < to { self.read_one(from, (to - from) as usize, access).await } else { Ok(Bytes::new()) }
        };
        let [first, last] = ends.map(old);
        let olds = if self.store.settings.nsio_parallel {
            <[Bytes; 2]>::from(Box::pin(try_join(first, last)).await?)
        } else {
            [Box::pin(first).await?, Box::pin(last).await?]
        };
        for ((from, _), old) in ends.into_iter().zip(olds) {
            if !old.is_empty() {
                whole[(from - start) as usize..][..old.len()].copy_from_slice(&old);
            }
        }
        whole[(offset - start) as usize..][..data.len()].copy_from_slice(&data);
        let is_whole = |index: u64| index * chunk_bytes >= offset && (index + 1) * chunk_bytes <= offset + len;
        let known: Recipe = chunks.clone().zip(known).map(|(index, known)| known.filter(|_| is_whole(index))).collect();
        self.write_chunks(chunks, whole.freeze(), &known, access).await
    }

    /// Writes whole chunks, in parts that fit into the journal.
    async fn write_chunks(
        &self,
        chunks: Range<u64>,
        data: Bytes,
        known: &[Option<Fingerprint>],
        access: Access,
    ) -> Result<(), Error> {
        let chunk_bytes = self.object.chunk_bytes as usize;
        let at_once = self.store.ledger.bounds().changes_at_once();
        let count = (chunks.end - chunks.start) as usize;
        for from in (0..count).step_by(at_once) {
            let to = count.min(from + at_once);
            let part = chunks.start + from as u64..chunks.start + to as u64;
            let known = known.get(from..).unwrap_or_default();
            let data = data.slice(from * chunk_bytes..to * chunk_bytes);
            let mut before = self.store.room.before_write();
            loop {
                match self.write_part(part.clone(), data.clone(), known, access).await {
                    Err(error) if error.is_full() && before.wait().await => {}
                    written => break written?,
                }
            }
        }
        Ok(())
    }

    async fn write_part(
        &self,
        chunks: Range<u64>,
        data: Bytes,
        known: &[Option<Fingerprint>],
        access: Access,
    ) -> Result<(), Error> {
        let chunk_bytes = self.object.chunk_bytes as usize;
        // Before `mutating` is locked, because the task that makes room locks it as well.
        let permit = self.store.permit((chunks.end - chunks.start) as usize).await?;
        let mutating = self.store.mutating.shared(ALL).await;
        let since = self.store.state.lock().slots.sequence();
        let mut pieces = Vec::with_capacity(data.len() / chunk_bytes);
        let mut numbers = Vec::with_capacity(pieces.capacity());
        let mut holes = Vec::new();
        for (i, (index, chunk)) in chunks.clone().zip(data.chunks_exact(chunk_bytes)).enumerate() {
            if is_zero(chunk) {
                holes.push(index);
                continue;
            }
            let fingerprint = known.get(i).copied().flatten().unwrap_or_else(|| fingerprint_of(chunk));
            pieces.push((fingerprint, i * chunk_bytes..(i + 1) * chunk_bytes));
            numbers.push(index);
        }
        let references = self.store.store_chunks((ChunkKind::Data, self.lane), &data, &pieces, access).await?;
        if access == Access::Random {
            self.store.keep_written(&references, &data, &pieces).await;
        }
        let changes =
            numbers.into_iter().zip(references.into_iter().map(Some)).chain(holes.into_iter().map(|i| (i, None)));
        self.change(changes.map(|(index, reference)| (index, Change { reference, since })), permit);
        drop(mutating);
        if !self.store.settings.delayed_recipes {
            self.store.flush_tree_by(&self.object, Access::Sequential).await?;
        }
        self.store.relieve_if_high().await
    }

    /// Applies changes to the object.
    pub(crate) fn change(&self, changes: impl Iterator<Item = (u64, Change)>, mut permit: Permit<'_>) {
        let mut state = self.object.state.lock();
        changes.for_each(|(index, change)| state.change(index, change, &mut permit));
        state.touch();
    }

    /// Zeroes a range without storing zeroes.
    ///
    /// # Errors
    /// As [`write_range`](Self::write_range).
    pub async fn zero_range(&self, offset: u64, len: u64) -> Result<(), Error> {
        self.check_writable(offset, len)?;
        self.store.begin_change(&self.object).await?;
        let chunk_bytes = u64::from(self.object.chunk_bytes);
        let end = offset + len;
        // A last chunk that extends beyond the end of the volume is whole if it is written up to that end.
        let whole = offset.next_multiple_of(chunk_bytes)..match end == self.size_bytes() {
            true => end.next_multiple_of(chunk_bytes),
            false => end / chunk_bytes * chunk_bytes,
        };
        if whole.start >= whole.end {
            return self.write_range(offset, BufMut::zeroed(len as usize).freeze()).await;
        }
        for (from, to) in [(offset, whole.start), (whole.end, end)] {
            if from < to {
                self.write_range(from, BufMut::zeroed((to - from) as usize).freeze()).await?;
            }
        }
        let (mut first, last) = (whole.start / chunk_bytes, whole.end / chunk_bytes);
        let _shared = self.object.writing.shared(first..last).await;
        let at_once = (self.store.ledger.bounds().changes_at_once() as u64).min(RESOLVED_AT_ONCE);
        while first < last {
            let next = last.min(first + at_once);
            // Chunks that are holes already need no change.
            let resolved = self.store.resolve(&self.object, first..next, Access::Sequential).await?;
            let filled: Vec<u64> = (first..next).zip(resolved).filter_map(|(i, r)| r.map(|_| i)).collect();
            if !filled.is_empty() {
                let permit = self.store.permit(filled.len()).await?;
                let hole = Change { reference: None, since: 0 };
                self.change(filled.into_iter().map(|index| (index, hole)), permit);
                self.store.relieve_if_high().await?;
            }
            first = next;
        }
        Ok(())
    }

    /// The holes and the other parts of a range, in order.
    async fn holes(&self, offset: u64, len: u64) -> Result<Vec<Allocation>, Error> {
        self.check_range(offset, len)?;
        let end = offset + len;
        if self.object.kind == Kind::Stream {
            return Ok(vec![Allocation { len, hole: false }]);
        }
        let chunk_bytes = u64::from(self.object.chunk_bytes);
        let mut runs: Vec<Allocation> = Vec::new();
        let chunks = self.chunks(offset, len);
        let mut first = chunks.start;
        while first < chunks.end {
            let next = chunks.end.min(first + RESOLVED_AT_ONCE);
            let resolved = self.store.resolve(&self.object, first..next, Access::Sequential).await?;
            for (index, reference) in (first..next).zip(resolved) {
                let len = end.min((index + 1) * chunk_bytes) - offset.max(index * chunk_bytes);
                let hole = reference.is_none();
                match runs.last_mut().filter(|run| run.hole == hole) {
                    Some(run) => run.len += len,
                    None => runs.push(Allocation { len, hole }),
                }
            }
            first = next;
        }
        Ok(runs)
    }
}

/// Converts an error into a device's error.
fn device_error(error: Error, operation: Operation, offset: u64, len: u64) -> DeviceError {
    let kind = match &error {
        Error::Device(inner) => inner.kind,
        full if full.is_full() => ErrorKind::NoSpace,
        Error::OutOfRange { .. } => ErrorKind::OutOfRange,
        Error::ReadOnly(_) | Error::WrongKind { .. } => ErrorKind::ReadOnly,
        _ => ErrorKind::Io,
    };
    let mut out = DeviceError::new(kind, operation, offset, len);
    out.source = Some(Arc::new(std::io::Error::other(error)));
    out
}

impl<D: Device> Device for Volume<D> {
    fn geometry(&self) -> Geometry {
        let chunk_bytes = self.object.chunk_bytes;
        // The block size divides the size of the volume.
        let size_bytes = self.size_bytes();
        let trailing = 1 << size_bytes.trailing_zeros().min(31);
        let block_bytes = chunk_bytes.min(BLOCK_BYTES_MAX).min(trailing);
        Geometry {
            size_bytes,
            block_bytes,
            preferred_bytes: chunk_bytes,
            rotational: self.store.device.geometry().rotational,
        }
    }

    async fn read(&self, offset: u64, len: usize) -> Result<Bytes, DeviceError> {
        self.read_range(offset, len).await.map_err(|e| device_error(e, Operation::Read, offset, len as u64))
    }

    async fn write(&self, offset: u64, data: Bytes) -> Result<(), DeviceError> {
        self.write_known(offset, data, &[]).await
    }

    async fn flush(&self) -> Result<(), DeviceError> {
        self.store.commit().await.map_err(|e| device_error(e, Operation::Flush, 0, 0))
    }

    async fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.zero_range(offset, len).await.map_err(|e| device_error(e, Operation::Discard, offset, len))
    }

    async fn write_zeroes(&self, offset: u64, len: u64, _may_unmap: bool) -> Result<(), DeviceError> {
        self.zero_range(offset, len).await.map_err(|e| device_error(e, Operation::WriteZeroes, offset, len))
    }

    async fn allocation(&self, offset: u64, len: u64) -> Result<Vec<Allocation>, DeviceError> {
        self.holes(offset, len).await.map_err(|e| device_error(e, Operation::Allocation, offset, len))
    }
}

impl<D: Device> Origin for Volume<D> {
    /// Changes stay in RAM until a commit.
    fn keeps_writes(&self) -> bool {
        false
    }

    fn unit_bytes(&self) -> Option<u32> {
        None
    }

    fn recipe_extent_bytes(&self) -> Option<u32> {
        (self.object.kind == Kind::Volume).then_some(self.object.chunk_bytes)
    }

    async fn recipe(&self, offset: u64, len: u64) -> Result<Recipe, DeviceError> {
        let found = self.fingerprints(offset, len).await;
        found.map_err(|e| device_error(e, Operation::Read, offset, len))
    }

    async fn write_known(&self, offset: u64, data: Bytes, known: &[Option<Fingerprint>]) -> Result<(), DeviceError> {
        let len = data.len() as u64;
        let written = self.write_believing(offset, data, known).await;
        written.map_err(|e| device_error(e, Operation::Write, offset, len))
    }

    fn reads_parts(&self) -> bool {
        self.object.kind == Kind::Volume
    }

    async fn read_parts(&self, _urgency: Urgency, parts: &[Range<u64>]) -> Result<Vec<Bytes>, DeviceError> {
        let (from, to) = (parts.first().map_or(0, |part| part.start), parts.last().map_or(0, |part| part.end));
        self.read_ranges(parts).await.map_err(|e| device_error(e, Operation::Read, from, to.saturating_sub(from)))
    }
}
