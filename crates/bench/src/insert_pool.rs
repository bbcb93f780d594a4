//! Insertion by several workers, compared with one; and what it would take to decompress hits on another thread.

use crate::load::{EXTENT, Failure, cpu_time, extents_of, mb_per_second};
use bytes::Bytes;
use futures_channel::{mpsc, oneshot};
use futures_util::StreamExt;
use nitro_device::{CompioClock, RamDevice, Reactor, ReactorThread, spawn_thread};
use nitro_engine::manager::Settings;
use nitro_engine::{Cache, EngineSettings, NoIndex, Volume, VolumeOptions, WriteMode};
use nitro_port::Device;
use nitro_port::codec::{Compression, Compressor, decode};
use nitro_units::ObjectId;
use std::path::Path;
use std::time::{Duration, Instant};

/// Pairs of runs.
const ROUNDS: usize = 5;
/// The cache holds all extents.
const CACHE_BYTES: u64 = 512 << 20;

/// Inserts all extents of `data` with one worker and with two, in turn; prints the speeds, their ratio, and how many cores
/// each had. The extents wait in the queue before a worker starts, and the cache is in RAM: neither a client nor an SSD is
/// what it waits for.
pub fn run(data: &Path) -> Result<(), Failure> {
    let extents = extents_of(data)?;
    for round in 0..ROUNDS {
        let (mut speeds, mut cores) = ([0.0; 2], [0.0; 2]);
        for turn in 0..2 {
            let which = (round + turn) % 2;
            let (time, cpu) = insert(&extents, which + 1)?;
            speeds[which] = mb_per_second(extents.len() * EXTENT, time);
            cores[which] = cpu.as_secs_f64() / time.as_secs_f64();
        }
        let ([one, two], [one_cores, two_cores]) = (speeds, cores);
        println!(
            "insert-pool one_mb_per_second={one:.0} two_mb_per_second={two:.0} ratio={:.3} one_cores={one_cores:.2} \
             two_cores={two_cores:.2}",
            two / one
        );
    }
    Ok(())
}

/// A device in RAM, of which the system has provided every page.
async fn in_ram(size_bytes: u64) -> Result<RamDevice, Failure> {
    const PART: u64 = 1 << 20;
    let (device, zeroes) =
        (RamDevice::new(size_bytes.next_multiple_of(PART), 512), Bytes::from(vec![0; PART as usize]));
    for offset in (0..size_bytes).step_by(PART as usize) {
        device.write(offset, zeroes.clone()).await?;
    }
    Ok(device)
}

/// How long `workers` threads take, and their CPU time.
fn insert(extents: &[Bytes], workers: usize) -> Result<(Duration, Duration), Failure> {
    let settings = EngineSettings {
        ram_cache_bytes: 0,
        insert_queue_bytes: 2 * (extents.len() * EXTENT) as u64,
        ..EngineSettings::new(Settings::new(CACHE_BYTES))
    };
    let flash_bytes = CACHE_BYTES + Cache::<RamDevice, CompioClock>::overhead_bytes(&settings);
    Reactor::new()?.block_on(async {
        let flash = in_ram(flash_bytes).await?;
        let cache = Cache::format(flash, CompioClock::new(), settings, [1; 16], 1).await?;
        let origin = RamDevice::new((extents.len() * EXTENT) as u64, 512);
        let options = VolumeOptions { object: ObjectId(0), read_only: false, mode: WriteMode::WriteThrough };
        let volume = Volume::new(cache.clone(), origin, options);
        let committing = cache.clone();
        let commits = spawn_thread("commit", move || async move { committing.dirty_insertion_worker().await })?;
        for (n, extent) in extents.iter().enumerate() {
            volume.write((n * EXTENT) as u64, extent.clone(), false).await?;
        }
        let (begun, cpu) = (Instant::now(), cpu_time());
        let threads = (0..workers).map(|_| {
            let worker = cache.clone();
            spawn_thread("insert", move || async move { worker.clean_insertion_worker(&NoIndex).await })
        });
        let threads = threads.collect::<Result<Vec<_>, _>>()?;
        cache.settled().await;
        let time = (begun.elapsed(), cpu_time() - cpu);
        cache.close();
        let status = cache.status();
        assert_eq!(status.manager.insertions as usize, extents.len(), "no fill may be dropped");
        threads.into_iter().chain([commits]).try_for_each(ReactorThread::join).map_err(|_| "a thread panicked")?;
        Ok(time)
    })
}

/// Extents of a request that are decompressed together.
const SIZES: [usize; 4] = [1, 8, 32, 128];
const REQUESTS: usize = 2000;

/// Decompresses the extents of a request on one thread, and half of them on another one; prints both times. The other
/// thread has its own reactor, as those of the server.
pub fn decompress(data: &Path) -> Result<(), Failure> {
    let extents = extents_of(data)?;
    for (name, compression) in [("lz4", Compression::Lz4), ("zstd", Compression::Zstd)] {
        let mut compressor = Compressor::new(compression);
        let packed: Vec<_> = extents.iter().map(|extent| compressor.compress(extent)).collect();
        let packed: Vec<_> = packed.into_iter().filter(|(_, payload)| payload.len() < EXTENT).collect();
        for size in SIZES {
            let (alone, shared) = Reactor::new()?.block_on(compare(&packed, size))?;
            println!(
                "decompress codec={name} extents={size} alone_us={:.1} half_on_another_thread_us={:.1}",
                alone.as_secs_f64() * 1e6,
                shared.as_secs_f64() * 1e6
            );
        }
    }
    Ok(())
}

type Packed = (nitro_port::codec::Encoding, Bytes);
type Half = (Vec<Packed>, oneshot::Sender<Vec<Bytes>>);

fn unpack(packed: &[Packed]) -> Vec<Bytes> {
    packed.iter().filter_map(|(encoding, payload)| decode(*encoding, payload.clone(), EXTENT)).collect()
}

/// The median times of a request.
async fn compare(packed: &[Packed], size: usize) -> Result<(Duration, Duration), Failure> {
    let (ask, mut asked) = mpsc::unbounded::<Half>();
    let other = spawn_thread("other", move || async move {
        while let Some((half, answer)) = asked.next().await {
            // Nobody waits for it only if the benchmark has failed.
            let _ = answer.send(unpack(&half));
        }
    })?;
    let (mut alone, mut shared) = (Vec::new(), Vec::new());
    for request in packed.chunks_exact(size).cycle().take(REQUESTS) {
        let begun = Instant::now();
        std::hint::black_box(unpack(request));
        alone.push(begun.elapsed());
        // With one extent, the other thread does all: then this one is free for other requests.
        let (own, theirs) = request.split_at(size / 2);
        let begun = Instant::now();
        let (answer, answered) = oneshot::channel();
        ask.unbounded_send((theirs.to_vec(), answer))?;
        std::hint::black_box(unpack(own));
        std::hint::black_box(answered.await?);
        shared.push(begun.elapsed());
    }
    drop(ask);
    other.join().map_err(|_| "the other thread panicked")?;
    let median = |times: &mut Vec<Duration>| {
        times.sort_unstable();
        times[times.len() / 2]
    };
    Ok((median(&mut alone), median(&mut shared)))
}
