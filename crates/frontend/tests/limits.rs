//! Requests that wait at a gate, in virtual time.

use futures_util::FutureExt;
use nitro_frontend::limits::{Gate, Left, Rates};
use nitro_port::Clock;
use nitro_testkit::{Simulation, VirtualTime};
use std::cell::{Cell, RefCell};
use std::num::NonZeroU64;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

type TestGate = Arc<Gate<VirtualTime>>;

fn requests(rate: u64) -> Rates {
    Rates { requests: NonZeroU64::new(rate), bytes: None, burst: SECOND }
}

fn bytes(rate: u64) -> Rates {
    Rates { requests: None, bytes: NonZeroU64::new(rate), burst: SECOND }
}

struct Bed {
    sim: Rc<Simulation>,
    gate: TestGate,
    /// Client, and when its request passed; in order.
    passed: Rc<RefCell<Vec<(u64, Duration)>>>,
    /// Requests whose client had left.
    left: Rc<Cell<usize>>,
}

impl Bed {
    fn new(rates: Rates) -> Self {
        let sim = Simulation::new(3);
        let gate = Arc::new(Gate::new(sim.clock.clone()));
        gate.set(rates);
        Self { sim, gate, passed: Rc::default(), left: Rc::default() }
    }

    /// Client `client` has `depth` requests of so many bytes under way, until `count` of each have passed.
    fn client(&self, client: u64, depth: usize, count: usize, bytes: u64) {
        for _ in 0..depth {
            let (gate, clock) = (Arc::clone(&self.gate), self.sim.clock.clone());
            let (passed, left) = (Rc::clone(&self.passed), Rc::clone(&self.left));
            self.sim.spawn(async move {
                for _ in 0..count {
                    match gate.pass(client, bytes, None).await {
                        Ok(_) => passed.borrow_mut().push((client, clock.now())),
                        Err(Left) => return left.set(left.get() + 1),
                    }
                }
            });
        }
    }

    fn run_until(&self, at: Duration) {
        self.sim.run(self.sim.clock.sleep(at - self.sim.clock.now()));
    }

    fn passed_by(&self, client: u64) -> usize {
        self.passed.borrow().iter().filter(|(who, _)| *who == client).count()
    }
}

#[test]
fn many_clients_together_get_the_rate_and_each_of_them_as_much_whatever_its_depth() {
    let bed = Bed::new(requests(100));
    [1, 7, 256].into_iter().zip(0..).for_each(|(depth, client)| bed.client(client, depth, 10_000, 4096));
    bed.run_until(SECOND * 100 + SECOND / 1000);
    // Nothing was saved up before; the first one passes at once.
    assert_eq!(bed.passed.borrow().len(), 100 * 100 + 1);
    let each = [0, 1, 2].map(|client| bed.passed_by(client));
    assert!(each.into_iter().all(|passed| (3332..=3335).contains(&passed)), "{each:?}");
    assert!(bed.passed.borrow().is_sorted_by_key(|(_, at)| *at));
    bed.sim.end();
}

#[test]
fn clients_share_bytes_where_bytes_are_limited() {
    let bed = Bed::new(bytes(1 << 20));
    bed.client(0, 64, 10_000, 64 << 10);
    bed.client(1, 1, 100_000, 4096);
    bed.run_until(SECOND * 100);
    let (long, short) = (bed.passed_by(0) << 16, bed.passed_by(1) << 12);
    assert!(long.abs_diff(short) <= 128 << 10, "{long} and {short} bytes");
    bed.sim.end();
}

#[test]
fn both_limits_count() {
    let bed = Bed::new(Rates { requests: NonZeroU64::new(100), bytes: NonZeroU64::new(1 << 20), burst: SECOND });
    bed.client(0, 8, 1000, 64 << 10);
    bed.run_until(SECOND * 10 + SECOND / 1000);
    assert_eq!(bed.passed.borrow().len(), 161, "16 a second by their bytes");
    bed.passed.borrow_mut().clear();
    bed.sim.end();
    bed.client(1, 8, 1000, 512);
    bed.run_until(SECOND * 21);
    let count = bed.passed.borrow().len();
    // Of the time before, a second may have been saved up.
    assert!((1000..=1200).contains(&count), "{count} in eleven seconds");
    bed.sim.end();
}

#[test]
fn a_limit_below_one_request_lets_it_pass_and_others_pay() {
    let bed = Bed::new(bytes(64 << 10));
    bed.client(0, 2, 1, 32 << 20);
    bed.run_until(SECOND * 511);
    assert_eq!(bed.passed.borrow().len(), 1);
    bed.run_until(SECOND * 513);
    assert_eq!(*bed.passed.borrow(), [(0, Duration::ZERO), (0, SECOND * 512)]);
    // Longer requests, which only zeroes can be, are charged as one of 32 MiB.
    bed.client(1, 1, 2, u64::from(u32::MAX));
    bed.run_until(SECOND * 1024 + SECOND / 2);
    assert_eq!(bed.passed_by(1), 1);
    bed.run_until(SECOND * 1537);
    assert_eq!(bed.passed_by(1), 2);
    bed.sim.end();
}

