//! The origin in virtual time: an operation consists of stages, and a stage of parallel disk requests.

use super::disks::{Array, DiskRequest};
use super::settings::{Cos, Origin as Kind, Timing};
use crate::policies::{Lru, Policy};
use crate::workload::Piece;
use hashbrown::HashMap;
use std::collections::VecDeque;
use std::time::Duration;

/// Bytes of a metadata request.
const METADATA_BYTES: u64 = 4096;
/// Bytes of a fingerprint in a recipe.
const RECIPE_ENTRY_BYTES: u64 = 20;
/// An object's number times this share of the array, modulo the array, is its beginning: the golden ratio spreads any
/// number of objects.
const PLACE: f64 = 0.618_033_988_749_894_9;

/// The number of an operation.
pub(super) type OperationId = u64;

/// An operation in progress.
#[derive(Debug, Default)]
struct Operation {
    stages: VecDeque<Vec<DiskRequest>>,
    /// Requests of the current stage that have not ended.
    left: usize,
    background: bool,
}

/// The origin.
pub(super) struct Origin {
    array: Array,
    cos: Option<Cos>,
    recipes: Lru,
    extent_bytes: u64,
    operations: HashMap<OperationId, Operation>,
    next: OperationId,
    /// The state of the pseudo-random positions of metadata.
    scatter: u64,
    /// The position of the next container.
    log: u64,
    /// The times when disks end their current requests.
    pub(super) events: Vec<(Duration, u32)>,
}

impl Origin {
    pub(super) fn new(timing: &Timing, extent_bytes: u32) -> Self {
        let cos = match timing.origin {
            Kind::Tps => None,
            Kind::Cos(cos) => Some(cos),
        };
        let blocks = cos.map_or(1, |cos| {
            let block_bytes = (cos.recipe_span_bytes / u64::from(extent_bytes)).max(1) * RECIPE_ENTRY_BYTES;
            (cos.recipe_cache_bytes / block_bytes).clamp(1, 1 << 24)
        });
        Self {
            array: Array::new(&timing.disks),
            cos,
            recipes: Lru::new(blocks as u32),
            extent_bytes: extent_bytes.into(),
            operations: HashMap::new(),
            next: 0,
            scatter: 0,
            log: 0,
            events: Vec::new(),
        }
    }

    pub(super) const fn busy(&self) -> Duration {
        self.array.busy()
    }

    /// Reads the extents of a run.
    pub(super) fn read(&mut self, now: Duration, run: &[Piece]) -> OperationId {
        let stages = match self.cos {
            None => {
                let (at, len) = self.place(run);
                VecDeque::from([self.array.locate(at, len).collect()])
            }
            Some(cos) => self.cos_read(&cos, run),
        };
        self.begin(now, stages, false)
    }

    /// Looks up the fingerprints of extents; `None` if the recipe cache has them.
    pub(super) fn read_recipe(&mut self, now: Duration, run: &[Piece]) -> Option<OperationId> {
        let cos = self.cos?;
        let stages = self.recipe_stages(&cos, run);
        if stages.is_empty() { None } else { Some(self.begin(now, stages, false)) }
    }

    /// Writes the extents of a run. `known`: the number of extents whose content the origin has, as far as the cache
    /// knows.
    pub(super) fn write(&mut self, now: Duration, run: &[Piece], known: usize, background: bool) -> OperationId {
        let stages = match self.cos {
            None => self.tps_write(run),
            Some(cos) => self.cos_write(&cos, run, known),
        };
        self.begin(now, stages, background)
    }

    fn tps_write(&mut self, run: &[Piece]) -> VecDeque<Vec<DiskRequest>> {
        let (at, len) = self.place(run);
        let mut all: Vec<DiskRequest> = self.array.locate(at, len).collect();
        all.extend(self.array.parity(at, len));
        // The new parity is computed from old data, old parity and new data.
        let reads = !self.array.is_whole_rows(at, len) && all.len() > self.array.locate(at, len).count();
        let mut stages = VecDeque::new();
        if reads {
            stages.push_back(all.clone());
        }
        stages.push_back(all);
        stages
    }

    fn cos_read(&mut self, cos: &Cos, run: &[Piece]) -> VecDeque<Vec<DiskRequest>> {
        let mut stages = self.recipe_stages(cos, run);
        for _ in 0..cos.lookup_ios {
            let lookups = run.iter().map(|_| self.metadata()).collect();
            stages.push_back(lookups);
        }
        let data = run.iter().map(|piece| self.container(cos, piece)).collect();
        stages.push_back(data);
        stages
    }

