//! The rules one by one.

use crate::bench::{Bench, Client, Device};
use nitro_port::{Work, WorkKind};
use nitro_shares::{Entry, Next, Policy, Request, Scheduler, Terms, Workload};
use std::time::Duration;

const DISK: Device = Device { servers: 1, seek_ns: 8_000_000, ns_a_kib: 7_000 };

fn request(kind: WorkKind, pressing: bool) -> Request {
    let work = Some(Work { pressing, ..Work::new(kind, 1) });
    Request { work, offset: 0, bytes: 1 << 20, is_flush: false }
}

fn random(group: u64, depth: u32) -> Client {
    Client::new(WorkKind::RandomRead, group, depth, 8192, false)
}

/// A scheduler whose device is busy with a stream and with random reads, of which some wait.
fn busy() -> Scheduler<u32> {
    let mut scheduler = Scheduler::new(&Policy::default(), true);
    let mut waiting = 0;
    for number in 0..100 {
        let kind = if number % 2 == 0 { WorkKind::SequentialRead } else { WorkKind::RandomRead };
        match scheduler.enter(Duration::ZERO, &request(kind, false), || number) {
            Entry::Go(running) => drop(running),
            Entry::Wait(_) => waiting += 1,
        }
    }
    while let Next::Go(_, running) = scheduler.next(Duration::ZERO) {
        drop(running);
        waiting -= 1;
    }
    assert!(waiting > 0);
    scheduler
}

#[test]
fn what_others_wait_for_and_flushes_pass_at_once_and_are_charged() {
    let mut scheduler = busy();
    let before = scheduler.used(Workload::Background);
    let pressing = request(WorkKind::Collection, true);
    assert!(matches!(scheduler.enter(Duration::ZERO, &pressing, || 0), Entry::Go(_)));
    let flush = Request { is_flush: true, bytes: 0, ..request(WorkKind::RandomWrite, false) };
    assert!(matches!(scheduler.enter(Duration::ZERO, &flush, || 0), Entry::Go(_)));
    let nameless = Request { work: None, ..pressing };
    assert!(matches!(scheduler.enter(Duration::ZERO, &nameless, || 0), Entry::Go(_)));
    assert!(matches!(scheduler.enter(Duration::ZERO, &request(WorkKind::Collection, false), || 0), Entry::Wait(_)));
    let after = scheduler.used(Workload::Background);
    assert!(after.requests == before.requests + 1 && after.cost_ns > before.cost_ns, "{before:?} {after:?}");
}

#[test]
fn whoever_is_alone_waits_for_nobody() {
    for kind in WorkKind::ALL {
        let mut scheduler = Scheduler::new(&Policy::default(), false);
        for _ in 0..1000 {
            let entry = scheduler.enter(Duration::ZERO, &request(kind, false), || ());
            assert!(matches!(entry, Entry::Go(_)), "{kind:?}");
        }
    }
}

#[test]
fn a_given_up_request_leaves_its_place() {
    let mut scheduler = busy();
    let Entry::Wait(ticket) = scheduler.enter(Duration::ZERO, &request(WorkKind::Scrub, false), || 7) else {
        panic!("it waits")
    };
    assert!(scheduler.cancel(ticket) && !scheduler.cancel(ticket));
}

/// The reads and the writes of one group, beside another one.
#[test]
fn reads_at_random_overtake_writes_but_not_all_of_them() {
    let clients = vec![
        random(1, 8),
        Client::new(WorkKind::RandomWrite, 1, 8, 8192, false),
        Client::new(WorkKind::Ingest, 2, 8, 8192, false),
    ];
    let mut bench = Bench::new(&Policy::default(), DISK, clients);
    (0..8000).for_each(|_| bench.step());
    let [reads, writes] = [bench.clients[0].done, bench.clients[1].done];
    assert!(reads > 10 * writes && writes > 30, "{reads} {writes}");
}

#[test]
fn a_deep_queue_does_not_slow_a_shallow_one() {
    let mut bench = Bench::new(&Policy::default(), DISK, vec![random(1, 256), random(2, 1)]);
    // The first ones began when nobody else was there.
    (0..500).for_each(|_| bench.step());
    bench.reset();
    (0..2000).for_each(|_| bench.step());
    let [deep, shallow] = [&bench.clients[0], &bench.clients[1]];
    // One at a time has at most its turn after what is in the device, instead of after 256 others.
    assert!(shallow.done > 60 && shallow.waited_ns < 200_000_000, "{shallow:?}");
    assert!(deep.done > 1000, "{deep:?}");
}

#[test]
fn weights_reservations_and_limits_of_groups() {
    let measured = |terms: [Terms; 2]| {
        let mut bench = Bench::new(&Policy::default(), DISK, vec![random(1, 32), random(2, 32)]);
        terms.iter().zip(1..).for_each(|(terms, group)| bench.scheduler.set_terms(group, *terms));
        (0..1000).for_each(|_| bench.step());
        bench.reset();
        let begun = bench.now;
        (0..4000).for_each(|_| bench.step());
        let all = (bench.now - begun) as f64;
        [0, 1].map(|client: usize| bench.clients[client].took_ns as f64 / all)
    };
    let near = |found: [f64; 2], expected: [f64; 2]| {
        let is_near = found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 0.03);
        assert!(is_near, "{found:?} instead of {expected:?}");
    };
    let usual = Terms::default();
    near(measured([usual, usual]), [0.5, 0.5]);
    near(measured([Terms { weight: 3.0, ..usual }, usual]), [0.75, 0.25]);
    near(measured([Terms { reservation: 0.7, ..usual }, usual]), [0.7, 0.3]);
    near(measured([Terms { limit: 0.1, ..usual }, usual]), [0.1, 0.9]);
    // A limit is one also if nobody else needs the device.
    near(measured([Terms { limit: 0.1, ..usual }, Terms { limit: 0.2, ..usual }]), [0.1, 0.2]);
}
