//! The wire format: PDUs, texts, checksums (RFC 7143 §11 to §13).

mod digest;
pub mod opcode;
mod pdu;
mod text;

pub(crate) use digest::RunningDigest;
pub use digest::{DIGEST_BYTES, Digest, crc32c};
pub use pdu::{HEADER_BYTES, Header, NO_TAG, padding_of};
pub use text::{Pairs, TextError, put_pair};
