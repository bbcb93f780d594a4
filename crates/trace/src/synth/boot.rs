//! A boot storm: many virtual machines that boot at once, generated from the boot of one machine (Nitro §5, §6.2).

use super::{BLOCK_BYTES, print};
use crate::parquet::ParquetReader;
use crate::rng::{Rng, hash, unit};
use crate::{BadRecords, Op, Reader, Request, TraceError};
use bytes::Bytes;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Most requests of a recorded boot. (Usually it has a few thousand.)
const TEMPLATE_REQUESTS_MAX: usize = 1 << 22;
/// Seeds of the differences between machines.
const SHIFT: u64 = 0x5348_4946;
const OVERLAP: u64 = 0x4F56_4552;
const START: u64 = 0x5354_4152;

/// The boot of a Debian 12 guest, recorded from a volume; see `data/README.md`.
static RECORDED: &[u8] = include_bytes!("../../data/debian-boot.parquet");

/// A recorded boot: a Debian 12 guest from its firmware to its login prompt, 1424 requests, 89 % of them reads.
///
/// # Errors
/// The recording, which is part of the program, cannot be parsed.
pub fn recorded_boot() -> Result<Vec<Request>, TraceError> {
    let mut reader = ParquetReader::new(Bytes::from_static(RECORDED), BadRecords::Fatal)?;
    template(&mut reader)
}

/// All requests of a recorded boot, in the order of their times.
fn template(reader: &mut dyn Reader) -> Result<Vec<Request>, TraceError> {
    let mut template = Vec::new();
    let mut request = Request::default();
    while reader.next(&mut request)? {
        if template.len() >= TEMPLATE_REQUESTS_MAX {
            return Err(TraceError::setting("the recorded boot has over 4 million requests"));
        }
        if template.first().is_some_and(|first: &Request| first.object != request.object) {
            // They would become the same addresses of one machine.
            return Err(TraceError::setting("the recorded boot has requests of several disks; record one volume"));
        }
        template.push(request.clone());
    }
    template.sort_by_key(|request| request.time_ns);
    Ok(template)
}

/// A synthetic boot for a storm without a recorded one, with the paper's figures for an 18 MB kernel: 99 % reads, 14 %
/// random requests, dedup ratio 1.2. Request sizes and times are assumptions.
#[must_use]
pub fn boot_template(seed: u64) -> Vec<Request> {
    const IMAGE_BLOCKS: u64 = (18 << 20) / BLOCK_BYTES;
    const UNIQUE_SHARE: f64 = 1.0 / 1.2;
    let mut rng = Rng::new(seed);
    let content = |mut block: u64| {
        // A duplicate has the content of an earlier block that is not a duplicate.
        while block > 0 && unit(hash(seed, block)) >= UNIQUE_SHARE {
            block = hash(!seed, block) % block;
        }
        print(seed, block)
    };
    let mut template = Vec::new();
    let (mut time_ns, mut next) = (0, 0);
    while next < IMAGE_BLOCKS {
        let blocks = (1 << rng.below(5)).min(IMAGE_BLOCKS - next);
        let write = rng.below(100) == 0;
        // Two requests do not continue the one before: a random request, and the next one, which continues the image.
        let random = !write && rng.unit() < 0.14 / 2.0;
        let at = if random { rng.below(IMAGE_BLOCKS - blocks + 1) } else { next };
        // Writes go to a log after the image.
        let first = if write { IMAGE_BLOCKS + template.len() as u64 * 16 } else { at };
        template.push(Request {
            time_ns,
            op: if write { Op::Write } else { Op::Read },
            offset: first * BLOCK_BYTES,
            len: blocks * BLOCK_BYTES,
            block_bytes: BLOCK_BYTES as u32,
            fingerprints: (first..first + blocks).map(content).collect(),
            ..Request::default()
        });
        if !write && !random {
            next += blocks;
        }
        time_ns += (rng.exponential() * 5e6) as u64;
    }
    template
}

/// A boot storm. Machine 0 boots like the template; the others share most of its content, at other addresses.
#[derive(Debug, Clone, PartialEq)]
pub struct BootStorm {
    /// The boot of one machine, in the order of its times.
    pub template: Vec<Request>,
    /// Number of machines, each with an object: 60 in the paper.
    pub machines: u32,
    /// Share of a machine's blocks with the template's content: 0.9 in the paper.
    pub overlap: f64,
    /// Addresses are shifted by up to this share of the template's address space: 0.15 in the paper.
    pub shift_max: f64,
    /// Machines start within this many nanoseconds: an assumption.
    pub start_within_ns: u64,
    /// The seed: another one results in another storm.
    pub seed: u64,
}

