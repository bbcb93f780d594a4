//! Bytes made from a fingerprint.

use crate::rng::{Rng, hash};
use nitro_units::Fingerprint;

/// Unique and repeated bytes alternate in pieces of this many.
const PIECE_BYTES: usize = 1024;
/// What LZ4 spends on a piece besides its unique bytes: token, offset, and the lengths' further bytes.
const SEQUENCE_BYTES: usize = 3;
/// What LZ4 spends at a block's end, where it makes no matches: a token and five literals.
const END_BYTES: usize = 6;
/// Shorter repeats are hardly found.
const REPEAT_BYTES_MIN: usize = 24;
/// Unique bytes have 6 bits each. LZ4 cannot use that; gzip, which codes single bytes by their frequency, gets a third more
/// out of it, within the 23 to 47 % that Nitro (§6.2) found for real data.
const SYMBOL_MASK: u8 = 0x3F;

/// Fills `bytes` with what has that fingerprint: always the same bytes for the same fingerprint, length and ratio, other
/// bytes for another fingerprint. LZ4 compresses them by `ratio` (from 1 to 8, within 5 % for 4 KiB and more). Nothing
/// that hashes bytes gives `fingerprint` back.
pub fn fill(fingerprint: &Fingerprint, ratio: f64, bytes: &mut [u8]) {
    let (words, _) = fingerprint.0.as_chunks::<8>();
    let mut rng = Rng::new(hash(u64::from_le_bytes(words[0]), u64::from_le_bytes(words[1])));
    let end_bytes = END_BYTES as f64 / bytes.len().max(1) as f64;
    let share = (1.0 / ratio - end_bytes).max(0.0);
    // Parts of bytes are carried from piece to piece, so that rounding does not add up.
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

/// Bytes that LZ4 makes of a piece that begins with so many unique ones, and repeats them.
const fn cost(unique: usize, len: usize) -> usize {
    if unique == len {
        return len + len / 255;
    }
    let literals = if unique < 15 { 0 } else { 1 + (unique - 15) / 255 };
    let repeat = len - unique;
    let matched = if repeat < 19 { 0 } else { 1 + (repeat - 19) / 255 };
    SEQUENCE_BYTES + unique + literals + matched
}

/// With how many unique bytes a piece costs about `budget`.
fn unique_bytes(budget: f64, len: usize) -> usize {
    let budget = budget.max(0.0) as usize;
    let most = len.saturating_sub(REPEAT_BYTES_MIN);
    if budget >= cost(most, len) {
        return len;
    }
    // The costs beside the unique bytes vary by a few bytes only: two steps find the number.
    let first = budget.saturating_sub(cost(budget.min(most), len) - budget.min(most));
    budget.saturating_sub(cost(first.min(most), len) - first.min(most)).clamp(8.min(len), most.max(8.min(len)))
}
