//! The memory that the requests of all connections share.
//!
//! Each connection has a small part of its own, so that none can block another. Memory beyond it comes from a shared
//! part, which is allocated in the order of the requests: each gets all that it requests at once, so that no waiting
//! connection holds any of it. A client that holds shared memory while others wait, and neither sends the payload that
//! it announced nor receives its replies, is disconnected after a while.

use futures_util::task::AtomicWaker;
use parking_lot::Mutex;
use std::cell::Cell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};

/// Maximum of a connection's own part: 64 requests of 8 KiB, which then do not compete with other connections.
const OWN_BYTES_MAX: u64 = 512 << 10;
/// Ticks that a client may take for a payload or a batch of replies while others wait for memory, and one more for each MiB.
const TURN_TICKS: u64 = 10;
const TURN_BYTES_A_TICK: u64 = 1 << 20;
/// No turn is in progress.
const NEVER: u64 = u64::MAX;

/// Memory in bytes for the data of requests: payloads of writes, and replies to reads until they are sent.
#[derive(Debug)]
pub struct RequestMemory {
    own_bytes: u64,
    shared_bytes: u64,
    /// Ticks so far.
    now: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Free bytes of the shared part.
    free: u64,
    /// Waiting connections, and the bytes for which they wait.
    waiting: VecDeque<(Arc<Slot>, u64)>,
    connections: Vec<Arc<Slot>>,
}

/// The state of one connection that all can see.
#[derive(Debug)]
struct Slot {
    waker: AtomicWaker,
    /// Bytes that were granted to it and that it has not registered yet.
    granted: AtomicU64,
    /// Bytes of the shared part that it holds.
    held: AtomicU64,
    /// The ticks at which its turns must have ended.
    turns: [AtomicU64; 2],
    overdue: AtomicBool,
}

impl RequestMemory {
    /// `total_bytes` for `connections_max` connections. At most half of it is reserved for single connections. No
    /// request may be larger than the other half.
    #[must_use]
    pub fn new(total_bytes: u64, connections_max: usize) -> Self {
        let connections = (connections_max as u64).max(1);
        let own_bytes = (total_bytes / 2 / connections).min(OWN_BYTES_MAX);
        let shared_bytes = total_bytes - own_bytes * connections;
        let state = State { free: shared_bytes, waiting: VecDeque::new(), connections: Vec::new() };
        Self { own_bytes, shared_bytes, now: AtomicU64::new(0), state: Mutex::new(state) }
    }

    /// Free bytes of the shared part.
    #[must_use]
    pub fn free_bytes(&self) -> u64 {
        self.state.lock().free
    }

    /// Advances the time: to be called once a second. Disconnects overdue clients for whose memory others wait.
    pub fn tick(&self) {
        let now = self.now.fetch_add(1, Ordering::Relaxed) + 1;
        let state = self.state.lock();
        let others_wait = |slot: &Arc<Slot>| state.waiting.iter().any(|claim| !Arc::ptr_eq(&claim.0, slot));
        let is_late = |slot: &&Arc<Slot>| {
            slot.held.load(Ordering::Relaxed) > 0
                && slot.turns.iter().any(|turn| turn.load(Ordering::Relaxed) <= now)
                && others_wait(slot)
        };
        for slot in state.connections.iter().filter(is_late) {
            slot.overdue.store(true, Ordering::SeqCst);
            slot.waker.wake();
        }
    }

    /// Takes `bytes` for `slot` if no other connection waits; otherwise `slot` waits for them.
    fn claim(&self, slot: &Arc<Slot>, bytes: u64) -> bool {
        let mut state = self.state.lock();
        if let Some(claim) = state.waiting.iter_mut().find(|claim| Arc::ptr_eq(&claim.0, slot)) {
            claim.1 = bytes;
            state.grant();
            return false;
        }
        if slot.granted.load(Ordering::SeqCst) > 0 {
            return false;
        }
        if state.waiting.is_empty() && state.free >= bytes {
            state.free -= bytes;
            return true;
        }
        state.waiting.push_back((Arc::clone(slot), bytes));
        false
    }

