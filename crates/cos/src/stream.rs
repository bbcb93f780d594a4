//! Streams: backups that are cut into content-defined chunks, so that duplicates are also found at other offsets.

use crate::access::{Access, OF_THE_STORE};
use crate::chunks::{Cuts, fingerprint_of};
use crate::format::increment::{Content, content_of};
use crate::format::node::Entry;
use crate::format::record::Kind;
use crate::format::region::ChunkKind;
use crate::lane::DATA_LANES;
use crate::place::Reference;
use crate::unfinished::Kept;
use crate::{Error, Store};
use bytes::Bytes;
use fastcdc::v2020::FastCDC;
use nitro_port::range_lock::ALL;
use nitro_port::{Device, Work, WorkKind};
use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;

/// Chunks of a stream that are stored, but not in its recipe yet.
#[derive(Debug)]
pub struct StreamPart {
    entries: Arc<[Entry]>,
    since: u64,
    /// Until they are in the recipe.
    _kept: Kept,
}

impl StreamPart {
    /// The newest container before its chunks were stored.
    pub(crate) fn since(&self) -> u64 {
        self.since
    }

    pub(crate) fn references(&self) -> impl Iterator<Item = Reference> {
        self.entries.iter().map(|entry| entry.reference)
    }
}

/// A stream that is being imported. The object is created by [`finish`](Self::finish).
pub struct StreamImport<D: Device> {
    store: Arc<Store<D>>,
    name: String,
    created: u64,
    kept: Kept,
}

impl<D: Device> Store<D> {
    /// Begins the import of a stream.
    ///
    /// # Errors
    /// [`Error::Exists`].
    pub async fn import_stream(self: &Arc<Self>, name: &str, created: u64) -> Result<StreamImport<D>, Error> {
        self.check_new(name).await?;
        let kept = self.unfinished.add_stream();
        Ok(StreamImport { store: Arc::clone(self), name: name.to_owned(), created, kept })
    }

    /// Cuts chunks of a stream from the beginning of `data` with FastCDC (Xia et al., ATC 2016 and 2020): gear hashes
    /// and normalised sizes. Unless `is_end`, the last chunk is not cut, because it may continue; its bytes must be
    /// passed again with the following ones.
    pub fn cut(&self, data: &[u8], is_end: bool) -> Vec<Range<usize>> {
        let (least, mean, most) = self.stream_chunk_bytes();
        let mut cuts: Vec<_> = FastCDC::new(data, least, mean, most).map(|c| c.offset..c.offset + c.length).collect();
        if !is_end && cuts.last().is_some_and(|last| last.len() < most) {
            cuts.pop();
        }
        cuts
    }

    /// The sizes of a stream's chunks in bytes: minimum, target of the mean, and maximum.
    fn stream_chunk_bytes(&self) -> (usize, usize, usize) {
        let region_bytes = self.superblock.region_bytes as usize;
        (region_bytes / 16, region_bytes * 3 / 16, region_bytes)
    }

    /// Stores chunks of a stream that is being imported. Different parts may be stored concurrently, preferably in
    /// different lanes.
    ///
    /// # Errors
    /// [`Error::Full`], or an error of the device.
    pub async fn store_part(&self, lane: usize, source: Bytes, cuts: &[Range<usize>]) -> Result<StreamPart, Error> {
        let pieces: Vec<_> = cuts.iter().map(|cut| (fingerprint_of(&source[cut.clone()]), cut.clone())).collect();
        self.store_known(lane, &source, &pieces).await
    }

    /// As [`store_part`](Self::store_part), for chunks whose fingerprints are known.
    pub(crate) async fn store_known(&self, lane: usize, source: &Bytes, pieces: &Cuts) -> Result<StreamPart, Error> {
        let mut before = self.room.before_write();
        loop {
            match self.store_pieces(lane % DATA_LANES, source, pieces).await {
                Err(error) if error.is_full() && before.wait().await => {}
                stored => return stored,
            }
        }
    }

    /// Keeps chunks that the store has, and that something else keeps while this is called; `since`: the newest container before
    /// they were found.
    pub(crate) fn keep_part(&self, entries: Vec<Entry>, since: u64) -> StreamPart {
        let entries: Arc<[Entry]> = entries.into();
        StreamPart { _kept: self.unfinished.add_part(Arc::clone(&entries), since), entries, since }
    }

    async fn store_pieces(&self, lane: usize, source: &Bytes, pieces: &Cuts) -> Result<StreamPart, Error> {
        let _mutating = self.mutating.shared(ALL).await;
        let since = self.state.lock().slots.sequence();
        let storing = pin!(self.store_chunks((ChunkKind::Data, lane), source, pieces, Access::Disk));
        let references = Work::new(WorkKind::Ingest, OF_THE_STORE).scope(storing).await?;
        let entries = references.into_iter().zip(pieces);
        let entries = entries.map(|(reference, (_, cut))| Entry { reference, bytes: cut.len() as u64 });
        Ok(self.keep_part(entries.collect(), since))
    }
}

impl<D: Device> StreamImport<D> {
    /// Appends a part.
    ///
    /// # Errors
    /// [`Error::Full`], or an error of the device.
    pub async fn push(&mut self, part: StreamPart) -> Result<(), Error> {
        let _mutating = self.store.mutating.shared(ALL).await;
        let mut builder = self.kept.take()?;
        for entry in part.entries.iter() {
            builder.push(&self.store, *entry, part.since).await?;
        }
        self.kept.put(builder);
        // The recipe has them now.
        drop(part);
        Ok(())
    }

    /// Creates the object. Durable when it returns.
    ///
    /// # Errors
    /// [`Error::Name`], [`Error::Exists`], [`Error::Objects`], [`Error::Full`], or an error of the device.
    pub async fn finish(self) -> Result<(), Error> {
        self.finish_as(None).await
    }

    /// As [`finish`](Self::finish), if it has the size and the content that it should have.
    pub(crate) async fn finish_as(self, expected: Option<(u64, Content)>) -> Result<(), Error> {
        // Before `mutating` is locked, because whatever makes room locks it as well.
        self.store.make_room_for_objects().await?;
        {
            let _mutating = self.store.mutating.shared(ALL).await;
            let builder = self.kept.take()?;
            let shape = (builder.bytes, self.store.stream_chunk_bytes().1 as u32);
            let bytes = builder.bytes;
            let root = builder.finish(&self.store).await?;
            if expected.is_some_and(|expected| expected != (bytes, content_of(root))) {
                return Err(Error::Transfer("what was received is not what was offered"));
            }
            self.store.enter_object(&self.name, Kind::Stream, shape, root, self.created).await?;
        }
        self.store.commit().await
    }
}
