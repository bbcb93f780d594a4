//! Virtual time against sums worked by hand.

use crate::support::{below, run};
use nitro_model::{FtlSettings, Geometry, HybridSettings, Nanos, PageMappedSettings, Ssd, Timing};
use nitro_testkit::Rng;

/// Two channels of one plane; blocks of four pages, striped over both; one page takes 20 µs on a channel, 10 on the link.
const GEOMETRY: Geometry =
    Geometry { page_bytes: 4096, pages_per_block: 2, stripe: 2, channels: 2, dies: 1, planes: 1, superblocks: 16 };

const TIMING: Timing = Timing {
    read: Nanos::from_us(50),
    program: Nanos::from_us(1000),
    erase: Nanos::from_us(2000),
    channel_bytes_per_second: 204_800_000,
    link_bytes_per_second: 409_600_000,
    command: Nanos::from_us(5),
    each_read: Nanos::ZERO,
    each_write: Nanos::ZERO,
};

fn ssd(settings: FtlSettings) -> Ssd<nitro_model::AnyFtl> {
    Ssd::new(settings.build(GEOMETRY).unwrap(), TIMING)
}

fn page_mapped() -> Ssd<nitro_model::AnyFtl> {
    ssd(FtlSettings::PageMapped(PageMappedSettings::default()))
}

#[test]
fn a_page_takes_its_way_through_link_channel_and_plane() {
    let mut ssd = page_mapped();
    assert_eq!(ssd.write(Nanos::ZERO, run(0, 1)).unwrap(), Nanos::from_us(5 + 10 + 20 + 1000));
    let later = Nanos::from_us(10_000);
    assert_eq!(ssd.read(later, run(0, 1)).unwrap(), later + Nanos::from_us(5 + 50 + 20 + 10));
    assert_eq!(ssd.read(later, run(9, 1)).unwrap(), later + Nanos::from_us(5 + 10), "nothing was written there");
}

#[test]
fn planes_on_different_channels_work_in_parallel() {
    let mut ssd = page_mapped();
    // The second page has the link 10 µs after the first, and its own channel and plane.
    assert_eq!(ssd.write(Nanos::ZERO, run(0, 2)).unwrap(), Nanos::from_us(5 + 20 + 20 + 1000));
    // The third and fourth wait for the planes.
    let third = ssd.write(Nanos::ZERO, run(2, 1)).unwrap();
    assert_eq!(third, Nanos::from_us(5 + 10 + 20 + 1000 + 1000));
    // A read of the first page waits for that program; that of an idle SSD would not.
    assert_eq!(ssd.read(Nanos::ZERO, run(0, 1)).unwrap(), third + Nanos::from_us(50 + 20 + 10));
}

/// A request that is told late is taken as arriving with the one before it.
#[test]
fn time_does_not_go_back() {
    let mut ssd = page_mapped();
    let late = Nanos::from_us(7000);
    ssd.trim(late, run(0, 1)).unwrap();
    assert_eq!(ssd.write(Nanos::ZERO, run(0, 1)).unwrap(), late + Nanos::from_us(5 + 10 + 20 + 1000));
}

/// A transfer uses the gap before one that was ordered earlier but begins later.
#[test]
fn a_channel_is_not_held_for_a_plane_that_is_busy() {
    let geometry = Geometry { channels: 1, planes: 2, ..GEOMETRY };
    let ftl = FtlSettings::PageMapped(PageMappedSettings::default()).build(geometry).unwrap();
    let mut ssd = Ssd::new(ftl, TIMING);
    ssd.write(Nanos::ZERO, run(0, 2)).unwrap();
    let idle = Nanos::from_us(5000);
    ssd.write(idle, run(2, 1)).unwrap();
    let waits = ssd.read(idle, run(0, 1)).unwrap();
    assert_eq!(waits, idle + Nanos::from_us(5 + 10 + 20 + 1000 + 50 + 20 + 10));
    assert_eq!(ssd.read(idle, run(1, 1)).unwrap(), idle + Nanos::from_us(5 + 50 + 20 + 10));
}

