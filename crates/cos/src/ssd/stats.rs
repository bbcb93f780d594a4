//! What an SSD holds and did.

use super::{Inner, PieceKind, Ssd};
use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The state of an SSD.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SsdState {
    /// Its content was kept: it belongs to this store and is up to date.
    Kept,
    /// It was emptied.
    Emptied {
        /// Why.
        why: String,
    },
    /// It failed, and is not used any more.
    Failed {
        /// Why.
        why: String,
    },
}

/// Statistics of the pieces of one kind on an SSD.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct SsdPieces {
    /// `fmd`: blocks of recipes; `fpi`: pages of the fingerprint index; `data`: chunks.
    pub kind: &'static str,
    /// Pieces that can be hit.
    pub pieces: u64,
    /// Look-ups that found one.
    pub hits: u64,
    /// Look-ups that did not.
    pub misses: u64,
    /// Bytes of pieces that were stored.
    pub stored_bytes: u64,
}

/// What an SSD holds and did since it was attached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SsdStats {
    /// How it is.
    pub state: SsdState,
    /// Bytes of its units.
    pub size_bytes: u64,
    /// Units.
    pub units: u64,
    /// Units that hold nothing.
    pub units_free: u64,
    /// Units that were evicted.
    pub units_evicted: u64,
    /// Bytes that were written to it.
    pub written_bytes: u64,
    /// Reads that failed.
    pub read_errors: u64,
    /// Pieces that failed their check.
    pub damaged: u64,
    /// RAM in bytes that it takes.
    pub ram_bytes: u64,
    /// By kind.
    pub pieces: [SsdPieces; PieceKind::ALL.len()],
}

#[derive(Debug, Default)]
struct Tally {
    hits: AtomicU64,
    misses: AtomicU64,
    stored_bytes: AtomicU64,
}

/// What an SSD counts.
#[derive(Debug, Default)]
pub(super) struct Tallies {
    kinds: [Tally; PieceKind::ALL.len()],
    pub(super) read_errors: AtomicU64,
    pub(super) damaged: AtomicU64,
    pub(super) written_bytes: AtomicU64,
}

impl Tallies {
    pub(super) fn looked_up(&self, kind: PieceKind, is_hit: bool) {
        let tally = &self.kinds[kind.index()];
        let count = if is_hit { &tally.hits } else { &tally.misses };
        count.fetch_add(1, Relaxed);
    }

    pub(super) fn stored(&self, kind: PieceKind, bytes: usize) {
        self.kinds[kind.index()].stored_bytes.fetch_add(bytes as u64, Relaxed);
    }
}

impl Ssd {
    /// What it holds and did.
    pub(crate) fn stats(&self) -> SsdStats {
        let inner = self.inner.lock();
        let (stats, by_class) = (inner.manager.stats(), inner.manager.cached_by_class());
        let ram_bytes = self.ram_bytes_of(&inner);
        drop(inner);
        let pieces = PieceKind::ALL.map(|kind| {
            let tally = &self.tallies.kinds[kind.index()];
            SsdPieces {
                kind: kind.name(),
                pieces: by_class[kind.class().index()],
                hits: tally.hits.load(Relaxed),
                misses: tally.misses.load(Relaxed),
                stored_bytes: tally.stored_bytes.load(Relaxed),
            }
        });
        SsdStats {
            state: match self.failed.get() {
                Some(why) => SsdState::Failed { why: why.clone() },
                None => self.started.clone(),
            },
            size_bytes: u64::from(self.superblock.units) * u64::from(self.superblock.unit_bytes),
            units: stats.weus,
            units_free: stats.weus_free,
            units_evicted: stats.weus_evicted,
            written_bytes: self.tallies.written_bytes.load(Relaxed),
            read_errors: self.tallies.read_errors.load(Relaxed),
            damaged: self.tallies.damaged.load(Relaxed),
            ram_bytes,
            pieces,
        }
    }

    fn ram_bytes_of(&self, inner: &Inner) -> u64 {
        let units = inner.open.iter().flatten().count() + inner.sealed.len();
        inner.manager.index_ram_bytes() as u64 + units as u64 * u64::from(self.superblock.unit_bytes)
    }

    /// RAM in bytes that it takes at the moment, about.
    pub(crate) fn ram_bytes(&self) -> u64 {
        self.ram_bytes_of(&self.inner.lock())
    }

    /// The maximum RAM in bytes that it takes.
    pub(crate) const fn ram_need_bytes(&self) -> u64 {
        self.ram_need_bytes
    }
}
