//! Streams: backups that are cut into content-defined chunks, so that duplicates are also found at other offsets.

use crate::access::{Access, OF_THE_STORE};
use crate::chunks::fingerprint_of;
use crate::format::node::Entry;
use crate::format::record::Kind;
use crate::format::region::ChunkKind;
use crate::lane::DATA_LANES;
use crate::tree::StreamBuilder;
use crate::{Error, Store};
use bytes::Bytes;
use fastcdc::v2020::FastCDC;
use nitro_port::{Device, Work, WorkKind};
use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Chunks of a stream that are stored, but not in its recipe yet.
#[derive(Debug)]
pub struct StreamPart {
    entries: Vec<Entry>,
    since: u64,
}

/// A stream that is being imported. The object is created by [`finish`](Self::finish).
pub struct StreamImport<D: Device> {
    store: Arc<Store<D>>,
    name: String,
    created: u64,
    builder: StreamBuilder,
}

impl<D: Device> Store<D> {
    /// Begins the import of a stream.
    ///
    /// # Errors
    /// [`Error::Exists`]; [`Error::Busy`] during a collection.
    pub async fn import_stream(self: &Arc<Self>, name: &str, created: u64) -> Result<StreamImport<D>, Error> {
        self.check_new(name).await?;
        self.streams.fetch_add(1, Relaxed);
        let import =
            StreamImport { store: Arc::clone(self), name: name.to_owned(), created, builder: StreamBuilder::default() };
        // The count and the lock are checked in opposite order by a collection: at least one of both sees the other.
        match self.collecting.try_lock() {
            Some(_) => Ok(import),
            None => Err(Error::Busy("a collection is under way; import the stream when it has ended")),
        }
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
        let since = self.state.lock().slots.sequence();
        let pieces: Vec<_> = cuts.iter().map(|cut| (fingerprint_of(&source[cut.clone()]), cut.clone())).collect();
        let work = Work::new(WorkKind::Ingest, OF_THE_STORE);
        let storing = pin!(self.store_chunks((ChunkKind::Data, lane % DATA_LANES), &source, &pieces, Access::Disk));
        let references = work.scope(storing).await?;
        let entries = references.into_iter().zip(cuts);
        let entries = entries.map(|(reference, cut)| Entry { reference, bytes: cut.len() as u64 }).collect();
        Ok(StreamPart { entries, since })
    }
}

impl<D: Device> StreamImport<D> {
    /// Appends a part.
    ///
    /// # Errors
    /// [`Error::Full`], or an error of the device.
    pub async fn push(&mut self, part: StreamPart) -> Result<(), Error> {
        for entry in part.entries {
            self.builder.push(&self.store, entry, part.since).await?;
        }
        Ok(())
    }

    /// Creates the object. Durable when it returns.
    ///
    /// # Errors
    /// [`Error::Name`], [`Error::Exists`], [`Error::Objects`], [`Error::Full`], or an error of the device.
    pub async fn finish(mut self) -> Result<(), Error> {
        let size = self.builder.bytes;
        let root = std::mem::take(&mut self.builder).finish(&self.store).await?;
        let shape = (size, self.store.stream_chunk_bytes().1 as u32);
        self.store.create_object(&self.name, Kind::Stream, shape, root, self.created).await?;
        self.store.commit().await
    }
}

impl<D: Device> Drop for StreamImport<D> {
    fn drop(&mut self) {
        self.store.streams.fetch_sub(1, Relaxed);
    }
}
