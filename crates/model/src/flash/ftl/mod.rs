//! Flash translation layers: where the pages that the host writes go.

mod any;
mod co_designed;
mod hybrid;
mod page_mapped;
mod settings;

pub use any::{AnyFtl, FtlSettings};
pub use co_designed::{CoDesigned, CoDesignedSettings};
pub use hybrid::{Hybrid, HybridSettings};
pub use page_mapped::{PageMapped, PageMappedSettings, VictimPolicy};

use crate::{Flash, Lpn, Medium, PageRun, Ppn};

/// A flash translation layer.
///
/// The caller keeps runs within [`logical_pages`](Self::logical_pages) ([`Ssd`](crate::Ssd) checks that). The layer orders
/// of the [`Medium`] what it does, at once: there is no collection in the background.
pub trait Ftl {
    /// The flash on which it works.
    fn flash(&self) -> &Flash;

    /// Pages that the host may use.
    fn logical_pages(&self) -> u32;

    /// Where a page is that was written and not trimmed since.
    fn lookup(&self, lpn: Lpn) -> Option<Ppn>;

    /// Writes pages as one request, and makes room first.
    fn write<M: Medium>(&mut self, run: PageRun, medium: &mut M);

    /// Notes that the host reads pages.
    fn read(&mut self, run: PageRun);

    /// Notes that `pages` of the pages written last were written in part.
    fn note_partial(&mut self, pages: u32);

    /// Forgets what pages hold, on the host's word.
    fn trim<M: Medium>(&mut self, run: PageRun, medium: &mut M);

    /// The pages of the WEU that the SSD would have evicted; `None` if it has none or does not choose.
    fn victim(&self) -> Option<PageRun> {
        None
    }
}
