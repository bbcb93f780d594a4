//! The ledger: records that are not in the journal yet. Its size is bounded: a caller reserves room before it adds a
//! record, and waits for a commit if there is none. Therefore the records of one commit always have room in the
//! journal; see [`Budget`](crate::journal::Budget).

use crate::error::Error;
use crate::format::journal::{FORGET_BYTES, Record};
use event_listener::Event;
use nitro_cache::CacheManager;
use nitro_port::yielding::attempt_at;
use parking_lot::Mutex;
use std::cell::Cell;
use std::sync::Arc;

/// A commit's number. The commit writes all records that existed when it was requested.
pub(super) type Ticket = u64;

/// The request for a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) ticket: Ticket,
    /// It has to be durable. Otherwise it only has to survive the end of the program, or to make room in the ledger.
    pub(super) durable: bool,
}

#[derive(Debug, Default)]
struct State {
    /// The last commit that was requested.
    asked: Ticket,
    durable_asked: Ticket,
    /// The last commit that has ended.
    done: Ticket,
    failed: Option<Arc<str>>,
    closed: bool,
    /// The committer has ended: nothing will be made durable any more.
    ended: bool,
}

/// Records that no commit has taken yet.
#[derive(Debug, Default)]
struct Pending {
    records: Vec<Record>,
    records_bytes: u64,
    /// Bytes of records for what the cache manager has noted.
    noted_bytes: u64,
    /// Room that was reserved and not used yet.
    reserved_bytes: u64,
    /// Nothing will be made durable any more.
    over: bool,
}

impl Pending {
    const fn told_bytes(&self) -> u64 {
        self.records_bytes + self.noted_bytes
    }
}

/// Records that wait for the journal, and their waiters.
#[derive(Debug)]
pub(crate) struct Ledger {
    pending: Mutex<Pending>,
    /// Most bytes that may be pending or reserved.
    bytes_max: u64,
    state: Mutex<State>,
    /// A commit was requested, or there is other work for the committer.
    pub(super) wanted: Event,
    done: Event,
    /// There may be room again.
    freed: Event,
}

/// Reserved room for records that are added without waiting. It must not be held across an await.
pub(crate) struct Room<'a> {
    ledger: &'a Ledger,
    bytes: Cell<u64>,
}

impl Room<'_> {
    /// Adds a record: durable with the next commit.
    pub(crate) fn push(&self, record: Record) {
        let bytes = record.encoded_bytes() as u64;
        let mut pending = self.ledger.pending.lock();
        if pending.over {
            return;
        }
        let before = pending.told_bytes();
        self.use_up(&mut pending, bytes);
        pending.records.push(record);
        pending.records_bytes += bytes;
        self.ledger.added(pending, before);
    }

    /// Runs an operation of the manager that may note dropped extents: [`FORGET_BYTES`] must have been reserved for
    /// each extent.
    pub(crate) fn noting<T>(&self, manager: &mut CacheManager, change: impl FnOnce(&mut CacheManager) -> T) -> T {
        let before = manager.forgotten_count();
        let result = change(manager);
        self.note(((manager.forgotten_count() - before) * FORGET_BYTES) as u64);
        result
    }

    /// Counts `bytes` of records for changes that the manager has noted. The manager must be locked.
    fn note(&self, bytes: u64) {
        if bytes == 0 {
            return;
        }
        let mut pending = self.ledger.pending.lock();
        if pending.over {
            return;
        }
        let before = pending.told_bytes();
        self.use_up(&mut pending, bytes);
        pending.noted_bytes += bytes;
        self.ledger.added(pending, before);
    }

    fn use_up(&self, pending: &mut Pending, bytes: u64) {
        debug_assert!(bytes <= self.bytes.get(), "{bytes} bytes are told with room for {}", self.bytes.get());
        let used = bytes.min(self.bytes.get());
        self.bytes.set(self.bytes.get() - used);
        pending.reserved_bytes -= used;
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        if self.bytes.get() > 0 {
            self.ledger.pending.lock().reserved_bytes -= self.bytes.get();
            self.ledger.freed.notify(usize::MAX);
        }
    }
}

impl Ledger {
    /// An empty ledger, from which a commit takes at most `bytes_max` bytes of records.
    pub(crate) fn new(bytes_max: u64) -> Self {
        Self {
            pending: Mutex::default(),
            bytes_max,
            state: Mutex::default(),
            wanted: Event::new(),
            done: Event::new(),
            freed: Event::new(),
        }
    }