impl BootStorm {
    /// A storm with the paper's figures.
    #[must_use]
    pub const fn new(template: Vec<Request>, machines: u32, seed: u64) -> Self {
        Self { template, machines, overlap: 0.9, shift_max: 0.15, start_within_ns: 10_000_000_000, seed }
    }

    /// A storm with the paper's figures, from a recorded boot, which is kept in memory.
    ///
    /// # Errors
    /// The reader's, or the recording has over 4 million requests or several objects.
    pub fn recorded(reader: &mut dyn Reader, machines: u32, seed: u64) -> Result<Self, TraceError> {
        Ok(Self::new(template(reader)?, machines, seed))
    }

    /// The reader of the trace, in the order of times.
    ///
    /// # Errors
    /// A parameter is invalid.
    pub fn reader(&self) -> Result<BootStormReader, TraceError> {
        if !(0.0..=1.0).contains(&self.overlap) || !(0.0..=1.0).contains(&self.shift_max) {
            return Err(TraceError::setting("overlap or shift is not from 0 to 1"));
        }
        let space = self.template.iter().map(Request::end).max().unwrap_or(0);
        if space > 1 << 60 || self.machines > 1 << 20 {
            return Err(TraceError::setting("the boot has addresses above 2^60, or there are more than 2^20 machines"));
        }
        let mut storm = BootStormReader { storm: self.clone(), space, heads: BinaryHeap::new() };
        for machine in 0..self.machines {
            storm.heads.extend(storm.head(machine, 0));
        }
        Ok(storm)
    }
}

/// See [`BootStorm::reader`].
#[derive(Debug, Clone)]
pub struct BootStormReader {
    storm: BootStorm,
    /// Bytes of the template's address space.
    space: u64,
    /// The next request of each machine: its time, the machine, and the request's number in the template.
    heads: BinaryHeap<Reverse<(u64, u32, usize)>>,
}

impl BootStormReader {
    fn head(&self, machine: u32, number: usize) -> Option<Reverse<(u64, u32, usize)>> {
        let storm = &self.storm;
        let since = storm.template.get(number)?.time_ns.saturating_sub(storm.template[0].time_ns);
        let share = if machine == 0 { 0.0 } else { unit(hash(storm.seed ^ START, machine.into())) };
        let start = (storm.start_within_ns as f64 * share) as u64;
        Some(Reverse((start.saturating_add(since), machine, number)))
    }

    /// The shift of a machine's addresses in bytes: a multiple of a block.
    fn shift(&self, machine: u32) -> u64 {
        if machine == 0 {
            return 0;
        }
        let share = self.storm.shift_max * unit(hash(self.storm.seed ^ SHIFT, machine.into()));
        (self.space as f64 * share) as u64 / BLOCK_BYTES * BLOCK_BYTES
    }

    /// Sets the content of blocks that the machine does not share with the template.
    fn diverge(&self, machine: u32, request: &mut Request) {
        let seed = hash(self.storm.seed ^ OVERLAP, machine.into());
        if request.fingerprints.is_empty() {
            // If the recording has no content, all blocks are different from each other, and the same in all machines.
            request.block_bytes = BLOCK_BYTES as u32;
            let blocks = request.len.div_ceil(BLOCK_BYTES);
            let first = request.offset / BLOCK_BYTES;
            request.fingerprints.extend((first..first + blocks).map(|block| print(self.storm.seed, block)));
        }
        if machine == 0 {
            return;
        }
        let step = u64::from(request.block_bytes);
        for (number, fingerprint) in (0..).zip(&mut request.fingerprints) {
            let address = request.offset + number * step;
            if unit(hash(seed, address)) >= self.storm.overlap {
                *fingerprint = print(seed, address);
            }
        }
    }
}

impl Reader for BootStormReader {
    fn next(&mut self, request: &mut Request) -> Result<bool, TraceError> {
        let Some(Reverse((time_ns, machine, number))) = self.heads.pop() else { return Ok(false) };
        self.heads.extend(self.head(machine, number + 1));
        request.clone_from(&self.storm.template[number]);
        self.diverge(machine, request);
        request.compressed_bytes = None;
        request.time_ns = time_ns;
        request.object = machine;
        request.offset += self.shift(machine);
        Ok(true)
    }
}