/// A merge delays what comes after it: here a switch merge erases the data block that the log block replaced, which
/// shares the planes.
#[test]
fn erasing_delays_what_comes_after() {
    let mut ssd = ssd(FtlSettings::Hybrid(HybridSettings { long_pages: 4, ..HybridSettings::default() }));
    let first = ssd.write(Nanos::ZERO, run(0, 4)).unwrap();
    let second = ssd.write(first, run(0, 4)).unwrap();
    assert_eq!(ssd.counters().merges.switch, 1);
    assert_eq!(second.0 - first.0, first.0, "the write itself does not wait for the erasure");
    // Plane 0 ends 10 µs before plane 1, whose last page ends the write, and then erases.
    let read = ssd.read(second, run(0, 1)).unwrap();
    assert_eq!(read, second + Nanos::from_us(2000 - 10 + 50 + 20 + 10));
}

/// A partial merge that copies within a plane: two pages of the data block are read and programmed on planes 0 and 1, then
/// the data block is erased.
#[test]
fn copies_within_a_plane_take_no_transfer() {
    let settings = HybridSettings { log_share: 0.2, sequential_share: 0.0, long_pages: 1, ..HybridSettings::default() };
    let mut ssd = ssd(FtlSettings::Hybrid(settings));
    for block in 0..2 {
        ssd.write(Nanos::ZERO, run(block * 4, 4)).unwrap();
    }
    ssd.write(Nanos::ZERO, run(0, 2)).unwrap();
    let idle = Nanos::from_us(20_000);
    let write = ssd.write(idle, run(4, 1)).unwrap();
    assert_eq!((ssd.counters().merges.partial, ssd.counters().copies), (1, 2));
    // Plane 0: copy, erase, then the page of the host.
    assert_eq!(write, idle + Nanos::from_us(5 + 50 + 1000 + 2000 + 1000));
}

/// The same with blocks that lie on one plane each, on different channels: logical block 0 on plane 0, its log block on plane
/// 1. Plane 0 has two pages to read and a block to erase, plane 1 two pages to program.
#[test]
fn copies_between_planes_share_the_work() {
    let geometry = Geometry { pages_per_block: 4, stripe: 1, ..GEOMETRY };
    let settings = HybridSettings { log_share: 0.2, sequential_share: 0.0, long_pages: 1, ..HybridSettings::default() };
    let mut ssd = Ssd::new(FtlSettings::Hybrid(settings).build(geometry).unwrap(), TIMING);
    for block in 0..3 {
        ssd.write(Nanos::ZERO, run(block * 4, 4)).unwrap();
    }
    ssd.write(Nanos::ZERO, run(0, 2)).unwrap();
    let idle = Nanos::from_us(50_000);
    // The log block of block 1 is on plane 0.
    let write = ssd.write(idle, run(4, 1)).unwrap();
    assert_eq!((ssd.counters().merges.partial, ssd.counters().copies), (1, 2));
    assert_eq!(write, idle + Nanos::from_us(5 + 50 + 50 + 2000 + 1000));
    // Page 2 is on plane 1 now, which had to wait for the first transfer.
    assert_eq!(ssd.read(idle, run(2, 1)).unwrap(), idle + Nanos::from_us(5 + 20 + 1000 + 1000 + 50 + 20 + 10));
}

/// Where a channel is slow, it is what copies wait for: here it takes 2000 µs for a page, and moves two of them each way.
#[test]
fn copies_wait_for_a_slow_channel() {
    let geometry = Geometry { pages_per_block: 4, stripe: 1, ..GEOMETRY };
    let timing = Timing { channel_bytes_per_second: 2_048_000, ..TIMING };
    let settings = HybridSettings { log_share: 0.2, sequential_share: 0.0, long_pages: 1, ..HybridSettings::default() };
    let mut ssd = Ssd::new(FtlSettings::Hybrid(settings).build(geometry).unwrap(), timing);
    for block in 0..3 {
        ssd.write(Nanos::ZERO, run(block * 4, 4)).unwrap();
    }
    ssd.write(Nanos::ZERO, run(0, 2)).unwrap();
    let idle = Nanos::from_us(500_000);
    ssd.write(idle, run(4, 1)).unwrap();
    let read = ssd.read(idle, run(2, 1)).unwrap();
    assert_eq!(read, idle + Nanos::from_us(5 + 2 * 2000 + 1000 + 50 + 2000 + 10));
}