    /// Runs an operation that adds records, as soon as there is room for `bytes` bytes of records.
    pub(crate) async fn tell<T>(&self, bytes: u64, change: impl FnOnce(&Room<'_>) -> T) -> T {
        let room = self.reserve(bytes).await;
        change(&room)
    }

    /// As [`tell`](Self::tell), if there is room now.
    pub(crate) fn tell_at_once<T>(&self, bytes: u64, change: impl FnOnce(&Room<'_>) -> T) -> Option<T> {
        self.try_reserve(bytes).map(|room| change(&room))
    }

    /// Adds a record as soon as there is room: durable with the next commit.
    pub(crate) async fn push(&self, record: Record) {
        self.tell(record.encoded_bytes() as u64, |room| room.push(record)).await;
    }

    /// How many records of up to `bytes` bytes each may be added in one step, at most `count`, so that other callers
    /// find room, too.
    pub(crate) fn step(&self, bytes: usize, count: u64) -> u64 {
        (self.bytes_max / 2 / bytes as u64).clamp(1, count)
    }

    async fn reserve(&self, bytes: u64) -> Room<'_> {
        debug_assert!(bytes <= self.bytes_max, "{bytes} bytes never have room in {}", self.bytes_max);
        let bytes = bytes.min(self.bytes_max);
        let mut attempts = 0;
        attempt_at(&self.freed, || {
            let room = self.try_reserve(bytes);
            attempts += 1;
            // There are two before each wait.
            if room.is_none() && attempts % 2 == 0 {
                self.ask();
            }
            room
        })
        .await
    }

    fn try_reserve(&self, bytes: u64) -> Option<Room<'_>> {
        let mut pending = self.pending.lock();
        let is_room = pending.told_bytes() + pending.reserved_bytes + bytes <= self.bytes_max;
        (is_room || pending.over).then(|| {
            pending.reserved_bytes += bytes;
            Room { ledger: self, bytes: Cell::new(bytes) }
        })
    }

    /// Requests a commit when half of the room is used, before a caller has to wait.
    fn added(&self, pending: parking_lot::MutexGuard<'_, Pending>, before: u64) {
        let (mark, after) = (self.bytes_max / 2, pending.told_bytes());
        drop(pending);
        if before < mark && after >= mark {
            self.ask();
        }
    }

    /// Records that no commit has taken yet.
    pub(crate) fn pending(&self) -> usize {
        self.pending.lock().records.len()
    }

    /// Takes the records; the caller also takes those of the manager, which must be locked.
    pub(super) fn take(&self) -> Vec<Record> {
        let mut pending = self.pending.lock();
        (pending.records_bytes, pending.noted_bytes) = (0, 0);
        let records = std::mem::take(&mut pending.records);
        drop(pending);
        self.freed.notify(usize::MAX);
        records
    }

    /// Drops all records, and ignores further ones.
    fn give_up(&self) {
        let mut pending = self.pending.lock();
        pending.over = true;
        pending.records = Vec::new();
        (pending.records_bytes, pending.noted_bytes) = (0, 0);
        drop(pending);
        self.freed.notify(usize::MAX);
    }

    /// Requests a commit, without waiting for it.
    pub(crate) fn ask(&self) {
        self.state.lock().asked += 1;
        self.wanted.notify(usize::MAX);
    }

    /// Waits until all records and all appended dirty data are durable.
    pub(super) async fn commit(&self) -> Result<(), Error> {
        self.wait_for(true).await
    }

    /// Waits until all records are written, so that they survive the end of the program.
    pub(super) async fn write(&self) -> Result<(), Error> {
        self.wait_for(false).await
    }

    async fn wait_for(&self, durable: bool) -> Result<(), Error> {
        let ticket = {
            let mut state = self.state.lock();
            state.asked += 1;
            if durable {
                state.durable_asked = state.asked;
            }
            state.asked
        };
        self.wanted.notify(usize::MAX);
        attempt_at(&self.done, || {
            let state = self.state.lock();
            if let Some(reason) = &state.failed {
                return Some(Err(Error::Poisoned { reason: reason.clone() }));
            }
            if state.done >= ticket {
                return Some(Ok(()));
            }
            state.ended.then(|| Err(Error::Poisoned { reason: Arc::from("the cache is closed") }))
        })
        .await
    }

