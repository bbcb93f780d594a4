//! The simulator as its users see it.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod classes;
mod curve;
mod front;
mod hostile;
mod policies;
mod sweeps;
mod timing;
mod two_level;
mod variants;
mod workload;

use nitro_sim::{Outcome, Settings, simulate, workload::Stored};
use nitro_trace::synth::Zipf;

/// 60,000 requests for 20,000 extents of 8 KiB, a quarter of them writes.
fn zipf() -> Stored {
    let zipf = Zipf {
        objects: 20_000,
        exponent: 0.9,
        requests: 60_000,
        write_share: 0.25,
        object_bytes: 8192,
        ..Zipf::default()
    };
    nitro_sim::workload::stored(&|| Ok(Box::new(zipf.reader()?)), 8192).unwrap()
}

/// Random reads of 64 MiB whose content is there twice.
fn duplicates(requests: u64) -> Stored {
    let reads = nitro_trace::synth::RandomReads {
        working_set_bytes: 64 << 20,
        dedup_ratio: 2.0,
        request_bytes: 8192,
        requests,
        interval_ns: 1_000_000,
        seed: 5,
    };
    nitro_sim::workload::stored(&|| Ok(Box::new(reads.reader()?)), 8192).unwrap()
}

fn run(workload: &Stored, settings: &Settings) -> Outcome {
    simulate(&mut workload.replay(), settings, &mut |_| true).unwrap()
}
