//! Sequential streams: what is read ahead, kept off the SSD, and inserted once it is read a second time.

use crate::bytes_of::{self, BLOCK_BYTES};
use crate::{Counted, behind_ram, both_of, by_worth, compared, small, sum, writing_back};
use nitro_sim::Settings;
use nitro_testkit::Rng;
use nitro_trace::{Op, Request};
use nitro_units::Fingerprint;
use std::collections::HashMap;

const BLOCK: u64 = BLOCK_BYTES as u64;
const VOLUME_BYTES: u64 = 32 << 20;
const STREAM_BYTES: u64 = 768 << 10;
/// What is read and written at random.
const HOT_BYTES: u64 = 6 << 20;

/// What the blocks hold after each request.
#[derive(Default)]
struct Contents(HashMap<u64, u64>);

impl Contents {
    /// A block's content; at first that of the upper third is the same as of the lower.
    fn print(&self, block: u64) -> Fingerprint {
        let version = self.0.get(&block).copied().unwrap_or(0);
        let id = if version == 0 { block % (VOLUME_BYTES / BLOCK * 2 / 3) } else { block };
        let mut print = [0; 20];
        print[..8].copy_from_slice(&(id * 64 + version + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes());
        Fingerprint(print)
    }
}

/// Three streams, of which each reads every range twice or thrice, beside random reads and writes, some of them of what the streams read.
/// Requests have up to `extents_max` extents, or parts of one where extents are larger than blocks.
fn requests(settings: &Settings, count: usize, extents_max: u64) -> Vec<Request> {
    let extent = u64::from(settings.extent_bytes);
    let (mut rng, mut contents) = (Rng::new(11), Contents::default());
    let mut streams = [(0, 0); 3];
    let mut requests = Vec::with_capacity(count);
    while requests.len() < count {
        let bytes = if extent > BLOCK && rng.one_in(3) { BLOCK } else { (1 + rng.below(extents_max)) * extent };
        let number = rng.below(3) as usize;
        let (begin, at) = &mut streams[number];
        let (op, offset) = match rng.below(10) {
            0..6 => {
                if *at + bytes > *begin + STREAM_BYTES {
                    if !rng.one_in(3) {
                        *begin = rng.below((VOLUME_BYTES - 2 * STREAM_BYTES) / extent) * extent;
                    }
                    *at = *begin;
                }
                *at += bytes;
                (Op::Read, *at - bytes)
            }
            6..8 => (Op::Read, rng.below(HOT_BYTES / extent) * extent),
            8 => (Op::Write, rng.below(HOT_BYTES / extent) * extent),
            // Where the stream will come, or was.
            _ => (Op::Write, (*at / extent + 40).saturating_sub(rng.below(64)) * extent),
        };
        let blocks = offset / BLOCK..(offset + bytes) / BLOCK;
        if op == Op::Write {
            blocks.clone().for_each(|block| *contents.0.entry(block).or_default() += 1);
        }
        let mut request = Request { op, offset, len: bytes, block_bytes: BLOCK as u32, ..Request::default() };
        request.time_ns = requests.len() as u64;
        request.fingerprints = blocks.map(|block| contents.print(block)).collect();
        request.compressed_bytes = settings.compress.then(|| bytes_of::compressed_bytes(&request));
        requests.push(request);
    }
    requests
}

/// A cache that keeps streams of 64 KiB off the SSD, with RAM for some of what they read.
fn with_streams(settings: Settings) -> Settings {
    Settings { sequential_bytes: 64 << 10, readahead_ram_bytes: 1 << 20, ..settings }
}

fn agreed(settings: &Settings, count: usize, extents_max: u64) -> Vec<Counted> {
    let real = compared(both_of(requests(settings, count, extents_max), settings));
    let [ahead, hits, bypassed] =
        [sum(&real, |c| c.readahead_extents), sum(&real, |c| c.readahead_hits), sum(&real, |c| c.bypassed_extents)];
    assert!(
        ahead > 1000 && hits > 1000 && bypassed > 50,
        "{ahead} read ahead, {hits} hits, {bypassed} kept off the SSD"
    );
    real
}

#[test]
fn are_kept_off_the_ssd() {
    let all = by_worth(false, false, 8192);
    let some = agreed(&with_streams(all), 20_000, 1);
    let all = compared(both_of(requests(&all, 20_000, 1), &all));
    let [some, all] = [some, all].map(|counted| sum(&counted, |c| c.inserted_bytes));
    assert!(some < all * 3 / 4, "{some} of {all} bytes");
}

#[test]
fn go_beside_a_ram_cache() {
    let real = agreed(&behind_ram(with_streams(small(true, true, 4096))), 30_000, 1);
    assert!(sum(&real, |c| c.ram_hits) > 300, "{}", sum(&real, |c| c.ram_hits));
}

#[test]
fn go_beside_a_ram_cache_in_write_back() {
    let real = agreed(&writing_back(behind_ram(with_streams(by_worth(true, false, 8192)))), 20_000, 1);
    assert!(sum(&real, |c| c.ram_hits) > 300 && sum(&real, |c| c.destaged_extents) > 1000);
}

#[test]
fn are_read_by_requests_of_many_extents() {
    let real = agreed(&behind_ram(with_streams(by_worth(true, false, 8192))), 10_000, 8);
    assert!(sum(&real, |c| c.ram_hits) > 300, "{}", sum(&real, |c| c.ram_hits));
}
