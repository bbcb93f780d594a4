//! The ring, and the entries that wait to be written to it.

use super::LogStatus;
use super::read::Row;
use crate::format::journal::LogPosition;
use crate::format::write_log::{BATCH_BYTES_MAX, Entry, Header, LABEL_BYTES, Label, batch_bytes, encode};
use crate::volume::Token;
use bytes::Bytes;
use event_listener::Event;
use nitro_port::Device;
use nitro_units::ObjectId;
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;

/// A batch takes at most this fraction of the ring.
const BATCHES_PER_RING: u64 = 4;

/// An entry to log, with the token that shows that it is in the cache; no token for entries that need not be there.
pub(crate) struct Logged {
    pub(crate) entry: Entry,
    pub(crate) token: Option<Arc<Token>>,
}

/// A batch that is durable and still needed.
struct Batch {
    sequence: u64,
    offset: u64,
    bytes: u64,
    tokens: Vec<Arc<Token>>,
}

impl Batch {
    /// Whether all of it is in the cache.
    fn is_inserted(&self) -> bool {
        self.tokens.iter().all(|token| token.is_inserted())
    }
}

/// The state of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    /// The journal has no record of it yet.
    New,
    /// Its record is being written to the journal. From here on, snapshots contain the record, too, since one may begin
    /// after the record is durable and before the log is active.
    Announced,
    Active,
    /// It failed: no write is acknowledged until all its contents are in the cache, and the journal has a record of it.
    Failing(Arc<str>),
    /// The record that it is not in use any more is being written to the journal.
    Ending(Option<Arc<str>>),
    /// The journal says so.
    Over(Option<Arc<str>>),
}

impl Phase {
    const fn is_promised(&self) -> bool {
        matches!(self, Self::New | Self::Announced | Self::Active)
    }
}

struct State {
    phase: Phase,
    /// A batch is being written.
    led: bool,
    waiting: VecDeque<Logged>,
    /// Total number of entries queued.
    queued: u64,
    durable: u64,
    batches: VecDeque<Batch>,
    used_bytes: u64,
    /// The offset of the next batch, unless it does not fit there.
    head: u64,
    sequence: u64,
    /// The durable position in the journal.
    journaled: LogPosition,
    /// The last batch with contents of each object.
    last: HashMap<ObjectId, u64>,
    written: (u64, u64),
    stalls: u64,
}

impl State {
    /// The offset at which a batch of `bytes` fits.
    fn place(&self, bytes: u64, ring_bytes: u64) -> Option<u64> {
        let fits_behind = self.head + bytes <= ring_bytes;
        match self.batches.front().map(|batch| batch.offset) {
            None => Some(if fits_behind { self.head } else { 0 }),
            Some(tail) if self.head > tail && fits_behind => Some(self.head),
            Some(tail) if self.head > tail => (bytes <= tail).then_some(0),
            Some(tail) => (self.head + bytes <= tail).then_some(self.head),
        }
    }

    /// The first batch whose contents are not all in the cache.
    fn needed(&self) -> LogPosition {
        let needed = self.batches.iter().find(|batch| !batch.is_inserted());
        let (sequence, offset) = needed.map_or((self.sequence, self.head), |batch| (batch.sequence, batch.offset));
        LogPosition { sequence, offset, ..self.journaled }
    }
}

/// A batch to write.
pub(super) struct Draft {
    pub(super) offset: u64,
    pub(super) bytes: Bytes,
    pub(super) sequence: u64,
    tokens: Vec<Arc<Token>>,
    objects: Vec<ObjectId>,
    /// The number of entries queued up to its last entry.
    up_to: u64,
}

/// What a caller that waits for its entries does next.
pub(super) enum Turn {
    Durable,
    /// The log is not in use any more.
    Over,
    /// Another caller writes.
    Wait,
    /// Write a batch; then see again.
    Lead,
}

/// The task of the writer.
pub(super) enum Task {
    /// Record the log in the journal first.
    Announce(LogPosition),
    Write(Draft),
    /// There is no room in the ring.
    Full,
    /// Make everything durable in the cache, and record in the journal that the log is not in use any more.
    FallBack,
    Nothing,
}

