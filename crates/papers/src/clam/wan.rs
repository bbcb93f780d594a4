//! The paper's application: a WAN optimizer (§8). A stream is cut into chunks; the sender looks each fingerprint up, sends a
//! reference for content that the receiver has, and inserts what is new. Look-ups and insertions are those of the tables on
//! modelled SSDs; the time of index and link is virtual.

mod content;
mod report;

pub(super) use report::section;

use super::super::indexes::{KeyValue, failed};
use crate::load::{Entries, mix};
use nitro_console::error::Error;
use nitro_model::SleepClock;
use nitro_port::Clock;
use std::time::Duration;

/// Bytes of a generated chunk (the talk: "Chunks (4 KB)").
const CHUNK_BYTES: u64 = 4096;
/// Bytes sent for content that the receiver has: a fingerprint of 20 bytes, and a length.
const REFERENCE_BYTES: u64 = 24;
/// A link is used at its best if the optimizer gains at least this share of what it would gain with an index that takes no
/// time.
const BEST_SHARE: f64 = 0.9;
/// The fastest link that is tried, in bit/s.
const LINK_MAX: f64 = 1e11;

/// A chunk of a stream: the key and value of its entry, and its size.
pub(super) struct Chunk {
    key: [u8; 20],
    value: [u8; 12],
    bytes: u64,
}

/// A chunk on its way: its size, the bytes sent for it, and the time that the index took.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Sent {
    raw_bytes: u64,
    sent_bytes: u64,
    index: Duration,
}

/// Looks all chunks up and inserts those that are new. The time of the processor, about a microsecond for each operation, is
/// not counted.
async fn send(
    table: &impl KeyValue,
    clock: &SleepClock,
    chunks: impl Iterator<Item = Chunk>,
) -> Result<Vec<Sent>, nitro_index::Error> {
    let mut sent = Vec::new();
    for Chunk { key, value, bytes } in chunks {
        let begun = clock.now();
        let known = table.get(&key).await?.is_some();
        if !known {
            table.insert(&key, &value).await?;
        }
        let sent_bytes = if known { REFERENCE_BYTES.min(bytes) } else { bytes };
        sent.push(Sent { raw_bytes: bytes, sent_bytes, index: clock.now() - begun });
    }
    Ok(sent)
}

/// A generated stream: a share of its chunks is known, by an entry that `known` chooses; all others are new.
fn generated(entries: Entries, share: f64, count: u64, known: impl Fn(u64) -> u64) -> impl Iterator<Item = Chunk> {
    // Far from the numbers of all other loads.
    const NEW: u64 = 1 << 52;
    (0..count).map(move |n| {
        let chance = (mix(n ^ 0x57A4) >> 11) as f64 / (1u64 << 53) as f64;
        let number = if chance < share { known(mix(n ^ 0xF00D)) } else { NEW + n };
        let (mut key, mut value) = ([0; 20], [0; 12]);
        key.copy_from_slice(&entries.key(number));
        value.copy_from_slice(&entries.value(number));
        Chunk { key, value, bytes: CHUNK_BYTES }
    })
}

fn bytes(sent: &[Sent], of: fn(&Sent) -> u64) -> f64 {
    sent.iter().map(of).sum::<u64>() as f64
}

/// What an optimizer would gain if its index took no time: bytes of the stream for each byte sent.
fn ideal(sent: &[Sent]) -> f64 {
    bytes(sent, |chunk| chunk.raw_bytes) / bytes(sent, |chunk| chunk.sent_bytes).max(1.0)
}

/// The time at which the last chunk has left, in seconds: the index and the link are two stages, each of which processes one
/// chunk at a time. `arrivals` are the times at which chunks arrive.
fn leave(sent: &[Sent], arrivals: impl Iterator<Item = f64>, bits_per_second: f64) -> impl Iterator<Item = f64> {
    let (mut looked, mut left) = (0.0f64, 0.0f64);
    sent.iter().zip(arrivals).map(move |(chunk, arrived)| {
        looked = looked.max(arrived) + chunk.index.as_secs_f64();
        left = left.max(looked) + chunk.sent_bytes as f64 * 8.0 / bits_per_second;
        left
    })
}

/// How many times faster the whole stream is sent than without an optimizer (the paper's *effective bandwidth improvement*).
fn improvement(sent: &[Sent], bits_per_second: f64) -> f64 {
    let end = leave(sent, std::iter::repeat(0.0), bits_per_second).last().unwrap_or(0.0);
    bytes(sent, |chunk| chunk.raw_bytes) * 8.0 / bits_per_second / end.max(f64::MIN_POSITIVE)
}

