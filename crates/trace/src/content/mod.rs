//! What traces lack, made as Nitro's authors made it (Nitro, USENIX ATC 2014, §5.2): fingerprints of extents of any size
//! from those of blocks, compressibility, and bytes that compress as they should.

mod blocks;
mod bytes;
mod compressibility;
mod extents;

pub use bytes::fill;
pub use compressibility::Compressibility;
pub use extents::{Contents, Extents};
