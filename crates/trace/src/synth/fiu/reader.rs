//! Generates the requests of an FIU-like trace.

use super::history::History;
use super::{CLUSTER_BLOCKS, DAY_S, FiuLike, INITIAL, SIZES};
use crate::rng::{Rng, hash, unit};
use crate::synth::permutation::Permutation;
use crate::synth::quota::Quota;
use crate::synth::{BLOCK_BYTES, print};
use crate::{Op, Reader, Request, TraceError};

const SECOND_NS: f64 = 1e9;
/// Share of the requests of a history, the newest ones, to which reads do not return: the guest's page cache has their
/// data. An assumption.
const READ_AGE_SHARE: f64 = 1.0 / 4096.0;
/// Seconds before a written block is overwritten: until then, changes are made in the page cache (Linux writes them
/// after 30 s, `dirty_expire`).
const WRITE_AGE_S: f64 = 30.0;
/// Runs of a history per block of the footprint, so that reuse is the same at each scale. An assumption.
const HISTORY_SHARE: f64 = 0.25;
const HISTORY_MIN: usize = 1 << 10;
/// The constants that are assumptions.
pub(super) const ASSUMPTIONS: [f64; 5] =
    [READ_AGE_SHARE, WRITE_AGE_S, HISTORY_SHARE, HISTORY_MIN as f64, INITIAL_RUN as f64];
/// Blocks of a run of the initial content; runs are copied as a whole.
const INITIAL_RUN: u64 = 8;
/// A seed for the copies in the initial content.
const COPIED: u64 = 0x636F_7079;

/// See [`FiuLike::reader`].
#[derive(Debug, Clone)]
pub struct FiuLikeReader {
    parameters: FiuLike,
    rng: Rng,
    /// The permutation from clusters in the order of their first use to places in the volume.
    clusters: Permutation,
    /// Blocks to be touched in total, and those touched so far.
    footprint: u64,
    touched: u64,
    /// The content of each block, by clusters in the order of their first use; 0 is the initial content.
    contents: Vec<u32>,
    /// For each request size, the cluster that is being filled: its first block, and the number of blocks used.
    open: [(u64, u64); SIZES],
    writes: Quota,
    first_reads: Quota,
    first_writes: Quota,
    duplicates: Quota,
    /// The recent requests by size: reads, and writes.
    places: [[History; SIZES]; 2],
    /// The new contents that were written recently.
    sources: History,
    next_content: u32,
    /// Most runs of a history.
    history: f64,
    /// Blocks that are left to be read or written.
    left: u64,
    time_s: f64,
    interval_s: f64,
}

impl FiuLikeReader {
    /// The reader for checked parameters.
    pub(super) fn new(parameters: &FiuLike) -> Self {
        let clusters = parameters.volume_bytes * parameters.scale / (CLUSTER_BLOCKS * BLOCK_BYTES) as f64;
        let mean_blocks: f64 =
            parameters.sizes.iter().enumerate().map(|(class, share)| share * f64::from(1 << class)).sum();
        let blocks = parameters.blocks * parameters.scale;
        let history = ((parameters.footprint_blocks() * HISTORY_SHARE) as usize).max(HISTORY_MIN);
        let requests_per_s = blocks / mean_blocks / (parameters.days * DAY_S);
        Self {
            rng: Rng::new(parameters.seed),
            clusters: Permutation::new(clusters as u64, parameters.seed),
            footprint: parameters.footprint_blocks() as u64,
            touched: 0,
            contents: Vec::new(),
            open: [(0, CLUSTER_BLOCKS); SIZES],
            writes: Quota::new(parameters.writes_per_read / (1.0 + parameters.writes_per_read)),
            first_reads: Quota::new(parameters.first_read_share),
            first_writes: Quota::new(parameters.first_write_share()),
            duplicates: Quota::new(parameters.duplicate_share),
            places: std::array::from_fn(|_| std::array::from_fn(|_| History::new(history))),
            sources: History::new(history),
            history: history as f64,
            next_content: 1,
            left: blocks as u64,
            time_s: 0.0,
            interval_s: 1.0 / requests_per_s,
            parameters: parameters.clone(),
        }
    }

    /// The size of the next request: the binary logarithm of its blocks.
    fn size(&mut self) -> usize {
        let mut above = self.rng.unit();
        for (size, share) in self.parameters.sizes.iter().enumerate() {
            if above < *share {
                return size;
            }
            above -= share;
        }
        0
    }

    /// The first block of a place that no request touched before.
    fn first_place(&mut self, size: usize) -> u64 {
        let len = 1 << size;
        let (start, used) = &mut self.open[size];
        if *used + len > CLUSTER_BLOCKS {
            (*start, *used) = (self.contents.len() as u64, 0);
            self.contents.resize(self.contents.len() + CLUSTER_BLOCKS as usize, 0);
        }
        let first = *start + *used;
        *used += len;
        self.touched += len;
        first
    }

