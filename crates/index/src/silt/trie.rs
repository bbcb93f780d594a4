//! Entropy-coded tries (SILT §4.3): they return the rank of a hash among sorted hashes, and take a few bits of RAM for
//! each hash.
//!
//! The hashes are divided into *groups* by their first bits. A group of `n` hashes is a binary trie. Each node holds
//! the number of its hashes whose next bit is zero. The numbers are stored in pre-order: a node, its left subtree, its
//! right subtree. The keys themselves are not stored. A node whose hashes are all on one page of the flash is a leaf
//! and takes no bits, because a look-up reads the page anyway. With many entries in a page this takes a fraction of a
//! bit for each entry; with one entry in a page it is the paper's trie.

use super::codes::{self, BitReader, BitWriter};

/// The number of bits of a hash: if more equal hashes exist than fit into a page, a leaf spans pages.
const DEPTH_MAX: u32 = 64;
/// Minimum number of hashes of a group: small groups are searched faster, large groups need fewer group headers.
const GROUP_MIN: u64 = 128;
/// The minimum number of pages of a group.
const GROUP_PAGES: u64 = 2;

/// The beginning of a group: the rank of its first hash, and its first bit.
#[derive(Debug, Clone, Copy)]
struct Group {
    rank: u32,
    bit: u32,
}

/// A run of ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ranks {
    /// The first rank.
    pub first: u32,
    /// The number of ranks; at least one.
    pub count: u32,
}

impl Ranks {
    /// Whether all of them are on one page.
    fn on_one_page(self, page_entries: u32) -> bool {
        self.first / page_entries == (self.first + self.count - 1) / page_entries
    }
}

/// The tries of a sorted store.
pub struct Trie {
    page_entries: u32,
    group_bits: u32,
    groups: Box<[Group]>,
    words: Box<[u64]>,
}

/// Builds a [`Trie`] from hashes in ascending order.
pub struct TrieBuilder {
    page_entries: u32,
    group_bits: u32,
    groups: Vec<Group>,
    bits: BitWriter,
    /// The hashes of the group that is being filled.
    group: Vec<u64>,
    ranks: u32,
}

/// The number of bits of a group's number, for about `hashes` hashes.
fn group_bits(hashes: u64, page_entries: u32) -> u32 {
    let target = (GROUP_PAGES * u64::from(page_entries)).max(GROUP_MIN);
    (hashes / target).max(1).ilog2()
}

fn group_of(hash: u64, bits: u32) -> usize {
    hash.checked_shr(64 - bits).unwrap_or(0) as usize
}

impl TrieBuilder {
    /// A builder for about `hashes` hashes, with `page_entries` on a page.
    #[must_use]
    pub fn new(hashes: u64, page_entries: u32) -> Self {
        let group_bits = group_bits(hashes, page_entries);
        let groups = Vec::with_capacity((1 << group_bits) + 1);
        Self { page_entries, group_bits, groups, bits: BitWriter::default(), group: Vec::new(), ranks: 0 }
    }

    /// Adds the next hash, which must not be lower than the previous one.
    pub fn push(&mut self, hash: u64) {
        let group = group_of(hash, self.group_bits);
        while self.groups.len() <= group {
            self.begin_group();
        }
        self.group.push(hash);
        self.ranks += 1;
    }

    fn begin_group(&mut self) {
        let hashes = std::mem::take(&mut self.group);
        let ranks = Ranks { first: self.ranks - hashes.len() as u32, count: hashes.len() as u32 };
        self.node(&hashes, ranks, self.group_bits);
        self.group = hashes;
        self.group.clear();
        self.groups.push(Group { rank: self.ranks, bit: self.bits.len() as u32 });
    }

    fn node(&mut self, hashes: &[u64], ranks: Ranks, depth: u32) {
        if ranks.count < 2 || depth == DEPTH_MAX || ranks.on_one_page(self.page_entries) {
            return;
        }
        let left = hashes.partition_point(|h| h << depth >> 63 == 0);
        codes::write(&mut self.bits, ranks.count, left as u32);
        let (zeroes, ones) = hashes.split_at(left);
        let middle = ranks.first + left as u32;
        self.node(zeroes, Ranks { first: ranks.first, count: left as u32 }, depth + 1);
        self.node(ones, Ranks { first: middle, count: ones.len() as u32 }, depth + 1);
    }

    /// Completes the tries.
    #[must_use]
    pub fn finish(mut self) -> Trie {
        while self.groups.len() <= 1 << self.group_bits {
            self.begin_group();
        }
        Trie {
            page_entries: self.page_entries,
            group_bits: self.group_bits,
            groups: self.groups.into_boxed_slice(),
            words: self.bits.finish(),
        }
    }
}

impl Trie {
    /// The ranks of the entries that may have this hash; `None` if there are none. They are on one page, unless there
    /// are more equal hashes than fit into a page.
    #[must_use]
    pub fn find(&self, hash: u64) -> Option<Ranks> {
        let group = group_of(hash, self.group_bits);
        let (begin, end) = (self.groups.get(group)?, self.groups.get(group + 1)?);
        let mut ranks = Ranks { first: begin.rank, count: end.rank - begin.rank };
        let mut bits = BitReader::new(&self.words, begin.bit as usize);
        for depth in self.group_bits.. {
            if ranks.count == 0 {
                return None;
            }
            if depth == DEPTH_MAX || ranks.on_one_page(self.page_entries) {
                break;
            }
            let left = codes::read(&mut bits, ranks.count);
            let zeroes = Ranks { first: ranks.first, count: left };
            if hash << depth >> 63 == 0 {
                ranks = zeroes;
            } else {
                self.skip(&mut bits, zeroes, depth + 1);
                ranks = Ranks { first: ranks.first + left, count: ranks.count - left };
            }
        }
        Some(ranks)
    }

