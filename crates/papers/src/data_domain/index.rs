//! The fingerprint index of the paper's store: two levels on the disk, of which RAM has nothing, and a table of short
//! fingerprints on the SSD (Allu et al. 2018, "Fingerprint Index (FPI) Cache").
//!
//! A page of the first level has the addresses of buckets; a bucket has full fingerprints with their places. A page of the
//! table has four bytes of each fingerprint with its place. The first level's pages have few addresses each, and pages are
//! far apart, so that even a small index is spread over all disks and their tracks, as one of full size is. New entries stay in RAM: their
//! merging into pages is not a part of the experiments.

use super::disk::{PAGE_BYTES, Placement};
use bytes::Bytes;
use futures_util::future::{FutureExt, LocalBoxFuture};

use hashbrown::{HashMap, HashSet};
use nitro_cos::ContentIndex;
use nitro_port::buf::BufMut;
use nitro_port::{Device, DeviceError};
use nitro_units::Fingerprint;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Addresses in a page of the first level.
const ADDRESSES: u64 = 8;
/// Bytes of an address of a bucket.
const ADDRESS_BYTES: usize = 8;
/// Bytes of an entry of a bucket: a full fingerprint and a place.
const ENTRY_BYTES: usize = 28;
/// Bytes of an entry of the table: four of the fingerprint, and a place.
const SHORT_ENTRY_BYTES: usize = 12;
/// Hash tables whose pages are not to overflow are filled up to this share on average.
const FILL: f64 = 0.7;

/// The number of pages for entries of this size, at the planned fill.
fn pages_for(entries: u64, entry_bytes: usize) -> u64 {
    ((entries * entry_bytes as u64) as f64 / (PAGE_BYTES as f64 * FILL)).ceil().max(1.0) as u64
}

/// Bytes that the two levels take for this number of contents, without the gaps of the experiment.
pub(super) fn full_bytes(entries: u64) -> u64 {
    let buckets = pages_for(entries, ENTRY_BYTES);
    buckets * PAGE_BYTES + (buckets * ADDRESS_BYTES as u64).next_multiple_of(PAGE_BYTES)
}

/// Bytes that the table of short fingerprints takes for this number of contents.
pub(super) fn table_bytes(entries: u64) -> u64 {
    pages_for(entries, SHORT_ENTRY_BYTES) * PAGE_BYTES
}

/// Pages on the disk of an index of this number of contents in the experiment.
pub(super) fn spread_pages(entries: u64) -> u64 {
    let buckets = pages_for(entries, ENTRY_BYTES);
    buckets + buckets.div_ceil(ADDRESSES)
}

#[derive(Default)]
struct Pages {
    /// The number of buckets, and of pages of the table.
    buckets: u64,
    table: u64,
    /// The places of the pages of the first level.
    first: HashSet<u64>,
}

/// The index. Its pages are written by [`settle`](Self::settle).
pub(super) struct TwoLevels<D, S> {
    disk: Arc<D>,
    placement: Placement,
    /// The SSD whose first bytes are the table, if there is one.
    ssd: Option<Arc<S>>,
    pages: Mutex<Pages>,
    new: Mutex<HashMap<Fingerprint, u64>>,
    table_reads: AtomicU64,
}

/// Bits of a fingerprint that decide on its page, and those that a table's entry has.
fn bits(fingerprint: &Fingerprint) -> (u64, u32) {
    let [a, b, c, d, e, f, g, h, i, j, k, l, ..] = fingerprint.0;
    (u64::from_le_bytes([a, b, c, d, e, f, g, h]), u32::from_le_bytes([i, j, k, l]))
}

fn page_of(fingerprint: &Fingerprint, pages: u64) -> u64 {
    ((u128::from(bits(fingerprint).0) * u128::from(pages)) >> 64) as u64
}

fn u64_of(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |first| u64::from_le_bytes(*first))
}

/// The place of the entry whose first bytes are `key`; a place is never 0 in a page that has entries.
fn find(page: &[u8], entry_bytes: usize, key: &[u8]) -> Option<u64> {
    let entries = page.chunks_exact(entry_bytes);
    entries.into_iter().find(|entry| entry.starts_with(key)).map(|entry| u64_of(&entry[key.len()..]) - 1)
}

/// Pages of entries, by page.
fn filled(
    entries: &[(Fingerprint, u64)],
    pages: u64,
    entry_bytes: usize,
    key: fn(&Fingerprint) -> Vec<u8>,
) -> Vec<BufMut> {
    let mut filled: Vec<(BufMut, usize)> = (0..pages).map(|_| (BufMut::zeroed(PAGE_BYTES as usize), 0)).collect();
    for (fingerprint, place) in entries {
        let (page, used) = &mut filled[page_of(fingerprint, pages) as usize];
        let bytes = [&key(fingerprint)[..], &(place + 1).to_le_bytes()].concat();
        // What does not fit is not in the index, as in any index of fixed buckets; the planned fill makes it rare.
        if *used + entry_bytes <= PAGE_BYTES as usize {
            page[*used..*used + entry_bytes].copy_from_slice(&bytes);
            *used += entry_bytes;
        }
    }
    filled.into_iter().map(|(page, _)| page).collect()
}

impl<D: Device, S: Device> TwoLevels<D, S> {
    pub(super) fn new(disk: Arc<D>, placement: Placement, ssd: Option<Arc<S>>) -> Self {
        Self { disk, placement, ssd, pages: Mutex::default(), new: Mutex::default(), table_reads: AtomicU64::new(0) }
    }

    /// The number of reads of the table.
    pub(super) fn table_reads(&self) -> u64 {
        self.table_reads.load(Relaxed)
    }

