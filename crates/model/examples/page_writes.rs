//! Prints how many page writes a second the model takes, on one core, in virtual time:
//!
//! ```text
//! cargo run --release -p nitro-model --example page_writes [LOGICAL_GIB]
//! ```

use nitro_model::{
    AnyFtl, CoDesignedSettings, Counters, FtlSettings, Geometry, HybridSettings, Lpn, Nanos, PageMappedSettings,
    PageRun, Ssd, Timing,
};
use std::error::Error;
use std::time::Instant;

/// Order and size of the requests.
#[derive(Clone, Copy)]
enum Pattern {
    Sequential,
    Weus,
    Pages,
}

fn main() -> Result<(), Box<dyn Error>> {
    let gib: u64 = std::env::args().nth(1).map_or(Ok(8), |a| a.parse())?;
    let layers = [
        ("hybrid", FtlSettings::Hybrid(HybridSettings::default())),
        ("page-mapped, 7 %", FtlSettings::PageMapped(PageMappedSettings::default())),
        (
            "page-mapped, 28 %",
            FtlSettings::PageMapped(PageMappedSettings { over_provisioning: 0.28, ..PageMappedSettings::default() }),
        ),
        ("co-designed", FtlSettings::CoDesigned(CoDesignedSettings::default())),
    ];
    println!("{gib} GiB in pages of 8 KiB; millions a second\n");
    println!("{:18} {:12} {:>12} {:>16} {:>6}", "layer", "writes", "page writes", "flash programs", "WA");
    for (name, settings) in layers {
        for (kind, pattern) in
            [("sequential", Pattern::Sequential), ("random WEUs", Pattern::Weus), ("random pages", Pattern::Pages)]
        {
            if matches!((pattern, settings), (Pattern::Pages, FtlSettings::CoDesigned(_))) {
                continue;
            }
            let (seconds, done) = measure(settings, gib << 30, pattern)?;
            let rate = |pages: u64| pages as f64 / seconds / 1e6;
            let (writes, programs) = (rate(done.host_writes), rate(done.flash_programs()));
            println!("{name:18} {kind:12} {writes:12.2} {programs:16.2} {:6.2}", done.write_amplification());
        }
    }
    Ok(())
}

/// Seconds for, and counters of, about a second's writes to a full SSD.
fn measure(settings: FtlSettings, bytes: u64, pattern: Pattern) -> Result<(f64, Counters), nitro_model::Error> {
    let geometry = settings.geometry_for(Geometry::default(), bytes)?;
    let mut ssd = Ssd::new(settings.build(geometry)?, Timing::for_geometry(&geometry));
    let mut writer = Writer { now: Nanos::ZERO, random: 1, at: 0 };
    let rounds = u64::from(geometry.superblocks);
    (0..rounds).try_for_each(|_| writer.write(&mut ssd, Pattern::Sequential))?;
    // Collection is in full swing once the spare blocks are used up.
    let warm_up = if matches!(pattern, Pattern::Pages) { rounds * 256 } else { rounds };
    (0..warm_up).try_for_each(|_| writer.write(&mut ssd, pattern))?;
    let (before, start) = (*ssd.counters(), Instant::now());
    while start.elapsed().as_secs_f64() < 1.0 {
        (0..100).try_for_each(|_| writer.write(&mut ssd, pattern))?;
    }
    Ok((start.elapsed().as_secs_f64(), ssd.counters().since(&before)))
}

/// One request after the other, each when the one before it is done.
struct Writer {
    now: Nanos,
    random: u64,
    at: u32,
}

impl Writer {
    fn write(&mut self, ssd: &mut Ssd<AnyFtl>, pattern: Pattern) -> Result<(), nitro_model::Error> {
        let pages = if matches!(pattern, Pattern::Pages) { 1 } else { ssd.geometry().block_pages() };
        let (all, logical) = (nitro_model::Ftl::logical_pages(ssd.ftl()) / pages, self.at);
        let unit = if matches!(pattern, Pattern::Sequential) { logical % all } else { self.below(all) };
        self.at = (self.at + 1) % all;
        self.now = ssd.write(self.now, PageRun { first: Lpn(unit * pages), pages })?;
        Ok(())
    }

    /// xorshift64*.
    fn below(&mut self, end: u32) -> u32 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        ((u128::from(self.random.wrapping_mul(0x2545_f491_4f6c_dd1d)) * u128::from(end)) >> 64) as u32
    }
}
