//! What a translation layer asks of the flash.

use crate::{BlockId, Lpn, Ppn};

/// Carries out what a translation layer orders, in the order in which it does.
///
/// The layer keeps to the rules of flash: within a block pages are programmed in ascending order, each at most once between
/// two erasures; pages may be left out. A block is erased only when no page in it is needed any more.
pub trait Medium {
    /// Programs a page with what the host wrote to `lpn`.
    fn program(&mut self, to: Ppn, lpn: Lpn);

    /// Reads the page `from` and programs its content to `to`.
    fn copy(&mut self, from: Ppn, to: Ppn);

    /// Erases a superblock.
    fn erase(&mut self, block: BlockId);
}

/// Nothing happens: for those who want the counters alone.
impl Medium for () {
    fn program(&mut self, _to: Ppn, _lpn: Lpn) {}
    fn copy(&mut self, _from: Ppn, _to: Ppn) {}
    fn erase(&mut self, _block: BlockId) {}
}
