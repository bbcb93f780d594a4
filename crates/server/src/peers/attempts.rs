//! The rate at which peers may try secrets.

use super::Group;
use event_listener::Event;
use nitro_device::CompioClock;
use nitro_port::Clock;
use nitro_port::yielding::attempt_at;
use parking_lot::Mutex;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

/// The pace of the common queue of a group.
const PACE: Pace = Pace { pause: Duration::from_millis(100), free: 4 };
/// The pace of a claim that was right before.
const PACE_OF_CLAIM: Pace = Pace { pause: Duration::from_secs(1), free: 2 };
/// Claims of a group that are remembered.
const CLAIMS_MAX: usize = 4;
/// Groups that are remembered.
const GROUPS_MAX: usize = 4096;

/// How fast wrong secrets are answered: one in each `pause`, after `free` of them at once.
#[derive(Debug, Clone, Copy)]
struct Pace {
    pause: Duration,
    free: u32,
}

/// Checks of secrets, for all connections.
///
/// The secrets of a [`Group`] are checked one after the other. Right secrets cost no time. Some wrong ones are free; then
/// each delays all later checks of the group, since a delay of its own answer alone could be avoided by many connections,
/// or by disconnecting. A *claim*, such as the names of account and initiator, with which the group gave the right secret
/// before, has a queue of its own: guesses behind the same address do not delay it unless they make the same claim.
#[derive(Debug)]
pub(crate) struct Attempts<C = CompioClock> {
    clock: C,
    lanes: Mutex<HashMap<Group, Lanes>>,
    hasher: RandomState,
}

/// The queues of a group.
#[derive(Debug)]
struct Lanes {
    common: Arc<Lane>,
    /// The queues of claims that were right before, the most recent last.
    claims: VecDeque<(u64, Arc<Lane>)>,
}

impl Lanes {
    fn new() -> Self {
        Self { common: Arc::new(Lane::new(PACE)), claims: VecDeque::new() }
    }

    fn all(&self) -> impl Iterator<Item = &Arc<Lane>> {
        self.claims.iter().map(|(_, lane)| lane).chain([&self.common])
    }

    /// When the wrong secrets of the group cost nothing any more.
    fn opens(&self) -> Duration {
        self.all().map(|lane| lane.state.lock().opens).max().unwrap_or_default()
    }

    fn is_empty(&self) -> bool {
        self.all().all(|lane| lane.state.lock().queue.is_empty())
    }
}

/// A queue of checks.
#[derive(Debug)]
struct Lane {
    pace: Pace,
    state: Mutex<LaneState>,
    moved: Event,
}

#[derive(Debug, Default)]
struct LaneState {
    /// The waiting attempts; the first one has its turn.
    queue: VecDeque<u64>,
    next: u64,
    /// When the next secret may be checked.
    opens: Duration,
}

impl<C: Clock> Attempts<C> {
    /// Without any attempts.
    pub(crate) fn new(clock: C) -> Self {
        Self { clock, lanes: Mutex::default(), hasher: RandomState::new() }
    }

    /// Waits until a secret of a peer may be checked. `claim`: what the secret has to prove.
    pub(crate) async fn turn(&self, peer: impl Into<Group>, claim: &str) -> Turn<'_, C> {
        let (group, claim) = (peer.into(), self.hasher.hash_one(claim));
        let lane = self.lane(group, claim, self.clock.now());
        let ticket = lane.enter();
        let turn = Turn { attempts: self, group, claim, lane, ticket };
        let is_first = || (turn.lane.state.lock().queue.front() == Some(&ticket)).then_some(());
        attempt_at(&turn.lane.moved, is_first).await;
        let opens = turn.lane.state.lock().opens;
        if let Some(rest) = opens.checked_sub(self.clock.now()).filter(|rest| !rest.is_zero()) {
            self.clock.sleep(rest).await;
        }
        turn
    }

    fn lane(&self, group: Group, claim: u64, now: Duration) -> Arc<Lane> {
        let mut lanes = self.lanes.lock();
        if !lanes.contains_key(&group) && lanes.len() >= GROUPS_MAX {
            lanes.retain(|_, lanes| lanes.opens() > now || !lanes.is_empty());
            // All have given wrong secrets just now: the one that waits least is forgotten.
            let least = lanes.iter().min_by_key(|(_, lanes)| lanes.opens()).map(|(group, _)| *group);
            if let Some(least) = least.filter(|_| lanes.len() >= GROUPS_MAX) {
                lanes.remove(&least);
            }
        }
        let lanes = lanes.entry(group).or_insert_with(Lanes::new);
        let known = lanes.claims.iter().find(|(known, _)| *known == claim).map(|(_, lane)| lane);
        Arc::clone(known.unwrap_or(&lanes.common))
    }

    /// Notes that a group has given the right secret for a claim.
    fn remember(&self, group: Group, claim: u64) {
        let mut lanes = self.lanes.lock();
        let Entry::Occupied(mut found) = lanes.entry(group) else { return };
        let claims = &mut found.get_mut().claims;
        let at = claims.iter().position(|(known, _)| *known == claim);
        let lane = at.and_then(|at| claims.remove(at)).map(|(_, lane)| lane);
        let lane = lane.unwrap_or_else(|| Arc::new(Lane::new(PACE_OF_CLAIM)));
        if claims.len() >= CLAIMS_MAX {
            claims.pop_front();
        }
        claims.push_back((claim, lane));
    }
}

impl Lane {
    fn new(pace: Pace) -> Self {
        Self { pace, state: Mutex::default(), moved: Event::new() }
    }

    fn enter(&self) -> u64 {
        let mut state = self.state.lock();
        let ticket = state.next;
        state.next += 1;
        state.queue.push_back(ticket);
        ticket
    }