    fn cos_write(&mut self, cos: &Cos, run: &[Piece], known: usize) -> VecDeque<Vec<DiskRequest>> {
        let unknown = run.len().saturating_sub(known) as u64;
        let mut stages = VecDeque::new();
        // Content that the cache does not know is looked up in the origin's index and appended to a container.
        for _ in 0..if unknown > 0 { cos.lookup_ios } else { 0 } {
            stages.push_back(vec![self.metadata()]);
        }
        if unknown > 0 {
            let len = unknown * self.extent_bytes / 2;
            let end = self.array.data_bytes();
            let at = if self.log + len > end { 0 } else { self.log };
            self.log = at + len;
            stages.push_back(self.array.locate(at, len).collect());
        }
        for _ in 0..cos.write_ios {
            stages.push_back(vec![self.metadata()]);
        }
        stages
    }

    /// Reads of the recipe blocks that are not in the recipe cache.
    fn recipe_stages(&mut self, cos: &Cos, run: &[Piece]) -> VecDeque<Vec<DiskRequest>> {
        let span = (cos.recipe_span_bytes / self.extent_bytes).max(1);
        let mut missing = Vec::new();
        for piece in run {
            let block = (piece.key.index().0 / span) << 16 | u64::from(piece.key.object().0);
            if !self.recipes.access(block) {
                missing.push(self.metadata());
            }
        }
        if missing.is_empty() { VecDeque::new() } else { VecDeque::from([missing]) }
    }

    /// A metadata request at a pseudo-random position.
    fn metadata(&mut self) -> DiskRequest {
        self.scatter = self.scatter.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let blocks = self.array.data_bytes() / METADATA_BYTES;
        let at = (self.scatter >> 16) % blocks * METADATA_BYTES;
        self.one(at, METADATA_BYTES)
    }

    /// The part of a container with an extent's content, chosen by its fingerprint.
    fn container(&self, cos: &Cos, piece: &Piece) -> DiskRequest {
        let (words, _) = piece.fingerprint.0.as_chunks::<8>();
        let len = u64::from(cos.container_read_bytes.max(512));
        let at = u64::from_le_bytes(words[0]) % (self.array.data_bytes() / len) * len;
        self.one(at, len)
    }

    /// A request on the disk of its first byte.
    fn one(&self, at: u64, len: u64) -> DiskRequest {
        let first = self.array.locate(at, 1).next();
        first.map_or(DiskRequest { disk: 0, offset: 0, len }, |first| DiskRequest { len, ..first })
    }

    /// The range of a run on the array.
    fn place(&self, run: &[Piece]) -> (u64, u64) {
        let (Some(first), Some(last)) = (run.first(), run.last()) else { return (0, 0) };
        let end = self.array.data_bytes();
        let base = (f64::from(first.key.object().0) * PLACE).fract() * end as f64;
        let from = first.key.index().0 * self.extent_bytes + u64::from(first.offset);
        let to = last.key.index().0 * self.extent_bytes + u64::from(last.offset) + u64::from(last.len);
        // At a border of regions, the last extent may have a lower number than the first.
        let len = to.checked_sub(from).unwrap_or_else(|| run.iter().map(|piece| u64::from(piece.len)).sum()).min(end);
        ((base as u64 / 4096 * 4096).wrapping_add(from) % (end - len).max(1), len)
    }

    fn begin(&mut self, now: Duration, stages: VecDeque<Vec<DiskRequest>>, background: bool) -> OperationId {
        let id = self.next;
        self.next += 1;
        self.operations.insert(id, Operation { stages, left: 0, background });
        self.advance(now, id);
        id
    }

    /// Starts the next stage of an operation; returns whether the operation has ended.
    fn advance(&mut self, now: Duration, id: OperationId) -> bool {
        let Some(operation) = self.operations.get_mut(&id) else { return true };
        let Some(stage) = operation.stages.pop_front() else {
            self.operations.remove(&id);
            return true;
        };
        operation.left = stage.len();
        let background = operation.background;
        for request in stage {
            let begun = self.array.ask(now, id, request, background);
            self.events.extend(begun.map(|done| (done, request.disk)));
        }
        false
    }

    /// Ends the request of a disk; returns its operation if that has ended too.
    pub(super) fn disk_done(&mut self, now: Duration, disk: u32) -> Option<OperationId> {
        let (id, next) = self.array.done(disk, now);
        self.events.extend(next.map(|done| (done, disk)));
        let id = id?;
        let operation = self.operations.get_mut(&id)?;
        operation.left -= 1;
        if operation.left > 0 {
            return None;
        }
        self.advance(now, id).then_some(id)
    }
}