    /// The requested commit, if any: it serves all earlier requests.
    pub(super) fn asked(&self) -> Option<Asked> {
        let state = self.state.lock();
        let asked = state.asked > state.done && state.failed.is_none();
        asked.then_some(Asked { ticket: state.asked, durable: state.durable_asked > state.done })
    }

    /// Notes that a requested commit has ended.
    pub(super) fn finish(&self, asked: Asked) {
        self.state.lock().done = asked.ticket;
        self.done.notify(usize::MAX);
    }

    /// Notes that nothing can be made durable any more.
    pub(crate) fn fail(&self, reason: &str) {
        self.state.lock().failed.get_or_insert_with(|| Arc::from(reason));
        self.give_up();
        self.done.notify(usize::MAX);
    }

    pub(crate) fn failed(&self) -> Option<Arc<str>> {
        self.state.lock().failed.clone()
    }

    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.wanted.notify(usize::MAX);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    /// Nothing will be made durable any more.
    pub(crate) fn end(&self) {
        self.state.lock().ended = true;
        self.give_up();
        self.done.notify(usize::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use std::pin::pin;

    fn record() -> Record {
        Record::NextVersion { version: 1 }
    }

    #[test]
    fn who_has_no_room_waits_for_a_commit_and_asks_for_it() {
        let ledger = Ledger::new(80);
        for _ in 0..4 {
            ledger.push(record()).now_or_never().unwrap();
        }
        assert_eq!(ledger.asked(), None);
        ledger.push(record()).now_or_never().unwrap();
        assert_eq!(ledger.asked(), Some(Asked { ticket: 1, durable: false }), "half of the room is used");
        for _ in 5..10 {
            ledger.push(record()).now_or_never().unwrap();
        }
        let mut waiting = pin!(ledger.push(record()));
        assert!(waiting.as_mut().now_or_never().is_none());
        assert_eq!((ledger.asked(), ledger.pending()), (Some(Asked { ticket: 2, durable: false }), 10));
        assert_eq!(ledger.take().len(), 10);
        assert!(waiting.now_or_never().is_some());
        assert_eq!(ledger.pending(), 1);
    }

    #[test]
    fn a_commit_is_durable_if_anybody_asks_for_that() {
        let ledger = Ledger::new(80);
        let (mut durable, mut written) = (pin!(ledger.commit()), pin!(ledger.write()));
        assert!(durable.as_mut().now_or_never().is_none() && written.as_mut().now_or_never().is_none());
        let both = Asked { ticket: 2, durable: true };
        assert_eq!(ledger.asked(), Some(both));
        // Asked for too late for the commit that is under way.
        let mut later = pin!(ledger.commit());
        assert!(later.as_mut().now_or_never().is_none());
        ledger.finish(both);
        assert!(durable.now_or_never().is_some() && written.now_or_never().is_some());
        assert!(later.as_mut().now_or_never().is_none());
        let last = Asked { ticket: 3, durable: true };
        assert_eq!(ledger.asked(), Some(last));
        ledger.finish(last);
        assert_eq!(ledger.asked(), None);
        ledger.ask();
        assert_eq!(ledger.asked(), Some(Asked { ticket: 4, durable: false }));
    }

    #[test]
    fn room_that_is_not_used_is_given_back() {
        let ledger = Ledger::new(80);
        let room = ledger.reserve(80).now_or_never().unwrap();
        room.push(record());
        room.note(24);
        let mut waiting = pin!(ledger.reserve(48));
        assert!(waiting.as_mut().now_or_never().is_none());
        drop(room);
        let second = waiting.now_or_never().expect("80 bytes less 8 and 24");
        assert!(ledger.reserve(1).now_or_never().is_none());
        assert_eq!(ledger.take().len(), 1);
        assert!(ledger.reserve(32).now_or_never().is_some());
        drop(second);
        assert!(ledger.reserve(80).now_or_never().is_some());
    }

    #[test]
    fn nobody_waits_for_a_journal_that_has_failed() {
        let ledger = Ledger::new(8);
        ledger.push(record()).now_or_never().unwrap();
        let mut waiting = pin!(ledger.push(record()));
        assert!(waiting.as_mut().now_or_never().is_none());
        ledger.fail("out of order");
        assert!(waiting.now_or_never().is_some());
        assert_eq!(ledger.pending(), 0);
    }

    #[test]
    fn steps_leave_room_for_others() {
        let ledger = Ledger::new(1000);
        assert_eq!([ledger.step(24, 64), ledger.step(1, 64), ledger.step(900, 64)], [20, 64, 1]);
    }
}
