//! Makes the requests of an FIU-like trace.

use super::history::History;
use super::{CLUSTER_BLOCKS, DAY_S, FiuLike, INITIAL, SIZES};
use crate::rng::Rng;
use crate::synth::permutation::Permutation;
use crate::synth::quota::Quota;
use crate::synth::{BLOCK_BYTES, print};
use crate::{Op, Reader, Request, TraceError};

const SECOND_NS: f64 = 1e9;
/// Reads come back to what is older than this many requests of their size: the page cache above has the rest.
const READ_AGE_MIN: f64 = 64.0;
/// How often a place is drawn to copy from, until one is found that was written.
const PLACES_TRIED: u32 = 4;

/// See [`FiuLike::reader`].
#[derive(Debug, Clone)]
pub struct FiuLikeReader {
    parameters: FiuLike,
    rng: Rng,
    /// From clusters in the order of their first use to those of the volume.
    clusters: Permutation,
    /// Blocks to be touched in the end, and those touched so far.
    footprint: u64,
    touched: u64,
    /// What each block holds, by clusters in the order of their first use; 0: what it held before the trace.
    contents: Vec<u32>,
    /// For each size of request the cluster being filled: its first block, and the blocks used.
    open: [(u64, u64); SIZES],
    writes: Quota,
    first_reads: Quota,
    first_writes: Quota,
    copies: Quota,
    overwrite_duplicates: Quota,
    /// The clusters of each size, by their first blocks.
    filled: [Vec<u32>; SIZES],
    /// Requests made, by size.
    places: [History; SIZES],
    /// New contents written.
    sources: History,
    next_content: u32,
    /// Blocks to come.
    left: u64,
    time_s: f64,
    interval_s: f64,
}

impl FiuLikeReader {
    /// The trace of parameters that were checked.
    pub(super) fn new(parameters: &FiuLike) -> Self {
        let clusters = parameters.volume_bytes * parameters.scale / (CLUSTER_BLOCKS * BLOCK_BYTES) as f64;
        let mean_blocks: f64 =
            parameters.sizes.iter().enumerate().map(|(class, share)| share * f64::from(1 << class)).sum();
        let blocks = parameters.blocks * parameters.scale;
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
            copies: Quota::new(parameters.copy_share),
            overwrite_duplicates: Quota::new(parameters.overwrite_duplicate_share()),
            filled: [const { Vec::new() }; SIZES],
            places: [const { History::new() }; SIZES],
            sources: History::new(),
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

    /// The first of so many blocks where nothing went before.
    fn first_place(&mut self, size: usize) -> u64 {
        let len = 1 << size;
        let (start, used) = &mut self.open[size];
        if *used + len > CLUSTER_BLOCKS {
            (*start, *used) = (self.contents.len() as u64, 0);
            self.filled[size].push(*start as u32);
            self.contents.resize(self.contents.len() + CLUSTER_BLOCKS as usize, 0);
        }
        let first = *start + *used;
        *used += len;
        self.touched += len;
        first
    }

    /// The first block of a request, and whether nothing went there before.
    fn place(&mut self, write: bool, size: usize) -> (u64, bool) {
        let firsts = if write { &self.first_writes } else { &self.first_reads };
        let wants_first = self.touched < self.footprint && firsts.wants(&mut self.rng);
        let age_min = if write { 1.0 } else { READ_AGE_MIN };
        let again = if wants_first { None } else { self.places[size].pick(age_min, &mut self.rng) };
        let first = again.map_or_else(|| self.first_place(size), |(first, _)| first.into());
        let firsts = if write { &mut self.first_writes } else { &mut self.first_reads };
        firsts.count(again.is_none(), 1 << size);
        self.places[size].push(first as u32, 1 << size);
        (first, again.is_none())
    }

    /// Writes content to blocks, which are `new` where nothing went before.
    fn write(&mut self, first: u64, size: usize, new: bool) {
        let blocks = first as usize..first as usize + (1 << size);
        let duplicates = if new { &mut self.copies } else { &mut self.overwrite_duplicates };
        let duplicate = !self.sources.is_empty() && duplicates.wants(&mut self.rng);
        duplicates.count(duplicate, 1 << size);
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
        if let Some(source) = self.written_place(size) {
            self.contents.copy_within(source, blocks.start);
            return;
        }
        let mut source = 0..0;
        for content in &mut self.contents[blocks] {
            if source.is_empty() {
                let (start, len) = self.sources.pick(1.0, &mut self.rng).unwrap_or((1, 1));
                source = start..start + len as u32;
            }
            *content = source.next().unwrap_or(1);
        }
    }

    /// Blocks anywhere that have been written, if some are soon found.
    fn written_place(&mut self, size: usize) -> Option<std::ops::Range<usize>> {
        let clusters = &self.filled[size];
        (0..PLACES_TRIED).find_map(|_| {
            let start = *clusters.get(self.rng.below(clusters.len() as u64) as usize)?;
            let start = start as usize + (self.rng.below(CLUSTER_BLOCKS >> size) << size) as usize;
            let place = start..start + (1 << size);
            self.contents[place.clone()].iter().all(|&content| content != 0).then_some(place)
        })
    }

    /// Requests come most often in the afternoon, by a factor of four to the night: an assumption.
    fn pass_time(&mut self) {
        let day = self.time_s / DAY_S;
        let rate = 1.0 - 0.6 * libm::cos(std::f64::consts::TAU * (day - 0.1));
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
        let (first, new) = self.place(write, size);
        let len = 1 << size;
        self.writes.count(write, len);
        if write {
            self.write(first, size, new);
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
                0 => u64::from(INITIAL) + block,
                content => content.into(),
            };
            request.fingerprints.push(print(self.parameters.seed, content));
        }
        Ok(true)
    }
}
