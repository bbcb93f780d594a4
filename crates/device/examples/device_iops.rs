//! Measures random reads through a device, to be compared with fio on the same file:
//!
//! ```text
//! fio --name=r --filename=FILE --ioengine=io_uring --direct=1 --bs=8k --iodepth=64 --rw=randread --runtime=5 --time_based
//! cargo run --release -p nitro-device --example device_iops -- FILE [SECONDS [DEPTH [BLOCK_BYTES]]]
//! ```
//!
//! `ram` instead of a file measures a RAM device of 1 GiB.

use bytes::Bytes;
use nitro_device::{AnyDevice, FileOptions, RamDevice, Reactor, spawn_local};
use nitro_port::{Device, DeviceError};
use std::cell::Cell;
use std::error::Error;
use std::fs;
use std::rc::Rc;
use std::time::{Duration, Instant};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("usage: device_iops FILE|ram [SECONDS [DEPTH [BLOCK_BYTES]]]")?;
    let mut number = |default| args.next().map_or(Ok(default), |a| a.parse::<u64>());
    let (seconds, depth, block) = (number(5)?, number(64)?, number(8192)?);
    let reactor = Reactor::new()?;
    let device: AnyDevice = if path == "ram" {
        let ram = RamDevice::new(1 << 30, 4096);
        reactor.block_on(fill(&ram, block))?;
        ram.into()
    } else {
        FileOptions::new(path).read_only(true).open()?.into()
    };
    let cpu = cpu_time()?;
    let reads = reactor.block_on(run(device, Duration::from_secs(seconds), depth, block));
    let cpu = cpu_time()? - cpu;
    println!(
        "{} reads/s, {:.2} us of CPU each, io_uring: {}",
        reads / seconds,
        cpu.as_secs_f64() * 1e6 / reads as f64,
        reactor.is_io_uring()
    );
    Ok(())
}

async fn fill(device: &RamDevice, block: u64) -> Result<(), DeviceError> {
    for i in 0..device.geometry().size_bytes / block {
        device.write(i * block, Bytes::from(vec![i as u8; block as usize])).await?;
    }
    Ok(())
}

/// Keeps `depth` reads under way for a while and counts them.
async fn run(device: AnyDevice, duration: Duration, depth: u64, block: u64) -> u64 {
    let blocks = device.geometry().size_bytes / block;
    let shared = Rc::new((device, Cell::new(0), Cell::new(depth)));
    let end = Instant::now() + duration;
    for reader in 0..depth {
        let shared = Rc::clone(&shared);
        spawn_local(async move {
            let (device, reads, running) = &*shared;
            let mut random = reader.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
            while Instant::now() < end {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                let read = device.read(random % blocks * block, block as usize).await;
                reads.set(reads.get() + u64::from(read.is_ok()));
            }
            running.set(running.get() - 1);
        });
    }
    while shared.2.get() > 0 {
        nitro_port::Clock::sleep(&nitro_device::CompioClock::new(), Duration::from_millis(20)).await;
    }
    shared.1.get()
}

/// User and system time of this process so far (proc_pid_stat(5), fields 14 and 15, in hundredths of a second).
fn cpu_time() -> Result<Duration, Box<dyn Error>> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let after_name = stat.rsplit(") ").next().ok_or("unreadable /proc/self/stat")?;
    let ticks = after_name.split(' ').skip(11).take(2).map(str::parse::<u64>).sum::<Result<u64, _>>()?;
    Ok(Duration::from_millis(ticks * 10))
}