    /// The level that a read of the disk at `offset` is of, counted from 1.
    pub(super) fn level(&self, offset: u64) -> usize {
        if self.pages.lock().first.contains(&offset) { 1 } else { 2 }
    }

    /// Writes all entries to disk and SSD. Afterwards, RAM has only newer ones.
    pub(super) async fn settle(&self) -> Result<u64, DeviceError> {
        let mut entries: Vec<_> = self.new.lock().drain().collect();
        entries.sort_unstable_by_key(|(fingerprint, place)| (fingerprint.0, *place));
        let count = entries.len() as u64;
        let buckets = pages_for(count, ENTRY_BYTES);
        let first = buckets.div_ceil(ADDRESSES);
        let address = |page: u64| self.placement.of_page(page);
        for page in 0..first {
            let mut bytes = BufMut::zeroed(PAGE_BYTES as usize);
            for (bucket, field) in
                (page * ADDRESSES..buckets).zip(bytes.chunks_exact_mut(ADDRESS_BYTES)).take(ADDRESSES as usize)
            {
                field.copy_from_slice(&address(first + bucket).to_le_bytes());
            }
            self.disk.write(address(page), bytes.freeze()).await?;
        }
        for (bucket, page) in (0..).zip(filled(&entries, buckets, ENTRY_BYTES, |f| f.0.to_vec())) {
            self.disk.write(address(first + bucket), page.freeze()).await?;
        }
        let table = pages_for(count, SHORT_ENTRY_BYTES);
        if let Some(ssd) = &self.ssd {
            let short = |f: &Fingerprint| bits(f).1.to_le_bytes().to_vec();
            for (number, page) in (0..).zip(filled(&entries, table, SHORT_ENTRY_BYTES, short)) {
                ssd.write(number * PAGE_BYTES, page.freeze()).await?;
            }
        }
        *self.pages.lock() = Pages { buckets, table, first: (0..first).map(address).collect() };
        Ok(count)
    }

    async fn on_ssd(&self, fingerprint: &Fingerprint) -> Result<Option<u64>, DeviceError> {
        let Some(ssd) = &self.ssd else { return Ok(None) };
        let page = page_of(fingerprint, self.pages.lock().table);
        self.table_reads.fetch_add(1, Relaxed);
        let page = ssd.read(page * PAGE_BYTES, PAGE_BYTES as usize).await?;
        Ok(find(&page, SHORT_ENTRY_BYTES, &bits(fingerprint).1.to_le_bytes()))
    }

    async fn on_disk(&self, fingerprint: &Fingerprint) -> Result<Option<u64>, DeviceError> {
        let bucket = page_of(fingerprint, self.pages.lock().buckets);
        let first: Bytes = self.disk.read(self.placement.of_page(bucket / ADDRESSES), PAGE_BYTES as usize).await?;
        let address = u64_of(&first[(bucket % ADDRESSES) as usize * ADDRESS_BYTES..]);
        let second = self.disk.read(address, PAGE_BYTES as usize).await?;
        Ok(find(&second, ENTRY_BYTES, &fingerprint.0))
    }
}

/// The index as a store uses it.
pub(super) struct Used<D, S>(pub(super) Arc<TwoLevels<D, S>>);

impl<D: Device, S: Device> ContentIndex for Used<D, S> {
    fn get<'a>(
        &'a self,
        fingerprint: &'a Fingerprint,
        is_exact: bool,
    ) -> LocalBoxFuture<'a, Result<Option<u64>, DeviceError>> {
        async move {
            let new = self.0.new.lock().get(fingerprint).copied();
            if new.is_some() {
                return Ok(new);
            }
            match if is_exact { None } else { self.0.on_ssd(fingerprint).await? } {
                Some(place) => Ok(Some(place)),
                None => self.0.on_disk(fingerprint).await,
            }
        }
        .boxed_local()
    }

    fn enter(&self, fingerprint: &Fingerprint, place: u64) {
        self.0.new.lock().insert(*fingerprint, place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nitro_device::RamDevice;
    use nitro_testkit::VirtualTime;

    #[test]
    fn an_entry_takes_two_reads_of_the_disk_or_one_of_the_ssd() {
        let disk = Arc::new(crate::data_domain::noted::Noted::new(RamDevice::new(2 << 30, 4096)));
        let ssd = Arc::new(RamDevice::new(1 << 20, 4096));
        let content = |n: u64| crate::store::bed::content(crate::load::mix(n));
        for table in [None, Some(ssd)] {
            let with_table = table.is_some();
            let index = Arc::new(TwoLevels::new(
                Arc::clone(&disk),
                Placement::new(64 << 20, 64 << 20, spread_pages(30_000)),
                table,
            ));
            let used = Used(Arc::clone(&index));
            (0..20_000).for_each(|n| used.enter(&content(n), n));
            let clock = VirtualTime::default();
            clock.run(index.settle()).unwrap();
            used.enter(&content(20_000), 20_000);
            disk.take();
            for n in (0..20_000).step_by(97).chain([20_000]) {
                assert_eq!(clock.run(used.get(&content(n), false)).unwrap(), Some(n));
                let levels: Vec<usize> = disk.take().iter().map(|read| index.level(read.offset)).collect();
                assert!(levels == if with_table || n == 20_000 { vec![] } else { vec![1, 2] }, "{levels:?}");
                assert_eq!(clock.run(used.get(&content(n), true)).unwrap(), Some(n));
                disk.take();
            }
            assert_eq!(clock.run(used.get(&content(30_000), false)).unwrap(), None);
        }
    }
}
