//! Many hosts beside one etcd, of which a rack is lost: with the machine of the server, and an etcd that answers so many requests a
//! second, one after the other. docs/scale.md has what is printed.

use nitro_cluster::{Answer, Ask, Fence, Key, LeaseId, Machine, News, Order, Terms};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::time::Duration;

/// Hosts are as many less, and etcd is as much slower, than what is meant: the figures are the same.
const SMALLER: u32 = 20;
/// Requests a second of one etcd on three SSDs.
const ETCD_A_SECOND: u32 = 5400;
/// Hosts of a rack.
const RACK: usize = 40 / SMALLER as usize;
/// Volumes, for each host.
const VOLUMES_A_HOST: usize = 20;
/// Hosts that may serve a volume.
const CANDIDATES: usize = 3;
/// Volumes in one transaction, as of the client.
const LOOKED_AT: usize = 100;
const MILLISECOND: Duration = Duration::from_millis(1);

/// What happens to whom.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A host looks at its machine.
    Turn(usize),
    /// Its answer arrives.
    Answered(usize),
    /// etcd looks for leases that have ended.
    Expire,
}

struct Host {
    machine: Machine,
    /// The question under way, when it was sent, and its answer once etcd got to it.
    asked: Option<(Ask, Duration, Answer)>,
    is_alive: bool,
}

/// A cluster.
struct Cluster {
    now: Duration,
    events: BinaryHeap<Reverse<(Duration, u64, Event)>>,
    count: u64,
    hosts: Vec<Host>,
    lease: Duration,
    /// The time of one request.
    service: Duration,
    /// When etcd has answered all that was asked.
    busy_until: Duration,
    /// By lease: its host, and its end.
    leases: HashMap<LeaseId, (usize, Duration)>,
    /// By volume: the fencing number and the lease.
    owners: BTreeMap<String, (Fence, LeaseId)>,
    revision: u64,
    requests: u64,
    /// All hosts look when any key has gone, and not only those that may serve its volume.
    wakes_all: bool,
    candidates: HashMap<String, Vec<usize>>,
    /// Volumes that were taken over, with the time at which they were.
    taken: BTreeMap<String, Duration>,
    stopped: usize,
}

impl Cluster {
    fn new(hosts: u32, lease: Duration, wakes_all: bool) -> Self {
        let count = (hosts / SMALLER) as usize;
        let mut candidates: HashMap<String, Vec<usize>> = HashMap::new();
        let mut of_host = vec![Vec::new(); count];
        for volume in 0..count * VOLUMES_A_HOST {
            let name = format!("v{volume}");
            // Each has hosts of other racks, spread by an odd step.
            let own: Vec<usize> =
                (0..CANDIDATES).map(|step| (volume + step * (volume / count * 2 + RACK + 1)) % count).collect();
            own.iter().for_each(|host| of_host[*host].push(name.clone()));
            candidates.insert(name, own);
        }
        let terms = Terms::of(lease);
        let host = |volumes: Vec<String>| Host { machine: Machine::new(terms, volumes), asked: None, is_alive: true };
        let mut all = Self {
            now: Duration::ZERO,
            events: BinaryHeap::new(),
            count: 0,
            hosts: of_host.into_iter().map(host).collect(),
            lease,
            service: Duration::from_secs(1) * SMALLER / ETCD_A_SECOND,
            busy_until: Duration::ZERO,
            leases: HashMap::new(),
            owners: BTreeMap::new(),
            revision: 1,
            requests: 0,
            wakes_all,
            candidates,
            taken: BTreeMap::new(),
            stopped: 0,
        };
        for host in 0..count {
            // They start within a renewal.
            all.at(terms.renew_every * host as u32 / count as u32, Event::Turn(host));
        }
        all.at(MILLISECOND * 500, Event::Expire);
        all
    }

    fn at(&mut self, time: Duration, event: Event) {
        self.count += 1;
        self.events.push(Reverse((time, self.count, event)));
    }