/// A collection keeps all planes at work: random writes to a page-mapped SSD with many requests under way go at no less than
/// 80 % of what 16 planes can program, read and erase.
#[test]
fn collection_leaves_no_plane_idle() {
    let geometry = Geometry { superblocks: 64, ..Geometry::default() };
    let timing = Timing::for_geometry(&geometry);
    let settings =
        FtlSettings::PageMapped(PageMappedSettings { over_provisioning: 0.2, ..PageMappedSettings::default() });
    let mut ssd = Ssd::new(settings.build(geometry).unwrap(), timing);
    let mut random = Rng::new(2);
    let pages = nitro_model::Ftl::logical_pages(ssd.ftl());
    let mut ends = vec![Nanos::ZERO; 256];
    for i in 0..pages as usize * 6 {
        let place = i % ends.len();
        ends[place] = ssd.write(ends[place], run(below(&mut random, pages), 1)).unwrap();
    }
    let counters = ssd.counters();
    let work = counters.flash_programs() * timing.program.0
        + counters.copies * timing.read.0
        + counters.erasures * timing.erase.0;
    let taken = ends.iter().max().unwrap().0;
    let share = work as f64 / 16.0 / taken as f64;
    assert!((0.8..=1.0).contains(&share), "planes are at work {share} of the time");
}

#[test]
fn a_page_written_in_part_is_read_first() {
    let mut ssd = page_mapped();
    ssd.write_bytes(Nanos::ZERO, 0, 8192).unwrap();
    assert_eq!(ssd.counters().partial_writes, 0);
    let idle = Nanos::from_us(5000);
    let done = ssd.write_bytes(idle, 100, 4096).unwrap();
    // Both pages are read on their channels at once, while the host sends, and then written.
    assert_eq!(done, idle + Nanos::from_us(5 + 50 + 20 + 20 + 1000));
    assert_eq!((ssd.counters().partial_writes, ssd.counters().host_writes), (2, 4));
    assert_eq!(
        ssd.read(idle, run(9, 1)).unwrap(),
        idle + Nanos::from_us(5 + 20 + 10),
        "others wait for the link alone"
    );
    ssd.write_bytes(done, 200, 100).unwrap();
    assert_eq!((ssd.counters().partial_writes, ssd.counters().host_writes), (3, 5));
    ssd.trim_bytes(done, 1, 8191).unwrap();
    assert_eq!(ssd.counters().trims, 1, "the first page is trimmed in part only, that is not");
}

/// Nitro §5.3: a block of 128 KiB is erased in 2 ms. 16 planes program 8 KiB in 1.3 ms each: a WEU of 2 MiB takes 16 times
/// as long as a page, not 256 times.
#[test]
fn a_weu_is_written_to_all_planes() {
    let geometry = Geometry::default();
    let ftl = FtlSettings::PageMapped(PageMappedSettings::default()).build(geometry).unwrap();
    let mut ssd = Ssd::new(ftl, Timing::for_geometry(&geometry));
    let page = ssd.write(Nanos::ZERO, run(0, 1)).unwrap();
    let weu = ssd.write(Nanos::ZERO, run(256, 256)).unwrap();
    let programs = 16 * 1_300_000;
    assert!((programs..programs + 2_000_000).contains(&(weu.0 - page.0 + 1_300_000)), "{page:?} {weu:?}");
}

/// Nitro §5.3: 18,700 random reads and 4,200 random writes of 8 KiB a second, of a drive of which little is in use.
#[test]
fn nitros_drive_does_as_many_requests_as_the_papers() {
    let geometry = Geometry { superblocks: 64, ..Geometry::default() };
    let rate = |reads: bool| {
        let ftl = FtlSettings::PageMapped(PageMappedSettings::default()).build(geometry).unwrap();
        let mut ssd = Ssd::new(ftl, Timing::nitros_drive(&geometry));
        let pages = nitro_model::Ftl::logical_pages(ssd.ftl()) / 16;
        let mut start = Nanos::ZERO;
        for first in (0..pages).step_by(256) {
            start = ssd.write(start, run(first, 256.min(pages - first))).unwrap();
        }
        let mut random = Rng::new(3);
        let mut ends = vec![start; 32];
        let count = 20_000;
        for i in 0..count {
            let place = i % ends.len();
            let one = run(below(&mut random, pages), 1);
            ends[place] = if reads { ssd.read(ends[place], one) } else { ssd.write(ends[place], one) }.unwrap();
        }
        count as f64 / ((ends.iter().max().unwrap().0 - start.0) as f64 / 1e9)
    };
    for (reads, theirs) in [(true, 18_700.0), (false, 4_200.0)] {
        let found = rate(reads);
        assert!((found / theirs - 1.0).abs() < 0.02, "{found} a second, not {theirs}");
    }
}
