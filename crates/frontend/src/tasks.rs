//! The requests of a client that are being carried out.

use futures_util::task::AtomicWaker;
use parking_lot::Mutex;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};

/// The number of slots whose memory is kept while they are free: a client that had many requests once must not keep the
/// memory of all of them.
const KEPT_MAX: usize = 128;

/// Futures of requests, in slots that are used again.
///
/// A new request [is polled](Self::poll_new) before those that a device has answered. Otherwise, where many answers
/// arrive at once, the new requests would be sent to the device only after all of these, and all together: the device
/// would be idle until then, and its next answers would arrive at once again.
pub struct Tasks<F> {
    slots: RefCell<Vec<Rc<Slot<F>>>>,
    free: RefCell<Vec<usize>>,
    new: RefCell<VecDeque<usize>>,
    running: Cell<usize>,
    woken: Arc<Woken>,
}

/// A place for a future, and the future's memory, if it has any.
struct Slot<F> {
    future: RefCell<Option<Pin<Box<Option<F>>>>>,
    bell: Arc<Bell>,
    waker: Waker,
}

/// The numbers of the slots that have to be polled.
#[derive(Default)]
struct Woken {
    slots: Mutex<VecDeque<usize>>,
    parent: AtomicWaker,
}

/// Wakes one slot. A waker of an earlier future in the slot causes one superfluous poll.
struct Bell {
    slot: usize,
    has_rung: AtomicBool,
    woken: Arc<Woken>,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.has_rung.swap(true, SeqCst) {
            self.woken.slots.lock().push_back(self.slot);
            self.woken.parent.wake();
        }
    }
}

impl<F> Default for Tasks<F> {
    fn default() -> Self {
        Self {
            slots: RefCell::default(),
            free: RefCell::default(),
            new: RefCell::default(),
            running: Cell::default(),
            woken: Arc::default(),
        }
    }
}

impl<F> fmt::Debug for Tasks<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tasks").field("running", &self.running).finish_non_exhaustive()
    }
}

impl<F: Future<Output = ()>> Tasks<F> {
    /// Starts a request; it is polled by the next [`poll_new`](Self::poll_new). It runs to its end, even if the client
    /// disconnects: a write must not stop halfway.
    pub fn start(&self, task: F) {
        let free = self.free.borrow_mut().pop();
        let number = free.unwrap_or_else(|| self.add_slot());
        {
            let slots = self.slots.borrow();
            let mut place = slots[number].future.borrow_mut();
            place.get_or_insert_with(|| Box::pin(None)).as_mut().set(Some(task));
        }
        self.new.borrow_mut().push_back(number);
        self.running.set(self.running.get() + 1);
    }

    fn add_slot(&self) -> usize {
        let mut slots = self.slots.borrow_mut();
        let bell =
            Arc::new(Bell { slot: slots.len(), has_rung: AtomicBool::new(false), woken: Arc::clone(&self.woken) });
        let waker = Waker::from(Arc::clone(&bell));
        slots.push(Rc::new(Slot { future: RefCell::new(None), bell, waker }));
        slots.len() - 1
    }

    /// Whether none is running.
    #[must_use]
    pub fn are_done(&self) -> bool {
        self.running.get() == 0
    }

    /// Polls the requests that were started since the last call. Returns how many of them have ended.
    pub fn poll_new(&self, context: &Context<'_>) -> u32 {
        let mut ended = 0;
        if !self.new.borrow().is_empty() {
            self.woken.parent.register(context.waker());
        }
        loop {
            let Some(number) = self.new.borrow_mut().pop_front() else { return ended };
            ended += u32::from(self.poll(number));
        }
    }

    /// Polls new requests, and then those that were woken, until one ends. Returns whether one did.
    pub fn poll_one(&self, context: &Context<'_>) -> bool {
        self.woken.parent.register(context.waker());
        loop {
            let Some(number) = self.new.borrow_mut().pop_front() else { break };
            if self.poll(number) {
                return true;
            }
        }
        // One that wakes itself has its turn in the next call.
        let count = self.woken.slots.lock().len();
        for _ in 0..count {
            let Some(number) = self.woken.slots.lock().pop_front() else { break };
            if self.poll(number) {
                return true;
            }
        }
        false
    }

