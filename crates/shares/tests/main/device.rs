//! Devices with shares, on emulated disks in virtual time.

use futures_util::future::{join_all, select};
use futures_util::{FutureExt, pin_mut};
use nitro_device::hdd::HddModel;
use nitro_device::{HddDevice, RamDevice};
use nitro_port::{Clock, Device, Work, WorkKind};
use nitro_shares::{Policy, SharedDevice};
use nitro_testkit::{Rng, VirtualTime};
use std::pin::pin;
use std::time::Duration;

const BYTES: u64 = 4 << 30;

type Disk = SharedDevice<HddDevice<RamDevice, VirtualTime>, VirtualTime>;

fn disk(clock: &VirtualTime, policy: Option<Policy>) -> Disk {
    let model = HddModel::rpm_7200().with_spindles(4, 256 << 10);
    SharedDevice::new(HddDevice::new(RamDevice::new(BYTES, 4096), clock.clone(), model), clock.clone(), policy)
}

/// What clients of one kind do: each has one request at a time.
#[derive(Clone, Copy)]
struct Role {
    kind: WorkKind,
    clients: u64,
    bytes: u64,
}

const fn streams(clients: u64) -> Role {
    Role { kind: WorkKind::SequentialRead, clients, bytes: 1 << 20 }
}

const fn random(clients: u64) -> Role {
    Role { kind: WorkKind::RandomRead, clients, bytes: 8192 }
}

const fn collection(clients: u64) -> Role {
    Role { kind: WorkKind::Collection, clients, bytes: 1 << 20 }
}

/// What clients of one kind have done.
#[derive(Debug, Clone, Copy)]
struct Did {
    requests: u64,
    p99: Duration,
}

/// Lets clients of these roles read at the same time.
fn beside(policy: Option<Policy>, roles: &[Role]) -> Vec<Did> {
    let clock = VirtualTime::default();
    let disk = disk(&clock, policy);
    let (begin, end) = (Duration::from_secs(4), Duration::from_secs(24));
    let client = async |role: Role, number: u64| {
        let mut places = Rng::new(number);
        let (mut at, mut took) = (number * (BYTES / 8 + (48 << 20)) % BYTES, Vec::new());
        while clock.now() < end {
            if role.kind == WorkKind::RandomRead {
                at = places.below(BYTES / role.bytes) * role.bytes;
            }
            let since = clock.now();
            let group = if role.kind == WorkKind::RandomRead { 1000 + number % 3 } else { number };
            let reading = pin!(disk.read(at, role.bytes as usize));
            Work::new(role.kind, group).scope(reading).await.unwrap();
            at = (at + role.bytes) % BYTES;
            if since >= begin {
                took.push(clock.now() - since);
            }
        }
        took
    };
    let all = roles.iter().zip(0_u64..).map(|(role, kind)| {
        join_all(
            (0..role.clients).map(move |number| (*role, kind * 40 + number)).map(|(role, number)| client(role, number)),
        )
    });
    let did = |clients: Vec<Vec<Duration>>| {
        let mut took = clients.concat();
        took.sort_unstable();
        Did { requests: took.len() as u64, p99: took.get(took.len() * 99 / 100).copied().unwrap_or_default() }
    };
    clock.run(join_all(all)).into_iter().map(did).collect()
}

fn share(random_percent: u8) -> Option<Policy> {
    Some(Policy { random_percent, ..Policy::default() })
}

#[test]
fn streams_keep_what_random_reads_do_not_have_a_share_of() {
    let alone = beside(share(10), &[streams(8)])[0].requests;
    let all = beside(share(10), &[random(64)])[0].requests;
    let both = [streams(8), random(64)];
    let lost = |did: &[Did]| 100.0 * (1.0 - did[0].requests as f64 / alone as f64);
    let unshared = beside(None, &both);
    let shared = [10, 20, 40].map(|percent| beside(share(percent), &both));
    assert!(lost(&unshared) > 50.0, "of {alone}: {unshared:?}");
    // More than the share: what a random request costs is learned as too little, and streams that ask for one thing at a
    // time also lose while they wait for it.
    assert!(lost(&shared[0]) < 25.0 && lost(&shared[1]) < 30.0, "of {alone}: {shared:?}");
    let random: Vec<u64> = shared.iter().map(|did| did[1].requests).collect();
    // Alone, a disk has 64 to choose from, and needs half of the time for each.
    assert!(random.is_sorted() && random[2] as f64 > 0.2 * all as f64, "{random:?} of {all}");
}

#[test]
fn random_reads_hardly_wait_for_a_collection() {
    let alone = beside(share(20), &[random(8)])[0];
    let collecting = beside(share(20), &[random(8), collection(4)])[0];
    assert!(collecting.p99 <= alone.p99 * 3 / 2, "{alone:?} {collecting:?}");
    assert!(collecting.requests * 10 >= alone.requests * 8, "{alone:?} {collecting:?}");
}

#[test]
fn requests_that_are_given_up_leave_their_turns_to_others() {
    let clock = VirtualTime::default();
    let disk = disk(&clock, Some(Policy::default()));
    let mut random = Rng::new(7);
    let all = async {
        for _ in 0..300 {
            let count = 1 + random.below(40);
            let requests = (0..count).map(|_| {
                let (at, kind) = (random.below(BYTES / 8192) * 8192, WorkKind::ALL[random.below(8) as usize]);
                let (clock, disk) = (&clock, &disk);
                let patience = Duration::from_micros(random.below(30_000));
                // One of two is given up when the other one ends, which may have let it begin at that moment.
                let (other_at, other) = (random.below(BYTES / 8192) * 8192, random.one_in(2));
                async move {
                    let reading = pin!(disk.read(at, 8192));
                    let reading = pin!(Work::new(kind, at % 3).scope(reading));
                    let beside = async {
                        if other {
                            disk.read(other_at, 8192).await.unwrap();
                        } else {
                            clock.sleep(patience).await;
                        }
                    };
                    select(reading, pin!(Work::new(kind, at % 3).scope(pin!(beside)))).await;
                }
            });
            join_all(requests).await;
        }
        // All turns were given back: a whole queue of each kind passes.
        let after = WorkKind::ALL.map(|kind| {
            let disk = &disk;
            async move { Work::new(kind, 9).scope(pin!(disk.read(0, 4096))).await.is_ok() }
        });
        join_all(after).await
    };
    assert!(clock.run(all).into_iter().all(|done| done));
}

#[test]
fn without_contention_and_without_shares_nothing_waits() {
    for policy in [None, Some(Policy::default())] {
        let clock = VirtualTime::default();
        let disk = disk(&clock, policy);
        let begun = async {
            let reads = (0..300).map(|n| disk.read(n * 8192, 8192));
            let reads = join_all(reads);
            pin_mut!(reads);
            let scoped = pin!(Work::new(WorkKind::RandomRead, 1).scope(reads));
            assert!(scoped.now_or_never().is_none());
        };
        clock.run(begun);
        let counters = disk.counters();
        let requests = if policy.is_some() { 300 } else { 0 };
        assert_eq!((counters.random_waits, counters.random_requests), (0, requests));
    }
}
