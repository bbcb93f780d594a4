//! A world of hosts with the server's own state machine ([`nitro_cluster::Machine`]), etcd, and an origin, for stateright to go
//! through: hosts stop and go on, are cut off from etcd, or are slow; messages are lost or come late; leases expire as early as a fast
//! clock lets them; writes stay on their way while their host is stopped, slow or dead; and the origin forgets fencing numbers that it
//! needs no longer.
//!
//! Time is in ticks of a second; a lease lasts three. What takes time is a fault, and bounded as such: a tick comes only when all hosts that
//! are neither stopped, slow nor cut off have nothing left to do. Otherwise nearly all states would be those of hosts that wait a tick for
//! nothing. One volume is enough: a host has one lease for all of them.
#![forbid(unsafe_code)]

mod etcd;
mod host;

pub use etcd::Etcd;
pub use host::{Host, Wire, Write};

use nitro_cluster::{Answer, Terms};
use stateright::{Model, Property};
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

/// How long a lease lasts, in ticks.
pub const LEASE: u8 = 3;
/// etcd's clock may be faster by so many ticks within a lease.
pub const DRIFT: u8 = 1;

/// The time of a tick.
#[must_use]
pub fn at(tick: u8) -> Duration {
    Duration::from_secs(tick.into())
}

/// The terms of all hosts.
#[must_use]
pub fn terms() -> Terms {
    Terms { lease: at(LEASE), margin: at(DRIFT), renew_every: at(1), retry: at(1) }
}

/// A mistake of the origin, planted to see that it is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plant {
    /// None.
    Nothing,
    /// The origin does not look at the number of a write.
    NumberUnchecked,
    /// The newest number is collected, too.
    NewestCollected,
}

/// What may happen, and how often.
#[derive(Debug, Clone)]
pub struct Bounds {
    /// The last tick.
    pub ticks: u8,
    /// Leases that expire.
    pub expiries: u8,
    /// Times that a host is stopped, or killed.
    pub pauses: u8,
    /// Times that a host is cut off from etcd.
    pub cuts: u8,
    /// Times that a host becomes slow: what it has on its way to etcd and to the origin takes any time.
    pub stalls: u8,
    /// Messages that are lost or late without that.
    pub losses: u8,
    /// Writes of clients.
    pub writes: u8,
    /// Orderly ends.
    pub leaves: u8,
    /// The mistake.
    pub plant: Plant,
}

/// An origin.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Origin {
    /// The numbers with which it was opened, but for those that were collected.
    pub fences: BTreeSet<u64>,
    /// What it contains: the number of a write.
    pub value: u8,
}

/// The state of everything.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct World {
    /// The time.
    pub now: u8,
    /// etcd.
    pub etcd: Etcd,
    /// The hosts.
    pub hosts: [Host; 2],
    /// The origin.
    pub origin: Origin,
    /// The last write that a client knows to be done.
    pub acked: u8,
    /// Writes so far.
    pub begun: u8,
    /// What is used up of the bounds.
    pub spent: Spent,
    /// The highest number with which the origin was ever opened.
    pub opened: u64,
    /// A write came into the origin after it was opened with a higher number.
    pub is_torn: bool,
    /// Hosts that have had the volume.
    pub owners: u8,
    /// A write of an earlier owner was refused.
    pub was_fenced: bool,
}

/// What has happened of what may happen a limited number of times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Spent {
    expiries: u8,
    pauses: u8,
    cuts: u8,
    stalls: u8,
    losses: u8,
    leaves: u8,
}

/// Something that happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A tick of time.
    Tick,
    /// A host is stopped.
    Pause(usize),
    /// A host goes on.
    Resume(usize),
    /// A host is cut off from etcd.
    Cut(usize),
    /// It is no more.
    Mend(usize),
    /// A host becomes slow, until nothing of it is on its way.
    Stall(usize),
    /// A host's process is killed, or ends since it serves no more; it starts again.
    Restart(usize),
    /// etcd carries out a host's question, and the answer arrives.
    Exchange(usize),
    /// etcd carries out a host's question, and the answer is on its way.
    Answer(usize),
    /// A host's question, or the answer, is lost.
    Lose(usize),
    /// A host gives a question up that etcd gets later.
    Delay(usize),
    /// etcd carries out a question that came late.
    AnswerLate(usize),
    /// A host gets an answer.
    Deliver(usize),
    /// etcd ends a lease.
    Expire(i64),
    /// A host begins to open the origin.
    Open(usize),
    /// A client's write is let pass.
    Write(usize),
    /// What is on its way comes to the origin.
    Land(usize),
    /// A host hears of the origin.
    Hear(usize),
    /// A host ends in order.
    Leave(usize),
    /// The origin forgets numbers.
    Collect,
}

