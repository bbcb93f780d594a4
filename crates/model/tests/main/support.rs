//! Flash that checks the rules and remembers what was written, and small SSDs.

use nitro_model::{BlockId, Ftl, Geometry, Lpn, Medium, PageRun, Ppn};
use nitro_testkit::Rng;

/// A random number below `end`.
pub fn below(random: &mut Rng, end: u32) -> u32 {
    random.below(end.into()) as u32
}

/// Superblocks of one erase block with `pages_per_block` pages.
pub fn geometry(pages_per_block: u32, superblocks: u32) -> Geometry {
    Geometry { page_bytes: 4096, pages_per_block, stripe: 1, channels: 2, dies: 1, planes: 1, superblocks }
}

/// Logical pages from `first` on.
pub fn run(first: u32, pages: u32) -> PageRun {
    PageRun { first: Lpn(first), pages }
}

/// What a physical page holds: the page it was written for and a number that no other write has.
pub type Content = (Lpn, u64);

/// Flash by the book: it panics when a page is programmed twice, out of order, or read while erased.
pub struct StrictFlash {
    block_pages: u32,
    pages: Vec<Option<Content>>,
    next: Vec<u32>,
    pub erasures: Vec<u32>,
    pub programs: u64,
    pub copies: u64,
    /// The number of the next write.
    pub version: u64,
}

impl StrictFlash {
    pub fn new(geometry: &Geometry) -> Self {
        Self {
            block_pages: geometry.block_pages(),
            pages: vec![None; geometry.physical_pages() as usize],
            next: vec![0; geometry.superblocks as usize],
            erasures: vec![0; geometry.superblocks as usize],
            programs: 0,
            copies: 0,
            version: 0,
        }
    }

    pub fn content(&self, ppn: Ppn) -> Content {
        self.pages[ppn.0 as usize].expect("an erased page is not read")
    }

    fn put(&mut self, to: Ppn, content: Content) {
        let (block, place) = ((to.0 / self.block_pages) as usize, to.0 % self.block_pages);
        assert!(place >= self.next[block], "page {place} of block {block} comes after {}", self.next[block]);
        self.next[block] = place + 1;
        self.pages[to.0 as usize] = Some(content);
    }
}

impl Medium for StrictFlash {
    fn program(&mut self, to: Ppn, lpn: Lpn) {
        self.programs += 1;
        self.put(to, (lpn, self.version));
        self.version += 1;
    }

    fn copy(&mut self, from: Ppn, to: Ppn) {
        self.copies += 1;
        self.put(to, self.content(from));
    }

    fn erase(&mut self, block: BlockId) {
        self.erasures[block.0 as usize] += 1;
        self.next[block.0 as usize] = 0;
        let first = (block.0 * self.block_pages) as usize;
        self.pages[first..first + self.block_pages as usize].fill(None);
    }
}

/// Writes every logical page in order, in requests of `pages`.
pub fn fill<F: Ftl>(ftl: &mut F, pages: u32) {
    for first in (0..ftl.logical_pages()).step_by(pages as usize) {
        ftl.write(run(first, pages.min(ftl.logical_pages() - first)), &mut ());
    }
}
