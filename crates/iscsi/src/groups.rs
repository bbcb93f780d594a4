//! The classes of group numbers.

use nitro_units::ClassId;

/// Number of values of the field GROUP NUMBER (SBC-4 §4.22.1: six bits).
const GROUPS: usize = 64;

/// The class of a command by its GROUP NUMBER.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Groups([Option<ClassId>; GROUPS]);

impl Default for Groups {
    /// Each group from 1 on has the class of the same number, if there is one; group 0 has none.
    fn default() -> Self {
        Self(std::array::from_fn(|group| if group == 0 { None } else { ClassId::new(group as u8) }))
    }
}

impl Groups {
    /// Sets the class of a group; `false` if the group does not exist.
    pub fn set(&mut self, group: u8, class: Option<ClassId>) -> bool {
        self.0.get_mut(usize::from(group)).map(|entry| *entry = class).is_some()
    }

    /// The class of a group; `None`: the disk's default.
    #[must_use]
    pub fn class(&self, group: u8) -> Option<ClassId> {
        self.0.get(usize::from(group)).copied().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_classes_unless_told_otherwise() {
        let mut groups = Groups::default();
        assert_eq!(groups.class(0), None);
        assert_eq!(groups.class(5), ClassId::new(5));
        assert_eq!((groups.class(31), groups.class(32), groups.class(63)), (ClassId::new(31), None, None));
        assert!(groups.set(5, ClassId::new(1)) && groups.set(63, ClassId::new(2)) && !groups.set(64, None));
        assert_eq!((groups.class(5), groups.class(63), groups.class(64)), (ClassId::new(1), ClassId::new(2), None));
    }
}
