//! Reads, writes, trims and flushes, also while earlier ones wait for insertion.

use crate::bytes_of::{self, BLOCK_BYTES};
use crate::{Counted, behind_ram, both_of, by_worth, compared, sum, with_recipes, writing_back};
use nitro_cache::admission::AdmissionKind;
use nitro_cache::eviction::EvictionKind;
use nitro_sim::Settings;
use nitro_testkit::Rng;
use nitro_trace::{Op, Request};
use nitro_units::Fingerprint;
use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::Range;

const BLOCK: u64 = BLOCK_BYTES as u64;
const VOLUME_BYTES: u64 = 32 << 20;
/// Three quarters of the requests are for these bytes.
const HOT_BYTES: u64 = 8 << 20;
/// Different contents that are written.
const CONTENTS: u64 = 4000;
/// Extents of the last requests, which are requested again: they may still wait for insertion.
const RECENT: usize = 8;

/// What a volume holds.
struct Contents {
    extent_bytes: u64,
    /// The blocks that were written, each with the number of its content.
    blocks: HashMap<u64, u64>,
    /// Extents that must not be read before they are written.
    trimmed: HashSet<u64>,
}

impl Contents {
    fn blocks_of(&self, extents: Range<u64>) -> Range<u64> {
        let blocks = self.extent_bytes / BLOCK;
        extents.start * blocks..extents.end * blocks
    }

    /// A block's content; at first that of the upper third is the same as of the lower.
    fn print(&self, block: u64) -> Fingerprint {
        let content = self.blocks.get(&block).copied().unwrap_or(block % (VOLUME_BYTES / BLOCK * 2 / 3));
        let mut print = [0; 20];
        print[..8].copy_from_slice(&(content + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes());
        Fingerprint(print)
    }

    /// Writes whole extents; some get contents that others have.
    fn write(&mut self, extents: Range<u64>, rng: &mut Rng) {
        for extent in extents {
            self.trimmed.remove(&extent);
            let content = (1 << 32) + rng.below(CONTENTS) * (self.extent_bytes / BLOCK);
            for (block, content) in self.blocks_of(extent..extent + 1).zip(content..) {
                self.blocks.insert(block, content);
            }
        }
    }

    fn request(&self, op: Op, blocks: Range<u64>) -> Request {
        let (offset, len) = (blocks.start * BLOCK, (blocks.end - blocks.start) * BLOCK);
        let mut request = Request { op, offset, len, ..Request::default() };
        if op != Op::Trim {
            request.block_bytes = BLOCK as u32;
            request.fingerprints = blocks.map(|block| self.print(block)).collect();
        }
        request
    }
}

/// Requests of up to `extents_max` extents. There are no trims where dirty extents that are compressed wait: a trim
/// commits while they are inserted, and those that come after the commit begin a new block.
fn requests(settings: &Settings, count: usize, extents_max: u64) -> Vec<Request> {
    let extent_bytes = u64::from(settings.extent_bytes);
    let extents = VOLUME_BYTES / extent_bytes;
    let mut rng = Rng::new(23);
    let mut contents = Contents { extent_bytes, blocks: HashMap::new(), trimmed: HashSet::new() };
    let mut recent = VecDeque::from([0]);
    let mut requests = Vec::with_capacity(count);
    while requests.len() < count {
        let first = match rng.below(12) {
            0..4 => recent[rng.below(recent.len() as u64) as usize],
            4..10 => rng.below(HOT_BYTES / extent_bytes),
            _ => rng.below(extents),
        };
        let asked = first..extents.min(first + 1 + rng.below(extents_max));
        let op = match rng.below(20) {
            0..10 if !asked.clone().any(|extent| contents.trimmed.contains(&extent)) => Op::Read,
            17 if !settings.compress || settings.insertion_lag == 0 => Op::Trim,
            18.. => Op::Flush,
            _ => Op::Write,
        };
        let mut blocks = contents.blocks_of(asked.clone());
        match op {
            Op::Flush => {
                requests.push(Request { op, ..Request::default() });
                continue;
            }
            Op::Trim => contents.trimmed.extend(asked),
            // A part of an extent.
            Op::Write if extent_bytes > BLOCK && rng.one_in(4) && !contents.trimmed.contains(&first) => {
                blocks = blocks.start..blocks.start + 1;
                contents.blocks.insert(blocks.start, (1 << 40) + requests.len() as u64);
            }
            Op::Write => contents.write(asked, &mut rng),
            _ => {}
        }
        recent.push_back(first);
        if recent.len() > RECENT {
            recent.pop_front();
        }
        requests.push(contents.request(op, blocks));
    }
    for (number, request) in requests.iter_mut().enumerate() {
        request.time_ns = number as u64;
        if settings.compress && matches!(request.op, Op::Read | Op::Write) {
            request.compressed_bytes = Some(bytes_of::compressed_bytes(request));
        }
    }
    requests
}

fn agreed(settings: &Settings, extents_max: u64) -> Vec<Counted> {
    let real = compared(both_of(requests(settings, 20_000, extents_max), settings));
    assert!(sum(&real, |c| c.flushes) > 1500);
    real
}

/// As in a server whose insertion lags behind: so many requests come before any extent is inserted.
fn lagging(settings: Settings, insertion_lag: u32) -> Settings {
    Settings { insertion_lag, ..settings }
}

#[test]
fn go_through_to_the_origin() {
    agreed(&by_worth(true, false, 8192), 3);
}

#[test]
fn are_made_durable_by_flushes_alone() {
    for (settings, extents_max) in [(by_worth(true, false, 8192), 3), (by_worth(true, true, 4096), 1)] {
        let real = agreed(&writing_back(settings), extents_max);
        assert!(sum(&real, |c| c.destaged_extents) > 1000);
    }
}

#[test]
fn are_made_durable_by_flushes_and_after_some_writes() {
    let real = agreed(&Settings { flush_every: 4, ..writing_back(by_worth(true, true, 4096)) }, 1);
    assert!(sum(&real, |c| c.destaged_extents) > 1000);
}

/// The paper's policies: eviction does not copy extents forward, which would let others take their turn meanwhile.
fn by_recency(dedup: bool, compress: bool, extent_bytes: u32) -> Settings {
    let (admission, eviction) = (AdmissionKind::All, EvictionKind::Lru);
    Settings { admission, eviction, ..by_worth(dedup, compress, extent_bytes) }
}

/// Runs both with a queue of dirty extents that is not empty when requests come; less is inserted than without.
fn agreed_late(settings: Settings) {
    let at_once = sum(&agreed(&lagging(settings, 1), 1), |c| c.inserted_bytes);
    for lag in [4, 16] {
        let real = agreed(&lagging(settings, lag), 1);
        let late = sum(&real, |c| c.inserted_bytes);
        assert!(late < at_once, "{late} bytes are inserted late, {at_once} at once");
        assert!(sum(&real, |c| c.destaged_extents) > 1000);
    }
}

#[test]
fn come_while_dirty_extents_wait() {
    agreed_late(writing_back(by_recency(false, false, 8192)));
}

#[test]
fn come_while_dirty_duplicates_wait() {
    agreed_late(writing_back(by_recency(true, true, 4096)));
}

#[test]
fn come_while_dirty_extents_wait_behind_a_ram_cache() {
    agreed_late(writing_back(behind_ram(by_recency(true, false, 8192))));
}

#[test]
fn come_while_dirty_extents_wait_before_an_origin_with_recipes() {
    agreed_late(with_recipes(writing_back(by_recency(true, false, 8192))));
}
