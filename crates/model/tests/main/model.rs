//! Whatever a layer does, a page holds what was last written to it.

use crate::support::{StrictFlash, below, geometry, run};
use nitro_model::{
    AnyFtl, CoDesignedSettings, Ftl, FtlSettings, Geometry, HybridSettings, Lpn, Nanos, PageMappedSettings, Ssd,
    Timing, VictimPolicy,
};
use nitro_testkit::Rng;
use proptest::prelude::*;

const PAGES_PER_BLOCK: u32 = 8;

#[derive(Debug, Clone, Copy)]
enum Operation {
    /// First page and pages, each of a thousandth of what is possible.
    Write(u32, u32),
    /// A whole block, by the thousandth.
    WriteBlock(u32),
    Trim(u32, u32),
    Read(u32, u32),
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        6 => (0u32..1000, prop_oneof![4 => 1u32..3, 1 => 1u32..20]).prop_map(|(at, pages)| Operation::Write(at, pages)),
        3 => (0u32..1000).prop_map(Operation::WriteBlock),
        1 => (0u32..1000, 1u32..24).prop_map(|(at, pages)| Operation::Trim(at, pages)),
        1 => (0u32..1000, 1u32..24).prop_map(|(at, pages)| Operation::Read(at, pages)),
    ]
}

fn settings() -> impl Strategy<Value = FtlSettings> {
    let hybrid = (0.0..0.3, 0.0..0.5, 0.0..1.0, 1u32..9).prop_map(|(over_provisioning, log, sequential, long)| {
        let (log_share, sequential_share, long_pages) = (log, sequential, long);
        FtlSettings::Hybrid(HybridSettings { over_provisioning, log_share, sequential_share, long_pages })
    });
    let page_mapped = (0.0..0.3, any::<bool>(), any::<bool>()).prop_map(|(over_provisioning, greedy, aligned)| {
        let victims = if greedy { VictimPolicy::Greedy } else { VictimPolicy::CostBenefit };
        FtlSettings::PageMapped(PageMappedSettings { over_provisioning, victims, aligned })
    });
    let co_designed = (1u32..4).prop_map(|weu_blocks| FtlSettings::CoDesigned(CoDesignedSettings { weu_blocks }));
    prop_oneof![hybrid, page_mapped, co_designed]
}

/// The layer, flash that remembers, and what each page was last given.
struct Run {
    ftl: AnyFtl,
    flash: StrictFlash,
    last: Vec<Option<u64>>,
}

impl Run {
    fn new(settings: FtlSettings, geometry: Geometry) -> Self {
        let ftl = settings.build(geometry).unwrap();
        let last = vec![None; ftl.logical_pages() as usize];
        Self { ftl, flash: StrictFlash::new(&geometry), last }
    }

    fn apply(&mut self, operation: Operation) {
        let end = self.ftl.logical_pages();
        let place = |at: u32, pages: u32| {
            let first = at * end / 1000;
            run(first, pages.min(end - first))
        };
        match operation {
            Operation::Write(at, pages) => self.write(place(at, pages)),
            Operation::WriteBlock(at) => {
                self.write(run(at * (end / PAGES_PER_BLOCK) / 1000 * PAGES_PER_BLOCK, PAGES_PER_BLOCK));
            }
            Operation::Trim(at, pages) => {
                let run = place(at, pages);
                self.ftl.trim(run, &mut self.flash);
                self.last[run.first.0 as usize..][..run.pages as usize].fill(None);
            }
            Operation::Read(at, pages) => self.ftl.read(place(at, pages)),
        }
    }

    /// The layer programs a request's pages in order, so their numbers follow one another.
    fn write(&mut self, run: nitro_model::PageRun) {
        let first = self.flash.version;
        self.ftl.write(run, &mut self.flash);
        assert_eq!(self.flash.version, first + u64::from(run.pages));
        for (last, version) in self.last[run.first.0 as usize..][..run.pages as usize].iter_mut().zip(first..) {
            *last = Some(version);
        }
    }

    fn check(&self) {
        for (lpn, last) in (0..).map(Lpn).zip(&self.last) {
            let found = self.ftl.lookup(lpn).map(|ppn| self.flash.content(ppn));
            assert_eq!(found, last.map(|version| (lpn, version)), "page {lpn:?}");
        }
        let counters = self.ftl.flash().counters();
        assert_eq!(counters.erasures, self.flash.erasures.iter().map(|e| u64::from(*e)).sum::<u64>());
        assert_eq!((counters.host_writes, counters.copies), (self.flash.programs, self.flash.copies));
        for (block, erasures) in (0..).map(nitro_model::BlockId).zip(&self.flash.erasures) {
            assert_eq!(self.ftl.flash().erasures(block), *erasures);
        }
        let valid: u32 =
            (0..).take(self.flash.erasures.len()).map(|b| self.ftl.flash().valid_pages(nitro_model::BlockId(b))).sum();
        assert_eq!(valid as usize, self.last.iter().flatten().count(), "pages that are valid");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn a_page_holds_what_was_last_written(
        settings in settings(),
        blocks in 7u32..20,
        operations in prop::collection::vec(operation(), 1..400),
    ) {
        let mut run = Run::new(settings, geometry(PAGES_PER_BLOCK, blocks));
        for (i, operation) in operations.into_iter().enumerate() {
            run.apply(operation);
            if i % 16 == 0 {
                run.check();
            }
        }
        run.check();
    }

    #[test]
    fn the_same_requests_give_the_same_result(settings in settings(), seed in any::<u64>()) {
        let result = || {
            let geometry = geometry(PAGES_PER_BLOCK, 16);
            let mut ssd = Ssd::new(settings.build(geometry).unwrap(), Timing::for_geometry(&geometry));
            let (mut random, mut times) = (Rng::new(seed), Vec::new());
            let end = ssd.ftl().logical_pages();
            for i in 0..500 {
                let run = run(below(&mut random, end), 1);
                times.push(match below(&mut random, 3) {
                    0 => ssd.read(Nanos::from_us(i * 300), run),
                    _ => ssd.write(Nanos::from_us(i * 300), run),
                }.unwrap());
            }
            (times, *ssd.counters(), ssd.wear())
        };
        prop_assert_eq!(result(), result());
    }
}
