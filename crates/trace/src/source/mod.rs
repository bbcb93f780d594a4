//! Bytes of a trace: decompressed on the fly, behind a window that lines and records are cut from.

mod compression;
mod window;

pub use compression::Compression;
pub use window::{Line, Window};
