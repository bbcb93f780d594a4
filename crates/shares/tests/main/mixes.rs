//! Random mixes of clients, against what the shares promise them.

use crate::bench::{Bench, Client, Device};
use nitro_port::WorkKind;
use nitro_shares::{Policy, Workload};
use nitro_testkit::Rng;

const MILLIS: u64 = 1_000_000;

/// What a workload is entitled to, computed from the rules: background work has its share beside clients, random work
/// its share of the rest beside streams, and whoever is alone has everything.
fn entitled(policy: &Policy, has: [bool; Workload::COUNT]) -> [f64; Workload::COUNT] {
    let share = |percent: u8| f64::from(percent) / 100.0;
    let [random, streams, background] = has;
    let of_background = match (background, random || streams) {
        (false, _) => 0.0,
        (true, false) => 1.0,
        (true, true) => share(policy.background_percent),
    };
    let of_random = match (random, streams) {
        (false, _) => 0.0,
        (true, false) => 1.0 - of_background,
        (true, true) => share(policy.random_percent) * (1.0 - of_background),
    };
    let of_streams = if streams { 1.0 - of_background - of_random } else { 0.0 };
    [of_random, of_streams, of_background]
}

fn has(clients: &[Client]) -> [bool; Workload::COUNT] {
    Workload::ALL.map(|workload| clients.iter().any(|client| client.workload() == workload))
}

fn policy(random: &mut Rng) -> Policy {
    Policy { random_percent: 5 + random.below(40) as u8, background_percent: 5 + random.below(30) as u8 }
}

fn device(random: &mut Rng, servers: u64) -> Device {
    Device {
        servers: 1 + random.below(servers) as usize,
        seek_ns: MILLIS * (1 + random.below(10)),
        ns_a_kib: 2000 + random.below(10_000),
    }
}

fn client(random: &mut Rng, depths: [u64; 2]) -> Client {
    let kind = WorkKind::ALL[random.below(WorkKind::ALL.len() as u64) as usize];
    let [least, most] = depths;
    let depth = least + random.below(most - least + 1);
    let in_order = kind != WorkKind::RandomRead && random.one_in(2);
    Client::new(kind, random.below(4), depth as u32, 4096 << random.below(7), in_order)
}

/// In 100,000 mixes, nobody waits longer than follows from its share, and the device never idles while requests wait.
#[test]
fn nobody_starves_in_any_mix() {
    let mut random = Rng::new(0x5A4E);
    for mix in 0..100_000 {
        let (policy, device) = (policy(&mut random), device(&mut random, 8));
        let count = 1 + random.below(6);
        let clients: Vec<Client> = (0..count).map(|_| client(&mut random, [1, 12])).collect();
        let entitled = entitled(&policy, has(&clients));
        let longest = device.longest_ns(&clients);
        let mut bench = Bench::new(&policy, device, clients);
        for _ in 0..60 {
            bench.step();
            assert!(!bench.is_idle(), "mix {mix}: nothing limits a workload that is alone");
        }
        for client in &bench.clients {
            let of_workload = bench.clients.iter().filter(|other| other.workload() == client.workload());
            let ahead: u64 = of_workload.map(|other| u64::from(other.depth)).sum::<u64>() * longest;
            let share = entitled[client.workload() as usize];
            // What is under way, what others may have had in advance, and its own queue.
            let most = (ahead + 4 * longest + 200 * MILLIS) as f64 / share + 1e9;
            assert!((client.waited_ns as f64) < most, "mix {mix}: {client:?} of {most} ns at {share}");
        }
    }
}

/// If all have enough requests, each workload has the part of the device's time that it is entitled to, and so the random
/// requests a second that this part makes; groups of a workload have equal parts.
#[test]
fn random_requests_follow_their_share() {
    let mut random = Rng::new(0x54A3);
    for mix in 0..150 {
        let (policy, device) = (policy(&mut random), device(&mut random, 1));
        let mut clients: Vec<Client> = (0..3 + random.below(4)).map(|_| client(&mut random, [150, 200])).collect();
        // Each in a group of its own, with enough under way to use its share.
        for (client, group) in clients.iter_mut().zip(0..) {
            client.group = group;
            client.bytes = if client.in_order { client.bytes.max(256 << 10) } else { client.bytes };
        }
        clients.push(Client::new(WorkKind::RandomRead, 100, 200, 8192, false));
        clients.push(Client::new(WorkKind::Ingest, 101, 150, 256 << 10, true));
        let entitled = entitled(&policy, has(&clients));
        let mut bench = Bench::new(&policy, device, clients);
        (0..3000).for_each(|_| bench.step());
        bench.reset();
        let begun = bench.now;
        (0..12_000).for_each(|_| bench.step());
        let all = (bench.now - begun) as f64;
        for workload in Workload::ALL {
            let (found, expected) = (bench.took_ns(workload) / all, entitled[workload as usize]);
            let off = if expected > 0.0 { found / expected - 1.0 } else { found };
            assert!(off.abs() < 0.05, "mix {mix}, {policy:?}: {workload:?} has {found:.4} instead of {expected:.4}");
            let of_workload = bench.clients.iter().filter(|client| client.workload() == workload);
            let parts: Vec<f64> = of_workload.map(|client| client.took_ns as f64 / all).collect();
            // As far as it is known what requests of different lengths cost.
            let fair = expected / parts.len().max(1) as f64;
            let is_fair = parts.iter().all(|part| (part / fair - 1.0).abs() < 0.25);
            assert!(is_fair, "mix {mix}: {workload:?}: {parts:?} instead of {fair} each");
        }
    }
}