impl Model for Bounds {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        let mut hosts = [Host::started(), Host::started()];
        hosts.iter_mut().for_each(|host| host.ask(0));
        vec![World {
            now: 0,
            etcd: Etcd::default(),
            hosts,
            origin: Origin::default(),
            acked: 0,
            begun: 0,
            spent: Spent::default(),
            opened: 0,
            is_torn: false,
            owners: 0,
            was_fenced: false,
        }]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        if world.now < self.ticks && world.hosts.iter().all(Host::lets_time_pass) {
            steps.push(Step::Tick);
        }
        for (at, host) in world.hosts.iter().enumerate() {
            self.steps_of(world, at, host, steps);
        }
        if world.spent.expiries < self.expiries {
            steps.extend(world.etcd.expirable(world.now).map(Step::Expire));
        }
        let kept = if self.plant == Plant::NewestCollected { 0 } else { 1 };
        if world.origin.fences.len() > kept {
            steps.push(Step::Collect);
        }
    }

    fn next_state(&self, last: &World, step: Step) -> Option<World> {
        let mut world = last.clone();
        world.take(self, step);
        world.hosts.iter_mut().for_each(Host::calm_down);
        (world != *last).then_some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(
                "no write comes into the origin after it was opened with a higher number",
                |_, world: &World| !world.is_torn,
            ),
            Property::always("at no time two hosts may serve", |_, world: &World| {
                world.hosts.iter().filter(|host| host.permits(world.now).is_some()).count() < 2
            }),
            Property::always("who may serve knows all acknowledged writes", |_, world: &World| {
                world.hosts.iter().all(|host| host.serves(world.now).is_none_or(|view| view >= world.acked))
            }),
            Property::sometimes("two hosts in turn have the volume", |_, world: &World| world.owners == 3),
            Property::sometimes("a write of an earlier owner comes late and is refused", |_, world: &World| {
                world.was_fenced
            }),
            Property::sometimes("the next owner has what the last one acknowledged", |_, world: &World| {
                world.owners == 3
                    && world.acked > 0
                    && world.hosts.iter().any(|host| host.serves(world.now) == Some(world.acked))
            }),
        ]
    }
}

impl Bounds {
    fn steps_of(&self, world: &World, at: usize, host: &Host, steps: &mut Vec<Step>) {
        let may_lose = world.spent.losses < self.losses;
        if host.is_paused {
            steps.push(Step::Resume(at));
        } else if world.spent.pauses < self.pauses {
            steps.extend([Step::Pause(at), Step::Restart(at)]);
        }
        if host.is_cut {
            steps.push(Step::Mend(at));
        } else if world.spent.cuts < self.cuts {
            steps.push(Step::Cut(at));
        }
        if !host.is_slow && host.has_something_on_its_way() && world.spent.stalls < self.stalls {
            steps.push(Step::Stall(at));
        }
        match &host.wire {
            Wire::Quiet => {}
            // The client gives up after a while.
            Wire::Asked(..) if host.is_cut => steps.push(Step::Lose(at)),
            Wire::Asked(..) => {
                if !host.is_paused {
                    steps.push(Step::Exchange(at));
                }
                if host.is_paused || host.is_slow || self.cuts > world.spent.cuts {
                    steps.push(Step::Answer(at));
                }
                if may_lose {
                    steps.push(Step::Lose(at));
                    if host.late.is_none() {
                        steps.push(Step::Delay(at));
                    }
                }
            }
            Wire::Answered(_, _, answer) => {
                let is_cut = host.is_cut && *answer != Answer::Failed;
                if is_cut || may_lose && *answer != Answer::Failed {
                    steps.push(Step::Lose(at));
                }
                if !host.is_paused && !is_cut {
                    steps.push(Step::Deliver(at));
                }
            }
        }
        if host.late.is_some() {
            steps.push(Step::AnswerLate(at));
        }
        if host.is_on_its_way() {
            steps.push(Step::Land(at));
        }
        if host.is_paused {
            return;
        }
        if host.machine.over().is_some() {
            steps.push(Step::Restart(at));
        }
        if host.to_open.is_some() && host.write == Write::None {
            steps.push(Step::Open(at));
        }
        if host.write == Write::None && host.serves(world.now).is_some() {
            if world.begun < self.writes {
                steps.push(Step::Write(at));
            }
            if world.spent.leaves < self.leaves {
                steps.push(Step::Leave(at));
            }
        }
        if matches!(host.write, Write::Landed { .. } | Write::Opened { .. }) {
            steps.push(Step::Hear(at));
        }
    }
}

