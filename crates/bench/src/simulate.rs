//! The simulator, on one core: plain policies over a Zipf trace, the size of libCacheSim's.

use crate::load::Failure;
use nitro_sim::policies::{Feed, PolicyKind};
use nitro_trace::synth::Zipf;
use nitro_trace::{Reader, Request};
use std::time::Instant;

const OBJECTS: u32 = 500_000;

/// All of it.
pub fn run() -> Result<(), Failure> {
    let names = names()?;
    for (name, kind) in [
        ("lru", PolicyKind::Lru),
        ("fifo", PolicyKind::Fifo),
        ("clock", PolicyKind::Clock),
        ("arc", PolicyKind::Arc),
        ("s3-fifo", PolicyKind::S3Fifo),
    ] {
        let mut policy = kind.build(OBJECTS);
        let begun = Instant::now();
        let mut feed = Feed::new(&mut *policy);
        names.iter().for_each(|name| feed.push(*name));
        let counts = feed.finish();
        let seconds = begun.elapsed().as_secs_f64();
        println!(
            "policy-{name} requests={} misses={} requests_per_second={:.0} bytes_per_object={:.1}",
            counts.requests,
            counts.misses,
            counts.requests as f64 / seconds,
            policy.ram_bytes() as f64 / policy.len().max(1) as f64
        );
    }
    Ok(())
}

/// 20 million requests by Zipf's law with exponent 0.9 over 5 million names.
fn names() -> Result<Vec<u64>, Failure> {
    let zipf = Zipf { objects: 5_000_000, exponent: 0.9, requests: 20_000_000, ..Zipf::default() };
    let mut reader = zipf.reader()?;
    let mut request = Request::default();
    let mut names = Vec::with_capacity(zipf.requests as usize);
    while reader.next(&mut request)? {
        names.push(request.offset);
    }
    Ok(names)
}
