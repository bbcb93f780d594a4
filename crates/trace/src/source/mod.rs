//! The bytes of a trace: decompressed while they are read, in a window from which lines and records are taken.

mod ahead;
mod compression;
mod window;
mod zstd_frame;

pub use compression::Compression;
pub use window::{Line, Window};
