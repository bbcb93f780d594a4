//! Servers that die and come back: what they acknowledged is there, or a FLUSH fails.

use super::{connect, options};
use crate::support::mortal::Mortal;
use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::{Either, join, join_all, select};
use nitro_nbd::client::{ClientOptions, RemoteDisk};
use nitro_port::{Clock as _, Device, ErrorKind};
use nitro_testkit::{Rng, Simulation, for_seeds, seeds};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

const REGION: usize = 16 << 10;
const REGIONS: usize = 6;
const SECOND: Duration = Duration::from_secs(1);

/// Uses a region as a disk that never dies: reads what it wrote, and after a FLUSH finds it on the medium.
async fn use_region(disk: &RemoteDisk, server: &Mortal, region: usize, mut random: Rng) {
    let start = region * REGION;
    let mut expected = vec![0; REGION];
    for _ in 0..100 {
        let blocks = (REGION / 512) as u64;
        let first = random.below(blocks);
        let count = 1 + random.below((blocks - first).min(12));
        let (at, len) = (first as usize * 512, count as usize * 512);
        let offset = (start + at) as u64;
        match random.below(10) {
            0 => {
                disk.discard(offset, len as u64).await.unwrap();
                expected[at..at + len].fill(0);
            }
            1 => {
                disk.write_zeroes(offset, len as u64, true).await.unwrap();
                expected[at..at + len].fill(0);
            }
            2 | 3 => {
                disk.flush().await.unwrap();
                assert!(server.medium().durable[start..start + REGION] == expected, "a FLUSH has lost something");
            }
            4..7 => {
                let byte = random.below(255) as u8 + 1;
                disk.write(offset, vec![byte; len].into()).await.unwrap();
                expected[at..at + len].fill(byte);
            }
            _ => {
                let read = disk.read(offset, len).await.unwrap();
                assert!(read == expected[at..at + len], "a read returns something else than was written");
            }
        }
    }
    disk.flush().await.unwrap();
    assert!(server.medium().durable[start..start + REGION] == expected, "the last FLUSH has lost something");
}

#[test]
fn whatever_a_server_loses_when_it_dies_is_there_after_a_flush() {
    let (deaths, resent) = (AtomicUsize::new(0), AtomicU64::new(0));
    for_seeds(60, |seed| {
        let simulation = Simulation::new(seed);
        let mut random = Rng::new(seed ^ 0x4E42);
        let server = Mortal::new(&simulation, REGION * REGIONS, seed);
        server.medium().info.can_multi_conn = random.below(2) == 0;
        let time = simulation.clock.clone();
        simulation.run(async {
            let buffer = [8 << 10, 64 << 10, 1 << 20][random.below(3) as usize];
            let disk = connect(&simulation, &server, options(buffer)).await.unwrap();
            let work = join_all((0..REGIONS).map(|region| use_region(&disk, &server, region, Rng::new(random.next()))));
            let mut random = Rng::new(seed ^ 0xDEAD);
            let trouble = async {
                loop {
                    time.sleep(Duration::from_micros(random.below(60_000))).await;
                    deaths.fetch_add(1, Ordering::Relaxed);
                    if random.below(3) == 0 {
                        server.cut();
                        continue;
                    }
                    server.kill();
                    time.sleep(Duration::from_millis(random.below(3000))).await;
                    server.start();
                }
            };
            select(pin!(work), pin!(trouble)).await;
            let counted = disk.counters();
            assert!(counted.reconnections > 0 || counted.resent_bytes == 0, "{counted:?}");
            resent.fetch_add(counted.resent_bytes, Ordering::Relaxed);
            drop(disk);
        });
        simulation.end();
    });
    let deaths = deaths.into_inner();
    assert!(deaths > seeds(60).count(), "the server died {deaths} times");
    assert!(resent.into_inner() > 0, "nothing was sent again");
}

#[test]
fn what_is_not_flushed_stays_within_its_bound_by_flushes_of_the_clients_own() {
    const BUFFER: u64 = 256 << 10;
    let simulation = Simulation::new(1);
    let server = Mortal::new(&simulation, 8 << 20, 1);
    simulation.run(async {
        let disk = connect(&simulation, &server, options(BUFFER)).await.unwrap();
        let block = Bytes::from(vec![7; 16 << 10]);
        for round in 0..4 {
            join_all((0..64).map(|at| disk.write((round * 64 + at) * (16 << 10), block.clone()))).await;
        }
        let medium = server.medium();
        assert!(medium.flushes > 8, "{}", medium.flushes);
        assert!(disk.counters().own_flushes > 8, "{:?}", disk.counters());
        assert!(medium.unflushed_bytes_max as u64 <= BUFFER, "{}", medium.unflushed_bytes_max);
    });
    simulation.end();
}

