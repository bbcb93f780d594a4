//! Codes for the sizes of left subtrees (SILT §4.3): of `n` keys with random bits, `l` begin with a zero, and `l` has a
//! binomial distribution. Up to [`HUFFMAN_MAX`] keys, a Huffman code of this distribution is used. For more keys, where
//! the distribution is almost normal, the distance from the middle has a Rice code.
//!
//! Codes are stored in words of 64 bits, the first bit highest.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::LazyLock;

/// The maximum number of keys with a Huffman code.
const HUFFMAN_MAX: u32 = 64;
/// The minimum probability of a size for the Huffman code; it limits the length of the codes.
const PROBABILITY_MIN: f64 = 1.0 / 65536.0;
/// Codes up to this length are decoded with one table access.
const SHORT_BITS: u32 = 7;
/// This number of ones is not the quotient of a Rice code: the size follows in 32 bits.
const ESCAPE: u32 = 16;

/// Writes codes.
#[derive(Default)]
pub(super) struct BitWriter {
    words: Vec<u64>,
    /// The number of bits written.
    len: usize,
}

impl BitWriter {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Writes the low `count` bits of `bits`; `count` is from 1 to 63.
    fn write(&mut self, bits: u64, count: u32) {
        let used = (self.len % 64) as u32;
        if used == 0 {
            self.words.push(0);
        }
        let aligned = bits << (64 - count);
        if let Some(last) = self.words.last_mut() {
            *last |= aligned >> used;
        }
        if used + count > 64 {
            self.words.push(aligned << (64 - used));
        }
        self.len += count as usize;
    }

    /// The words, followed by a zero word, so that a reader can read 64 bits ahead.
    pub(super) fn finish(mut self) -> Box<[u64]> {
        self.words.push(0);
        self.words.into_boxed_slice()
    }
}

/// Reads codes, starting at a given bit.
pub(super) struct BitReader<'a> {
    words: &'a [u64],
    at: usize,
}

impl<'a> BitReader<'a> {
    pub(super) fn new(words: &'a [u64], at: usize) -> Self {
        Self { words, at }
    }

    /// The next 64 bits, with zeroes after the end.
    #[inline]
    fn peek(&self) -> u64 {
        let (word, bit) = (self.at / 64, (self.at % 64) as u32);
        let first = self.words.get(word).copied().unwrap_or(0);
        if bit == 0 {
            return first;
        }
        first << bit | self.words.get(word + 1).copied().unwrap_or(0) >> (64 - bit)
    }

    #[inline]
    fn skip(&mut self, bits: u32) {
        self.at += bits as usize;
    }
}

/// The codes of one length.
struct Row {
    bits: u32,
    /// The last 64-bit word that begins with one of the codes.
    end: u64,
    /// The first code, left-aligned in 64 bits.
    first: u64,
    /// The position of the first code's symbol.
    symbol: usize,
}

/// A canonical Huffman code.
struct Huffman {
    /// Symbol and length of each short code, by the next [`SHORT_BITS`] bits; the length is 0 for longer codes.
    short: [(u8, u8); 1 << SHORT_BITS],
    rows: Vec<Row>,
    symbols: Vec<u8>,
    /// The code of each symbol, and its length.
    codes: Vec<(u32, u8)>,
}

impl Huffman {
    /// The code for the sizes 0 to `n` of the left subtree of `n` keys.
    fn binomial(n: u32) -> Self {
        let mut probability = 0.5f64.powi(n as i32);
        let mut weights = Vec::with_capacity(n as usize + 1);
        for l in 0..=n {
            weights.push((probability.max(PROBABILITY_MIN) * (1u64 << 40) as f64) as u64);
            probability *= f64::from(n - l) / f64::from(l + 1);
        }
        Self::canonical(&lengths(&weights))
    }

    fn canonical(lengths: &[u32]) -> Self {
        let mut order: Vec<usize> = (0..lengths.len()).collect();
        order.sort_by_key(|s| (lengths[*s], *s));
        let mut codes = vec![(0, 0); lengths.len()];
        let mut rows: Vec<Row> = Vec::new();
        let mut next = 0u64;
        for (at, symbol) in order.iter().enumerate() {
            let bits = lengths[*symbol];
            codes[*symbol] = ((next >> (64 - bits)) as u32, bits as u8);
            if rows.last().is_none_or(|r| r.bits != bits) {
                rows.push(Row { bits, end: 0, first: next, symbol: at });
            }
            // The end of the last code wraps to 0.
            next = next.wrapping_add(1 << (64 - bits));
            if let Some(row) = rows.last_mut() {
                row.end = next.wrapping_sub(1);
            }
        }
        let mut short = [(0, 0); 1 << SHORT_BITS];
        for (symbol, (code, bits)) in codes.iter().enumerate().filter(|(_, (_, bits))| u32::from(*bits) <= SHORT_BITS) {
            let free = SHORT_BITS - u32::from(*bits);
            let from = (*code as usize) << free;
            short[from..from + (1 << free)].fill((symbol as u8, *bits));
        }
        Self { short, rows, symbols: order.into_iter().map(|s| s as u8).collect(), codes }
    }

