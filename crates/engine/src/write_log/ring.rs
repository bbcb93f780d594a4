//! The ring, and what waits to be written to it.

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

/// Batches are no longer than such a share of the ring.
const BATCHES_PER_RING: u64 = 4;

/// One thing to be logged, and what tells that it is in the cache; nothing for what needs not be there.
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

/// What is the matter with the log.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    /// The journal does not know of it yet.
    New,
    /// The journal is being told of it: from here on its snapshots tell it, too, since one may be begun once it is durable and before
    /// the log is active.
    Announced,
    Active,
    /// It failed: nothing is acknowledged until all that it holds is in the cache, and the journal says so.
    Failing(Arc<str>),
    /// The journal is being told that it is not in use any more.
    Ending(Option<Arc<str>>),
    /// The journal says so.
    Over(Option<Arc<str>>),
}

struct State {
    phase: Phase,
    /// Somebody writes a batch.
    led: bool,
    waiting: VecDeque<Logged>,
    /// How many were ever queued, and how many of them are durable.
    queued: u64,
    durable: u64,
    batches: VecDeque<Batch>,
    used_bytes: u64,
    /// Where the next batch goes, unless it does not fit there.
    head: u64,
    sequence: u64,
    /// What the journal says, durably.
    journaled: LogPosition,
    /// The last batch with contents of each object.
    last: HashMap<ObjectId, u64>,
    written: (u64, u64),
    stalls: u64,
}

impl State {
    /// Where a batch of so many bytes has room.
    fn place(&self, bytes: u64, ring_bytes: u64) -> Option<u64> {
        let fits_behind = self.head + bytes <= ring_bytes;
        match self.batches.front().map(|batch| batch.offset) {
            None => Some(if fits_behind { self.head } else { 0 }),
            Some(tail) if self.head > tail && fits_behind => Some(self.head),
            Some(tail) if self.head > tail => (bytes <= tail).then_some(0),
            Some(tail) => (self.head + bytes <= tail).then_some(self.head),
        }
    }

    /// The first batch of which not all is in the cache.
    fn needed(&self) -> LogPosition {
        let needed = self.batches.iter().find(|batch| !batch.is_inserted());
        let (sequence, offset) = needed.map_or((self.sequence, self.head), |batch| (batch.sequence, batch.offset));
        LogPosition { sequence, offset, ..self.journaled }
    }
}

/// A batch to be written.
pub(super) struct Draft {
    pub(super) offset: u64,
    pub(super) bytes: Bytes,
    sequence: u64,
    tokens: Vec<Arc<Token>>,
    objects: Vec<ObjectId>,
    /// How many have been queued up to its last entry.
    up_to: u64,
}

/// What is to be done next by who waits for its entries.
pub(super) enum Turn {
    Durable,
    /// The log is not in use any more.
    Over,
    /// Somebody else writes.
    Wait,
    /// Write a batch; then see again.
    Lead,
}

/// What there is to lead.
pub(super) enum Task {
    /// Have the journal know of the log first.
    Announce(LogPosition),
    Write(Draft),
    /// There is no room in the ring.
    Full,
    /// Have everything in the cache, and the journal know that the log is not in use any more.
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
    /// One that was just made.
    pub(super) fn new(device: D, label: Label, start: u32) -> Self {
        let position = LogPosition { uuid: label.uuid, sequence: 0, offset: 0 };
        Self::with(device, label, start, Phase::New, position)
    }

    /// One that the journal speaks of. Gives the newest contents that it holds, with what tells that they are in the
    /// cache: an older one counts as there when the newest is.
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

    /// Whether what has been acknowledged is durable here.
    pub(crate) fn is_active(&self) -> bool {
        self.state.lock().phase == Phase::Active
    }

    /// Adds entries to what waits; gives the number to wait for. `None`: the log is not in use any more.
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

    /// What who waits for `number` is to do. [`Turn::Lead`] is followed by [`leave`](Self::leave).
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

    /// Takes the lead, if nobody has it.
    pub(super) fn lead(&self) -> bool {
        !std::mem::replace(&mut self.state.lock().led, true)
    }

    /// Another may lead.
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

    /// The journal knows of the log.
    pub(super) fn announced(&self) {
        let mut state = self.state.lock();
        if state.phase == Phase::Announced {
            state.phase = Phase::Active;
        }
    }

    /// The log cannot be written to. What waits is acknowledged when the journal says that the log is not in use.
    pub(super) fn fail(&self, reason: &dyn fmt::Display) {
        let mut state = self.state.lock();
        if matches!(state.phase, Phase::New | Phase::Announced | Phase::Active) {
            state.phase = Phase::Failing(Arc::from(reason.to_string()));
        }
        drop(state);
        self.changed.notify(usize::MAX);
    }

    /// The journal is about to be told that the log is not in use any more, and nothing else of it.
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

    /// The journal says so. Gives the reason, if the log had failed.
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

    /// Has those who wait look again.
    pub(crate) fn wake(&self) {
        self.changed.notify(usize::MAX);
    }

    /// What the journal is to be told: from where on the log is needed. To be asked before the records are taken that
    /// the journal is to be told with it. `None`: nothing new.
    pub(crate) fn news(&self) -> Option<LogPosition> {
        let state = self.state.lock();
        let is_used = matches!(state.phase, Phase::Active | Phase::Failing(_));
        is_used.then(|| state.needed()).filter(|needed| needed.sequence > state.journaled.sequence)
    }

    /// What the journal says now, for its snapshot.
    pub(crate) fn journaled(&self) -> Option<LogPosition> {
        let state = self.state.lock();
        matches!(state.phase, Phase::Announced | Phase::Active | Phase::Failing(_)).then_some(state.journaled)
    }

    /// The journal says, durably, from where on the log is needed.
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

    /// Whether contents of an object may come back from the log at a restart.
    pub(crate) fn holds(&self, object: ObjectId) -> bool {
        let state = self.state.lock();
        state.last.get(&object).is_some_and(|last| *last >= state.journaled.sequence)
    }

    pub(crate) fn status(&self) -> LogStatus {
        let state = self.state.lock();
        LogStatus {
            active: matches!(state.phase, Phase::New | Phase::Announced | Phase::Active),
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

/// Whose contents an entry has.
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
        let label = Label { extent_bytes: 4096, uuid: [1; 16], cache_uuid: [2; 16], ring_bytes: 512 << 10 };
        let log = WriteLog::new(device, label, 1);
        assert!(log.journaled().is_none(), "nothing was logged yet, and the log may be left out");
        assert!(matches!(log.task(), Task::Announce(_)));
        // The announcement may be durable, and a snapshot begun behind it, before the writer hears of it.
        assert_eq!(log.journaled().map(|position| position.uuid), Some([1; 16]));
        log.announced();
        assert!(log.is_active() && log.journaled().is_some());
    }
}
