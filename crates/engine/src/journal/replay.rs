//! Reading the journal back.

use super::area::Halves;
use super::tail::Tail;
use super::{Area, Identity, Journal, Witness};
use crate::error::Error;
use crate::format::FormatError;
use crate::format::journal::{BATCH_UNIT_BYTES, Header, HeaderCrc, Kind, Record};
use bytes::Bytes;
use futures_util::future::{try_join, try_join_all};
use nitro_port::buf::BufMut;
use nitro_port::{Device, Operation};
use std::cmp::Ordering;

/// Bytes of a read.
const READ_BYTES: u64 = 1 << 20;
/// Where no batch begins in so many bytes behind the last one, none follows: a half is written from its begin without gaps, in
/// batches of which even one that cannot be read is several times shorter than this. Should a crash have left batches further
/// behind, they never continue anything: their start number is lower than those that follow, as the superblock records it first.
const EMPTY_BYTES: u64 = 4 * READ_BYTES;

/// A complete batch that was read back.
pub struct Batch {
    pub(crate) header: Header,
    crc: HeaderCrc,
    payload: Bytes,
    /// The offset of the next one within the half.
    pub(crate) end: u64,
    is_last: bool,
}

impl Batch {
    /// Its records, in the order in which they were appended.
    pub fn records(&self) -> impl Iterator<Item = Record> + '_ {
        let mut rest = &self.payload[..];
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            // Each record was decoded when the batch was read: nothing is left out here.
            let (record, bytes) = Record::decode(rest).ok()?;
            rest = &rest[bytes..];
            Some(record)
        })
    }

    /// Whether it belongs to the snapshot that the journal begins with, not to the log.
    #[must_use]
    pub fn is_snapshot(&self) -> bool {
        self.header.kind != Kind::Log
    }

    /// Whether it is the last one.
    #[must_use]
    pub const fn is_last(&self) -> bool {
        self.is_last
    }

    /// How often the cache had been started when this was written.
    #[must_use]
    pub const fn start(&self) -> u32 {
        self.header.start
    }
}

/// The content of a journal: a snapshot, then the log.
///
/// After a crash, log batches whose data never became durable may be there. The caller processes them in order, stops
/// at the first one whose data do not match the batch, and [`resume`](Self::resume)s with the number of accepted ones.
pub struct Replay {
    halves: Halves,
    epoch: u64,
    half: usize,
    batches: Vec<Batch>,
    snapshot_batches: usize,
    next_start: u32,
    next_sequence: u64,
    lost_batches: u32,
    durable_batches: u32,
}

impl Replay {
    /// All batches in order, those of the snapshot first.
    #[must_use]
    pub fn batches(&self) -> &[Batch] {
        &self.batches
    }

    /// How many of them are the log's.
    #[must_use]
    pub fn log_batches(&self) -> usize {
        self.batches.len() - self.snapshot_batches
    }

    /// A start number that is higher than those of all batches on the device.
    #[must_use]
    pub const fn next_start(&self) -> u32 {
        self.next_start
    }

    /// Number of log batches behind the last one that had been durable, according to later batches or to a witness, and cannot be read:
    /// the device damaged the journal. 0 after any crash of a correct device.
    #[must_use]
    pub const fn lost_batches(&self) -> u32 {
        self.lost_batches
    }

    /// Whether a batch is known to have been durable, together with the data that it speaks of: what of these cannot be
    /// read any more was lost later.
    #[must_use]
    pub fn was_durable(&self, batch: &Batch) -> bool {
        batch.header.number < self.durable_batches
    }

    /// Takes into account what was flushed according to a witness outside of the journal.
    pub(crate) fn hear(&mut self, witness: Witness) {
        let sequence = self.batches.first().map_or(0, |batch| batch.header.sequence) as u32;
        let missing = match sequence.cmp(&witness.sequence()) {
            Ordering::Equal => {
                self.durable_batches = self.durable_batches.max(witness.batches());
                witness.batches().saturating_sub(self.batches.len() as u32)
            }
            // All of a later half, which had become the active one.
            Ordering::Less => witness.batches(),
            Ordering::Greater => 0,
        };
        self.lost_batches = self.lost_batches.max(missing);
    }

