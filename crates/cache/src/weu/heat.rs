//! How often each entry of one WEU was used again: two bits for each entry, as the counters of RRIP (Kangaroo,
//! SOSP'21), but with the highest value for the most used entries.

/// The highest heat.
pub const HEAT_MAX: u8 = 3;

/// Heats by entry; entries beyond the end have heat 0.
#[derive(Debug, Default)]
pub(super) struct Heats {
    packed: Vec<u8>,
    /// The sum over all entries.
    sum: u32,
}

impl Heats {
    pub(super) fn get(&self, entry: u16) -> u8 {
        self.packed.get(usize::from(entry / 4)).map_or(0, |byte| byte >> (entry % 4 * 2) & HEAT_MAX)
    }

    pub(super) fn set(&mut self, entry: u16, heat: u8) {
        let (at, shift) = (usize::from(entry / 4), entry % 4 * 2);
        if at >= self.packed.len() {
            if heat == 0 {
                return;
            }
            self.packed.resize(at + 1, 0);
        }
        self.sum = self.sum + u32::from(heat) - u32::from(self.get(entry));
        self.packed[at] = self.packed[at] & !(HEAT_MAX << shift) | heat << shift;
    }

    pub(super) fn raise(&mut self, entry: u16) {
        let heat = self.get(entry);
        if heat < HEAT_MAX {
            self.set(entry, heat + 1);
        }
    }

    pub(super) const fn sum(&self) -> u32 {
        self.sum
    }

    pub(super) fn ram_bytes(&self) -> usize {
        self.packed.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn heats_are_what_was_set(operations in prop::collection::vec((0u16..70, 0u8..=4), 0..200)) {
            let (mut heats, mut model) = (Heats::default(), [0u8; 70]);
            for (entry, heat) in operations {
                let known = &mut model[usize::from(entry)];
                if heat > HEAT_MAX {
                    heats.raise(entry);
                    *known = (*known + 1).min(HEAT_MAX);
                } else {
                    heats.set(entry, heat);
                    *known = heat;
                }
            }
            for (entry, heat) in (0..).zip(model) {
                prop_assert_eq!(heats.get(entry), heat);
            }
            prop_assert_eq!(heats.sum(), model.iter().map(|heat| u32::from(*heat)).sum::<u32>());
        }
    }
}
