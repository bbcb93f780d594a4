//! Which request is next.

use crate::costs::{How, Learned};
use crate::depth::Depth;
use crate::policy::{Policy, Workload};
use crate::queue::{Queue, Waiting};
use crate::request::{Entry, Next, Request, Running, Ticket, Used};
use crate::terms::{Charge, Tags, Terms};
use hashbrown::HashMap;
use std::time::Duration;

/// Queues without requests are forgotten when there are as many as this, or twice as many as were kept the last time.
const QUEUES_MIN: usize = 64;

/// A workload.
#[derive(Debug)]
struct Side {
    terms: Terms,
    tags: Tags,
    /// The virtual time among its groups.
    virtual_ns: f64,
    under_way: u32,
    /// What the requests under way cost.
    under_way_ns: f64,
    waiting: usize,
    used: Used,
}

impl Side {
    const fn is_active(&self) -> bool {
        self.under_way > 0 || self.waiting > 0
    }
}

/// What a queue may do.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Rank {
    /// Its first request may begin. The lowest of these is next: by a reservation of a group, by that of a workload, or by
    /// weights, and in each case by tags.
    May(Phase, f64, f64),
    /// Not before this time.
    At(f64),
    /// Not until a request ends.
    No,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Group,
    Workload,
    Weights,
    /// It does not wait.
    Passing,
}

/// Decides which requests a device gets, and when. `T` stands for a request that waits.
#[derive(Debug)]
pub struct Scheduler<T> {
    costs: Learned,
    depth: Depth,
    sides: [Side; Workload::COUNT],
    queues: Vec<Queue<T>>,
    by_key: HashMap<(Workload, u64), usize>,
    free: Vec<usize>,
    kept: usize,
    terms: HashMap<u64, Terms>,
    /// The virtual time among workloads.
    virtual_ns: f64,
    /// Requests of queues under way.
    under_way: u32,
    /// Requests under way that belong to no work.
    nameless: u32,
    waiting: usize,
    tickets: u64,
}

fn nanos(time: Duration) -> f64 {
    time.as_nanos() as f64
}

impl<T: Clone> Scheduler<T> {
    /// A scheduler of a device that has to seek, or not.
    #[must_use]
    pub fn new(policy: &Policy, rotational: bool) -> Self {
        let side = |workload| Side {
            terms: policy.terms(workload),
            tags: Tags::default(),
            virtual_ns: 0.0,
            under_way: 0,
            under_way_ns: 0.0,
            waiting: 0,
            used: Used::default(),
        };
        Self {
            costs: Learned::new(rotational),
            depth: Depth::new(rotational),
            sides: Workload::ALL.map(side),
            queues: Vec::new(),
            by_key: HashMap::new(),
            free: Vec::new(),
            kept: 0,
            terms: HashMap::new(),
            virtual_ns: 0.0,
            under_way: 0,
            nameless: 0,
            waiting: 0,
            tickets: 0,
        }
    }

    /// Changes the shares of workloads.
    pub fn set_policy(&mut self, policy: &Policy) {
        for (side, workload) in self.sides.iter_mut().zip(Workload::ALL) {
            side.terms = policy.terms(workload);
        }
    }

    /// Sets what a group may have within each workload.
    pub fn set_terms(&mut self, group: u64, terms: Terms) {
        self.terms.insert(group, terms);
        self.queues.iter_mut().filter(|queue| queue.group == group).for_each(|queue| queue.terms = terms);
    }

    /// What a workload has had.
    #[must_use]
    pub fn used(&self, workload: Workload) -> Used {
        self.sides[workload as usize].used
    }

    /// A request arrives; `token` stands for it if it waits.
    pub fn enter(&mut self, now: Duration, request: &Request, token: impl FnOnce() -> T) -> Entry {
        let Some(work) = request.work else { return Entry::Go(self.begin_nameless(now, request)) };
        let index = self.queue_of(Workload::of(work.kind), work.group);
        let queue = &mut self.queues[index];
        let how = if request.is_flush { How::Flushes } else { queue.locate(request.offset, request.bytes) };
        self.wake(index, nanos(now));
        if work.pressing || request.is_flush {
            return Entry::Go(self.begin(index, (how, request.bytes), now, Phase::Passing));
        }
        if self.waiting == 0
            && let Rank::May(phase, ..) = self.rank(index, nanos(now))
        {
            return Entry::Go(self.begin(index, (how, request.bytes), now, phase));
        }
        let number = self.tickets;
        self.tickets += 1;
        let waiting = Waiting { ticket: number, arrived: now, how, bytes: request.bytes, token: token() };
        self.queues[index].push(work.kind, waiting);
        self.sides[self.queues[index].workload as usize].waiting += 1;
        self.waiting += 1;
        Entry::Wait(Ticket { queue: index, number })
    }