/// A write log in use.
pub(crate) struct WriteLog<D> {
    pub(super) device: D,
    label: Label,
    start: u32,
    block_bytes: u32,
    /// No batch of several entries is longer.
    batch_bytes_max: u64,
    state: Mutex<State>,
    pub(super) changed: Event,
}

impl<D: Device> WriteLog<D> {
    /// A newly created log.
    pub(super) fn new(device: D, label: Label, start: u32) -> Self {
        let position = LogPosition { uuid: label.uuid, sequence: 0, offset: 0 };
        Self::with(device, label, start, Phase::New, position)
    }

    /// A log that the journal names. Returns its newest contents, with tokens that show that they are in the cache: an
    /// older content counts as inserted when the newest is.
    pub(super) fn resumed(
        device: D,
        label: Label,
        start: u32,
        position: LogPosition,
        row: Row,
        mut token: impl FnMut(&Entry) -> Option<Arc<Token>>,
    ) -> Self {
        let mut log = Self::with(device, label, start, Phase::Active, position);
        let state = log.state.get_mut();
        (state.sequence, state.head) = (row.next_sequence, row.end);
        for batch in row.batches {
            let objects = batch.entries.iter().filter_map(object);
            state.last.extend(objects.map(|object| (object, batch.sequence)));
            let (sequence, offset, bytes) = (batch.sequence, batch.offset, batch.bytes);
            let tokens = batch.entries.iter().filter_map(&mut token).collect();
            state.used_bytes += bytes;
            state.batches.push_back(Batch { sequence, offset, bytes, tokens });
        }
        log
    }

    fn with(device: D, label: Label, start: u32, phase: Phase, journaled: LogPosition) -> Self {
        let state = State {
            phase,
            led: false,
            waiting: VecDeque::new(),
            queued: 0,
            durable: 0,
            batches: VecDeque::new(),
            used_bytes: 0,
            head: journaled.offset,
            sequence: journaled.sequence,
            journaled,
            last: HashMap::new(),
            written: (0, 0),
            stalls: 0,
        };
        let block_bytes = device.geometry().block_bytes;
        let batch_bytes_max = (label.ring_bytes / BATCHES_PER_RING).min(BATCH_BYTES_MAX as u64);
        Self { device, label, start, block_bytes, batch_bytes_max, state: Mutex::new(state), changed: Event::new() }
    }

    /// Whether acknowledged writes are durable in this log.
    pub(crate) fn is_active(&self) -> bool {
        self.state.lock().phase == Phase::Active
    }

    /// Whether writes in write-back are to be durable when they are acknowledged: also before the first entry.
    pub(crate) fn is_promised(&self) -> bool {
        self.state.lock().phase.is_promised()
    }

    /// Adds entries to the queue; returns the number to wait for. `None`: the log is not in use any more.
    pub(super) fn queue(&self, entries: impl Iterator<Item = Logged>) -> Option<u64> {
        let mut state = self.state.lock();
        if matches!(state.phase, Phase::Over(_)) {
            return None;
        }
        let before = state.waiting.len();
        state.waiting.extend(entries);
        state.queued += (state.waiting.len() - before) as u64;
        Some(state.queued)
    }

    /// What a caller that waits for `number` does next. [`Turn::Lead`] is followed by [`leave`](Self::leave).
    pub(super) fn turn(&self, number: u64) -> Turn {
        let mut state = self.state.lock();
        match state.phase {
            _ if state.durable >= number => Turn::Durable,
            Phase::Over(_) => Turn::Over,
            _ if state.led => Turn::Wait,
            _ => {
                state.led = true;
                Turn::Lead
            }
        }
    }

    /// Becomes the writer, if there is none.
    pub(super) fn lead(&self) -> bool {
        !std::mem::replace(&mut self.state.lock().led, true)
    }

    /// Ends being the writer.
    pub(super) fn leave(&self) {
        self.state.lock().led = false;
        self.changed.notify(usize::MAX);
    }

