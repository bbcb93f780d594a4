//! Reading a log back.

use crate::error::Error;
use crate::format::FormatError;
use crate::format::journal::LogPosition;
use crate::format::write_log::{BATCH_BYTES_MAX, BATCH_UNIT_BYTES, Entry, HEADER_BYTES, Header, LABEL_BYTES, Label};
use bytes::Bytes;
use nitro_port::Device;

/// A batch that was read back whole.
pub(crate) struct Batch {
    pub(crate) sequence: u64,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    pub(crate) entries: Vec<Entry>,
}

/// The needed part of a log: consecutive batches.
#[derive(Default)]
pub(crate) struct Row {
    pub(crate) batches: Vec<Batch>,
    /// The offset of the next batch, unless it does not fit there.
    pub(crate) end: u64,
    pub(crate) next_sequence: u64,
    /// The start of the cache in which the last of them was written.
    pub(crate) start: u32,
    /// Batches behind these, or their tails, show that some durable batches are missing: the device damaged the log, or
    /// the journal with the log's position.
    pub(crate) damaged: bool,
}

/// The ring, read in large pieces.
struct Ring<'a, D> {
    device: &'a D,
    bytes: u64,
    from: u64,
    window: Bytes,
}

impl<D: Device> Ring<'_, D> {
    /// Up to `len` bytes at `at`: less at the ring's end.
    async fn read(&mut self, at: u64, len: usize) -> Result<Bytes, Error> {
        let end = at.saturating_add(len as u64).min(self.bytes);
        if at >= end {
            return Ok(Bytes::new());
        }
        if at < self.from || end > self.from + self.window.len() as u64 {
            let block = u64::from(self.device.geometry().block_bytes);
            let from = at / block * block;
            let to = (from + 2 * BATCH_BYTES_MAX as u64).min(self.bytes);
            let bytes = self.device.read(LABEL_BYTES as u64 + from, to.saturating_sub(from) as usize).await;
            (self.from, self.window) = (from, bytes.map_err(Error::Log)?);
        }
        let within = |at: u64| (at.saturating_sub(self.from) as usize).min(self.window.len());
        Ok(self.window.slice(within(at)..within(end)))
    }

    /// The batch at `at`, if it is that one.
    async fn batch(&mut self, at: u64, label: &Label, after: &After) -> Result<Option<(Header, Vec<Entry>)>, Error> {
        let Ok(header) = Header::decode(&self.read(at, HEADER_BYTES).await?) else { return Ok(None) };
        if header.uuid != label.uuid || header.sequence != after.sequence || header.start < after.start {
            return Ok(None);
        }
        let bytes = self.read(at, header.batch_bytes as usize).await?;
        Ok(header.entries(&bytes, label.extent_bytes).ok().map(|entries| (header, entries)))
    }

    /// Whether there is a later batch of this log near `at`, although the next one is missing.
    async fn has_later(&mut self, at: u64, label: &Label, sequence: u64) -> Result<bool, Error> {
        let bytes = self.read(at, BATCH_BYTES_MAX + HEADER_BYTES).await?;
        let mut headers = bytes.chunks(BATCH_UNIT_BYTES).filter_map(|unit| Header::decode(unit).ok());
        Ok(headers.any(|header| header.uuid == label.uuid && header.sequence > sequence))
    }
}

/// The expected properties of the next batch.
struct After {
    sequence: u64,
    start: u32,
}

/// Reads the label of a log device. `None`: it is not a write log.
///
/// # Errors
/// [`Error::Log`]: it cannot be read; [`Error::LogFormat`] where it is damaged, or of a version that is not known.
pub(crate) async fn read_label<D: Device>(device: &D) -> Result<Option<Label>, Error> {
    if device.geometry().size_bytes < LABEL_BYTES as u64 {
        return Ok(None);
    }
    let bytes = device.read(0, LABEL_BYTES).await.map_err(Error::Log)?;
    match Label::decode(&bytes) {
        Ok(label) if LABEL_BYTES as u64 + label.ring_bytes > device.geometry().size_bytes => {
            let (structure, field, value) = ("write log label", "bytes of the ring", label.ring_bytes);
            Err(Error::LogFormat(FormatError::Field { structure, field, value }))
        }
        Ok(label) => Ok(Some(label)),
        Err(FormatError::Magic { .. }) => Ok(None),
        Err(error) => Err(Error::LogFormat(error)),
    }
}

/// Reads the log from `position` on. Takes RAM for its contents.
///
/// # Errors
/// [`Error::Log`]: it cannot be read.
pub(crate) async fn read_row<D: Device>(device: &D, label: &Label, position: LogPosition) -> Result<Row, Error> {
    let mut ring = Ring { device, bytes: label.ring_bytes, from: 0, window: Bytes::new() };
    let mut row =
        Row { end: position.offset.min(label.ring_bytes), next_sequence: position.sequence, ..Row::default() };
    let mut after = After { sequence: position.sequence, start: 0 };
    let mut total = 0;
    loop {
        let mut found = None;
        for at in [row.end, 0] {
            found = ring.batch(at, label, &after).await?.map(|batch| (at, batch));
            if found.is_some() {
                break;
            }
        }
        let Some((offset, (header, entries))) = found else { break };
        let bytes = u64::from(header.batch_bytes);
        row.damaged |= header.tail > position.sequence;
        row.batches.push(Batch { sequence: header.sequence, offset, bytes, entries });
        (row.end, row.next_sequence, row.start) = (offset + bytes, header.sequence + 1, header.start);
        after = After { sequence: row.next_sequence, start: header.start };
        total += bytes;
        if total > label.ring_bytes {
            row.damaged = true;
            break;
        }
    }
    // A batch is written when the one before is durable: where one is missing, there is none behind.
    for at in [row.end, 0] {
        row.damaged |= ring.has_later(at, label, row.next_sequence).await?;
    }
    Ok(row)
}