    /// Chooses the place of a request; returns its first block.
    fn place(&mut self, write: bool, size: usize) -> u64 {
        let firsts = if write { &self.first_writes } else { &self.first_reads };
        let wants_first = self.touched < self.footprint && firsts.wants(&mut self.rng);
        let again = if wants_first { None } else { self.place_again(write, size) };
        let first = again.map_or_else(|| self.first_place(size), |(first, _)| first.into());
        let firsts = if write { &mut self.first_writes } else { &mut self.first_reads };
        firsts.count(again.is_none(), 1 << size);
        self.places[usize::from(write)][size].push(first as u32, 1 << size);
        first
    }

    /// The place of an earlier request of this size, if there is one that is old enough.
    fn place_again(&mut self, write: bool, size: usize) -> Option<(u32, u64)> {
        let written = self.parameters.writes_per_read / (1.0 + self.parameters.writes_per_read);
        let own = self.rng.unit() < self.parameters.own_share;
        let to_written = if own { write } else { self.rng.unit() < written };
        let age_min = match write {
            // The number of requests of this size and kind in `WRITE_AGE_S`.
            true => {
                let kind = if to_written { written } else { 1.0 - written };
                (WRITE_AGE_S / self.interval_s * self.parameters.sizes[size] * kind).max(1.0)
            }
            false => (self.history * READ_AGE_SHARE).max(1.0),
        };
        self.places[usize::from(to_written)][size].pick(age_min, self.parameters.reuse, &mut self.rng)
    }

    /// Chooses the content of a write.
    fn write(&mut self, first: u64, size: usize) {
        let blocks = first as usize..first as usize + (1 << size);
        let duplicate = !self.sources.is_empty() && self.duplicates.wants(&mut self.rng);
        self.duplicates.count(duplicate, 1 << size);
        if !duplicate {
            self.sources.push(self.next_content, 1 << size);
            for content in &mut self.contents[blocks] {
                *content = self.next_content;
                self.next_content += 1;
            }
            return;
        }
        let was_written = self.contents[blocks.clone()].iter().all(|&content| content != 0);
        if was_written && self.rng.unit() < self.parameters.same_place_share {
            return;
        }
        let mut source = 0..0;
        for content in &mut self.contents[blocks] {
            if source.is_empty() {
                let (start, len) = self.sources.pick(1.0, 0.0, &mut self.rng).unwrap_or((1, 1));
                source = start..start + len as u32;
            }
            *content = source.next().unwrap_or(1);
        }
    }

    /// The number of a block's initial content. Some runs of blocks are copies of others.
    fn initial(&self, block: u64) -> u64 {
        let copies = 1.0 - 1.0 / self.parameters.initial_dedup;
        let mut run = block / INITIAL_RUN;
        // A copy is one of an earlier run, so that the original is found in few steps.
        while run > 0 && unit(hash(self.parameters.seed ^ COPIED, run)) < copies {
            run = hash(self.parameters.seed ^ COPIED, !run) % run;
        }
        u64::from(INITIAL) + run * INITIAL_RUN + block % INITIAL_RUN
    }

    /// Advances the time. The rate of requests is highest in the afternoon.
    fn pass_time(&mut self) {
        let day = self.time_s / DAY_S;
        let rate = 1.0 - self.parameters.rhythm * libm::cos(std::f64::consts::TAU * (day - 0.1));
        self.time_s += self.rng.exponential() * self.interval_s / rate;
    }
}

impl Reader for FiuLikeReader {
    fn next(&mut self, request: &mut Request) -> Result<bool, TraceError> {
        if self.left == 0 {
            return Ok(false);
        }
        request.clear();
        let write = self.writes.wants(&mut self.rng);
        let size = self.size();
        let first = self.place(write, size);
        let len = 1 << size;
        self.writes.count(write, len);
        if write {
            self.write(first, size);
        }
        self.left = self.left.saturating_sub(len);
        self.pass_time();
        let cluster = self.clusters.of(first / CLUSTER_BLOCKS);
        request.time_ns = (self.time_s * SECOND_NS) as u64;
        request.op = if write { Op::Write } else { Op::Read };
        request.offset = (cluster * CLUSTER_BLOCKS + first % CLUSTER_BLOCKS) * BLOCK_BYTES;
        request.len = len * BLOCK_BYTES;
        request.block_bytes = BLOCK_BYTES as u32;
        for block in first..first + len {
            let content = match self.contents[block as usize] {
                0 => self.initial(block),
                content => content.into(),
            };
            request.fingerprints.push(print(self.parameters.seed, content));
        }
        Ok(true)
    }
}
