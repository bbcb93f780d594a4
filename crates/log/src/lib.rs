//! Building blocks of the formats on devices: fields in sequence, blocks that end with a checksum, and superblocks with
//! two copies. All numbers are little-endian.
#![forbid(unsafe_code)]

mod error;
mod field;
mod pair;
mod seal;

pub use error::FormatError;
pub use field::{Reader, Writer, u16_at, u32_at, u64_at};
pub use pair::{ends, read_first_whole, write_both};
pub use seal::{CHECKSUM_BYTES, crc32c, is_sealed, seal};
