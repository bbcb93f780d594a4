//! The emulated disks keep the pace of real ones.

use bytes::Bytes;
use futures_util::future::{Either, join, join_all, select};
use nitro_device::RamDevice;
use nitro_device::hdd::{HddDevice, HddModel};
use nitro_port::{Clock, Device, ErrorKind};
use nitro_testkit::Rng;
use nitro_testkit::VirtualTime;
use std::time::Duration;

const SIZE: u64 = 4 << 30;
const READ: usize = 8192;

fn disk(clock: &VirtualTime, model: HddModel) -> HddDevice<RamDevice, VirtualTime> {
    HddDevice::new(RamDevice::new(SIZE, 512), clock.clone(), model)
}

/// Random reads a second with `depth` under way, over the first `span` bytes.
fn reads_per_second(model: HddModel, depth: u64, span: u64) -> f64 {
    let clock = VirtualTime::default();
    let device = disk(&clock, model);
    let each = 4000 / depth;
    clock.run(join_all((0..depth).map(|reader| {
        let device = &device;
        async move {
            let mut random = Rng::new(reader * 7919 + 1);
            for _ in 0..each {
                device.read(random.next() % (span / READ as u64) * READ as u64, READ).await.unwrap();
            }
        }
    })));
    let reads = (each * depth) as f64;
    assert_eq!(device.stats().requests as f64, reads);
    reads / clock.now().as_secs_f64()
}

#[track_caller]
fn expect(what: &str, found: f64, least: f64, most: f64) {
    println!("{what}: {found:.1}");
    assert!((least..=most).contains(&found), "{what}: {found}, expected {least} to {most}");
}

#[test]
fn random_reads_are_as_slow_as_on_a_disk() {
    let (slow, fast) = (HddModel::rpm_7200(), HddModel::rpm_15000());
    expect("7200 rpm, depth 1", reads_per_second(slow, 1, SIZE), 75.0, 85.0);
    expect("7200 rpm, depth 32", reads_per_second(slow, 32, SIZE), 135.0, 200.0);
    expect("15000 rpm, depth 1", reads_per_second(fast, 1, SIZE), 175.0, 195.0);
    expect("15000 rpm, depth 32", reads_per_second(fast, 32, SIZE), 310.0, 470.0);
    expect("7200 rpm, depth 256", reads_per_second(slow, 256, SIZE), 130.0, 200.0);
}

#[test]
fn a_small_part_of_a_large_disk_needs_short_seeks() {
    let large = HddModel::rpm_7200().with_span(4 << 40);
    // Little more than track to track and half a turn: 0.8 + 0.3 + 4.2 ms.
    expect("a thousandth of the disk", reads_per_second(large, 1, SIZE), 160.0, 210.0);
}

#[test]
fn spindles_add_up() {
    let four = HddModel::rpm_7200().with_spindles(4, 64 << 10);
    expect("4 disks, depth 1", reads_per_second(four, 1, SIZE), 75.0, 85.0);
    expect("4 disks, depth 128", reads_per_second(four, 128, SIZE), 520.0, 800.0);
}

#[test]
fn continued_reads_run_at_the_transfer_rate() {
    for (spindles, rate) in [(1, 150e6), (4, 600e6)] {
        let clock = VirtualTime::default();
        let device = disk(&clock, HddModel::rpm_7200().with_spindles(spindles, 64 << 10));
        clock.run(async {
            for i in 0..256 {
                device.read(i << 20, 1 << 20).await.unwrap();
            }
        });
        let found = f64::from(256 << 20) / clock.now().as_secs_f64();
        expect("sequential bytes a second", found, rate * 0.95, rate * 1.05);
        assert_eq!(device.stats().seeks, 0);
    }
}

#[test]
fn a_request_given_up_leaves_the_queue_healthy() {
    let clock = VirtualTime::default();
    let device = disk(&clock, HddModel::rpm_7200());
    clock.run(async {
        let mut random = Rng::new(3);
        let place = |random: &mut Rng| random.next() % (SIZE / 4096) * 4096;
        for round in 0..200u64 {
            let patience = Duration::from_micros(random.next() % 60_000);
            let reads: Vec<_> = (0..8).map(|_| device.read(place(&mut random), 4096)).collect();
            // Some are waiting, one holds the arm, when all are dropped.
            let timeout = Box::pin(clock.sleep(patience));
            drop(select(Box::pin(join_all(reads)), timeout).await);
            let started = clock.now();
            let (a, b) = join(device.read(place(&mut random), 4096), device.read(round * 4096, 4096)).await;
            assert!(a.is_ok() && b.is_ok());
            assert!(clock.now() - started < Duration::from_millis(75), "the arm was lost");
        }
    });
}

#[test]
fn a_future_that_is_no_longer_polled_holds_nobody_up() {
    let clock = VirtualTime::default();
    let device = disk(&clock, HddModel::rpm_7200());
    clock.run(async {
        let abandoned = std::pin::pin!(device.read(SIZE / 2, 4096));
        let timeout = std::pin::pin!(clock.sleep(Duration::from_micros(1)));
        let Either::Right((_, abandoned)) = select(abandoned, timeout).await else { panic!("a disk this fast") };
        device.read(0, 4096).await.unwrap();
        assert!(clock.now() < Duration::from_secs(3));
        abandoned.await.unwrap();
    });
}

#[test]
fn no_request_waits_for_ever() {
    let clock = VirtualTime::default();
    let model = HddModel::rpm_7200();
    let device = disk(&clock, model);
    clock.run(async {
        // A crowd at one edge would keep the arm there.
        let crowd = join_all((0..32u64).map(|i| {
            let device = &device;
            async move {
                let mut random = Rng::new(i + 1);
                for _ in 0..400 {
                    device.read(random.next() % 4096 * 4096, 4096).await.unwrap();
                }
            }
        }));
        let lonely = async {
            let mut longest = Duration::ZERO;
            for _ in 0..5 {
                let started = clock.now();
                device.read(SIZE - 4096, 4096).await.unwrap();
                longest = longest.max(clock.now() - started);
            }
            longest
        };
        let (longest, _) = join(lonely, crowd).await;
        assert!(longest < model.age_max * 2, "{longest:?}");
    });
}

#[test]
fn a_flush_waits_for_the_writes_before_it() {
    let clock = VirtualTime::default();
    let device = disk(&clock, HddModel::rpm_7200());
    clock.run(async {
        let write = |at: u64| device.write(at, Bytes::from(vec![1; 4096]));
        let writes = async {
            join(write(SIZE / 2), write(SIZE / 3)).await.0.unwrap();
            clock.now()
        };
        let flush = async {
            device.flush().await.unwrap();
            clock.now()
        };
        let (written, flushed) = join(writes, flush).await;
        assert!(flushed >= written && written > Duration::from_millis(5));
        assert_eq!(device.read(SIZE / 2, 4096).await.unwrap(), vec![1; 4096]);
        assert_eq!(device.discard(0, 4096).await.unwrap_err().kind, ErrorKind::Unsupported);
        assert!(device.geometry().rotational);
    });
}
