//! Random reads from a vhost-user-blk device of any server, with the requests of a virtual machine but without
//! one.

use crate::load::{Failure, Rng, cpu_time};
use nitro_vhost_client::{Client, Kind, Setup};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// Nanoseconds of a tick of `/proc/PID/stat` (`sysconf(_SC_CLK_TCK)` is 100 on Linux).
const TICK: Duration = Duration::from_millis(10);

/// Reads at a depth from the first MiB of the disk for a number of seconds, as many bytes in each request; also prints
/// the processor time of the server's process.
pub fn run(socket: &Path, [depth, span_mib, seconds, bytes]: [&str; 4], server: &str) -> Result<(), Failure> {
    let (depth, span_mib, seconds) = (depth.parse::<u16>()?, span_mib.parse::<u64>()?, seconds.parse::<u64>()?);
    let bytes = bytes.parse::<u32>()?;
    if bytes == 0 || !bytes.is_multiple_of(512) {
        return Err(format!("{bytes} is not a number of bytes of whole sectors").into());
    }
    let mut client = Client::connect(socket, Setup { depth, data_bytes: bytes, ..Setup::default() })?;
    let (blocks, sectors) = ((span_mib << 20).min(client.size_bytes()?) / u64::from(bytes), u64::from(bytes) / 512);
    let queue = client.queues.first_mut().ok_or("no queue")?;
    let mut rng = Rng(42);
    let (server_before, cpu, begun) = (processor_time(server)?, cpu_time(), Instant::now());
    for slot in 0..depth {
        queue.submit(slot, Kind::Read, rng.below(blocks) * sectors, bytes)?;
    }
    queue.kick()?;
    let mut reads = 0_u64;
    while begun.elapsed() < Duration::from_secs(seconds) {
        let mut next = Some(queue.wait()?);
        while let Some(done) = next {
            if done.status != 0 {
                return Err("a read failed".into());
            }
            reads += 1;
            queue.submit(done.slot, Kind::Read, rng.below(blocks) * sectors, bytes)?;
            next = queue.take()?;
        }
        queue.kick()?;
    }
    let elapsed = begun.elapsed().as_secs_f64();
    println!(
        "iops={:.0} us={:.1} client_cpu={:.2} server_cpu={:.2} server_us_a_read={:.2}",
        reads as f64 / elapsed,
        f64::from(depth) * elapsed * 1e6 / reads as f64,
        (cpu_time() - cpu).as_secs_f64() / elapsed,
        (processor_time(server)? - server_before).as_secs_f64() / elapsed,
        (processor_time(server)? - server_before).as_secs_f64() * 1e6 / reads as f64,
    );
    Ok(())
}

/// User and system time of a process (proc(5): fields 14 and 15, counted from after the name in brackets).
fn processor_time(process: &str) -> Result<Duration, Failure> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
    let fields: Vec<&str> = stat.rsplit_once(')').ok_or("no name")?.1.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).ok_or("too few fields")?.parse::<u32>().map_err(Failure::from);
    Ok(TICK * (ticks(11)? + ticks(12)?))
}