    fn withdraw(&self, slot: &Arc<Slot>) {
        let mut state = self.state.lock();
        state.waiting.retain(|claim| !Arc::ptr_eq(&claim.0, slot));
        state.grant();
    }

    fn give_back(&self, bytes: u64) {
        let mut state = self.state.lock();
        state.free += bytes;
        state.grant();
    }
}

impl Default for RequestMemory {
    /// 256 MiB for 256 connections.
    fn default() -> Self {
        Self::new(256 << 20, 256)
    }
}

impl State {
    fn grant(&mut self) {
        while let Some((slot, bytes)) = self.waiting.pop_front_if(|claim| claim.1 <= self.free) {
            self.free -= bytes;
            slot.granted.store(bytes, Ordering::SeqCst);
            slot.waker.wake();
        }
    }
}

/// Bytes of memory that a request for `len` bytes at `offset` takes: those of the units of the disk that it touches.
#[must_use]
pub fn memory_bytes(offset: u64, len: u64, unit_bytes: u32) -> u64 {
    let unit = u64::from(unit_bytes.max(1));
    (offset % unit + len).div_ceil(unit) * unit
}

/// What the server waits for from a client.
#[derive(Debug, Clone, Copy)]
pub enum Turn {
    /// A payload that it has to send.
    Payload,
    /// Replies that it has to receive.
    Replies,
}

/// The memory of one connection. Only one of its methods may wait at a time.
#[derive(Debug)]
pub struct Share {
    memory: Arc<RequestMemory>,
    /// Bytes reserved for it.
    own_bytes: u64,
    slot: Arc<Slot>,
    /// Bytes that its requests use.
    used: Cell<u64>,
    /// Bytes of the shared part that it holds, including bytes about to be returned.
    held: Cell<u64>,
}

impl Share {
    /// The memory of a connection, with its own reserved bytes.
    #[must_use]
    pub fn new(memory: &Arc<RequestMemory>) -> Self {
        Self::with_own(memory, memory.own_bytes)
    }

    /// A further part for a connection that has one already: all its bytes come from the shared part.
    #[must_use]
    pub fn further(memory: &Arc<RequestMemory>) -> Self {
        Self::with_own(memory, 0)
    }

    fn with_own(memory: &Arc<RequestMemory>, own_bytes: u64) -> Self {
        let slot = Arc::new(Slot {
            waker: AtomicWaker::new(),
            granted: AtomicU64::new(0),
            held: AtomicU64::new(0),
            turns: [const { AtomicU64::new(NEVER) }; 2],
            overdue: AtomicBool::new(false),
        });
        memory.state.lock().connections.push(Arc::clone(&slot));
        Self { memory: Arc::clone(memory), own_bytes, slot, used: Cell::new(0), held: Cell::new(0) }
    }

    /// Waits until there are `bytes` for a request.
    pub async fn take(&self, bytes: u64) {
        let mut claim = Claim { share: self, is_waiting: false };
        poll_fn(|context| claim.poll(bytes, context)).await;
        self.used.set(self.used.get() + bytes);
    }

    /// Releases `bytes` of a request.
    pub fn give(&self, bytes: u64) {
        self.used.set(self.used.get() - bytes);
        self.settle();
    }