    /// Polls a slot. Returns whether its future has ended.
    fn poll(&self, number: usize) -> bool {
        let Some(slot) = self.slots.borrow().get(number).cloned() else { return false };
        slot.bell.has_rung.store(false, SeqCst);
        let mut place = slot.future.borrow_mut();
        let Some(memory) = place.as_mut() else { return false };
        let Some(running) = memory.as_mut().as_pin_mut() else { return false };
        if running.poll(&mut Context::from_waker(&slot.waker)) == Poll::Pending {
            return false;
        }
        if number < KEPT_MAX {
            memory.as_mut().set(None);
        } else {
            *place = None;
        }
        self.free.borrow_mut().push(number);
        self.running.set(self.running.get() - 1);
        if self.are_done() && self.slots.borrow().len() > KEPT_MAX {
            self.slots.borrow_mut().truncate(KEPT_MAX);
            self.free.borrow_mut().retain(|number| *number < KEPT_MAX);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::future::BoxFuture;
    use futures_util::task::noop_waker;
    use std::future::poll_fn;
    use std::sync::atomic::AtomicUsize;

    /// A request that ends after it was told to, and counts its polls.
    #[derive(Default)]
    struct Gate {
        is_open: AtomicBool,
        polls: AtomicUsize,
        waker: AtomicWaker,
    }

    impl Gate {
        fn open(&self) {
            self.is_open.store(true, SeqCst);
            self.waker.wake();
        }

        fn pass(self: &Arc<Self>) -> BoxFuture<'static, ()> {
            let gate = Arc::clone(self);
            Box::pin(poll_fn(move |context| {
                gate.waker.register(context.waker());
                gate.polls.fetch_add(1, SeqCst);
                if gate.is_open.load(SeqCst) { Poll::Ready(()) } else { Poll::Pending }
            }))
        }

        fn polls(&self) -> usize {
            self.polls.load(SeqCst)
        }
    }

    #[test]
    fn what_is_new_is_polled_before_what_was_woken() {
        let waker = noop_waker();
        let context = Context::from_waker(&waker);
        let tasks = Tasks::default();
        let old: Vec<_> = (0..64).map(|_| Arc::<Gate>::default()).collect();
        old.iter().for_each(|gate| tasks.start(gate.pass()));
        assert_eq!(tasks.poll_new(&context), 0);
        old.iter().for_each(|gate| gate.open());
        let new = Arc::<Gate>::default();
        tasks.start(new.pass());
        assert!(tasks.poll_one(&context));
        assert_eq!((new.polls(), old[0].polls(), old[1].polls()), (1, 2, 1));
        assert!((1..64).all(|_| tasks.poll_one(&context)));
        assert!(!tasks.poll_one(&context) && !tasks.are_done());
        new.open();
        assert!(tasks.poll_one(&context) && tasks.are_done());
    }

    #[test]
    fn only_what_was_woken_is_polled_and_slots_are_used_again() {
        let waker = noop_waker();
        let context = Context::from_waker(&waker);
        let tasks = Tasks::default();
        for round in 0..100 {
            let gates: Vec<_> = (0..8).map(|_| Arc::<Gate>::default()).collect();
            gates.iter().for_each(|gate| tasks.start(gate.pass()));
            tasks.poll_new(&context);
            gates[round % 8].open();
            gates[round % 8].open();
            assert!(tasks.poll_one(&context) && !tasks.poll_one(&context));
            let polls: usize = gates.iter().map(|gate| gate.polls()).sum();
            // A waker of the slot's earlier future may have woken it once more.
            assert!((9..=10).contains(&polls), "{polls} polls");
            gates.iter().for_each(|gate| gate.open());
            while tasks.poll_one(&context) {}
            assert!(tasks.are_done());
        }
        assert_eq!(tasks.slots.borrow().len(), 8);
    }

    #[test]
    fn the_memory_of_a_crowd_is_given_back() {
        let waker = noop_waker();
        let context = Context::from_waker(&waker);
        let tasks = Tasks::default();
        for _ in 0..3 {
            let gates: Vec<_> = (0..10 * KEPT_MAX).map(|_| Arc::<Gate>::default()).collect();
            gates.iter().for_each(|gate| tasks.start(gate.pass()));
            tasks.poll_new(&context);
            assert_eq!(tasks.slots.borrow().len(), 10 * KEPT_MAX);
            gates.iter().skip(1).for_each(|gate| gate.open());
            while tasks.poll_one(&context) {}
            let kept = tasks.slots.borrow().iter().filter(|slot| slot.future.borrow().is_some()).count();
            assert!(kept <= KEPT_MAX + 1, "{kept} futures' memory is kept");
            gates[0].open();
            assert!(tasks.poll_one(&context) && tasks.are_done());
            assert_eq!((tasks.slots.borrow().len(), tasks.free.borrow().len()), (KEPT_MAX, KEPT_MAX));
        }
    }

    #[test]
    fn one_that_ends_at_once_and_one_that_wakes_itself() {
        let waker = noop_waker();
        let context = Context::from_waker(&waker);
        let tasks: Tasks<BoxFuture<'static, ()>> = Tasks::default();
        tasks.start(Box::pin(async {}));
        tasks.start(Box::pin(nitro_port::yielding::yield_now()));
        assert_eq!(tasks.poll_new(&context), 1);
        assert!(tasks.poll_one(&context) && tasks.are_done());
    }

    #[test]
    fn a_wake_wakes_whoever_polls() {
        let parent = Arc::new(Bell { slot: 0, has_rung: AtomicBool::new(false), woken: Arc::default() });
        let waker = Waker::from(Arc::clone(&parent));
        let tasks = Tasks::default();
        let gate = Arc::<Gate>::default();
        tasks.start(gate.pass());
        tasks.poll_new(&Context::from_waker(&waker));
        assert!(!parent.has_rung.load(SeqCst));
        std::thread::scope(|scope| scope.spawn(|| gate.open()).join()).unwrap();
        assert!(parent.has_rung.load(SeqCst));
        assert!(tasks.poll_one(&Context::from_waker(&waker)));
    }
}
