//! Faults come as ordered.

use bytes::Bytes;
use futures_util::future::{Either, join, select};
use nitro_device::faulty::{Effect, Fault};
use nitro_device::{FaultyDevice, RamDevice};
use nitro_port::{Clock, Device, ErrorKind, Operation};
use nitro_testkit::VirtualTime;
use std::time::Duration;

fn device(clock: &VirtualTime) -> FaultyDevice<RamDevice, VirtualTime> {
    FaultyDevice::new(RamDevice::new(1 << 20, 512), clock.clone(), 42)
}

#[test]
fn faults_meet_what_they_describe() {
    let clock = VirtualTime::default();
    let device = device(&clock);
    let faults = device.faults();
    clock.run(async {
        faults.inject(Fault::new(Effect::Fail(ErrorKind::Io)).on(Operation::Write).within(4096..8192).times(1));
        let write = |at| device.write(at, Bytes::from(vec![1; 512]));
        write(0).await.unwrap();
        write(8192).await.unwrap();
        let error = write(4096 + 512).await.unwrap_err();
        assert_eq!((error.kind, error.operation, error.offset), (ErrorKind::Io, Operation::Write, 4608));
        assert_eq!(device.read(4608, 512).await.unwrap(), vec![0; 512]);
        write(4096 + 512).await.unwrap();
        faults.inject(Fault::new(Effect::Fail(ErrorKind::NoSpace)).on(Operation::Flush));
        assert_eq!(device.flush().await.unwrap_err().kind, ErrorKind::NoSpace);
        faults.clear();
        device.flush().await.unwrap();
    });
    let counters = faults.counters();
    assert_eq!((counters.writes, counters.flushes, counters.failed, counters.reads), (4, 2, 2, 1));
}

#[test]
fn corruption_is_silent_and_not_lasting() {
    let clock = VirtualTime::default();
    let device = device(&clock);
    clock.run(async {
        device.write(0, Bytes::from(vec![0; 4096])).await.unwrap();
        device.faults().inject(Fault::new(Effect::FlipBit).times(1));
        let read = device.read(0, 4096).await.unwrap();
        assert_eq!(read.iter().map(|b| b.count_ones()).sum::<u32>(), 1);
        assert_eq!(device.read(0, 4096).await.unwrap(), vec![0; 4096]);
    });
    assert_eq!(device.faults().counters().corrupted, 1);
}

#[test]
fn a_hanging_request_goes_on_when_it_is_let_go() {
    let clock = VirtualTime::default();
    let device = device(&clock);
    let faults = device.faults();
    clock.run(async {
        let id = faults.inject(Fault::new(Effect::Hang).on(Operation::Read).times(1));
        let release = async {
            clock.sleep(Duration::from_secs(9)).await;
            faults.remove(id);
        };
        let (read, ()) = join(device.read(0, 512), release).await;
        read.unwrap();
        assert_eq!(clock.now(), Duration::from_secs(9));
        faults.inject(Fault::new(Effect::Hang));
        let read = std::pin::pin!(device.read(0, 512));
        let timeout = std::pin::pin!(clock.sleep(Duration::from_secs(60)));
        assert!(matches!(select(read, timeout).await, Either::Right(_)));
    });
}

#[test]
fn delays_pass_by_the_clock_and_chance_by_the_seed() {
    let clock = VirtualTime::default();
    let device = device(&clock);
    clock.run(async {
        device.faults().inject(Fault::new(Effect::Delay(Duration::from_millis(7))));
        device.read(0, 512).await.unwrap();
        assert_eq!(clock.now(), Duration::from_millis(7));
        device.faults().clear();
        device.faults().inject(Fault::new(Effect::Fail(ErrorKind::Io)).probability(0.25));
        let mut failed = 0;
        for _ in 0..1000 {
            failed += u32::from(device.read(0, 512).await.is_err());
        }
        assert!((200..300).contains(&failed), "{failed} of 1000 failed");
    });
}
