//! Caches for comparison: policies over extents, the optimum, and no cache. They have no duplicates and no SSD, and
//! admit every extent that is read or written.

use super::{Hit, Model, Totals};
use crate::Error;
use crate::policies::{Policy, PolicyKind};
use crate::settings::Settings;
use crate::workload::Piece;
use nitro_cache::Stats;
use nitro_model::{Counters, Nanos};
use nitro_trace::Op;

/// The number of extents in the cache.
pub(crate) fn capacity(settings: &Settings) -> u32 {
    u32::try_from(settings.cache_bytes / u64::from(settings.extent_bytes)).unwrap_or(u32::MAX)
}

/// The time of a hit of a cache that has no modelled SSD.
pub(super) fn hit_time(settings: &Settings) -> Nanos {
    settings.timing.map_or(Nanos::ZERO, |timing| timing.ssd.read_time())
}

/// A cache with a plain policy.
pub(crate) struct Plain {
    policy: Box<dyn Policy + Send>,
    now: Nanos,
    /// The time of a hit, if timing is modelled: that of a read of the SSD, without waiting for others.
    hit_ns: Nanos,
    /// What a read misses is not inserted.
    only_writes: bool,
    stats: Stats,
    extent_bytes: u64,
    usable_bytes: u64,
}

impl Plain {
    pub(crate) fn new(settings: &Settings, kind: PolicyKind) -> Self {
        Self {
            policy: kind.build(capacity(settings)),
            now: Nanos::ZERO,
            hit_ns: hit_time(settings),
            only_writes: settings.only_writes_allocate,
            stats: Stats::default(),
            extent_bytes: settings.extent_bytes.into(),
            usable_bytes: settings.cache_bytes,
        }
    }

    fn admitted(&mut self) {
        self.stats.insertions += 1;
        self.stats.inserted_bytes += self.extent_bytes;
        self.stats.unique_bytes += self.extent_bytes;
        self.stats.stored_bytes += self.extent_bytes;
    }
}

impl Model for Plain {
    fn set_now(&mut self, now: Nanos) {
        self.now = now;
    }

    fn read(&mut self, piece: &Piece) -> Result<Option<Hit>, Error> {
        if self.only_writes && !self.policy.has(piece.key.raw()) {
            return Ok(None);
        }
        let hit = self.policy.access(piece.key.raw());
        Ok(hit.then_some(Hit { done: self.now + self.hit_ns, compressed: false, staged: false }))
    }

    /// A read inserted its extents already.
    fn insert(&mut self, piece: &Piece) -> Result<bool, Error> {
        if piece.op() == Op::Write {
            self.policy.access(piece.key.raw());
        }
        self.admitted();
        Ok(false)
    }

    /// Writes are inserted whether or not the extent was cached.
    fn forget(&mut self, _piece: &Piece) -> Result<bool, Error> {
        Ok(true)
    }

    fn totals(&self) -> Totals {
        let cache = Stats { cached_extents: self.policy.len(), ..self.stats };
        Totals { cache, flash: Counters::default() }
    }

    fn ram_bytes(&self) -> u64 {
        self.policy.ram_bytes() as u64
    }

    fn page_bytes(&self) -> u32 {
        0
    }

    fn usable_bytes(&self) -> u64 {
        self.usable_bytes
    }
}

/// A sequence of hits that was computed before: the optimum's, or none.
pub(crate) struct Foretold {
    /// For each extent read or written, in order: whether it is cached.
    hits: std::vec::IntoIter<bool>,
    now: Nanos,
    usable_bytes: u64,
}

impl Foretold {
    pub(crate) fn new(hits: Vec<bool>, usable_bytes: u64) -> Self {
        Self { hits: hits.into_iter(), now: Nanos::ZERO, usable_bytes }
    }
}

impl Model for Foretold {
    fn set_now(&mut self, now: Nanos) {
        self.now = now;
    }

    fn read(&mut self, _piece: &Piece) -> Result<Option<Hit>, Error> {
        Ok(self.hits.next().unwrap_or(false).then_some(Hit { done: self.now, compressed: false, staged: false }))
    }

    fn insert(&mut self, _piece: &Piece) -> Result<bool, Error> {
        Ok(false)
    }

    fn forget(&mut self, piece: &Piece) -> Result<bool, Error> {
        if piece.op() == Op::Write {
            self.hits.next();
        }
        Ok(true)
    }

    fn totals(&self) -> Totals {
        Totals::default()
    }

    fn ram_bytes(&self) -> u64 {
        0
    }

    fn page_bytes(&self) -> u32 {
        0
    }

    fn usable_bytes(&self) -> u64 {
        self.usable_bytes
    }
}