    /// Skips a subtree.
    fn skip(&self, bits: &mut BitReader<'_>, ranks: Ranks, depth: u32) {
        if ranks.count < 2 || depth == DEPTH_MAX || ranks.on_one_page(self.page_entries) {
            return;
        }
        let left = codes::read(bits, ranks.count);
        self.skip(bits, Ranks { first: ranks.first, count: left }, depth + 1);
        self.skip(bits, Ranks { first: ranks.first + left, count: ranks.count - left }, depth + 1);
    }

    /// RAM in use, in bytes.
    #[must_use]
    pub fn ram_bytes(&self) -> u64 {
        (size_of_val(&*self.groups) + size_of_val(&*self.words)) as u64
    }

    /// The maximum RAM of the tries of `hashes` hashes in bytes, up to a random deviation of a few parts in a thousand.
    #[must_use]
    pub fn ram_bytes_max(hashes: u64, page_entries: u32) -> u64 {
        // Measured by the test below, with some reserve.
        let bits = if page_entries == 1 { 3.0 } else { f64::min(3.0, 28.0 / f64::from(page_entries) + 0.02) };
        let groups = (2u64 << group_bits(hashes, page_entries)) * size_of::<Group>() as u64;
        (hashes as f64 * bits / 8.0) as u64 + groups + 64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build(hashes: &[u64], expected: u64, page_entries: u32) -> Trie {
        let mut builder = TrieBuilder::new(expected, page_entries);
        hashes.iter().for_each(|h| builder.push(*h));
        builder.finish()
    }

    /// Every hash has its rank; for another hash, the result is where it would be inserted, or none.
    fn check(trie: &Trie, hashes: &[u64], asked: impl Iterator<Item = u64>) {
        for hash in asked {
            let from = hashes.partition_point(|h| *h < hash) as u32;
            let to = hashes.partition_point(|h| *h <= hash) as u32;
            let found = trie.find(hash);
            if from == to {
                assert!(
                    found.is_none_or(|r| r.first <= from && from <= r.first + r.count),
                    "{hash:x}: {found:?}, {from}"
                );
                continue;
            }
            let ranks = found.expect("it is there");
            assert!(ranks.first <= from && to <= ranks.first + ranks.count, "{hash:x}: {ranks:?}, {from}..{to}");
            assert!(ranks.on_one_page(trie.page_entries) || hashes[ranks.first as usize] == hash, "{ranks:?}");
        }
    }

    #[test]
    fn every_set_of_small_keys_is_found() {
        // The keys differ in bits at the beginning, across the group's number, and at the end.
        for shift in [60, 30, 0] {
            for set in 0u32..1 << 16 {
                let hashes: Vec<u64> = (0..16).filter(|k| set >> k & 1 == 1).map(|k| k << shift).collect();
                let page_entries = 1 + set % 5;
                let expected = [0, 2000, 20_000][set as usize / 5 % 3];
                check(&build(&hashes, expected, page_entries), &hashes, (0..16).map(|k| k << shift));
            }
        }
    }

    fn random(count: usize, mut state: u64) -> Vec<u64> {
        let mut hashes: Vec<u64> = (0..count)
            .map(|_| {
                state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
                xxhash_rust::xxh3::xxh3_64(&state.to_le_bytes())
            })
            .collect();
        hashes.sort_unstable();
        hashes
    }

    #[test]
    fn large_sets_are_found_as_in_a_sorted_array() {
        for (page_entries, count) in [(1, 100_000), (3, 200_000), (127, 300_000), (500, 300_000)] {
            let hashes = random(count, page_entries.into());
            let trie = build(&hashes, count as u64, page_entries);
            check(&trie, &hashes, hashes.iter().copied());
            check(&trie, &hashes, random(50_000, 99).into_iter().chain([0, u64::MAX]));
            let (ram, max) = (trie.ram_bytes(), Trie::ram_bytes_max(count as u64, page_entries));
            assert!(ram <= max, "{page_entries} to a page: {ram} bytes, not {max}");
        }
    }

    /// SILT §4.3 gives 2.5 to 2.9 bits for each key of the trie, and 0.4 bytes including the index of the groups.
    #[test]
    fn a_key_of_its_own_page_takes_what_the_paper_says() {
        let hashes = random(500_000, 3);
        let trie = build(&hashes, 500_000, 1);
        let bits = trie.words.len() as f64 * 64.0 / 500_000.0;
        assert!((2.5..2.95).contains(&bits), "{bits:.3} bits a key");
        assert!(trie.ram_bytes() <= 200_000, "{} bytes", trie.ram_bytes());
    }

    #[test]
    fn equal_hashes_are_found_across_pages() {
        let hashes: Vec<u64> = [1, 5, 5, 5, 5, 5, 5, 5, 9, u64::MAX, u64::MAX].to_vec();
        let trie = build(&hashes, 11, 3);
        check(&trie, &hashes, hashes.iter().copied());
        assert_eq!(trie.find(5), Some(Ranks { first: 1, count: 7 }));
    }
}