    /// Continues behind the first `accepted` log batches. Batches behind them are still found until the next batch is
    /// durable, and never after that. A start below [`next_start`](Self::next_start) is raised to it.
    ///
    /// Therefore the caller appends a batch, which may be empty, and flushes, before it writes the start number
    /// elsewhere, or data that a refused batch could refer to. This flush also makes the accepted batches durable:
    /// after a mere process crash, they may not have been durable.
    ///
    /// # Panics
    /// If more batches are accepted than there are, or the epoch is another one.
    #[must_use]
    pub fn resume(self, accepted: usize, identity: Identity) -> Journal {
        assert!(accepted <= self.log_batches(), "{accepted} of {} log batches accepted", self.log_batches());
        assert_eq!(identity.epoch, self.epoch, "a journal of another formatting");
        let last = &self.batches[self.snapshot_batches + accepted - 1];
        let tail = Tail {
            half: self.half,
            sequence: last.header.sequence,
            batches: last.header.number.saturating_add(1),
            durable: 0,
            confirmed: 0,
            at: last.end,
            log_at: self.batches[self.snapshot_batches - 1].end,
            previous: last.crc,
            // On a device with larger blocks than the one that this was written on, the log may end within a block.
            broken: !last.end.is_multiple_of(self.halves.block_bytes),
        };
        let identity = Identity { start: identity.start.max(self.next_start), ..identity };
        Journal::new(self.halves, identity, tail, self.next_sequence)
    }
}

/// One half as it was read.
pub(crate) struct Half {
    pub(crate) batches: Vec<Batch>,
    /// The snapshot's, if it is complete.
    pub(crate) snapshot_batches: Option<usize>,
    /// Why there is not a single batch.
    pub(crate) refused: Option<FormatError>,
    /// Headers of this formatting behind the last batch, whatever they belong to.
    remains: Vec<Header>,
}

impl Half {
    pub(crate) fn parse(bytes: &Bytes, epoch: u64) -> Self {
        let mut half = Self { batches: Vec::new(), snapshot_batches: None, refused: None, remains: Vec::new() };
        let mut at = 0;
        loop {
            match next_batch(bytes, at, epoch, half.batches.last(), half.snapshot_batches.is_some()) {
                Ok(batch) => {
                    at = batch.end as usize;
                    half.batches.push(batch);
                    if half.batches.last().is_some_and(|b| b.header.kind == Kind::SnapshotEnd) {
                        half.snapshot_batches = Some(half.batches.len());
                    }
                }
                Err(error) => {
                    half.refused = half.batches.is_empty().then_some(error);
                    break;
                }
            }
        }
        if let Some(last) = half.batches.last_mut() {
            last.is_last = true;
        }
        let behind = bytes[at..].chunks(BATCH_UNIT_BYTES).filter_map(|block| Header::decode(block).ok());
        half.remains = behind.map(|(header, _)| header).filter(|h| h.epoch == epoch).collect();
        half
    }

    fn headers(&self) -> impl Iterator<Item = &Header> {
        self.batches.iter().map(|b| &b.header).chain(&self.remains)
    }

    pub(crate) fn sequence(&self) -> Option<u64> {
        self.snapshot_batches.and(self.batches.first()).map(|b| b.header.sequence)
    }

    /// How many batches were durable according to later ones, of which the header alone need be readable.
    pub(crate) fn durable_batches(&self) -> u32 {
        let Some(last) = self.batches.last() else { return 0 };
        let of_this = |h: &&Header| h.sequence == last.header.sequence && h.start >= last.header.start;
        let behind = self.remains.iter().filter(of_this);
        behind.chain(self.batches.iter().map(|batch| &batch.header)).map(|h| h.durable).max().unwrap_or(0)
    }

    pub(crate) fn lost_batches(&self) -> u32 {
        self.durable_batches().saturating_sub(self.batches.len() as u32)
    }
}

