//! Group numbers of commands, as classes.

use nitro_units::ClassId;

/// Numbers that the field has room for (SBC-4 §4.22.1: six bits).
const GROUPS: usize = 64;

/// Which class a command's GROUP NUMBER asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Groups([Option<ClassId>; GROUPS]);

impl Default for Groups {
    /// Each group from 1 on is the class of its number, as far as there are classes; 0 asks for none.
    fn default() -> Self {
        Self(std::array::from_fn(|group| if group == 0 { None } else { ClassId::new(group as u8) }))
    }
}

impl Groups {
    /// Sets the class of a group; `false`: there is no such group.
    pub fn set(&mut self, group: u8, class: Option<ClassId>) -> bool {
        self.0.get_mut(usize::from(group)).map(|entry| *entry = class).is_some()
    }

    /// The class that a group asks for; `None`: the disk's usual one.
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