    /// Begins a turn of the client, over `bytes`, that lasts until what it returns is dropped.
    pub fn turn(&self, turn: Turn, bytes: u64) -> TurnUnderWay<'_> {
        let until = self.memory.now.load(Ordering::Relaxed) + TURN_TICKS + bytes / TURN_BYTES_A_TICK;
        let turn = &self.slot.turns[turn as usize];
        turn.store(until, Ordering::Relaxed);
        TurnUnderWay(turn)
    }

    /// As [`turn`](Self::turn), for a turn that begins and ends in different functions: it ends at the next call with
    /// `None`.
    pub fn set_turn(&self, turn: Turn, bytes: Option<u64>) {
        let until = |bytes| self.memory.now.load(Ordering::Relaxed) + TURN_TICKS + bytes / TURN_BYTES_A_TICK;
        self.slot.turns[turn as usize].store(bytes.map_or(NEVER, until), Ordering::Relaxed);
    }

    /// Whether others waited too long for this client's memory. If not, the task is woken when they have.
    #[must_use]
    pub fn is_overdue(&self, context: &Context<'_>) -> bool {
        if self.held.get() == 0 {
            return false;
        }
        self.slot.waker.register(context.waker());
        self.slot.overdue.load(Ordering::SeqCst)
    }

    /// How much of the shared part is needed for `bytes` more.
    fn short(&self, bytes: u64) -> u64 {
        let wanted = self.used.get() + bytes;
        // What is shared is enough for one request, whatever is configured.
        wanted.saturating_sub(self.own_bytes + self.held.get()).min(self.memory.shared_bytes)
    }

    fn hold(&self, more: u64) {
        self.set_held(self.held.get() + more);
    }

    fn set_held(&self, held: u64) {
        self.held.set(held);
        self.slot.held.store(held, Ordering::Relaxed);
    }

    /// Returns unused bytes to the shared part.
    fn settle(&self) {
        let needed = self.used.get().saturating_sub(self.own_bytes);
        let spare = self.held.get().saturating_sub(needed);
        if spare > 0 {
            self.set_held(self.held.get() - spare);
            self.memory.give_back(spare);
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.used.set(0);
        self.settle();
        self.memory.state.lock().connections.retain(|slot| !Arc::ptr_eq(slot, &self.slot));
    }
}

/// Memory that is waited for.
struct Claim<'a> {
    share: &'a Share,
    is_waiting: bool,
}

impl Claim<'_> {
    fn poll(&mut self, bytes: u64, context: &Context<'_>) -> Poll<()> {
        let share = self.share;
        if self.is_waiting {
            self.collect();
        }
        // Requests that have ended meanwhile may have left room in the connection's own part.
        let short = share.short(bytes);
        if short == 0 {
            return Poll::Ready(());
        }
        share.slot.waker.register(context.waker());
        if share.memory.claim(&share.slot, short) {
            share.hold(short);
            return Poll::Ready(());
        }
        self.is_waiting = true;
        self.collect();
        if share.short(bytes) == 0 { Poll::Ready(()) } else { Poll::Pending }
    }

    fn collect(&self) {
        let granted = self.share.slot.granted.swap(0, Ordering::SeqCst);
        if granted > 0 {
            self.share.hold(granted);
        }
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if self.is_waiting {
            self.share.memory.withdraw(&self.share.slot);
            self.collect();
            self.share.settle();
        }
    }
}

/// A turn of a client; over when dropped.
#[derive(Debug)]
pub struct TurnUnderWay<'a>(&'a AtomicU64);

