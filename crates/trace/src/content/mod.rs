//! Data that traces lack, generated as in the Nitro paper (USENIX ATC 2014, §5.2): fingerprints of extents of any size,
//! from those of blocks; compressibility; and bytes with a given compression ratio.

mod blocks;
mod bytes;
mod compressibility;
mod extents;

pub use bytes::fill;
pub use compressibility::Compressibility;
pub use extents::{Contents, Extents};