    pub(super) fn task(&self) -> Task {
        let mut state = self.state.lock();
        match &state.phase {
            Phase::New | Phase::Announced => {
                state.phase = Phase::Announced;
                return Task::Announce(state.journaled);
            }
            Phase::Active => {}
            Phase::Failing(_) | Phase::Ending(_) => return Task::FallBack,
            Phase::Over(_) => return Task::Nothing,
        }
        let (mut bytes, mut count) = (0, 0);
        for logged in &state.waiting {
            let more = bytes + logged.entry.encoded_bytes();
            if count > 0 && batch_bytes(more, self.block_bytes) as u64 > self.batch_bytes_max {
                break;
            }
            (bytes, count) = (more, count + 1);
        }
        if count == 0 {
            return Task::Nothing;
        }
        let Some(offset) = state.place(batch_bytes(bytes, self.block_bytes) as u64, self.label.ring_bytes) else {
            state.stalls += 1;
            return Task::Full;
        };
        let mut draft = Draft {
            offset,
            bytes: Bytes::new(),
            sequence: state.sequence,
            tokens: Vec::with_capacity(count),
            objects: Vec::new(),
            up_to: state.queued - (state.waiting.len() - count) as u64,
        };
        let mut entries = Vec::with_capacity(count);
        for Logged { entry, token } in state.waiting.drain(..count) {
            draft.objects.extend(object(&entry).filter(|object| draft.objects.last() != Some(object)));
            draft.tokens.extend(token);
            entries.push(entry);
        }
        let (sequence, tail) = (state.sequence, state.journaled.sequence);
        drop(state);
        let (uuid, start) = (self.label.uuid, self.start);
        let header = Header { batch_bytes: 0, uuid, sequence, tail, start, records: 0, body_crc: 0 };
        draft.bytes = encode(header, &entries, self.block_bytes);
        Task::Write(draft)
    }

    /// Writes a batch; it is durable when this returns.
    pub(super) async fn write(&self, draft: &Draft) -> Result<(), nitro_port::DeviceError> {
        self.device.write(LABEL_BYTES as u64 + draft.offset, draft.bytes.clone()).await?;
        self.device.flush().await
    }

    /// A batch is durable. `true`: it is time for a commit, so that there is room before it is needed.
    pub(super) fn written(&self, draft: Draft) -> bool {
        let mut state = self.state.lock();
        let Draft { offset, sequence, tokens, objects, up_to, .. } = draft;
        let bytes = draft.bytes.len() as u64;
        (state.sequence, state.head, state.durable) = (sequence + 1, offset + bytes, up_to);
        state.batches.push_back(Batch { sequence, offset, bytes, tokens });
        state.written = (state.written.0 + 1, state.written.1 + bytes);
        let (before, half) = (state.used_bytes, self.label.ring_bytes / 2);
        state.used_bytes += bytes;
        state.last.extend(objects.into_iter().map(|object| (object, sequence)));
        before < half && state.used_bytes >= half
    }

    /// Notes that the journal has a record of the log.
    pub(super) fn announced(&self) {
        let mut state = self.state.lock();
        if state.phase == Phase::Announced {
            state.phase = Phase::Active;
        }
    }

    /// Notes that the log cannot be written to. Waiting writes are acknowledged when the journal has a record that the
    /// log is not in use.
    pub(super) fn fail(&self, reason: &dyn fmt::Display) {
        let mut state = self.state.lock();
        if state.phase.is_promised() {
            state.phase = Phase::Failing(Arc::from(reason.to_string()));
        }
        drop(state);
        self.changed.notify(usize::MAX);
    }

    /// Notes that the record that the log is not in use any more is about to be written.
    pub(super) fn end(&self) {
        let mut state = self.state.lock();
        let reason = match &state.phase {
            Phase::Failing(reason) => Some(reason.clone()),
            Phase::Ending(reason) => reason.clone(),
            Phase::New | Phase::Announced | Phase::Active => None,
            Phase::Over(_) => return,
        };
        state.phase = Phase::Ending(reason);
    }