    /// Which request begins now. To be asked again until none does.
    pub fn next(&mut self, now: Duration) -> Next<T> {
        if self.waiting == 0 {
            return Next::Nothing;
        }
        let (mut best, mut earliest) = (None, None);
        for (index, queue) in self.queues.iter().enumerate().filter(|(_, queue)| queue.waiting() > 0) {
            match self.rank(index, nanos(now)) {
                Rank::May(phase, a, b) => {
                    // Of equal ones, the one that came first.
                    let key = (phase, a, b, queue.first().map_or(0, |first| first.ticket));
                    let is_better = |&(_, (other, c, d, ticket)): &(usize, (Phase, f64, f64, u64))| {
                        let order = phase.cmp(&other).then(a.total_cmp(&c)).then(b.total_cmp(&d));
                        order.then(key.3.cmp(&ticket)).is_lt()
                    };
                    if best.as_ref().is_none_or(is_better) {
                        best = Some((index, key));
                    }
                }
                Rank::At(at) if earliest.is_none_or(|(_, other)| at < other) => earliest = Some((index, at)),
                Rank::At(_) | Rank::No => {}
            }
        }
        match (best, earliest) {
            (Some((index, (phase, ..))), _) => self.take(index, phase, now),
            (None, Some((index, at))) => self.queues[index].first().map_or(Next::Nothing, |first| {
                // Rounded up, so that the time has come by then.
                Next::At(Duration::from_nanos(at as u64 + 1), first.token.clone())
            }),
            (None, None) => Next::Nothing,
        }
    }

    /// A request that waits is given up; false if it does not wait any more.
    pub fn cancel(&mut self, ticket: Ticket) -> bool {
        let Some(queue) = self.queues.get_mut(ticket.queue) else { return false };
        let removed = queue.remove(ticket.number);
        if removed {
            self.sides[queue.workload as usize].waiting -= 1;
            self.waiting -= 1;
        }
        removed
    }

    /// A request has ended. `is_done`: it succeeded, so that its time tells what requests cost.
    pub fn end(&mut self, now: Duration, running: Running, is_done: bool) {
        let Running { queue, how, bytes, cost_ns, begun } = running;
        match queue {
            Some(index) => {
                self.under_way -= 1;
                self.queues[index].under_way -= 1;
                let side = &mut self.sides[self.queues[index].workload as usize];
                side.under_way -= 1;
                side.under_way_ns = if side.under_way == 0 { 0.0 } else { side.under_way_ns - cost_ns };
            }
            None => self.nameless -= 1,
        }
        if self.waiting > 0 && how != How::Flushes {
            self.depth.observe(nanos(now.saturating_sub(begun)));
        }
        self.costs.end(how, is_done.then_some(bytes), (begun, now));
    }

    fn begin_nameless(&mut self, now: Duration, request: &Request) -> Running {
        let how = if request.is_flush { How::Flushes } else { How::Seeks };
        self.nameless += 1;
        self.costs.begin(how, now);
        // Nothing holds it back, so it does not count in the depth.
        let cost_ns = 0.0;
        Running { queue: None, how, bytes: request.bytes, cost_ns, begun: now }
    }

    /// Notes that a request begins, and returns its cost.
    fn begun(&mut self, (how, bytes): (How, u64), now: Duration) -> f64 {
        self.costs.begin(how, now);
        let cost_ns = self.costs.of(how, bytes);
        self.under_way += 1;
        cost_ns
    }

    /// Takes the first request of a queue.
    fn take(&mut self, index: usize, phase: Phase, now: Duration) -> Next<T> {
        let Some(waiting) = self.queues[index].pop() else { return Next::Nothing };
        self.waiting -= 1;
        let side = &mut self.sides[self.queues[index].workload as usize];
        side.waiting -= 1;
        side.used.waited += 1;
        side.used.waited_ns += now.saturating_sub(waiting.arrived).as_nanos() as u64;
        Next::Go(waiting.token, self.begin(index, (waiting.how, waiting.bytes), now, phase))
    }

