//! Statistics of an SSD.

use super::{Inner, PieceKind, Short, ShortStats, Ssd};
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
        /// The reason.
        why: String,
    },
    /// It failed, and is no longer used.
    Failed {
        /// The reason.
        why: String,
    },
}

/// Statistics of the pieces of one kind on an SSD.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct SsdPieces {
    /// `fmd`: recipe blocks; `fpi`: pages of the fingerprint index, or of short fingerprints; `data`: chunks.
    pub kind: &'static str,
    /// The number of cached pieces.
    pub pieces: u64,
    /// The number of look-ups that found their piece.
    pub hits: u64,
    /// The number of look-ups that did not find their piece.
    pub misses: u64,
    /// Bytes of the pieces that were stored.
    pub stored_bytes: u64,
}

/// Statistics of an SSD since it was attached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SsdStats {
    /// The state of the SSD.
    pub state: SsdState,
    /// Bytes of all units.
    pub size_bytes: u64,
    /// The number of units.
    pub units: u64,
    /// The number of empty units.
    pub units_free: u64,
    /// The number of units that were evicted.
    pub units_evicted: u64,
    /// Bytes written to the SSD.
    pub written_bytes: u64,
    /// The number of failed reads.
    pub read_errors: u64,
    /// The number of pieces that failed their check.
    pub damaged: u64,
    /// RAM in use, in bytes.
    pub ram_bytes: u64,
    /// Statistics by kind of piece.
    pub pieces: [SsdPieces; PieceKind::ALL.len()],
    /// Statistics of short fingerprints, if the SSD has them.
    pub short: Option<ShortStats>,
}

#[derive(Debug, Default)]
struct Tally {
    hits: AtomicU64,
    misses: AtomicU64,
    stored_bytes: AtomicU64,
}

/// The counters of an SSD.
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
    /// The statistics of the SSD.
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
            short: self.short_stats(),
        }
    }

    fn ram_bytes_of(&self, inner: &Inner) -> u64 {
        let units = inner.open.iter().flatten().count() + inner.sealed.len();
        let short = self.short.as_ref().map_or(0, Short::ram_bytes);
        short + inner.manager.index_ram_bytes() as u64 + units as u64 * u64::from(self.superblock.unit_bytes)
    }

    /// The approximate RAM in use, in bytes.
    pub(crate) fn ram_bytes(&self) -> u64 {
        self.ram_bytes_of(&self.inner.lock())
    }

    /// The maximum RAM in bytes.
    pub(crate) const fn ram_need_bytes(&self) -> u64 {
        self.ram_need_bytes
    }
}
