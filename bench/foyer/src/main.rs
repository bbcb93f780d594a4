//! foyer's hybrid cache measured as `nitro-bench hits-ssd` measures Nitro: `foyer-bench FILE DATA`.
//!
//! Values of 8 KiB of the file DATA, all on disk, in the cache file FILE, which is removed at the end; random reads at
//! depth 64. Prints a line of `name=value` pairs for each of foyer's I/O engines, on a tokio runtime of one thread and
//! (`-mt`) of a thread a core. (foyer 0.22 itself prints lines that begin with `==`.)
#![forbid(unsafe_code)]

mod cache;
mod load;

use cache::{Filled, Io, Reads};
use load::{Failure, VALUE_BYTES};
use std::io;
use std::path::Path;
use std::process::ExitCode;
use tokio::runtime::{Builder, Runtime};

/// Above this share of reads from memory, the disk is not what was measured.
const MEMORY_HIT_RATIO_MAX: f64 = 0.02;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = match &arguments[..] {
        [file, data] => run(file.as_ref(), data.as_ref()),
        _ => Err("usage: foyer-bench FILE DATA".into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("foyer-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(file: &Path, data: &Path) -> Result<(), Failure> {
    let values = load::values_of(data)?;
    for (name, io, runtime) in [
        ("foyer-uring", Io::Uring, one_thread as fn() -> _),
        ("foyer-psync", Io::Psync, one_thread),
        ("foyer-uring-mt", Io::Uring, a_thread_a_core),
        ("foyer-psync-mt", Io::Psync, a_thread_a_core),
    ] {
        let _ = std::fs::remove_file(file);
        runtime()?.block_on(async {
            let cache = cache::open(file, values.len(), io).await?;
            let filled = cache::fill(&cache, &values).await;
            let reads = cache::read_randomly(&cache, values.len()).await?;
            cache.close().await?;
            report(name, values.len(), &filled, &reads)
        })?;
    }
    std::fs::remove_file(file)?;
    Ok(())
}

fn one_thread() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

fn a_thread_a_core() -> io::Result<Runtime> {
    Builder::new_multi_thread().enable_all().build()
}

fn report(name: &str, count: usize, filled: &Filled, reads: &Reads) -> Result<(), Failure> {
    let per_read = |n: u64| n as f64 / reads.count as f64;
    let per_second = reads.count as f64 / reads.elapsed.as_secs_f64();
    let cpu_us = reads.cpu.as_secs_f64() * 1e6 / reads.count as f64;
    let (hits, memory_hits) = (per_read(reads.disk_hits + reads.memory_hits), per_read(reads.memory_hits));
    let insert = (count * VALUE_BYTES) as f64 / 1e6 / filled.elapsed.as_secs_f64();
    println!(
        "{name} reads_per_second={per_second:.0} cpu_us_per_read={cpu_us:.2} hit_ratio={hits:.4} \
         memory_hit_ratio={memory_hits:.4} insert_mb_per_second={insert:.1} missing={}",
        filled.missing
    );
    if memory_hits > MEMORY_HIT_RATIO_MAX {
        return Err(format!("{name}: {memory_hits:.4} of the reads came from memory").into());
    }
    Ok(())
}
