//! Extents in the order of their classes: a list in LRU order for each rank, and eviction from the lowest rank.

use super::plain::{capacity, hit_time};
use super::{Hit, Model, Totals};
use crate::Error;
use crate::policies::nodes::{List, Nodes};
use crate::rank;
use crate::settings::Settings;
use crate::workload::Piece;
use nitro_cache::Stats;
use nitro_cache::class::{Allocation, Classes};
use nitro_model::{Counters, Nanos};
use nitro_trace::Op;
use nitro_units::ClassId;

/// A cache of single extents that evicts by class.
pub(crate) struct Ordered {
    nodes: Nodes,
    /// By rank.
    lists: Vec<List>,
    /// The class of each node.
    classes: Vec<ClassId>,
    capacity: u32,
    policies: Classes,
    by_band: bool,
    only_writes: bool,
    now: Nanos,
    hit_ns: Nanos,
    stats: Stats,
    extent_bytes: u64,
    usable_bytes: u64,
}

impl Ordered {
    pub(crate) fn new(settings: &Settings, by_band: bool) -> Self {
        let capacity = capacity(settings).max(1);
        Self {
            nodes: Nodes::new(capacity),
            lists: vec![List::default(); ClassId::COUNT + 1],
            classes: vec![ClassId::UNCLASSIFIED; capacity as usize],
            capacity,
            policies: settings.classes,
            by_band,
            only_writes: settings.only_writes_allocate,
            now: Nanos::ZERO,
            hit_ns: hit_time(settings),
            stats: Stats::default(),
            extent_bytes: settings.extent_bytes.into(),
            usable_bytes: settings.cache_bytes,
        }
    }

    fn rank(&self, class: ClassId) -> usize {
        if self.by_band { self.policies.of(class).priority.index() } else { rank::of_class(class).into() }
    }

    fn len(&self) -> u32 {
        self.lists.iter().map(List::len).sum()
    }

    /// Whether the class of an extent lets it enter.
    fn may_enter(&self, piece: &Piece) -> bool {
        let policy = self.policies.of(piece.class());
        let is_wanted = if piece.op() == Op::Write { policy.on_write } else { policy.on_read && !self.only_writes };
        is_wanted && policy.allocation != Allocation::Never
    }

    fn remove(&mut self, node: u32) {
        let rank = self.rank(self.classes[node as usize]);
        self.nodes.unlink(&mut self.lists[rank], node);
        self.nodes.drop_node(node);
    }
}

impl Model for Ordered {
    fn set_now(&mut self, now: Nanos) {
        self.now = now;
    }

    fn read(&mut self, piece: &Piece) -> Result<Option<Hit>, Error> {
        let Some(node) = self.nodes.find(piece.key.raw()) else { return Ok(None) };
        let rank = self.rank(self.classes[node as usize]);
        self.nodes.refresh(&mut self.lists[rank], node);
        Ok(Some(Hit { done: self.now + self.hit_ns, compressed: false, staged: false }))
    }

    fn has(&self, key: nitro_units::ExtentKey) -> bool {
        self.nodes.find(key.raw()).is_some()
    }

    fn insert(&mut self, piece: &Piece) -> Result<bool, Error> {
        if !self.may_enter(piece) {
            return Ok(false);
        }
        if let Some(node) = self.nodes.find(piece.key.raw()) {
            self.remove(node);
        }
        if self.len() >= self.capacity
            && let Some(lowest) = self.lists.iter().position(|list| list.len() > 0)
        {
            self.remove(self.lists[lowest].oldest());
            self.stats.weus_evicted += 1;
        }
        let (node, rank) = (self.nodes.add(piece.key.raw()), self.rank(piece.class()));
        self.classes[node as usize] = piece.class();
        self.nodes.push(&mut self.lists[rank], node);
        self.stats.insertions += 1;
        self.stats.inserted_bytes += self.extent_bytes;
        self.stats.unique_bytes += self.extent_bytes;
        self.stats.stored_bytes += self.extent_bytes;
        Ok(false)
    }

    fn forget(&mut self, piece: &Piece) -> Result<bool, Error> {
        let node = self.nodes.find(piece.key.raw());
        if let Some(node) = node {
            self.remove(node);
        }
        Ok(node.is_some())
    }

    fn totals(&self) -> Totals {
        let cache = Stats { cached_extents: self.len().into(), ..self.stats };
        Totals { cache, flash: Counters::default() }
    }

    fn cached_by_class(&self) -> Option<[u64; ClassId::COUNT]> {
        None
    }

    fn ram_bytes(&self) -> u64 {
        (self.nodes.ram_bytes() + self.classes.capacity()) as u64
    }

    fn page_bytes(&self) -> u32 {
        0
    }

    fn usable_bytes(&self) -> u64 {
        self.usable_bytes
    }
}
