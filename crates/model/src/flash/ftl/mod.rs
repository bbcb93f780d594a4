//! Flash translation layers: the mapping from logical to physical pages.

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
/// The caller keeps runs within [`logical_pages`](Self::logical_pages); [`Ssd`](crate::Ssd) checks this. The layer
/// issues its operations to the [`Medium`] during the call: there is no collection in the background.
pub trait Ftl {
    /// The flash below the layer.
    fn flash(&self) -> &Flash;

    /// The number of pages that the host may use.
    fn logical_pages(&self) -> u32;

    /// The physical page of a logical page; `None` if it was never written or has been trimmed.
    fn lookup(&self, lpn: Lpn) -> Option<Ppn>;

    /// Writes pages as one request, after making room for them.
    fn write<M: Medium>(&mut self, run: PageRun, medium: &mut M);

    /// Counts a read of pages by the host.
    fn read(&mut self, run: PageRun);

    /// Counts `pages` of the pages written last as partly written.
    fn note_partial(&mut self, pages: u32);

    /// Drops the content of pages, for a trim of the host.
    fn trim<M: Medium>(&mut self, run: PageRun, medium: &mut M);

    /// The pages of the WEU that the SSD would evict next. `None`: there is none, or the layer does not choose WEUs.
    fn victim(&self) -> Option<PageRun> {
        None
    }
}