    /// Notes that the journal has that record. Returns the reason, if the log had failed.
    pub(super) fn ended(&self) -> Option<Arc<str>> {
        let mut state = self.state.lock();
        let reason = match &state.phase {
            Phase::Ending(reason) => reason.clone(),
            _ => return None,
        };
        state.phase = Phase::Over(reason.clone());
        state.waiting.clear();
        state.batches.clear();
        state.last.clear();
        state.used_bytes = 0;
        drop(state);
        self.changed.notify(usize::MAX);
        reason
    }

    /// Wakes all waiting callers.
    pub(crate) fn wake(&self) {
        self.changed.notify(usize::MAX);
    }

    /// The position from which on the log is needed, for the journal. To be called before the records of the same
    /// commit are taken. `None`: unchanged.
    pub(crate) fn news(&self) -> Option<LogPosition> {
        let state = self.state.lock();
        let is_used = matches!(state.phase, Phase::Active | Phase::Failing(_));
        is_used.then(|| state.needed()).filter(|needed| needed.sequence > state.journaled.sequence)
    }

    /// The present position in the journal, for its snapshot.
    pub(crate) fn journaled(&self) -> Option<LogPosition> {
        let state = self.state.lock();
        matches!(state.phase, Phase::Announced | Phase::Active | Phase::Failing(_)).then_some(state.journaled)
    }

    /// Notes that the journal has a durable record of the position from which on the log is needed.
    pub(crate) fn release(&self, position: LogPosition) {
        let mut state = self.state.lock();
        if position.sequence <= state.journaled.sequence {
            return;
        }
        state.journaled = position;
        while state.batches.front().is_some_and(|batch| batch.sequence < position.sequence) {
            let released = state.batches.pop_front().map_or(0, |batch| batch.bytes);
            state.used_bytes = state.used_bytes.saturating_sub(released);
        }
        drop(state);
        self.changed.notify(usize::MAX);
    }

    /// Whether a restart may restore contents of an object from the log.
    pub(crate) fn holds(&self, object: ObjectId) -> bool {
        let state = self.state.lock();
        state.last.get(&object).is_some_and(|last| *last >= state.journaled.sequence)
    }

    /// The part of the ring that is still needed, from 0 to 1.
    pub(crate) fn used(&self) -> f64 {
        self.state.lock().used_bytes as f64 / self.label.ring_bytes.max(1) as f64
    }

    pub(crate) fn status(&self) -> LogStatus {
        let state = self.state.lock();
        LogStatus {
            active: state.phase.is_promised(),
            failed: match &state.phase {
                Phase::Failing(reason) | Phase::Ending(Some(reason)) | Phase::Over(Some(reason)) => {
                    Some(reason.to_string())
                }
                _ => None,
            },
            ring_bytes: self.label.ring_bytes,
            used_bytes: state.used_bytes,
            batches: state.written.0,
            written_bytes: state.written.1,
            stalls: state.stalls,
        }
    }
}

/// The object of an entry's content.
fn object(entry: &Entry) -> Option<ObjectId> {
    match entry {
        Entry::Content { key, .. } => Some(key.object()),
        Entry::Void { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nitro_device::RamDevice;

    #[test]
    fn snapshots_tell_of_the_log_from_when_the_journal_is_being_told() {
        let device = RamDevice::new(1 << 20, 512);
        let label =
            Label { extent_bytes: 4096, uuid: [1; 16], cache_uuid: [2; 16], ring_bytes: 512 << 10, start: None };
        let log = WriteLog::new(device, label, 1);
        assert!(log.journaled().is_none(), "nothing was logged yet, and the log may be left out");
        assert!(matches!(log.task(), Task::Announce(_)));
        // The announcement may be durable, and a snapshot begun behind it, before the writer hears of it.
        assert_eq!(log.journaled().map(|position| position.uuid), Some([1; 16]));
        log.announced();
        assert!(log.is_active() && log.journaled().is_some());
    }
}
