//! Conversion (SILT §4.2): a log becomes a hash store.
//!
//! The log is read several times, each time for a range of hashes, whose entries are sorted in RAM. Of several entries
//! of a key, the newest is kept.

use super::filter::{Filter, FilterBuilder};
use super::hashed::Hashed;
use super::log::{self, Log};
use super::pace::Pace;
use super::page::{Layout, PageKind};
use super::plan::SORT_BYTES;
use super::run::{Run, RunWriter};
use super::stores::HashStore;
use super::{Change, Silt};
use crate::{Error, PAGE_BYTES};
use nitro_port::Device;
use std::sync::Arc;

/// The number of entries between two yields to other tasks.
const TURN: usize = 2048;

/// The entries of a range of hashes.
struct Sorter {
    entry_bytes: usize,
    bytes: Vec<u8>,
    /// The hash of each entry and its number in `bytes`; the lowest bit of the latter is 1 if the key was removed.
    order: Vec<(u64, u32)>,
}

impl Sorter {
    fn push(&mut self, hash: u64, key: &[u8], value: &[u8], removal: bool) {
        let number = (self.bytes.len() / self.entry_bytes) as u32;
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        self.order.push((hash, number << 1 | u32::from(removal)));
    }

    fn entry(&self, place: u32) -> &[u8] {
        let at = (place >> 1) as usize * self.entry_bytes;
        &self.bytes[at..at + self.entry_bytes]
    }

    fn sort(&mut self, key_bytes: usize) {
        let mut order = std::mem::take(&mut self.order);
        let key = |place: u32| &self.entry(place)[..key_bytes];
        // The newest entry of a key comes first.
        order.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| key(a.1).cmp(key(b.1))).then(b.1.cmp(&a.1)));
        order.dedup_by(|later, first| later.0 == first.0 && key(later.1) == key(first.1));
        self.order = order;
    }
}

/// The number of the range, of `count`, that contains a hash.
fn range_of(hash: u64, count: u32) -> u32 {
    ((u128::from(hash) * u128::from(count)) >> 64) as u32
}

impl<D: Device> Silt<D> {
    /// Converts the closed log of a partition; returns false if there is none.
    pub(super) async fn convert(&self, partition: usize, pace: &impl Pace) -> Result<bool, Error> {
        let _role = self.converting.lock().await;
        while self.hash_stores() >= self.plan.hash_stores_max() {
            self.merge_next(pace, self.plan.hash_stores_max()).await?;
        }
        let Some(log) = self.partitions[partition].stores().closed.clone() else { return Ok(false) };
        self.io.check()?;
        log.write_out(&self.io).await?;
        let made = self.write_hash_store(&log, pace).await?;
        let (entries, _) = log.entries();
        let kept = made.as_ref().map_or(0, |(run, _)| run.entries);
        let store = made.map(|(run, filter)| Arc::new(HashStore { run, filter }));
        let next = self.new_log().await?;
        self.install(partition, Change::Converted { store, next: Arc::new(next) }).await?;
        log.segment.retire();
        self.forget_held(entries - kept);
        Ok(true)
    }

    async fn write_hash_store(&self, log: &Log, pace: &impl Pace) -> Result<Option<(Run, Filter)>, Error> {
        let (entries, _) = log.entries();
        let (shape, pages, bits) = (self.plan.shape, log.pages(), self.plan.partition_bits());
        let ranges = (pages as usize * PAGE_BYTES).div_ceil(SORT_BYTES).max(1) as u32;
        let piece = self.plan.piece_pages();
        let layout = Layout::new(PageKind::Hash, shape);
        let mut writer = RunWriter::new(&self.io, &self.space, self.next_id(), layout, self.plan.segment_pages, piece);
        let mut filter = FilterBuilder::new(entries);
        let room = entries as usize / ranges as usize * 9 / 8 + 64;
        let _buffers = self.io.buffers(room * (shape.entry_bytes() + 16) + 2 * piece as usize * PAGE_BYTES);
        let entry_bytes = shape.entry_bytes();
        let mut sorter =
            Sorter { entry_bytes, bytes: Vec::with_capacity(room * entry_bytes), order: Vec::with_capacity(room) };
        for range in 0..ranges {
            sorter.bytes.clear();
            sorter.order.clear();
            let from = log.layout();
            log::scan(log, &self.io, pages, piece, |_, page, entries| {
                for i in 0..entries.unwrap_or(0) {
                    let (key, value) = from.entry(page, i);
                    let hashed = Hashed::new(key, self.io.seed, bits);
                    if range_of(hashed.local, ranges) == range {
                        sorter.push(hashed.local, key, value, from.is_removal(page, i));
                    }
                }
            })
            .await?;
            pace.turn(0).await;
            sorter.sort(shape.key_bytes.into());
            for (n, (hash, place)) in sorter.order.iter().enumerate() {
                writer.make_room(self.held()).await?;
                let (key, value) = shape.split(sorter.entry(*place));
                filter.push(*hash);
                let full = writer.push(key, (place & 1 == 0).then_some(value));
                if full || n % TURN == TURN - 1 {
                    let written = if full { writer.write_piece().await? } else { 0 };
                    pace.turn(written).await;
                }
            }
        }
        Ok(writer.finish().await?.map(|run| (run, filter.finish())))
    }
}
