//! Bytes generated from a fingerprint.

use crate::rng::{Rng, hash};
use nitro_units::Fingerprint;

/// Bytes of a piece, which consists of unique bytes and repeats of them.
const PIECE_BYTES: usize = 1024;
/// Bytes that LZ4 needs for a piece besides its unique bytes and the lengths: token and offset.
const SEQUENCE_BYTES: usize = 3;
/// Bytes that LZ4 needs at a block's end, where it makes no matches: a token and five literals.
const END_BYTES: usize = 6;
/// Fewest repeated bytes of a piece; LZ4 may not find shorter repeats.
const REPEAT_BYTES_MIN: usize = 24;
/// Unique bytes have 6 bits each. LZ4 cannot use that; gzip, which codes single bytes by their frequency, compresses a
/// third better, within the 23 to 47 % that Nitro (§6.2) measured for real data.
const SYMBOL_MASK: u8 = 0x3F;

/// Fills `bytes` with the content that stands for a fingerprint: always the same bytes for the same fingerprint, length
/// and ratio, and other bytes for another fingerprint. LZ4 compresses them by `ratio` (from 1 to 8, within 5 % for 4
/// KiB and more). `fingerprint` is not a hash of these bytes.
pub fn fill(fingerprint: &Fingerprint, ratio: f64, bytes: &mut [u8]) {
    let (words, _) = fingerprint.0.as_chunks::<8>();
    let mut rng = Rng::new(hash(u64::from_le_bytes(words[0]), u64::from_le_bytes(words[1])));
    let end_bytes = END_BYTES as f64 / bytes.len().max(1) as f64;
    let share = (1.0 / ratio - end_bytes).max(0.0);
    // Fractions of bytes are carried over to the next piece, so that rounding errors do not add up.
    let mut owed = 0.0;
    for piece in bytes.chunks_mut(PIECE_BYTES) {
        owed += piece.len() as f64 * share;
        let unique = unique_bytes(owed, piece.len());
        owed -= cost(unique, piece.len()) as f64;
        let (fresh, repeated) = piece.split_at_mut(unique);
        rng.fill(fresh);
        fresh.iter_mut().for_each(|byte| *byte = b' ' + (*byte & SYMBOL_MASK));
        for copy in repeated.chunks_mut(unique) {
            copy.copy_from_slice(&fresh[..copy.len()]);
        }
    }
}

/// Bytes of a piece of `len` bytes compressed with LZ4, if its first `unique` bytes are unique and the others repeat
/// them.
const fn cost(unique: usize, len: usize) -> usize {
    if unique == len {
        return len + len / 255;
    }
    let literals = if unique < 15 { 0 } else { 1 + (unique - 15) / 255 };
    let repeat = len - unique;
    let matched = if repeat < 19 { 0 } else { 1 + (repeat - 19) / 255 };
    SEQUENCE_BYTES + unique + literals + matched
}

/// The number of unique bytes with which a piece takes about `budget` bytes compressed.
fn unique_bytes(budget: f64, len: usize) -> usize {
    let budget = budget.max(0.0) as usize;
    let most = len.saturating_sub(REPEAT_BYTES_MIN);
    if budget >= cost(most, len) {
        return len;
    }
    // The cost besides the unique bytes varies only by a few bytes, so that two steps are enough.
    let first = budget.saturating_sub(cost(budget.min(most), len) - budget.min(most));
    budget.saturating_sub(cost(first.min(most), len) - first.min(most)).clamp(8.min(len), most.max(8.min(len)))
}
