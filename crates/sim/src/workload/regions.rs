//! The keys of a trace's extents.
//!
//! A key has 16 bits for the object and 48 for the extent, but traces have objects of 32 bits and addresses of 63. So
//! each part of an object that the trace touches becomes a *region*, numbered in the order of first use: the lower 16
//! bits of the number become the key's object, the upper bits go to the top of the extent's number. Below 2¹⁶ regions, which
//! is every trace of real disks, an object's extents have their own numbers.

use crate::Error;
use hashbrown::HashMap;
use nitro_units::{ExtentIndex, ExtentKey, ObjectId};

/// Binary logarithm of a region's extents: 4 PiB with extents of 4 KiB.
const REGION_BITS: u32 = 40;
/// The place of a region's upper bits. The bit between is 0, so that what is read ahead past the end of a region is not
/// the next one.
const UPPER_SHIFT: u32 = REGION_BITS + 1;
/// Most regions. Addresses in keys stay below 2⁶³ bytes with extents of up to 128 KiB.
const REGIONS_MAX: usize = 1 << 21;

/// The regions so far.
#[derive(Debug, Default)]
pub(super) struct Regions {
    numbers: HashMap<(u32, u32), u32>,
    /// The last region and its number.
    last: Option<((u32, u32), u32)>,
}

impl Regions {
    /// The key of an extent. Different extents have different keys.
    ///
    /// # Errors
    /// The trace touches too many regions.
    #[inline]
    pub(super) fn key(&mut self, object: u32, index: u64) -> Result<ExtentKey, Error> {
        let region = (object, (index >> REGION_BITS) as u32);
        let number = match self.last {
            Some((last, number)) if last == region => number,
            _ => self.number(region)?,
        };
        let within = index & ((1 << REGION_BITS) - 1);
        let upper = u64::from(number >> 16) << UPPER_SHIFT;
        Ok(ExtentKey::new(ObjectId(number as u16), ExtentIndex(upper | within)))
    }

    fn number(&mut self, region: (u32, u32)) -> Result<u32, Error> {
        let next = self.numbers.len();
        let number = match self.numbers.get(&region) {
            Some(number) => *number,
            None if next >= REGIONS_MAX => {
                return Err(Error::setting(format!(
                    "the trace has more than {REGIONS_MAX} disks, or addresses scattered over so many parts of 2^{REGION_BITS} \
                     extents; simulate fewer disks at a time, or choose larger extents"
                )));
            }
            None => {
                self.numbers.insert(region, next as u32);
                next as u32
            }
        };
        self.last = Some((region, number));
        Ok(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn extents_of_few_disks_keep_their_numbers() {
        let mut regions = Regions::default();
        for (number, object) in [7, 0, u32::MAX].into_iter().enumerate() {
            let key = regions.key(object, 5).unwrap();
            assert_eq!((key.object(), key.index()), (ObjectId(number as u16), ExtentIndex(5)));
        }
    }

    #[test]
    fn different_extents_have_different_keys_whatever_their_numbers() {
        let mut regions = Regions::default();
        let mut keys = HashSet::new();
        let last = (1u64 << 51) - 1;
        for object in 0..70_000u32 {
            let object = object.wrapping_mul(61_681);
            assert!(keys.insert(regions.key(object, 0).unwrap()), "{object}");
            // The end of a region, and what would be read ahead after it.
            assert!(keys.insert(regions.key(object, (1 << REGION_BITS) - 1).unwrap()), "{object}");
        }
        for index in [1 << 40, 1 << 48, last - 1, last] {
            assert!(keys.insert(regions.key(3, index).unwrap()), "{index}");
        }
        let known = keys.len();
        assert_eq!(keys.iter().filter(|key| keys.contains(&ExtentKey::from_raw(key.raw() + 1))).count(), 1, "last - 1");
        keys.insert(regions.key(3, last).unwrap());
        assert_eq!(keys.len(), known);
    }

    #[test]
    fn too_many_regions_are_an_error() {
        let mut regions = Regions::default();
        for object in 0..REGIONS_MAX as u32 {
            regions.number((object, 0)).unwrap();
        }
        assert!(regions.number((1, 0)).is_ok());
        let error = regions.number((0, 1)).unwrap_err().to_string();
        assert!(error.contains("2097152 disks"), "{error}");
    }
}