    /// Begins a request of a queue, and charges queue and workload.
    fn begin(&mut self, index: usize, request: (How, u64), now: Duration, phase: Phase) -> Running {
        let cost = self.begun(request, now);
        let workload = self.queues[index].workload;
        let (is_limited, at) = (self.is_limited(workload), nanos(now));
        // Shares of clients are shares of what background work leaves to them.
        let background = &self.sides[Workload::Background as usize];
        let has_reserved = workload != Workload::Background && background.is_active();
        let beside_background = if has_reserved { 1.0 - background.terms.reservation } else { 1.0 };
        let (queue, side) = (&mut self.queues[index], &mut self.sides[workload as usize]);
        side.under_way += 1;
        side.under_way_ns += cost;
        side.used.requests += 1;
        side.used.cost_ns += cost as u64;
        // Virtual time is that of those who are next by weight.
        if matches!(phase, Phase::Workload | Phase::Weights) {
            side.virtual_ns = side.virtual_ns.max(queue.tags.start);
        }
        if phase == Phase::Weights {
            self.virtual_ns = self.virtual_ns.max(side.tags.start);
        }
        let charge = Charge { is_reserved: phase == Phase::Group, is_limited: true };
        queue.tags.charge(&queue.terms, cost, (side.virtual_ns, at), charge);
        let charge = Charge { is_reserved: phase == Phase::Workload, is_limited };
        let terms = Terms { limit: side.terms.limit * beside_background, ..side.terms };
        side.tags.charge(&terms, cost, (self.virtual_ns, at), charge);
        queue.running(index, request, cost, now)
    }

    /// Whoever had nothing waiting begins at the present virtual time.
    fn wake(&mut self, index: usize, now: f64) {
        let queue = &mut self.queues[index];
        let side = &mut self.sides[queue.workload as usize];
        if queue.waiting() == 0 {
            queue.tags.wake(side.virtual_ns, now);
        }
        if side.waiting == 0 {
            side.tags.wake(self.virtual_ns, now);
        }
    }

    /// Whether a workload is kept within its limit, because those that it yields to have requests.
    fn is_limited(&self, workload: Workload) -> bool {
        let is_active = |other: &Workload| self.sides[*other as usize].is_active();
        workload.yields_to().iter().any(is_active) || (workload == Workload::Background && self.nameless > 0)
    }

    /// Whether the device may get another request of a queue now.
    fn has_depth(&self, index: usize) -> bool {
        let queue = &self.queues[index];
        let side = &self.sides[queue.workload as usize];
        let is_alone = self.under_way == queue.under_way && self.waiting == queue.waiting();
        if is_alone || side.under_way == 0 {
            return true;
        }
        // Each has a part of the device's queue: whoever is limited does not narrow the queue of others.
        let active = self.sides.iter().filter(|side| side.is_active());
        let part = side.terms.weight / active.map(|side| side.terms.weight).sum::<f64>();
        self.depth.allows(side.under_way_ns / part)
    }

    fn rank(&self, index: usize, now: f64) -> Rank {
        let queue = &self.queues[index];
        let side = &self.sides[queue.workload as usize];
        if !self.has_depth(index) {
            return Rank::No;
        }
        if queue.tags.limit > now {
            return Rank::At(queue.tags.limit);
        }
        if queue.terms.reservation > 0.0 && queue.tags.reserved <= now {
            return Rank::May(Phase::Group, queue.tags.reserved, 0.0);
        }
        if side.tags.limit > now && self.is_limited(queue.workload) {
            return Rank::At(side.tags.limit);
        }
        if side.terms.reservation > 0.0 && side.tags.reserved <= now {
            return Rank::May(Phase::Workload, side.tags.reserved, queue.tags.start);
        }
        Rank::May(Phase::Weights, side.tags.start, queue.tags.start)
    }

    fn queue_of(&mut self, workload: Workload, group: u64) -> usize {
        if let Some(index) = self.by_key.get(&(workload, group)) {
            return *index;
        }
        if self.by_key.len() >= QUEUES_MIN.max(2 * self.kept) {
            self.forget_idle();
        }
        let terms = self.terms.get(&group).copied().unwrap_or_default();
        let queue = Queue::new(workload, group, terms);
        let index = match self.free.pop() {
            Some(index) => {
                self.queues[index] = queue;
                index
            }
            None => {
                self.queues.push(queue);
                self.queues.len() - 1
            }
        };
        self.by_key.insert((workload, group), index);
        index
    }

    /// Forgets queues that have no requests and owe nothing.
    fn forget_idle(&mut self) {
        let (queues, sides, terms, free) = (&self.queues, &self.sides, &self.terms, &mut self.free);
        self.by_key.retain(|(workload, group), index| {
            let queue = &queues[*index];
            let owes = terms.contains_key(group) || queue.tags.start > sides[*workload as usize].virtual_ns;
            let keeps = owes || !queue.is_idle();
            if !keeps {
                free.push(*index);
            }
            keeps
        });
        self.kept = self.by_key.len();
    }
}
