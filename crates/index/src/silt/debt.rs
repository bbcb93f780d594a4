//! How background work and inserts keep step. An insert finds no room where a log is full and the log before it is not
//! converted; conversions in turn wait for merges. Inserts of all keys would then stop for as long as a merge takes.
//! Therefore the work that is due is spread over the inserts for which there is room: background work proceeds at least
//! as fast as they use the room up ([`Paced`](super::pace::Paced)). If the device cannot do it as fast, each insert waits
//! until its share of the work is done: inserts become slower, and none of them stops for long.

use super::page::{Layout, PageKind};
use super::plan::MERGED_MAX;
use super::{Silt, Waiting};
use crate::PAGE_BYTES;
use event_listener::{Event, listener};
use nitro_port::Device;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed};

/// Work that was done before inserts had to wait for it counts for later ones up to this number of bytes.
const AHEAD_BYTES_MAX: i64 = 1 << 20;
/// The largest share of one insert, in bytes.
const SHARE_BYTES_MAX: u64 = 1 << 20;

/// The account of background work.
#[derive(Default)]
pub(super) struct Debt {
    /// Bytes that the merge in progress has read and written.
    pub(super) merged_bytes: AtomicU64,
    /// The share of each insert in the work that is due, in bytes.
    share_bytes: AtomicU64,
    /// Bytes of work that were done, less the shares of inserts.
    balance: AtomicI64,
    /// The number of tasks that do background work.
    running: AtomicU32,
    /// A part of the work was done.
    stepped: Event,
}

/// Background work, and the inserts before the first of them finds no room.
pub(super) struct Due {
    /// Bytes to read and write; 0 if nothing can be done at present.
    pub(super) bytes: u64,
    /// The number of inserts of any keys.
    pub(super) inserts: u64,
}

/// Counts a task that does background work.
pub(super) struct Running<'a>(&'a Debt);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Relaxed);
        self.0.changed();
    }
}

impl Debt {
    pub(super) fn run(&self) -> Running<'_> {
        self.running.fetch_add(1, Relaxed);
        Running(self)
    }

    /// Divides the work that is due among inserts.
    pub(super) fn divide(&self, due: &Due) {
        self.share_bytes.store((due.bytes / due.inserts.max(1)).min(SHARE_BYTES_MAX), Relaxed);
        self.changed();
    }

    /// Notes that a part of the work was done.
    pub(super) fn step(&self, bytes: u64, due: &Due) {
        let add = |balance: i64| Some((balance + bytes as i64).min(AHEAD_BYTES_MAX));
        // The closure accepts every balance.
        let _ = self.balance.fetch_update(Relaxed, Relaxed, add);
        self.divide(due);
    }

    /// Lets inserts that wait look again.
    fn changed(&self) {
        self.stepped.notify(usize::MAX);
    }
}

impl<D: Device> Silt<D> {
    /// The work that is due before the room for inserts is used up. Those inserts fill logs, too, which are converted and
    /// merged: without their work, inserts would be fast after each merge, and stop before the next one.
    pub(super) fn due(&self) -> Due {
        let plan = &self.plan;
        let log_entries = plan.log_entries();
        let (mut closed, mut stores, mut most, mut room) = (0, 0, 1, u64::MAX);
        for partition in &self.partitions {
            let partition = partition.stores();
            closed += usize::from(partition.closed.is_some());
            stores += partition.hashes.len();
            most = most.max(partition.hashes.len());
            let logs = if partition.next.is_some() { 2 } else { 1 };
            room = room.min((logs * log_entries).saturating_sub(partition.active.entries().0));
        }
        let inserts = room * u64::from(plan.partitions);
        let merging = stores >= plan.hash_stores as usize;
        if closed == 0 && !merging {
            return Due { bytes: 0, inserts };
        }
        let logs = closed as f64 + inserts as f64 / log_entries as f64;
        // From `hash_stores` on they are merged, those of a partition at a time, with all that it holds.
        let merged = stores as f64 + logs + 1.0 - f64::from(plan.hash_stores);
        let merges = (merged / most.min(MERGED_MAX) as f64).max(f64::from(u8::from(merging)));
        let per_page = Layout::new(PageKind::Sorted, plan.shape).capacity() as u64 * u64::from(plan.partitions);
        let merge_bytes = 2 * self.held().div_ceil(per_page) * PAGE_BYTES as u64;
        let bytes = (logs * plan.segment_bytes() as f64 + merges * merge_bytes as f64) as u64;
        Due { bytes: bytes.saturating_sub(self.debt.merged_bytes.load(Relaxed)), inserts }
    }

    /// Waits, before an insert, until the insert's share of the work that is due is done.
    pub(super) async fn keep_step(&self) {
        let debt = &self.debt;
        let share = debt.share_bytes.load(Relaxed);
        if share == 0 || debt.running.load(Relaxed) == 0 {
            return;
        }
        if debt.balance.fetch_sub(share as i64, Relaxed) >= share as i64 {
            return;
        }
        // Work is not limited meanwhile.
        let _waiting = Waiting::new(&self.waiting);
        loop {
            listener!(debt.stepped => stepped);
            let is_nothing_due = debt.share_bytes.load(Relaxed) == 0 || debt.running.load(Relaxed) == 0;
            if is_nothing_due || debt.balance.load(Relaxed) >= 0 {
                return;
            }
            stepped.await;
        }
    }
}