    #[inline]
    fn read(&self, bits: &mut BitReader<'_>) -> u32 {
        let peeked = bits.peek();
        let (symbol, len) = self.short[(peeked >> (64 - SHORT_BITS)) as usize];
        if len > 0 {
            bits.skip(len.into());
            return symbol.into();
        }
        for row in &self.rows {
            if peeked <= row.end {
                bits.skip(row.bits);
                let at = row.symbol + ((peeked - row.first) >> (64 - row.bits)) as usize;
                return self.symbols.get(at).copied().unwrap_or(0).into();
            }
        }
        0
    }
}

/// The lengths of the symbols' codes by Huffman's algorithm.
fn lengths(weights: &[u64]) -> Vec<u32> {
    let mut heap: BinaryHeap<Reverse<(u64, usize)>> =
        weights.iter().enumerate().map(|(i, w)| Reverse((*w, i))).collect();
    let mut parents: Vec<usize> = vec![0; weights.len()];
    while let (Some(Reverse((a, left))), Some(Reverse((b, right)))) = (heap.pop(), heap.pop()) {
        let node = parents.len();
        parents.push(node);
        (parents[left], parents[right]) = (node, node);
        if heap.is_empty() {
            break;
        }
        heap.push(Reverse((a + b, node)));
    }
    let root = parents.len() - 1;
    let depth = |mut node: usize| {
        let mut depth = 0;
        while node != root {
            node = parents[node];
            depth += 1;
        }
        depth
    };
    (0..weights.len()).map(depth).collect()
}

/// The codes by number of keys, starting with 1.
static HUFFMAN: LazyLock<Vec<Huffman>> = LazyLock::new(|| (1..=HUFFMAN_MAX).map(Huffman::binomial).collect());

/// The number of remainder bits in the Rice code for `n` keys. The mean distance from the middle is about `0.4 √n`, and
/// twice the distance is coded.
fn remainder_bits(n: u32) -> u32 {
    (u64::from(n) * 5 / 8).ilog2() / 2
}

/// Writes that `left` of `n` keys begin with a zero.
pub(super) fn write(bits: &mut BitWriter, n: u32, left: u32) {
    if n <= HUFFMAN_MAX {
        let (code, len) = HUFFMAN[n as usize - 1].codes[left as usize];
        return bits.write(code.into(), len.into());
    }
    let distance = i64::from(left) - i64::from(n / 2);
    let folded = (distance << 1 ^ distance >> 63) as u64;
    let remainder = remainder_bits(n);
    let quotient = folded >> remainder;
    if quotient >= ESCAPE.into() {
        bits.write((1 << ESCAPE) - 1, ESCAPE);
        return bits.write(left.into(), 32);
    }
    let ones = (1 << quotient) - 1;
    bits.write((ones << 1) << remainder | folded & ((1 << remainder) - 1), quotient as u32 + 1 + remainder);
}

/// Reads how many of `n` keys begin with a zero; at most `n`.
#[inline]
pub(super) fn read(bits: &mut BitReader<'_>, n: u32) -> u32 {
    if n <= HUFFMAN_MAX {
        return HUFFMAN[n as usize - 1].read(bits);
    }
    let peeked = bits.peek();
    let quotient = peeked.leading_ones();
    if quotient >= ESCAPE {
        bits.skip(ESCAPE + 32);
        return ((peeked << ESCAPE >> 32) as u32).min(n);
    }
    let remainder = remainder_bits(n);
    bits.skip(quotient + 1 + remainder);
    let low = (peeked << quotient << 1).checked_shr(64 - remainder).unwrap_or(0);
    let folded = u64::from(quotient) << remainder | low;
    let distance = (folded >> 1) as i64 ^ -((folded & 1) as i64);
    (i64::from(n / 2) + distance).clamp(0, n.into()) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_of_every_number_of_keys_is_read_as_it_was_written() {
        for n in (1..300).chain([1000, 4095, 4096, 100_000, u32::MAX / 2]) {
            let sizes: Vec<u32> = (0..=n.min(300)).chain(n / 2 - n.min(200) / 2..=n / 2).chain([n]).collect();
            let mut writer = BitWriter::default();
            for left in &sizes {
                write(&mut writer, n, *left);
            }
            let len = writer.len();
            let words = writer.finish();
            let mut reader = BitReader::new(&words, 0);
            for left in &sizes {
                assert_eq!(read(&mut reader, n), *left, "of {n}");
            }
            assert_eq!(reader.at, len);
        }
    }

    /// The entropy of the binomial distribution is `½ log2(πen/2)`.
    #[test]
    fn codes_are_within_a_fifth_of_a_bit_of_the_entropy() {
        for n in [2u32, 5, 16, 64, 100, 200, 256, 500, 1000] {
            let (mut probability, mut mean, mut entropy) = (0.5f64.powi(n as i32), 0.0, 0.0);
            for left in 0..=n {
                let mut writer = BitWriter::default();
                write(&mut writer, n, left);
                mean += probability * writer.len() as f64;
                entropy -= if probability > 0.0 { probability * probability.log2() } else { 0.0 };
                probability *= f64::from(n - left) / f64::from(left + 1);
            }
            assert!(mean < entropy + 0.2, "{n}: {mean:.3} bits, entropy {entropy:.3}");
        }
    }

    #[test]
    fn arbitrary_bits_give_a_size_that_can_be() {
        let mut word = 1u64;
        for n in (1..200).chain([1 << 20, u32::MAX]) {
            for _ in 0..200 {
                word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                for words in [[word, !word], [u64::MAX, word], [u64::MAX; 2]] {
                    assert!(read(&mut BitReader::new(&words, (word % 64) as usize), n) <= n);
                }
            }
        }
    }
}
