//! A device of one or more servers, and clients that always have a number of requests under way. What a request takes
//! depends on itself alone, so that the shares of the device's time are known exactly.

use nitro_port::{Work, WorkKind};
use nitro_shares::{Entry, Next, Policy, Request, Running, Scheduler, Workload};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

/// A client.
#[derive(Debug, Clone)]
pub struct Client {
    pub kind: WorkKind,
    pub group: u64,
    /// Requests that it has under way.
    pub depth: u32,
    pub bytes: u64,
    /// Whether each request begins where the last one ended.
    pub in_order: bool,
    next: u64,
    /// Requests that ended, and the device's time that they took.
    pub done: u64,
    pub took_ns: u64,
    /// The longest time that a request waited before it began.
    pub waited_ns: u64,
}

impl Client {
    pub fn new(kind: WorkKind, group: u64, depth: u32, bytes: u64, in_order: bool) -> Self {
        Self { kind, group, depth, bytes, in_order, next: 0, done: 0, took_ns: 0, waited_ns: 0 }
    }

    pub fn workload(&self) -> Workload {
        Workload::of(self.kind)
    }
}

/// A request of a client.
#[derive(Debug, Clone, Copy)]
struct Issued {
    client: usize,
    number: u64,
    seeks: bool,
    at: u64,
}

/// The device.
#[derive(Debug, Clone, Copy)]
pub struct Device {
    pub servers: usize,
    pub seek_ns: u64,
    pub ns_a_kib: u64,
}

impl Device {
    fn service_ns(&self, client: &Client, seeks: bool) -> u64 {
        u64::from(seeks) * self.seek_ns + client.bytes * self.ns_a_kib / 1024
    }

    /// The longest that a request of any of these clients takes.
    pub fn longest_ns(&self, clients: &[Client]) -> u64 {
        clients.iter().map(|client| self.service_ns(client, true)).max().unwrap_or_default()
    }
}

/// Clients at a device behind a scheduler.
pub struct Bench {
    pub clients: Vec<Client>,
    pub scheduler: Scheduler<usize>,
    device: Device,
    pub now: u64,
    free_at: Vec<u64>,
    ends: BinaryHeap<Reverse<(u64, usize)>>,
    issued: Vec<Issued>,
    running: Vec<Option<Running>>,
    under_way: usize,
    waiting: usize,
    timer: Option<u64>,
}

impl Bench {
    pub fn new(policy: &Policy, device: Device, clients: Vec<Client>) -> Self {
        let scheduler = Scheduler::new(policy, true);
        let free_at = vec![0; device.servers];
        let ends = BinaryHeap::new();
        let (issued, running) = (Vec::new(), Vec::new());
        let mut bench = Self {
            clients,
            scheduler,
            device,
            now: 0,
            free_at,
            ends,
            issued,
            running,
            under_way: 0,
            waiting: 0,
            timer: None,
        };
        for client in 0..bench.clients.len() {
            (0..bench.clients[client].depth).for_each(|_| bench.issue(client));
        }
        bench.go_on();
        bench
    }

    fn issue(&mut self, client: usize) {
        let of = &mut self.clients[client];
        let (seeks, offset) = match of.in_order {
            true => (of.next == 0, of.next),
            // Never where the last one ended.
            false => (true, of.next + (1 << 30)),
        };
        of.next = offset + of.bytes;
        let work = Some(Work::new(of.kind, of.group));
        let request = Request { work, offset, bytes: of.bytes, is_flush: false };
        let number = self.issued.len();
        self.issued.push(Issued { client, number: number as u64, seeks, at: self.now });
        self.running.push(None);
        match self.scheduler.enter(Duration::from_nanos(self.now), &request, || number) {
            Entry::Go(running) => self.begin(number, running),
            Entry::Wait(_) => self.waiting += 1,
        }
    }

    fn begin(&mut self, number: usize, running: Running) {
        assert!(self.running[number].replace(running).is_none(), "a request begins once");
        let issued = self.issued[number];
        debug_assert_eq!(issued.number, number as u64);
        let client = &mut self.clients[issued.client];
        client.waited_ns = client.waited_ns.max(self.now - issued.at);
        let took = self.device.service_ns(client, issued.seeks);
        let server = (0..self.free_at.len()).min_by_key(|server| self.free_at[*server]).unwrap();
        self.free_at[server] = self.free_at[server].max(self.now) + took;
        self.ends.push(Reverse((self.free_at[server], number)));
        self.under_way += 1;
    }

    fn go_on(&mut self) {
        self.timer = None;
        loop {
            match self.scheduler.next(Duration::from_nanos(self.now)) {
                Next::Go(number, running) => {
                    self.waiting -= 1;
                    self.begin(number, running);
                }
                Next::At(at, _) => {
                    assert!(at.as_nanos() as u64 > self.now, "the time has not come yet");
                    self.timer = Some(at.as_nanos() as u64);
                    break;
                }
                Next::Nothing => break,
            }
        }
        let is_stuck = self.under_way == 0 && self.waiting > 0 && self.timer.is_none();
        assert!(!is_stuck, "requests wait although nothing is under way");
    }

    /// Lets the next request end, or the time come at which one may begin.
    pub fn step(&mut self) {
        let end = self.ends.peek().map(|Reverse((at, _))| *at);
        if let Some(timer) = self.timer.filter(|timer| end.is_none_or(|end| *timer < end)) {
            self.now = timer;
            return self.go_on();
        }
        let Reverse((at, number)) = self.ends.pop().expect("a request is under way");
        self.now = at;
        self.under_way -= 1;
        let running = self.running[number].take().expect("it is under way");
        self.scheduler.end(Duration::from_nanos(at), running, true);
        let Issued { client, seeks, .. } = self.issued[number];
        let took = self.device.service_ns(&self.clients[client], seeks);
        self.clients[client].done += 1;
        self.clients[client].took_ns += took;
        self.issue(client);
        self.go_on();
    }

    /// Whether the device has nothing to do.
    pub fn is_idle(&self) -> bool {
        self.under_way == 0
    }

    /// Forgets what was done so far.
    pub fn reset(&mut self) {
        self.clients.iter_mut().for_each(|client| (client.done, client.took_ns, client.waited_ns) = (0, 0, 0));
    }

    /// The device's time that a workload's requests took.
    pub fn took_ns(&self, workload: Workload) -> f64 {
        self.clients.iter().filter(|client| client.workload() == workload).map(|client| client.took_ns as f64).sum()
    }
}