    fn run_until(&mut self, end: Duration) {
        while let Some(Reverse((time, ..))) = self.events.peek()
            && *time <= end
            && let Some(Reverse((time, _, event))) = self.events.pop()
        {
            self.now = time;
            match event {
                Event::Turn(host) => self.turn(host),
                Event::Answered(host) => self.answered(host),
                Event::Expire => {
                    let ended: Vec<LeaseId> =
                        self.leases.iter().filter(|(_, (_, end))| *end <= time).map(|(id, _)| *id).collect();
                    ended.iter().for_each(|id| self.end(*id));
                    self.at(time + MILLISECOND * 500, Event::Expire);
                }
            }
        }
        self.now = end;
    }

    /// Ends a lease with its keys; hosts are told.
    fn end(&mut self, id: LeaseId) {
        self.leases.remove(&id);
        let gone: Vec<String> =
            self.owners.iter().filter(|(_, (_, of))| *of == id).map(|(name, _)| name.clone()).collect();
        for name in gone {
            self.owners.remove(&name);
            let told = if self.wakes_all { (0..self.hosts.len()).collect() } else { self.candidates[&name].clone() };
            for host in told {
                self.hosts[host].machine.hurry(self.now);
                self.at(self.now + MILLISECOND, Event::Turn(host));
            }
        }
    }

    fn turn(&mut self, number: usize) {
        let now = self.now;
        let host = &mut self.hosts[number];
        if !host.is_alive || host.machine.over().is_some() {
            return;
        }
        let orders = host.machine.tick(now);
        let asked = host.machine.ask(now);
        let due = host.machine.due();
        self.obey(number, orders);
        if let Some(ask) = asked {
            return self.carry_out(number, ask);
        }
        if self.hosts[number].asked.is_none()
            && let Some(due) = due
        {
            self.at(due.max(now + MILLISECOND), Event::Turn(number));
        }
    }

    /// A question reaches etcd, which carries it out once it has answered those before.
    fn carry_out(&mut self, number: usize, ask: Ask) {
        let requests = match &ask {
            Ask::Renew(_, volumes) => 1 + volumes.len().div_ceil(LOOKED_AT) as u64,
            Ask::Grant => 2,
            Ask::Claim(..) | Ask::Release(..) | Ask::Revoke(_) => 1,
        };
        self.requests += requests;
        let done = self.busy_until.max(self.now) + self.service * requests as u32;
        self.busy_until = done;
        let patience = self.lease / 5 * requests as u32;
        let is_late = done - self.now > patience;
        let answer = if is_late { Answer::Failed } else { self.decide(number, &ask, done) };
        self.hosts[number].asked = Some((ask, self.now, answer));
        let arrives = if is_late { self.now + patience } else { done };
        self.at(arrives, Event::Answered(number));
    }

    fn decide(&mut self, number: usize, ask: &Ask, done: Duration) -> Answer {
        match ask {
            Ask::Grant => {
                self.revision += 1;
                let id = self.revision as LeaseId;
                self.leases.insert(id, (number, done + self.lease));
                Answer::Granted(id, self.lease)
            }
            Ask::Renew(id, volumes) => {
                let Some((_, end)) = self.leases.get_mut(id) else { return Answer::Gone };
                *end = done + self.lease;
                let key = |name: &String| {
                    let (fence, lease) = *self.owners.get(name)?;
                    Some(Key { volume: name.clone(), fence, lease, host: String::new() })
                };
                Answer::Renewed(self.lease, volumes.iter().filter_map(key).collect())
            }
            Ask::Claim(volume, id) => {
                if self.owners.contains_key(volume) {
                    return Answer::NotClaimed;
                }
                self.revision += 1;
                self.owners.insert(volume.clone(), (Fence(self.revision), *id));
                Answer::Claimed(Fence(self.revision))
            }
            Ask::Release(..) => Answer::Released,
            Ask::Revoke(_) => Answer::Revoked,
        }
    }

    fn answered(&mut self, number: usize) {
        let host = &mut self.hosts[number];
        let Some((ask, sent, answer)) = host.asked.take().filter(|_| host.is_alive) else { return };
        let orders = host.machine.answer(self.now, sent, &ask, answer);
        self.obey(number, orders);
        self.turn(number);
    }

