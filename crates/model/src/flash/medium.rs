//! The interface of a translation layer to the flash.

use crate::{BlockId, Lpn, Ppn};

/// Executes the operations of a translation layer, in the order of the calls.
///
/// The layer keeps the rules of flash. Within a block, pages are programmed in ascending order, each at most once
/// between two erasures; pages may be skipped. A block is erased only when none of its pages are needed any more.
pub trait Medium {
    /// Programs a page with the data that the host wrote to `lpn`.
    fn program(&mut self, to: Ppn, lpn: Lpn);

    /// Reads the page `from` and programs its content to `to`.
    fn copy(&mut self, from: Ppn, to: Ppn);

    /// Erases a superblock.
    fn erase(&mut self, block: BlockId);
}

/// A medium that does nothing, for callers that need the counters only.
impl Medium for () {
    fn program(&mut self, _to: Ppn, _lpn: Lpn) {}
    fn copy(&mut self, _from: Ppn, _to: Ppn) {}
    fn erase(&mut self, _block: BlockId) {}
}
