//! The journal on the device: its readable part, and whether it ends or is damaged.

use super::report::{HalfReport, JournalReport};
use crate::format::journal::{BATCH_UNIT_BYTES, Header, Record};
use crate::format::superblock::Superblock;
use crate::journal::{Half, Halves};
use bytes::Bytes;
use nitro_port::buf::{BUF_ALIGNMENT_BYTES, BufMut};
use nitro_port::{Device, Operation};

/// How much is read at once.
const READ_BYTES: u64 = 1 << 20;

/// The records of a batch.
pub(super) struct Told {
    /// The start of the cache in which it was written.
    pub(super) start: u32,
    pub(super) records: Vec<Record>,
}

/// The content of the journal.
#[derive(Default)]
pub(super) struct Log {
    pub(super) report: JournalReport,
    /// All consecutive batches except the last log batch.
    pub(super) batches: Vec<Told>,
    /// The last log batch: its data may not have been written when the power failed.
    pub(super) last: Option<Told>,
    /// Batches behind damage that had been durable, and the one behind them.
    pub(super) beyond: Option<(Vec<Told>, Told)>,
    /// If there is no whole snapshot: all batches that can be read.
    pub(super) remains: Vec<Told>,
}

struct HalfRead {
    bytes: Bytes,
    unreadable_bytes: u64,
    half: Half,
}

/// Reads the journal, as far as it can be read.
pub(super) async fn read<F: Device>(flash: &F, superblock: &Superblock) -> Log {
    let halves = match Halves::new(superblock.journal, &flash.geometry(), Operation::Read) {
        Ok(halves) => halves,
        Err(error) => {
            let report = JournalReport { unusable: Some(error.to_string()), ..JournalReport::default() };
            return Log { report, ..Log::default() };
        }
    };
    let [a, b] =
        [read_half(flash, &halves, 0, superblock.epoch).await, read_half(flash, &halves, 1, superblock.epoch).await];
    let mut log = Log::default();
    log.report.halves =
        [(0, &a), (1, &b)].map(|(n, read)| half_report(halves.offset(n), halves.half_bytes, read)).to_vec();
    let chosen = usize::from(a.half.sequence() < b.half.sequence());
    let (read, other) = if chosen == 0 { (a, b) } else { (b, a) };
    let Some(snapshot_batches) = read.half.snapshot_batches else {
        log.report.unusable = Some(String::from("no half holds a whole snapshot"));
        log.remains = remains(&[&read.bytes, &other.bytes], superblock.epoch);
        return log;
    };
    log.report.active_half = Some(chosen as u32);
    log.report.lost_batches = read.half.lost_batches();
    log.beyond = (log.report.lost_batches > 0).then(|| beyond(&read)).flatten();
    let durable_batches = read.half.durable_batches();
    for batch in &read.half.batches {
        log.report.records += u64::from(batch.header.records);
        let told = Told { start: batch.start(), records: batch.records().collect() };
        let is_in_doubt = batch.is_last() && batch.header.number >= durable_batches;
        match is_in_doubt && read.half.batches.len() > snapshot_batches {
            true => log.last = Some(told),
            false => log.batches.push(told),
        }
    }
    log
}

/// Reads a half; blocks that cannot be read count as zeroes.
async fn read_half<F: Device>(flash: &F, halves: &Halves, half: usize, epoch: u64) -> HalfRead {
    let mut bytes = BufMut::zeroed(halves.half_bytes as usize);
    let mut unreadable_bytes = 0;
    for at in (0..halves.half_bytes).step_by(READ_BYTES as usize) {
        let len = (halves.half_bytes - at).min(READ_BYTES);
        if let Ok(piece) = flash.read(halves.offset(half) + at, len as usize).await {
            bytes[at as usize..(at + len) as usize].copy_from_slice(&piece);
            continue;
        }
        let block = BUF_ALIGNMENT_BYTES as u64;
        for at in (at..at + len).step_by(BUF_ALIGNMENT_BYTES) {
            match flash.read(halves.offset(half) + at, BUF_ALIGNMENT_BYTES).await {
                Ok(piece) => bytes[at as usize..(at + block) as usize].copy_from_slice(&piece),
                Err(_) => unreadable_bytes += block,
            }
        }
    }
    let bytes = bytes.freeze();
    let half = Half::parse(&bytes, epoch);
    HalfRead { bytes, unreadable_bytes, half }
}

fn half_report(offset: u64, len: u64, read: &HalfRead) -> HalfReport {
    let half = &read.half;
    HalfReport {
        offset,
        len,
        sequence: half.batches.first().map(|b| b.header.sequence),
        batches: half.batches.len() as u64,
        snapshot_whole: half.snapshot_batches.is_some(),
        used_bytes: half.batches.last().map_or(0, |b| b.end),
        unreadable_bytes: read.unreadable_bytes,
        refused: half.refused.map(|error| error.to_string()),
    }
}

/// A batch found by its header alone.
struct Stray {
    header: Header,
    records: Option<Vec<Record>>,
}

impl Stray {
    fn told(self) -> Option<Told> {
        Some(Told { start: self.header.start, records: self.records? })
    }
}

/// All batches from `at` on, whatever they belong to.
fn strays(bytes: &Bytes, at: usize, epoch: u64) -> Vec<Stray> {
    let places = (at..bytes.len()).step_by(BATCH_UNIT_BYTES);
    let found = places.filter_map(|at| {
        let (header, _) = Header::decode(&bytes[at..]).ok()?;
        let payload = header.payload(&bytes[at..]).ok();
        (header.epoch == epoch).then(|| Stray { header, records: payload.map(records) })
    });
    found.collect()
}

fn records(mut payload: &[u8]) -> Vec<Record> {
    let mut records = Vec::new();
    // The payload was checked: each record decodes.
    while let Ok((record, bytes)) = Record::decode(payload) {
        records.push(record);
        payload = &payload[bytes..];
    }
    records
}

/// The batches behind the damage that had been durable, and the batch that shows this.
fn beyond(read: &HalfRead) -> Option<(Vec<Told>, Told)> {
    let last = read.half.batches.last()?;
    let mut strays = strays(&read.bytes, last.end as usize, last.header.epoch);
    strays.retain(|s| s.header.sequence == last.header.sequence && s.header.start >= last.header.start);
    let start = strays.iter().map(|s| s.header.start).max()?;
    // What stands before the last batch of the latest start is part of the same row; what stands behind it is older.
    let at = strays.iter().rposition(|s| s.header.start == start && s.header.durable > last.header.number + 1)?;
    let durable = strays[at].header.durable;
    let witness = strays.swap_remove(at).told().unwrap_or(Told { start, records: Vec::new() });
    let before = strays.into_iter().take(at).filter(|s| s.header.number < durable);
    Some((before.filter_map(Stray::told).collect(), witness))
}

/// Everything that can be read of the latest half.
fn remains(halves: &[&Bytes], epoch: u64) -> Vec<Told> {
    let strays: Vec<_> = halves.iter().flat_map(|bytes| strays(bytes, 0, epoch)).collect();
    let latest = strays.iter().map(|s| s.header.sequence).max();
    let of_latest = strays.into_iter().filter(|s| Some(s.header.sequence) == latest);
    of_latest.filter_map(Stray::told).collect()
}