#[test]
fn a_new_rate_counts_at_once_for_those_who_wait() {
    let bed = Bed::new(requests(1));
    bed.client(0, 100, 1, 0);
    bed.run_until(SECOND * 2 + SECOND / 2);
    assert_eq!(bed.passed.borrow().len(), 3);
    bed.gate.set(requests(1000));
    bed.run_until(SECOND * 3);
    assert_eq!((bed.passed.borrow().len(), bed.gate.waiting()), (100, 0));
    bed.gate.set(requests(1));
    bed.client(1, 10, 1, 0);
    bed.run_until(SECOND * 4);
    assert!(bed.gate.waiting() > 5);
    bed.gate.set(Rates::ANY);
    bed.run_until(SECOND * 4 + SECOND / 1000);
    assert_eq!((bed.passed_by(1), bed.gate.waiting()), (10, 0), "a limit that is lifted");
    bed.sim.end();
}

#[test]
fn whoever_has_gone_waits_no_longer_and_takes_nothing_from_others() {
    let bed = Bed::new(requests(1));
    bed.client(0, 1000, 1, 0);
    bed.run_until(SECOND * 5 + SECOND / 2);
    bed.client(1, 4, 1, 0);
    bed.run_until(SECOND * 6);
    assert_eq!((bed.passed_by(0), bed.passed_by(1)), (6, 1), "whoever comes has the next turn");
    bed.gate.leave(0);
    bed.run_until(SECOND * 6 + SECOND / 2);
    assert_eq!((bed.left.get(), bed.gate.waiting()), (994, 3));
    bed.run_until(SECOND * 10 + SECOND / 2);
    assert_eq!((bed.passed_by(0), bed.passed_by(1), bed.gate.waiting()), (6, 4, 0));
    bed.sim.end();
}

#[test]
fn a_request_that_is_dropped_leaves_its_place_to_the_next() {
    let bed = Bed::new(requests(1));
    bed.sim.run(async {
        bed.gate.pass(0, 0, None).await.unwrap();
        {
            let mut dropped = pin!(bed.gate.pass(0, 0, None));
            assert!(dropped.as_mut().now_or_never().is_none());
            assert_eq!(bed.gate.waiting(), 1);
        }
        assert_eq!(bed.gate.waiting(), 0);
        assert_eq!(bed.gate.pass(1, 0, None).await, Ok(SECOND));
    });
}

#[test]
fn nobody_waits_once_it_is_over() {
    let bed = Bed::new(requests(1));
    bed.client(0, 50, 1, 0);
    bed.run_until(SECOND / 2);
    bed.gate.set_over(true);
    bed.run_until(SECOND / 2 + SECOND / 1000);
    assert_eq!(bed.passed.borrow().len(), 50);
    bed.gate.set_over(false);
    bed.client(1, 1, 1, 0);
    bed.run_until(SECOND * 40);
    assert_eq!(bed.passed_by(1), 0, "they were charged all the same");
    bed.sim.end();
}

#[test]
fn what_passes_without_waiting_is_charged_too() {
    let bed = Bed::new(requests(10));
    assert!(bed.gate.may_pass());
    bed.gate.charge(0);
    assert!(!bed.gate.may_pass());
    bed.run_until(SECOND / 10);
    assert!(bed.gate.may_pass());
    bed.gate.set(Rates::ANY);
    bed.gate.charge(1 << 40);
    assert!(bed.gate.may_pass() && !bed.gate.is_limit());
}

#[test]
fn a_rate_that_follows_something_else_is_renewed_while_requests_wait() {
    let bed = Bed::new(bytes(1));
    let (gate, room) = (Arc::clone(&bed.gate), Rc::new(Cell::new(1)));
    let (seen, clock) = (Rc::clone(&room), bed.sim.clock.clone());
    bed.sim.spawn(async move {
        clock.sleep(SECOND).await;
        room.set(1 << 20);
    });
    let waited = bed.sim.run(async move {
        let renew = || gate.set(bytes(seen.get()));
        gate.pass(0, 1 << 20, Some(&renew)).await.unwrap();
        gate.pass(0, 1, Some(&renew)).await.unwrap()
    });
    // At one byte a second it would have been twelve days.
    assert!(waited > SECOND && waited < SECOND * 3, "{waited:?}");
}