impl Drop for TurnUnderWay<'_> {
    fn drop(&mut self) {
        self.0.store(NEVER, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    const OWN: u64 = OWN_BYTES_MAX;

    /// 3 MiB, of which 1 MiB are shared.
    fn memory() -> Arc<RequestMemory> {
        let memory = RequestMemory::new(3 << 20, 3);
        assert_eq!((memory.own_bytes, memory.shared_bytes), (OWN, (3 << 20) - 3 * OWN));
        Arc::new(memory)
    }

    fn has(share: &Share, bytes: u64) -> bool {
        share.take(bytes).now_or_never().is_some()
    }

    #[test]
    fn each_connection_has_a_part_of_its_own() {
        let memory = memory();
        let (greedy, modest) = (Share::new(&memory), Share::new(&memory));
        assert!(has(&greedy, OWN) && has(&greedy, memory.free_bytes()));
        assert_eq!(memory.free_bytes(), 0);
        assert!(!has(&greedy, 1));
        assert!(has(&modest, OWN) && !has(&modest, 1));
        drop(greedy);
        assert_eq!(memory.free_bytes(), memory.shared_bytes);
        assert!(has(&modest, 1));
        assert_eq!(memory.free_bytes(), memory.shared_bytes - 1);
        modest.give(2);
        assert_eq!(memory.free_bytes(), memory.shared_bytes);
    }

    #[test]
    fn those_that_wait_are_served_in_their_order() {
        let memory = memory();
        let [first, second, third] = [(); 3].map(|()| Share::new(&memory));
        let all = OWN + memory.shared_bytes;
        assert!(has(&first, all));
        let mut large = Box::pin(second.take(all));
        let mut small = Box::pin(third.take(OWN + 1));
        assert!(large.as_mut().now_or_never().is_none() && small.as_mut().now_or_never().is_none());
        first.give(1 << 19);
        // It would do for the small one, which came later.
        assert!(small.as_mut().now_or_never().is_none());
        first.give(all - (1 << 19));
        assert!(large.as_mut().now_or_never().is_some());
        assert!(small.as_mut().now_or_never().is_none());
        second.give(all);
        assert!(small.as_mut().now_or_never().is_some());
    }

    #[test]
    fn who_no_longer_waits_stands_in_nobodys_way() {
        let memory = memory();
        let [first, second, third] = [(); 3].map(|()| Share::new(&memory));
        assert!(has(&first, OWN + memory.shared_bytes / 2));
        let mut large = Box::pin(second.take(OWN + memory.shared_bytes));
        let mut small = Box::pin(third.take(OWN + 1));
        assert!(large.as_mut().now_or_never().is_none() && small.as_mut().now_or_never().is_none());
        drop(large);
        assert!(small.as_mut().now_or_never().is_some());
        // What was given to one that went away comes back.
        let mut rest = Box::pin(second.take(OWN + memory.shared_bytes));
        assert!(rest.as_mut().now_or_never().is_none());
        first.give(OWN + memory.shared_bytes / 2);
        third.give(OWN + 1);
        assert_eq!(memory.free_bytes(), 0);
        drop(rest);
        assert_eq!(memory.free_bytes(), memory.shared_bytes);
    }

    #[test]
    fn room_of_its_own_ends_the_wait_for_what_is_shared() {
        let memory = memory();
        let [greedy, modest] = [(); 2].map(|()| Share::new(&memory));
        assert!(has(&greedy, OWN + memory.shared_bytes) && has(&modest, OWN));
        let mut next = Box::pin(modest.take(OWN));
        assert!(next.as_mut().now_or_never().is_none());
        modest.give(OWN);
        assert!(next.as_mut().now_or_never().is_some());
    }

    #[test]
    fn only_who_is_waited_for_is_overdue() {
        let memory = memory();
        let [slow, other] = [(); 2].map(|()| Share::new(&memory));
        let context = Context::from_waker(std::task::Waker::noop());
        assert!(has(&slow, OWN + memory.shared_bytes));
        let turn = slow.turn(Turn::Payload, 1 << 20);
        (0..100).for_each(|_| memory.tick());
        assert!(!slow.is_overdue(&context));
        let mut waits = Box::pin(other.take(OWN + 1));
        assert!(waits.as_mut().now_or_never().is_none());
        drop(turn);
        memory.tick();
        assert!(!slow.is_overdue(&context), "no turn of the client is under way");
        let _turn = slow.turn(Turn::Replies, 1 << 20);
        (0..TURN_TICKS).for_each(|_| memory.tick());
        assert!(!slow.is_overdue(&context));
        memory.tick();
        assert!(slow.is_overdue(&context) && !other.is_overdue(&context));
    }
}
