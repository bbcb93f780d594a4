//! The sizes of the files: SPECsfs2008's distribution, which Differentiated Storage Services (SOSP 2011, section 4.2) names
//! for its file server, and to which the paper of Intel IT (Figure 2) refers.

use nitro_testkit::Rng;

/// Sizes in bytes, and the percentage of the files that have each.
pub(super) const SIZES: [(u64, u64); 14] = [
    (1 << 10, 17),
    (2 << 10, 16),
    (4 << 10, 16),
    (8 << 10, 7),
    (16 << 10, 7),
    (32 << 10, 9),
    (64 << 10, 7),
    (128 << 10, 5),
    (256 << 10, 5),
    (512 << 10, 4),
    (1 << 20, 3),
    (2 << 20, 2),
    (8 << 20, 1),
    (32 << 20, 1),
];

/// The mean size of a file in bytes.
pub(super) fn mean_bytes() -> u64 {
    SIZES.iter().map(|(bytes, percent)| bytes * percent).sum::<u64>() / 100
}

/// Sizes of `count` files in random order, with exactly the distribution's shares of each size, as far as `count` allows:
/// the few large files have most of the bytes, so that free choice would make sets of different sizes.
pub(super) fn shuffled(count: usize, random: &mut Rng) -> Vec<u64> {
    let mut sizes = Vec::with_capacity(count);
    let mut percent_before = 0;
    for (bytes, percent) in SIZES {
        percent_before += percent;
        sizes.resize(count * percent_before as usize / 100, bytes);
    }
    for at in (1..sizes.len()).rev() {
        sizes.swap(at, random.below(at as u64 + 1) as usize);
    }
    sizes
}

/// The size of one file.
pub(super) fn draw(random: &mut Rng) -> u64 {
    let mut left = random.below(100);
    for (bytes, percent) in SIZES {
        if left < percent {
            return bytes;
        }
        left -= percent;
    }
    SIZES[0].0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_and_a_set_has_exactly_them() {
        assert_eq!(SIZES.iter().map(|(_, percent)| percent).sum::<u64>(), 100);
        let sizes = shuffled(1000, &mut Rng::new(1));
        for (bytes, percent) in SIZES {
            assert_eq!(sizes.iter().filter(|size| **size == bytes).count() as u64, percent * 10, "{bytes}");
        }
        // The mean is rounded down.
        assert_eq!(sizes.iter().sum::<u64>() / 1000, mean_bytes());
        assert!(!sizes.is_sorted());
    }
}