/// The fastest link, in bit/s, that is used at its best.
fn best_link(sent: &[Sent]) -> f64 {
    let (mut low, mut high) = (1e3, LINK_MAX);
    let is_best = |link| improvement(sent, link) >= BEST_SHARE * ideal(sent);
    if !is_best(low) {
        return 0.0;
    }
    while high / low > 1.01 {
        let middle = (low * high).sqrt();
        if is_best(middle) { low = middle } else { high = middle }
    }
    low
}

/// Numbers of chunks of objects, with a bounded Pareto distribution (shape 1.2, from 4 KiB to 4 MiB), as sizes of files on
/// the web have (Crovella and Bestavros, *Self-similarity in World Wide Web traffic*, 1997).
fn objects(chunks: usize) -> Vec<usize> {
    const SHAPE: f64 = 1.2;
    const MOST: f64 = 1024.0;
    let (mut all, mut left) = (Vec::new(), chunks);
    while left > 0 {
        let chance = (mix(all.len() as u64 ^ 0x0B7E) >> 11) as f64 / (1u64 << 53) as f64;
        let size = (1.0 - chance * (1.0 - MOST.powf(-SHAPE))).powf(-1.0 / SHAPE);
        let size = (size as usize).clamp(1, left);
        all.push(size);
        left -= size;
    }
    all
}

/// The mean throughput of an object, in bit/s, from its arrival until its last byte has left. Objects arrive at random times
/// (a Poisson process), with a share `load` of the link's bandwidth before they are optimised.
fn object_throughput(sent: &[Sent], bits_per_second: f64, load: f64) -> f64 {
    let (mut now, mut first) = (0.0, 0);
    let (mut arrivals, mut ends) = (Vec::with_capacity(sent.len()), Vec::new());
    for (number, chunks) in objects(sent.len()).into_iter().enumerate() {
        let raw = bytes(&sent[first..first + chunks], |chunk| chunk.raw_bytes);
        let chance = ((mix(number as u64 ^ 0xA881) >> 11) as f64 + 1.0) / (1u64 << 53) as f64;
        now += -chance.ln() * raw * 8.0 / (bits_per_second * load);
        arrivals.extend(std::iter::repeat_n(now, chunks));
        first += chunks;
        ends.push((first - 1, now, raw));
    }
    let left: Vec<f64> = leave(sent, arrivals.into_iter(), bits_per_second).collect();
    let each = ends.iter().map(|(last, arrived, raw)| raw * 8.0 / (left[*last] - arrived).max(1e-9));
    each.sum::<f64>() / ends.len().max(1) as f64
}

/// Sends a stream through a table.
fn through(
    reactor: &nitro_device::Reactor,
    table: &impl KeyValue,
    clock: &SleepClock,
    chunks: impl Iterator<Item = Chunk>,
) -> Result<Vec<Sent>, Error> {
    reactor.block_on(send(table, clock, chunks)).map_err(|e| failed(&e))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(count: usize, sent_bytes: u64, index_us: u64) -> Vec<Sent> {
        vec![Sent { raw_bytes: 4000, sent_bytes, index: Duration::from_micros(index_us) }; count]
    }

    #[test]
    fn a_slow_index_limits_the_link_and_a_fast_one_does_not() {
        // Half of the bytes are sent; a chunk takes the index 1 ms, and a link of 16 Mbit/s as long.
        let chunks = sent(1000, 2000, 1000);
        assert!((ideal(&chunks) - 2.0).abs() < 1e-9);
        assert!((improvement(&chunks, 1e6) - 2.0).abs() < 0.01);
        assert!((improvement(&chunks, 32e6) - 1.0).abs() < 0.01);
        // Nine tenths of the gain need a link that takes nine tenths of the index's time.
        assert!((best_link(&chunks) / 17.8e6 - 1.0).abs() < 0.03, "{}", best_link(&chunks));
        assert!(best_link(&sent(1000, 2000, 10)) > 1.5e9);
        // An index that takes longer than any link: the optimizer only costs.
        assert!(improvement(&sent(10, 2000, 1_000_000), 1e9) < 0.01);
    }

    #[test]
    fn objects_are_faster_with_a_faster_index_and_have_all_chunks() {
        let sizes = objects(20_000);
        assert_eq!(sizes.iter().sum::<usize>(), 20_000);
        assert!(sizes.iter().max() > Some(&100) && sizes.iter().filter(|size| **size == 1).count() * 3 > sizes.len());
        let [slow, fast] = [5000, 10].map(|us| object_throughput(&sent(20_000, 2000, us), 10e6, 0.5));
        assert!(fast > 1.5 * slow, "{fast} and {slow}");
    }
}
