//! The device with bytes.

use crate::support::{below, run};
use bytes::Bytes;
use futures_executor::block_on;
use nitro_device::{FaultyDevice, RamDevice};
use nitro_model::{
    AnyFtl, CoDesignedSettings, FtlSettings, Geometry, HybridSettings, Nanos, PageMappedSettings, SleepClock, Ssd,
    SsdDevice, Timing,
};
use nitro_port::{Clock, Device, ErrorKind, Operation};
use nitro_testkit::Rng;

const GEOMETRY: Geometry =
    Geometry { page_bytes: 8192, pages_per_block: 4, stripe: 2, channels: 2, dies: 1, planes: 1, superblocks: 12 };

fn ssd(settings: FtlSettings) -> Ssd<AnyFtl> {
    Ssd::new(settings.build(GEOMETRY).unwrap(), Timing::for_geometry(&GEOMETRY))
}

fn device(settings: FtlSettings) -> (SsdDevice<RamDevice, SleepClock, AnyFtl>, SleepClock) {
    let clock = SleepClock::default();
    (SsdDevice::new(RamDevice::new(1 << 20, 512), clock.clone(), ssd(settings)), clock)
}

#[test]
fn its_size_is_the_smaller_of_both() {
    let settings = FtlSettings::PageMapped(PageMappedSettings::default());
    let logical = ssd(settings).logical_bytes();
    assert_eq!(logical, 7 * 8 * 8192);
    assert_eq!(device(settings).0.geometry().size_bytes, logical);
    let small = SsdDevice::new(RamDevice::new(100_000, 512), SleepClock::default(), ssd(settings));
    assert_eq!(small.geometry().size_bytes, RamDevice::new(100_000, 512).geometry().size_bytes);
}

/// Random writes, reads and discards of any number of sectors: the bytes are those of a naive array, the time is that
/// of the model given the same requests.
#[test]
fn bytes_are_those_written_and_time_is_the_models() {
    for settings in [
        FtlSettings::Hybrid(HybridSettings::default()),
        FtlSettings::PageMapped(PageMappedSettings::default()),
        FtlSettings::CoDesigned(CoDesignedSettings::default()),
    ] {
        let ((device, clock), mut model, mut random) = (device(settings), ssd(settings), Rng::new(5));
        let size = device.geometry().size_bytes as usize;
        let (mut bytes, mut known, mut now) = (vec![0u8; size], vec![true; size], Nanos::ZERO);
        for i in 0..2000u32 {
            let offset = below(&mut random, size as u32 / 512) as usize * 512;
            let len = (1 + below(&mut random, 60) as usize) * 512;
            let range = offset..(offset + len).min(size);
            let (at, len) = (offset as u64, range.len() as u64);
            now = match below(&mut random, 8) {
                0..4 => {
                    bytes[range.clone()].fill(i as u8);
                    known[range.clone()].fill(true);
                    block_on(device.write(at, Bytes::copy_from_slice(&bytes[range]))).unwrap();
                    model.write_bytes(now, at, len).unwrap()
                }
                4 => {
                    known[range].fill(false);
                    block_on(device.discard(at, len)).unwrap();
                    model.trim_bytes(now, at, len).unwrap()
                }
                _ => {
                    let found = block_on(device.read(at, range.len())).unwrap();
                    let pairs = found.iter().zip(&bytes[range.clone()]).zip(&known[range]);
                    assert!(pairs.filter(|(_, known)| **known).all(|((a, b), _)| a == b), "{at} {len}");
                    model.read_bytes(now, at, len).unwrap()
                }
            };
            assert_eq!(Nanos::from(clock.now()), now);
        }
        assert_eq!(device.counters(), *model.counters());
        assert_eq!(device.wear(), model.wear());
        assert!(device.counters().erasures > 0);
    }
}

#[test]
fn it_refuses_what_is_out_of_range_and_passes_errors_on() {
    let settings = FtlSettings::CoDesigned(CoDesignedSettings::default());
    let ram = FaultyDevice::new(RamDevice::new(1 << 20, 512), SleepClock::default(), 1);
    let faults = ram.faults();
    let device = SsdDevice::new(ram, SleepClock::default(), ssd(settings));
    let size = device.geometry().size_bytes;
    let kind = |result: Result<Bytes, nitro_port::DeviceError>| result.unwrap_err().kind;
    assert_eq!(kind(block_on(device.read(size, 512))), ErrorKind::OutOfRange);
    assert_eq!(kind(block_on(device.read(1, 512))), ErrorKind::Misaligned);
    assert_eq!(device.counters().host_reads, 0);
    faults.inject(
        nitro_device::faulty::Fault::new(nitro_device::faulty::Effect::Fail(ErrorKind::Io)).on(Operation::Read),
    );
    assert_eq!(kind(block_on(device.read(0, 512))), ErrorKind::Io);
    block_on(device.write(0, Bytes::from(vec![1; 65536]))).unwrap();
    assert_eq!(device.victim(), Some(run(0, 8)));
}