/// The batch at `at`, if it is valid and continues the row.
fn next_batch(
    bytes: &Bytes,
    at: usize,
    epoch: u64,
    previous: Option<&Batch>,
    snapshot_done: bool,
) -> Result<Batch, FormatError> {
    let refuse = |field, value| FormatError::Field { structure: "journal batch header", field, value };
    let here = bytes.slice(at..);
    let (header, crc) = Header::decode(&here)?;
    if header.epoch != epoch {
        return Err(refuse("epoch", header.epoch));
    }
    let expected = previous.map_or((0, HeaderCrc(0), header.sequence, 0), |p| {
        (p.header.number.saturating_add(1), p.crc, p.header.sequence, p.header.start)
    });
    if (header.number, header.previous, header.sequence) != (expected.0, expected.1, expected.2) {
        return Err(refuse("number", header.number.into()));
    }
    if header.start < expected.3 {
        return Err(refuse("start", header.start.into()));
    }
    if (header.kind == Kind::Log) != snapshot_done {
        return Err(refuse("kind", header.kind as u64));
    }
    let payload = here.slice_ref(header.payload(&here)?);
    let end = at as u64 + u64::from(header.batch_bytes);
    Ok(Batch { header, crc, payload, end, is_last: false })
}

/// See [`Journal::read`].
pub(super) async fn read<F: Device>(flash: &F, area: Area, epoch: u64) -> Result<Option<Replay>, Error> {
    let halves = Halves::new(area, &flash.geometry(), Operation::Read).map_err(Error::Flash)?;
    let (a, b) = try_join(read_half(flash, &halves, 0, epoch), read_half(flash, &halves, 1, epoch)).await?;
    let headers = || a.headers().chain(b.headers());
    let next_start = headers().map(|h| h.start).max().map_or(0, |start| start.saturating_add(1));
    let next_sequence = headers().map(|h| h.sequence).max().map_or(1, |sequence| sequence.saturating_add(1));
    let nothing = headers().next().is_none();
    let (half, chosen, other) = if a.sequence() >= b.sequence() { (0, a, b) } else { (1, b, a) };
    let Some(snapshot_batches) = chosen.snapshot_batches else {
        let version = |error: &Option<FormatError>| matches!(error, Some(FormatError::Version { .. }));
        if let Some(error) = [chosen.refused, other.refused].into_iter().find(version).flatten() {
            return Err(Error::Format(error));
        }
        let damaged = FormatError::Checksum { structure: "journal snapshot" };
        return if nothing { Ok(None) } else { Err(Error::Format(damaged)) };
    };
    let (lost_batches, durable_batches) = (chosen.lost_batches(), chosen.durable_batches());
    let batches = chosen.batches;
    let replay = Replay {
        halves,
        epoch,
        half,
        batches,
        snapshot_batches,
        next_start,
        next_sequence,
        lost_batches,
        durable_batches,
    };
    Ok(Some(replay))
}

/// Reads a half as far as it was ever written: a large journal is mostly empty, and a start waits for this.
async fn read_half<F: Device>(flash: &F, halves: &Halves, half: usize, epoch: u64) -> Result<Half, Error> {
    let mut bytes = BufMut::with_capacity(halves.half_bytes as usize);
    // Behind the last batch of this formatting, be it of an earlier use of the half.
    let mut written = 0;
    let mut at = 0;
    while at < halves.half_bytes.min(written + EMPTY_BYTES) {
        let end = halves.half_bytes.min(at + EMPTY_BYTES);
        let pieces = (at..end).step_by(READ_BYTES as usize).map(|from| {
            let len = (end - from).min(READ_BYTES);
            flash.read(halves.offset(half) + from, len as usize)
        });
        let pieces = try_join_all(pieces.collect::<Vec<_>>()).await.map_err(Error::Flash)?;
        bytes.grow_to(end as usize);
        for (piece, place) in pieces.iter().zip(bytes[at as usize..].chunks_mut(READ_BYTES as usize)) {
            place.copy_from_slice(piece);
        }
        for from in (at..end).step_by(BATCH_UNIT_BYTES) {
            if let Ok((header, _)) = Header::decode(&bytes[from as usize..])
                && header.epoch == epoch
            {
                written = written.max(from + u64::from(header.batch_bytes));
            }
        }
        at = end;
    }
    Ok(Half::parse(&bytes.freeze(), epoch))
}
