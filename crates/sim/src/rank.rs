//! The order in which classes of files are evicted (Differentiated Storage Services, Table 2: "largest cached objects
//! first").

use nitro_cache::builtin;
use nitro_units::ClassId;

/// The rank of a class; the lowest is evicted first. Metadata, directories and journals have the highest rank; then files,
/// the smaller the higher; other classes have the lowest.
pub(crate) fn of_class(class: ClassId) -> u8 {
    let highest = ClassId::COUNT as u8;
    let smallest_file = builtin::of_file(0);
    let largest_file = builtin::of_file(u64::MAX);
    match class {
        builtin::METADATA | builtin::DIRECTORY | builtin::JOURNAL => highest,
        file if (smallest_file..=largest_file).contains(&file) => highest - file.number(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn larger_files_have_a_lower_rank_and_metadata_the_highest() {
        let ranks = [builtin::METADATA, builtin::of_file(1), builtin::of_file(1 << 20), builtin::of_file(1 << 40)]
            .map(of_class);
        assert!(ranks.is_sorted_by(|a, b| a > b), "{ranks:?}");
        assert_eq!([builtin::DIRECTORY, builtin::JOURNAL].map(of_class), [of_class(builtin::METADATA); 2]);
        assert_eq!([ClassId::UNCLASSIFIED, builtin::SCAN].map(of_class), [0; 2]);
    }
}