    fn obey(&mut self, number: usize, orders: Vec<Order>) {
        for order in orders {
            match order {
                Order::Open(name, fence) => {
                    assert_eq!(self.owners.get(&name).map(|(of, _)| *of), Some(fence), "two owners of {name}");
                    self.taken.insert(name.clone(), self.now);
                    self.hosts[number].machine.hear(&News::Opened(name));
                }
                Order::Stop(_) => self.stopped += 1,
            }
        }
    }
}

/// The outcome for so many hosts.
#[derive(Debug)]
struct Outcome {
    /// Share of etcd's time that is used while nothing happens.
    load: f64,
    /// Hosts that stopped although they were well.
    stopped: usize,
    /// Volumes of the rack that nobody serves in the end.
    lost: usize,
    /// The longest time until a volume of the rack was owned again, from the loss on.
    longest: Duration,
}

fn lose_a_rack(hosts: u32, lease: Duration, wakes_all: bool) -> Outcome {
    let mut cluster = Cluster::new(hosts, lease, wakes_all);
    let (settled, measured) = (lease * 6, lease * 2);
    cluster.run_until(settled);
    let before = cluster.requests;
    cluster.run_until(settled + measured);
    let load = (cluster.requests - before) as f64 * cluster.service.as_secs_f64() / measured.as_secs_f64();
    let lost_at = cluster.now;
    let lost: Vec<String> = cluster
        .owners
        .iter()
        .filter(|(_, (_, id))| cluster.leases.get(id).is_some_and(|(host, _)| *host < RACK))
        .map(|(name, _)| name.clone())
        .collect();
    cluster.hosts[..RACK].iter_mut().for_each(|host| host.is_alive = false);
    cluster.run_until(lost_at + lease * 6);
    let again: Vec<Duration> =
        lost.iter().filter_map(|name| cluster.taken.get(name)).filter_map(|at| at.checked_sub(lost_at)).collect();
    assert!(!lost.is_empty(), "the rack served something");
    Outcome {
        load,
        stopped: cluster.stopped,
        lost: lost.len() - again.len(),
        longest: again.into_iter().max().unwrap_or_default(),
    }
}

const TEN: Duration = Duration::from_secs(10);

#[test]
fn a_rack_of_four_thousand_hosts_is_taken_over_and_no_other_host_stops() {
    let outcome = lose_a_rack(4000, TEN, false);
    assert_eq!((outcome.stopped, outcome.lost), (0, 0), "{outcome:?}");
    assert!(outcome.longest < TEN * 3 / 2, "{outcome:?}");
    let all_wake = lose_a_rack(4000, TEN, true);
    assert!(
        all_wake.longest > outcome.longest,
        "{outcome:?}, and if all hosts look at each key that ends, {all_wake:?}"
    );
}

/// With leases of 10 s, renewed every 2 s by two requests, 10,000 hosts ask for more than one etcd answers: each keeps what it has,
/// and none has time to take over anything. With leases of 25 s, they do not.
#[test]
fn ten_thousand_hosts_need_longer_leases() {
    let short = lose_a_rack(10_000, TEN, false);
    assert!(short.stopped == 0 && short.lost > 0, "{short:?}");
    let long = lose_a_rack(10_000, TEN * 5 / 2, false);
    assert!(long.stopped == 0 && long.lost == 0 && long.load < 0.9, "{long:?}");
}

/// The table of docs/scale.md.
#[test]
#[ignore = "prints a table"]
fn table() {
    for (hosts, lease) in [
        (1000, 10),
        (2000, 10),
        (3000, 10),
        (4000, 10),
        (5000, 10),
        (6000, 10),
        (10_000, 10),
        (10_000, 20),
        (10_000, 25),
        (10_000, 30),
    ] {
        let [few, all] = [false, true].map(|wakes_all| lose_a_rack(hosts, Duration::from_secs(lease), wakes_all));
        let stopped = few.stopped * SMALLER as usize;
        println!(
            "| {hosts} | {lease} s | {:.2} | {stopped} | {} | {:.1?} | {:.1?} |",
            few.load, few.lost, few.longest, all.longest
        );
    }
}
