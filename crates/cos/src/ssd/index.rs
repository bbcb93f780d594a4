//! The device of the fingerprint index. Pages that look-ups read are cached on the SSD.

use super::{Fpi, PieceKind, Ssd};
use bytes::Bytes;
use nitro_port::slice::SliceDevice;
use nitro_port::{Allocation, Device, DeviceError, Geometry};
use parking_lot::RwLock;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Bytes of a page of the index, which look-ups read.
const PAGE_BYTES: u64 = 4096;
/// The number of counters of writes, which pages share.
const STRIPES: usize = 4096;
/// Added when a write begins: increments the number of writes (upper half) and of writes in progress (lower half).
const BEGUN: u64 = 1 << 32 | 1;

/// A store's SSD, if it has one.
#[derive(Default)]
pub(crate) struct SsdSlot(RwLock<Option<Arc<Ssd>>>);

impl SsdSlot {
    pub(crate) fn get(&self) -> Option<Arc<Ssd>> {
        self.0.read().clone()
    }

    pub(crate) fn set(&self, ssd: Option<Arc<Ssd>>) -> Option<Arc<Ssd>> {
        std::mem::replace(&mut self.0.write(), ssd)
    }

    /// The SSD, if it caches pages of the index at present.
    fn paging(&self) -> Option<Arc<Ssd>> {
        self.keeping(PieceKind::Fpi).filter(|ssd| ssd.options.fpi == Fpi::Pages)
    }

    /// The SSD, if it caches pieces of this kind at present.
    pub(crate) fn keeping(&self, kind: PieceKind) -> Option<Arc<Ssd>> {
        self.get().filter(|ssd| ssd.keeps(kind))
    }
}

/// A part of the store's device whose pages are cached on the SSD. A page on the SSD always equals the page on the
/// device: a write first invalidates it on the SSD, and a read that overlaps a write does not cache the page.
pub(crate) struct IndexDevice<D> {
    inner: SliceDevice<Arc<D>>,
    /// The number of its first page on the store's device: no two indexes of a store have pages of the same numbers.
    first_page: u64,
    ssd: Arc<SsdSlot>,
    /// Counters of writes of pages, see [`BEGUN`].
    writes: Box<[AtomicU64]>,
}

impl<D: Device> IndexDevice<D> {
    /// `at` is where `inner` begins on the store's device.
    pub(crate) fn new(inner: SliceDevice<Arc<D>>, at: u64, ssd: Arc<SsdSlot>) -> Self {
        Self { inner, first_page: at / PAGE_BYTES, ssd, writes: (0..STRIPES).map(|_| AtomicU64::new(0)).collect() }
    }

    fn writes(&self, page: u64) -> &AtomicU64 {
        &self.writes[page as usize % STRIPES]
    }

    /// Records that a range is about to change. A write that is cancelled counts as in progress forever.
    fn begin(&self, offset: u64, len: u64) {
        let pages = offset / PAGE_BYTES..(offset + len).div_ceil(PAGE_BYTES);
        for page in pages.clone() {
            self.writes(page).fetch_add(BEGUN, SeqCst);
        }
        if let Some(ssd) = self.ssd.get() {
            pages.for_each(|page| ssd.forget(&ssd.page(self.first_page + page)));
        }
    }

    fn end(&self, offset: u64, len: u64) {
        for page in offset / PAGE_BYTES..(offset + len).div_ceil(PAGE_BYTES) {
            self.writes(page).fetch_sub(1, SeqCst);
        }
    }
}

impl<D: Device> Device for IndexDevice<D> {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    async fn read(&self, offset: u64, len: usize) -> Result<Bytes, DeviceError> {
        let is_page = len as u64 == PAGE_BYTES && offset.is_multiple_of(PAGE_BYTES);
        let Some(ssd) = self.ssd.paging().filter(|_| is_page) else {
            return self.inner.read(offset, len).await;
        };
        let number = offset / PAGE_BYTES;
        let (page, writes) = (ssd.page(self.first_page + number), self.writes(number));
        if let Some(bytes) = ssd.get(&page).await.filter(|bytes| bytes.len() == len) {
            return Ok(bytes);
        }
        let before = writes.load(SeqCst);
        let bytes = self.inner.read(offset, len).await?;
        let is_right = || before as u32 == 0 && writes.load(SeqCst) == before;
        ssd.put_if(&page, &bytes, is_right).await;
        Ok(bytes)
    }

    async fn write(&self, offset: u64, data: Bytes) -> Result<(), DeviceError> {
        let len = data.len() as u64;
        self.begin(offset, len);
        let written = self.inner.write(offset, data).await;
        self.end(offset, len);
        written
    }

    async fn flush(&self) -> Result<(), DeviceError> {
        self.inner.flush().await
    }

    async fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.begin(offset, len);
        let discarded = self.inner.discard(offset, len).await;
        self.end(offset, len);
        discarded
    }

    async fn reserve(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.inner.reserve(offset, len).await
    }

    async fn write_zeroes(&self, offset: u64, len: u64, may_unmap: bool) -> Result<(), DeviceError> {
        self.begin(offset, len);
        let written = self.inner.write_zeroes(offset, len, may_unmap).await;
        self.end(offset, len);
        written
    }

    async fn allocation(&self, offset: u64, len: u64) -> Result<Vec<Allocation>, DeviceError> {
        self.inner.allocation(offset, len).await
    }
}
