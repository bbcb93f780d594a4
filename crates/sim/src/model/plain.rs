//! Caches for comparison: policies over extents, the optimum, and no cache. They have no duplicates and no SSD, and
//! admit every extent that is read or written.

use super::{Hit, Model, Totals};
use crate::Error;
use crate::policies::{Policy, PolicyKind};
use crate::settings::Settings;
use crate::workload::Piece;
use nitro_cache::Stats;
use nitro_cache::partial::PartialWrites;
use nitro_model::{Counters, Nanos};
use nitro_trace::Op;
use nitro_units::ExtentKey;

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

    fn has(&self, key: ExtentKey) -> bool {
        self.policy.has(key.raw())
    }

    /// A read inserted its extents already.
    fn insert(&mut self, piece: &Piece) -> Result<bool, Error> {
        if piece.op() == Op::Write {
            self.policy.access(piece.key.raw());
        }
        self.admitted();
        Ok(false)
    }

    /// The extent stays, since policies only know requests: a write that follows is one of them.
    fn forget(&mut self, piece: &Piece) -> Result<bool, Error> {
        Ok(self.has(piece.key))
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

/// Whether the optimum may cache an extent for a request: one that leaves an extent as it is cached, or is not, is none to it.
pub(crate) fn is_request(piece: &Piece, settings: &Settings) -> bool {
    let is_part = piece.len < settings.extent_bytes;
    match piece.op() {
        Op::Read => true,
        Op::Write => !is_part || settings.partial_writes != PartialWrites::Merge,
        Op::Trim | Op::Flush | Op::Other => false,
    }
}

/// A sequence of hits that was computed before: the optimum's, or none.
pub(crate) struct Foretold {
    /// For each [request](is_request), in order: whether its extent is cached.
    hits: std::vec::IntoIter<bool>,
    now: Nanos,
    settings: Settings,
}

impl Foretold {
    pub(crate) fn new(hits: Vec<bool>, settings: &Settings) -> Self {
        Self { hits: hits.into_iter(), now: Nanos::ZERO, settings: *settings }
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

    /// Without a cache, nothing has to be completed.
    fn forget(&mut self, piece: &Piece) -> Result<bool, Error> {
        let was_cached = if is_request(piece, &self.settings) { self.hits.next() } else { None };
        Ok(was_cached.unwrap_or(true))
    }

    /// The optimum knows what will be read.
    fn is_worth_fetching(&self, _key: ExtentKey) -> bool {
        true
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
        self.settings.cache_bytes
    }
}