/// The same number for the same value, in each process.
fn digest(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

impl World {
    /// The same for what happens to the one host and to the other: one of the two worlds that differ in nothing else.
    #[must_use]
    pub fn representative(&self) -> Self {
        let [one, other] = &self.hosts;
        if digest(one) <= digest(other) {
            return self.clone();
        }
        let owners = self.owners >> 1 | (self.owners & 1) << 1;
        Self { hosts: [other.clone(), one.clone()], owners, ..self.clone() }
    }

    fn take(&mut self, bounds: &Bounds, step: Step) {
        let now = self.now;
        match step {
            Step::Tick => {
                self.now += 1;
                let now = self.now;
                self.hosts.iter_mut().filter(|host| !host.is_paused).for_each(|host| host.tick(now));
            }
            Step::Pause(host) => {
                self.spent.pauses += 1;
                self.hosts[host].is_paused = true;
            }
            Step::Resume(host) => {
                self.hosts[host].is_paused = false;
                self.hosts[host].tick(now);
            }
            Step::Cut(host) => {
                self.spent.cuts += 1;
                self.hosts[host].is_cut = true;
            }
            Step::Mend(host) => self.hosts[host].is_cut = false,
            Step::Stall(host) => {
                self.spent.stalls += 1;
                self.hosts[host].is_slow = true;
            }
            Step::Restart(host) => {
                let host = &mut self.hosts[host];
                if host.machine.over().is_none() {
                    self.spent.pauses += 1;
                }
                host.restart(now);
            }
            Step::Exchange(host) => {
                self.take(bounds, Step::Answer(host));
                self.hosts[host].deliver(now);
            }
            Step::Answer(host) => {
                let host = &mut self.hosts[host];
                if let Wire::Asked(ask, sent) = host.wire.clone() {
                    let answer = self.etcd.answer(now, &ask);
                    host.wire = Wire::Answered(ask, sent, answer);
                }
            }
            Step::Lose(host) => {
                if !self.hosts[host].is_cut {
                    self.spent.losses += 1;
                }
                let host = &mut self.hosts[host];
                host.lose();
                // The client gives up at once, as far as time goes here.
                if host.is_cut && !host.is_paused {
                    host.deliver(now);
                }
            }
            Step::Delay(host) => {
                self.spent.losses += 1;
                self.hosts[host].delay();
            }
            Step::AnswerLate(host) => {
                if let Some(ask) = self.hosts[host].late.take() {
                    let _ = self.etcd.answer(now, &ask);
                }
            }
            Step::Deliver(host) => self.hosts[host].deliver(now),
            Step::Expire(lease) => {
                self.spent.expiries += 1;
                self.etcd.end(lease);
            }
            Step::Open(host) => self.hosts[host].open(now),
            Step::Write(host) => {
                if self.hosts[host].write(now, self.begun + 1) {
                    self.begun += 1;
                }
            }
            Step::Land(host) => self.land(bounds, host),
            Step::Hear(host) => {
                let (acked, has_opened) = self.hosts[host].hear(now);
                self.acked = acked.unwrap_or(self.acked);
                if has_opened {
                    self.owners |= 1 << host;
                }
            }
            Step::Leave(host) => {
                self.spent.leaves += 1;
                self.hosts[host].leave(now);
            }
            Step::Collect => {
                let newest = self.origin.fences.last().copied().filter(|_| bounds.plant != Plant::NewestCollected);
                self.origin.fences.retain(|fence| Some(*fence) == newest);
            }
        }
    }

    /// The origin takes what comes, or refuses it.
    fn land(&mut self, bounds: &Bounds, host: usize) {
        let host = &mut self.hosts[host];
        let newest = self.origin.fences.last().copied().unwrap_or(0);
        let takes = |fence: u64| bounds.plant == Plant::NumberUnchecked || fence >= newest;
        host.write = match host.write {
            Write::Opening { fence } if takes(fence) => {
                self.origin.fences.insert(fence);
                self.opened = self.opened.max(fence);
                Write::Opened { fence, value: self.origin.value }
            }
            Write::Checked { fence, value } if takes(fence) => {
                self.is_torn |= fence < self.opened;
                self.origin.value = value;
                Write::Landed { value, was_taken: true }
            }
            Write::Checked { value, .. } => {
                self.was_fenced = true;
                Write::Landed { value, was_taken: false }
            }
            Write::Opening { .. } => Write::Landed { value: 0, was_taken: false },
            ref other => other.clone(),
        };
        host.forget_if_dead();
    }
}