/// Whether a request is still waiting after an hour.
async fn waits<T>(simulation: &Simulation, request: impl Future<Output = T>) -> bool {
    matches!(select(pin!(request), pin!(simulation.clock.sleep(3600 * SECOND))).await, Either::Right(_))
}

#[test]
fn without_a_server_reads_are_answered_from_the_buffer_and_other_requests_wait() {
    let simulation = Simulation::new(2);
    let server = Mortal::new(&simulation, 1 << 20, 2);
    simulation.run(async {
        let disk = connect(&simulation, &server, options(1 << 20)).await.unwrap();
        disk.write(8192, vec![5; 8192].into()).await.unwrap();
        server.kill();
        simulation.clock.sleep(SECOND).await;
        assert_eq!(disk.read(10240, 4096).await.unwrap(), vec![5; 4096]);
        assert!(waits(&simulation, disk.read(0, 16384)).await);
        let write = disk.write(0, vec![6; 512].into());
        let back = async {
            simulation.clock.sleep(SECOND).await;
            server.start();
        };
        join(write.map(Result::unwrap), back).await;
        assert_eq!(disk.read(8192, 8192).await.unwrap(), vec![5; 8192]);
        disk.flush().await.unwrap();
        assert!(server.medium().durable[8192..16384] == [5; 8192]);
    });
    simulation.end();
}

#[test]
fn nothing_is_sent_to_an_export_of_another_size() {
    let simulation = Simulation::new(3);
    let server = Mortal::new(&simulation, 1 << 20, 3);
    simulation.run(async {
        let disk = connect(&simulation, &server, options(1 << 20)).await.unwrap();
        disk.write(0, vec![5; 4096].into()).await.unwrap();
        server.kill();
        let writes = {
            let mut medium = server.medium();
            medium.durable = vec![1; 2 << 20];
            medium.info.size_bytes = 2 << 20;
            medium.writes
        };
        server.start();
        assert_eq!(disk.flush().await.unwrap_err().kind, ErrorKind::Io);
        assert!(disk.write(0, vec![5; 4096].into()).await.is_err() && disk.read(0, 512).await.is_err());
        assert!(server.medium().writes == writes && server.medium().durable.iter().all(|byte| *byte == 1));
    });
    simulation.end();
}

#[test]
fn after_a_flush_that_failed_none_succeeds() {
    let simulation = Simulation::new(4);
    let server = Mortal::new(&simulation, 8 << 20, 4);
    simulation.run(async {
        let disk = connect(&simulation, &server, options(64 << 10)).await.unwrap();
        server.medium().fails_to_flush = true;
        // The client's own flush fails first.
        for at in 0..8 {
            disk.write(at << 14, vec![5; 16 << 10].into()).await.unwrap();
        }
        server.medium().fails_to_flush = false;
        assert!(disk.flush().await.is_err() && disk.flush().await.is_err());
        assert_eq!(disk.read(0, 512).await.unwrap(), vec![5; 512]);
    });
    simulation.end();
}

#[test]
fn a_server_that_does_not_take_again_what_it_acknowledged_gets_and_gives_nothing_more() {
    let simulation = Simulation::new(5);
    let server = Mortal::new(&simulation, 1 << 20, 5);
    simulation.run(async {
        let disk = connect(&simulation, &server, options(1 << 20)).await.unwrap();
        disk.write(0, vec![5; 4096].into()).await.unwrap();
        server.medium().refuses = true;
        server.kill();
        server.start();
        assert!(disk.read(8192, 4096).await.is_err() && disk.flush().await.is_err());
    });
    simulation.end();
}

#[test]
fn a_connection_on_which_nothing_is_answered_gives_way_to_one_that_is() {
    let simulation = Simulation::new(6);
    let server = Mortal::new(&simulation, 1 << 20, 6);
    simulation.run(async {
        server.medium().is_silent = true;
        let patient = ClientOptions { patience: 60 * SECOND, ..options(1 << 20) };
        let disk = connect(&simulation, &server, patient).await.unwrap();
        server.medium().is_silent = false;
        let begun = simulation.clock.now();
        disk.write(0, vec![5; 4096].into()).await.unwrap();
        let waited = simulation.clock.now() - begun;
        assert!((60 * SECOND..80 * SECOND).contains(&waited), "{waited:?}");
        assert_eq!(disk.read(0, 4096).await.unwrap(), vec![5; 4096]);
    });
    simulation.end();
}

#[test]
fn a_client_that_ends_takes_leave() {
    let simulation = Simulation::new(7);
    let server = Mortal::new(&simulation, 1 << 20, 7);
    simulation.run(async {
        let disk = connect(&simulation, &server, options(1 << 20)).await.unwrap();
        disk.write(0, vec![5; 4096].into()).await.unwrap();
        drop(disk);
        simulation.clock.sleep(10 * SECOND).await;
        assert_eq!(server.ends.take(), vec![nitro_nbd::End::Disconnected; 4]);
    });
    simulation.end();
}
