//! Merges against examples worked by hand: blocks of four pages, logical block 0 is pages 0 to 3, and so on.

use crate::support::{StrictFlash, geometry, run};
use nitro_model::{Counters, Ftl, Hybrid, HybridSettings, Lpn, Merges};

struct Example {
    ftl: Hybrid,
    flash: StrictFlash,
}

impl Example {
    /// `log` blocks of log, of which one is sequential; eight logical blocks, all written once in order.
    fn new(log: u32) -> Self {
        let geometry = geometry(4, 8 + log + 1);
        let settings = HybridSettings {
            over_provisioning: 1.0 / 8.0,
            log_share: f64::from(log) / 8.0,
            sequential_share: 0.0,
            long_pages: 1,
        };
        let mut example = Self { ftl: Hybrid::new(geometry, settings).unwrap(), flash: StrictFlash::new(&geometry) };
        assert_eq!(example.ftl.logical_pages(), 32);
        (0..8).for_each(|block| example.write(block * 4, 4));
        assert_eq!(example.done(), (0, 0, Merges::default()), "first writes go straight to data blocks");
        example
    }

    fn write(&mut self, first: u32, pages: u32) {
        self.ftl.write(run(first, pages), &mut self.flash);
    }

    /// Erasures, copies and merges.
    fn done(&self) -> (u64, u64, Merges) {
        let Counters { erasures, copies, merges, .. } = *self.ftl.flash().counters();
        (erasures, copies, merges)
    }

    /// The place of a page within its physical block.
    fn place(&self, lpn: u32) -> u32 {
        self.ftl.lookup(Lpn(lpn)).unwrap().0 % 4
    }
}

/// Four pages in order fill the sequential log block; it becomes the data block, and the old one is erased.
#[test]
fn switch() {
    let mut example = Example::new(3);
    example.write(4, 4);
    assert_eq!(example.done(), (1, 0, Merges { switch: 1, ..Merges::default() }));
    example.write(4, 2);
    example.write(6, 2);
    assert_eq!(example.done(), (2, 0, Merges { switch: 2, ..Merges::default() }), "a stream may come in pieces");
}

/// Two pages in order, then another logical block wants the only sequential log block: the other two pages are copied behind
/// them, and the old data block is erased.
#[test]
fn partial() {
    let mut example = Example::new(3);
    example.write(4, 2);
    assert_eq!(example.done(), (0, 0, Merges::default()));
    example.write(8, 1);
    assert_eq!(example.done(), (1, 2, Merges { partial: 1, ..Merges::default() }));
    assert_eq!([4, 5, 6, 7].map(|lpn| example.place(lpn)), [0, 1, 2, 3]);
    assert_eq!(example.flash.content(example.ftl.lookup(Lpn(5)).unwrap()), (Lpn(5), 33));
    assert_eq!(example.flash.content(example.ftl.lookup(Lpn(6)).unwrap()), (Lpn(6), 6));
}

/// Two random log blocks hold pages 1, 5, 9, 13 and 1, 1, 1, 1. The ninth page out of order reclaims the first of them. Its
/// page 1 is void; the logical blocks of 5, 9 and 13 are merged with four copies and one erasure each, and the log block is
/// erased.
#[test]
fn full() {
    let mut example = Example::new(3);
    [1, 5, 9, 13].into_iter().for_each(|lpn| example.write(lpn, 1));
    (0..4).for_each(|_| example.write(1, 1));
    assert_eq!(example.done(), (0, 0, Merges::default()));
    example.write(17, 1);
    assert_eq!(example.done(), (3 + 1, 3 * 4, Merges { full: 3, ..Merges::default() }));
    assert_eq!([5, 9, 13].map(|lpn| example.place(lpn)), [1, 1, 1]);
    assert_eq!(example.ftl.flash().counters().write_amplification(), (32.0 + 9.0 + 12.0) / (32.0 + 9.0));
}

/// A full merge takes a logical block's pages from wherever they are: here from the data block and two log blocks. The
/// second log block is left with void pages only, and is reclaimed next for one erasure.
#[test]
fn full_from_several_log_blocks() {
    let mut example = Example::new(3);
    [1, 1, 1, 1, 2, 2, 3, 3].into_iter().for_each(|lpn| example.write(lpn, 1));
    example.write(1, 1);
    assert_eq!(example.done(), (2, 4, Merges { full: 1, ..Merges::default() }));
    [1, 1, 1].into_iter().for_each(|lpn| example.write(lpn, 1));
    example.write(2, 1);
    assert_eq!(example.done(), (3, 4, Merges { full: 1, ..Merges::default() }));
}

/// What is overwritten out of order after it went to the sequential log makes that useless: a full merge, which erases
/// the old data block and the sequential log block.
#[test]
fn full_instead_of_switch() {
    let mut example = Example::new(3);
    example.write(4, 3);
    example.write(5, 1);
    example.write(7, 1);
    assert_eq!(example.done(), (2, 4, Merges { full: 1, ..Merges::default() }));
    assert_eq!(example.flash.content(example.ftl.lookup(Lpn(5)).unwrap()), (Lpn(5), 35));
}

/// A log block without anything valid is reclaimed before older ones that would have to be merged.
#[test]
fn dead_log_blocks_go_first() {
    let mut example = Example::new(3);
    [1, 5, 9, 13, 17, 17, 17, 17].into_iter().for_each(|lpn| example.write(lpn, 1));
    example.ftl.trim(run(17, 1), &mut example.flash);
    example.write(21, 1);
    assert_eq!(example.done(), (1, 0, Merges::default()));
}

/// Trimmed pages are not copied: of the logical block of 5, only 5 and 6 are left.
#[test]
fn trimmed_pages_are_left_out() {
    let mut example = Example::new(3);
    [5, 1, 1, 1, 1, 1, 1, 1].into_iter().for_each(|lpn| example.write(lpn, 1));
    example.ftl.trim(run(4, 1), &mut example.flash);
    example.ftl.trim(run(7, 1), &mut example.flash);
    example.write(1, 1);
    assert_eq!(example.done(), (2, 2, Merges { full: 1, ..Merges::default() }), "of block 1 alone: 1 has newer pages");
    assert_eq!(example.ftl.lookup(Lpn(4)), None);
}

/// A logical block that is trimmed whole costs one erasure and nothing later.
#[test]
fn trimmed_blocks_are_erased() {
    let mut example = Example::new(3);
    example.ftl.trim(run(8, 4), &mut example.flash);
    assert_eq!(example.done(), (1, 0, Merges::default()));
    example.write(8, 4);
    assert_eq!(example.done(), (1, 0, Merges::default()));
}
