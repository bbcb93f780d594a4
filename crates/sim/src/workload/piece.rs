//! The part of a request on one extent.

use nitro_trace::Op;
use nitro_units::{ClassId, ExtentKey, Fingerprint};

/// Bytes of an encoded piece.
pub(super) const PIECE_BYTES: usize = 48;
/// A bit of `packed`: the last piece of its request.
const LAST: u32 = 1 << 31;
const CLASS_SHIFT: u32 = 26;
const OP_SHIFT: u32 = 23;
const OP_MASK: u32 = 0b111;
/// A bit of `packed`: the compressed size is known; the lower bits hold it.
const KNOWN: u32 = 1 << 22;
const SIZE_MASK: u32 = KNOWN - 1;

/// The operation of a request on one extent, and the content of the extent afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Nanoseconds since the trace's first request.
    pub time_ns: u64,
    /// The extent.
    pub key: ExtentKey,
    /// The fingerprint of the whole extent after the request.
    pub fingerprint: Fingerprint,
    /// The offset in the extent at which the request begins, in bytes.
    pub offset: u32,
    /// The length in bytes.
    pub len: u32,
    packed: u32,
}

/// The request that a piece belongs to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PieceOf {
    /// Nanoseconds since the trace's first request.
    pub(crate) time_ns: u64,
    pub(crate) op: Op,
    pub(crate) class: ClassId,
    /// Whether the piece is the request's last one.
    pub(crate) last: bool,
}

/// A part of an extent, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part {
    pub(crate) offset: u32,
    pub(crate) len: u32,
}

impl Piece {
    /// A piece. `compressed_bytes`: the compressed size of the whole extent if it is known, below 4 MiB.
    pub(crate) fn new(
        request: PieceOf,
        key: ExtentKey,
        part: Part,
        fingerprint: Fingerprint,
        compressed_bytes: Option<u32>,
    ) -> Self {
        let (PieceOf { time_ns, op, class, last }, Part { offset, len }) = (request, part);
        let number = Op::ALL.iter().position(|o| *o == op).unwrap_or_default() as u32;
        let size = compressed_bytes.map_or(0, |bytes| KNOWN | bytes.min(SIZE_MASK));
        let class = u32::from(class.number()) << CLASS_SHIFT;
        let packed = class | number << OP_SHIFT | size | if last { LAST } else { 0 };
        Self { time_ns, key, fingerprint, offset, len, packed }
    }

    /// A read of a whole extent without a known content: it gets a unique one.
    pub(crate) fn whole(time_ns: u64, key: ExtentKey, extent_bytes: u32) -> Self {
        let mut name = [0; 20];
        name[..8].copy_from_slice(&key.raw().wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes());
        let request = PieceOf { time_ns, op: Op::Read, class: ClassId::default(), last: true };
        Self::new(request, key, Part { offset: 0, len: extent_bytes }, Fingerprint(name), None)
    }

    /// The kind of the request.
    #[must_use]
    pub const fn op(&self) -> Op {
        match self.packed >> OP_SHIFT & OP_MASK {
            0 => Op::Read,
            1 => Op::Write,
            2 => Op::Trim,
            3 => Op::Flush,
            _ => Op::Other,
        }
    }

    /// The class of the request.
    #[must_use]
    pub fn class(&self) -> ClassId {
        ClassId::new(((self.packed & !LAST) >> CLASS_SHIFT) as u8).unwrap_or_default()
    }

    /// The same piece of a request of another class.
    pub(crate) fn with_class(self, class: ClassId) -> Self {
        let others = self.packed & (LAST | ((1 << CLASS_SHIFT) - 1));
        Self { packed: others | u32::from(class.number()) << CLASS_SHIFT, ..self }
    }

    /// The same piece as the last one of its request, or another one.
    pub(crate) const fn with_last(self, last: bool) -> Self {
        Self { packed: self.packed & !LAST | if last { LAST } else { 0 }, ..self }
    }

    /// The same piece of a request of another kind.
    pub(crate) fn with_op(self, op: Op) -> Self {
        let number = Op::ALL.iter().position(|o| *o == op).unwrap_or_default() as u32;
        Self { packed: self.packed & !(OP_MASK << OP_SHIFT) | number << OP_SHIFT, ..self }
    }

    /// Whether this is the last piece of its request.
    #[must_use]
    pub const fn is_last(&self) -> bool {
        self.packed & LAST != 0
    }

    /// The compressed size of the whole extent in bytes, if the trace has it.
    #[must_use]
    pub const fn compressed_bytes(&self) -> Option<u32> {
        if self.packed & KNOWN == 0 { None } else { Some(self.packed & SIZE_MASK) }
    }

    pub(super) fn encode(&self, to: &mut [u8; PIECE_BYTES]) {
        to[..8].copy_from_slice(&self.time_ns.to_le_bytes());
        to[8..16].copy_from_slice(&self.key.raw().to_le_bytes());
        to[16..36].copy_from_slice(&self.fingerprint.0);
        to[36..40].copy_from_slice(&self.offset.to_le_bytes());
        to[40..44].copy_from_slice(&self.len.to_le_bytes());
        to[44..].copy_from_slice(&self.packed.to_le_bytes());
    }

    pub(super) fn decode(from: &[u8; PIECE_BYTES]) -> Self {
        let word = |at: usize| u32::from_le_bytes([from[at], from[at + 1], from[at + 2], from[at + 3]]);
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        let mut fingerprint = [0; 20];
        fingerprint.copy_from_slice(&from[16..36]);
        Self {
            time_ns: long(0),
            key: ExtentKey::from_raw(long(8)),
            fingerprint: Fingerprint(fingerprint),
            offset: word(36),
            len: word(40),
            packed: word(44),
        }
    }
}

/// Splits pieces into runs of consecutive extents.
pub(crate) fn runs(pieces: &[Piece]) -> impl Iterator<Item = &[Piece]> {
    pieces.chunk_by(|a, b| a.key.object() == b.key.object() && a.key.index().0 + 1 == b.key.index().0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nitro_units::{ExtentIndex, ObjectId};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pieces_survive_encoding(
            (time, op, class, last) in (any::<u64>(), 0usize..5, 0u8..32, any::<bool>()),
            (object, index, offset, len) in (any::<u16>(), 0u64..1 << 48, any::<u32>(), any::<u32>()),
            print in any::<[u8; 20]>(),
            size in prop::option::of(0u32..1 << 22),
        ) {
            let key = ExtentKey::new(ObjectId(object), ExtentIndex(index));
            let class = ClassId::new(class).unwrap_or_default();
            let request = PieceOf { time_ns: time, op: Op::ALL[op], class, last };
            let piece = Piece::new(request, key, Part { offset, len }, Fingerprint(print), size);
            prop_assert_eq!(piece.class(), class);
            prop_assert_eq!((piece.op(), piece.is_last(), piece.compressed_bytes()), (Op::ALL[op], last, size));
            let other = ClassId::new(31 - class.number()).unwrap_or_default();
            prop_assert_eq!(piece.with_class(other).class(), other);
            prop_assert_eq!(piece.with_class(other).with_class(class), piece);
            let mut bytes = [0; PIECE_BYTES];
            piece.encode(&mut bytes);
            prop_assert_eq!(Piece::decode(&bytes), piece);
        }
    }
}