    fn note_wrong(&self, now: Duration) {
        let Pace { pause, free } = self.pace;
        let opens = &mut self.state.lock().opens;
        *opens = (*opens).max(now.saturating_sub(pause * free)) + pause;
    }
}

/// The turn of an attempt; the next one's begins when it is dropped.
#[derive(Debug)]
pub(crate) struct Turn<'a, C: Clock = CompioClock> {
    attempts: &'a Attempts<C>,
    group: Group,
    claim: u64,
    lane: Arc<Lane>,
    ticket: u64,
}

impl<C: Clock> Turn<'_, C> {
    /// Notes whether the secret was right, and ends the turn.
    pub(crate) fn note(self, is_right: bool) {
        match is_right {
            true => self.attempts.remember(self.group, self.claim),
            false => self.lane.note_wrong(self.attempts.clock.now()),
        }
    }
}

impl<C: Clock> Drop for Turn<'_, C> {
    fn drop(&mut self) {
        self.lane.state.lock().queue.retain(|ticket| *ticket != self.ticket);
        self.lane.moved.notify(usize::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_executor::{LocalPool, block_on};
    use futures_util::FutureExt as _;
    use futures_util::task::LocalSpawnExt as _;
    use nitro_device::net::Peer;
    use std::cell::Cell;
    use std::rc::Rc;

    /// A clock in which a sleep takes no time.
    #[derive(Clone, Default)]
    struct Jumping(Arc<Mutex<Duration>>);

    impl Clock for Jumping {
        fn now(&self) -> Duration {
            Duration::from_secs(1000) + *self.0.lock()
        }

        async fn sleep(&self, duration: Duration) {
            *self.0.lock() += duration;
        }
    }

    const GUESSER: Group = Group::User(1);

    fn attempts() -> (Attempts<Jumping>, Jumping) {
        let clock = Jumping::default();
        (Attempts::new(clock.clone()), clock)
    }

    /// The time that an attempt takes.
    fn attempt(attempts: &Attempts<Jumping>, group: Group, claim: &str, is_right: bool) -> Duration {
        let before = attempts.clock.now();
        block_on(attempts.turn(group, claim)).note(is_right);
        attempts.clock.now() - before
    }

    #[test]
    fn wrong_secrets_take_time_and_right_ones_of_others_none() {
        let (attempts, clock) = attempts();
        let start = clock.now();
        for n in 0..100 {
            attempt(&attempts, GUESSER, &format!("claim {n}"), false);
            assert!(attempt(&attempts, Group::User(2), "other", true).is_zero());
        }
        let took = clock.now() - start;
        assert!(took >= PACE.pause * 95 && took <= PACE.pause * 100, "{took:?}");
    }

    #[test]
    fn right_secrets_do_not_pay_for_wrong_ones() {
        let (attempts, clock) = attempts();
        let start = clock.now();
        for n in 0..200 {
            attempt(&attempts, GUESSER, "own", n % 2 == 0);
        }
        let pauses = clock.now() - start;
        assert!(pauses >= PACE.pause * 90, "{pauses:?}");
    }

    #[test]
    fn a_claim_that_was_right_does_not_wait_for_guesses_behind_its_address() {
        let (attempts, clock) = attempts();
        assert!(attempt(&attempts, GUESSER, "honest", true).is_zero());
        for _ in 0..100 {
            attempt(&attempts, GUESSER, "guessed", false);
        }
        assert!(attempt(&attempts, GUESSER, "honest", true).is_zero());
        assert!(!attempt(&attempts, GUESSER, "unknown", true).is_zero());
        let start = clock.now();
        for _ in 0..10 {
            attempt(&attempts, GUESSER, "honest", false);
        }
        assert!(clock.now() - start >= PACE_OF_CLAIM.pause * 7);
    }

    #[test]
    fn attempts_have_their_turn_in_order_and_those_that_leave_are_skipped() {
        let (attempts, _) = attempts();
        let attempts = Rc::new(attempts);
        let done = Rc::new(Cell::new(0));
        let first = block_on(attempts.turn(GUESSER, "first"));
        let mut leaving = Box::pin(attempts.turn(GUESSER, "leaving"));
        assert!(leaving.as_mut().now_or_never().is_none());
        let mut pool = LocalPool::new();
        for number in 1..=3 {
            let (attempts, done) = (Rc::clone(&attempts), Rc::clone(&done));
            let waiting = async move {
                attempts.turn(GUESSER, "later").await.note(false);
                assert_eq!(done.replace(number), number - 1);
            };
            pool.spawner().spawn_local(waiting).unwrap();
        }
        pool.run_until_stalled();
        assert_eq!(done.get(), 0, "the first attempt has not ended");
        drop(leaving);
        first.note(false);
        pool.run_until_stalled();
        assert_eq!(done.get(), 3);
    }

    #[test]
    fn memory_is_bounded_and_those_that_wait_most_are_remembered() {
        let (attempts, clock) = attempts();
        for _ in 0..50 {
            block_on(attempts.turn(GUESSER, "")).note(false);
        }
        (0..10).for_each(|_| attempts.lanes.lock()[&GUESSER].common.note_wrong(clock.now()));
        let opens = attempts.lanes.lock()[&GUESSER].opens();
        assert!(opens > clock.now());
        for uid in 2..GROUPS_MAX as u32 + 100 {
            let turn = block_on(attempts.turn(Peer::Process { uid, pid: 1 }, ""));
            (0..5).for_each(|_| turn.lane.note_wrong(clock.now()));
            turn.note(false);
        }
        let lanes = attempts.lanes.lock();
        assert!(lanes.len() <= GROUPS_MAX && lanes[&GUESSER].opens() == opens, "{}", lanes.len());
    }
}
