//! The classes of group numbers and of logical block markup.

use nitro_units::ClassId;

/// Number of values of the field GROUP NUMBER (SBC-4 §4.22.1: six bits).
const GROUPS: usize = 64;

/// IO CLASS of a logical block markup descriptor (SBC-5 §6.8.3.1, table 295, which refers to Differentiated Storage
/// Services).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IoClass {
    /// Data that describe other data, such as metadata of a file system.
    Metadata,
    /// A small collection of data, such as a small file.
    Small,
    /// A large collection of data, such as a large file.
    Large,
}

impl IoClass {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Metadata, Self::Small, Self::Large];

    /// Its number on the wire; 0 means that there is none.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Metadata => 1,
            Self::Small => 4,
            Self::Large => 5,
        }
    }

    /// The IO CLASS of that number.
    #[must_use]
    pub const fn of(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::Metadata),
            4 => Some(Self::Small),
            5 => Some(Self::Large),
            _ => None,
        }
    }

    const fn index(self) -> usize {
        match self {
            Self::Metadata => 0,
            Self::Small => 1,
            Self::Large => 2,
        }
    }
}

/// The class of a command by its GROUP NUMBER, and by the IO CLASS that an initiator gave to the group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Groups {
    classes: [Option<ClassId>; GROUPS],
    /// A bit for each group whose class was set, and does not depend on initiators.
    fixed: u64,
    markup: [Option<ClassId>; IoClass::ALL.len()],
}

impl Default for Groups {
    /// Each group from 1 on has the class of the same number, if there is one; group 0 has none, nor has any IO CLASS.
    fn default() -> Self {
        let classes = std::array::from_fn(|group| if group == 0 { None } else { ClassId::new(group as u8) });
        Self { classes, fixed: 0, markup: [None; IoClass::ALL.len()] }
    }
}

impl Groups {
    /// Sets the class of a group, whatever IO CLASS initiators give to it; `false` if the group does not exist.
    pub fn set(&mut self, group: u8, class: Option<ClassId>) -> bool {
        let Some(entry) = self.classes.get_mut(usize::from(group)) else { return false };
        *entry = class;
        self.fixed |= 1 << group;
        true
    }

    /// Sets the class of groups to which an initiator gives this IO CLASS.
    pub fn set_markup(&mut self, markup: IoClass, class: Option<ClassId>) {
        self.markup[markup.index()] = class;
    }

    /// The class of a group, to which an initiator gave `markup`; `None`: the disk's default.
    #[must_use]
    pub fn class(&self, group: u8, markup: Option<IoClass>) -> Option<ClassId> {
        match markup {
            Some(markup) if self.fixed.checked_shr(group.into()).is_some_and(|fixed| fixed & 1 == 0) => {
                self.markup[markup.index()]
            }
            _ => self.classes.get(usize::from(group)).copied().flatten(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_classes_unless_told_otherwise() {
        let mut groups = Groups::default();
        let class = |groups: &Groups, group| groups.class(group, None);
        assert_eq!(class(&groups, 0), None);
        assert_eq!(class(&groups, 5), ClassId::new(5));
        assert_eq!([31, 32, 63].map(|group| class(&groups, group)), [ClassId::new(31), None, None]);
        assert!(groups.set(5, ClassId::new(1)) && groups.set(63, ClassId::new(2)) && !groups.set(64, None));
        assert_eq!([5, 63, 64].map(|group| class(&groups, group)), [ClassId::new(1), ClassId::new(2), None]);
    }

    #[test]
    fn markup_gives_a_class_to_groups_that_were_not_set() {
        let mut groups = Groups::default();
        for (markup, class) in IoClass::ALL.into_iter().zip(10..) {
            assert_eq!(IoClass::of(markup.code()), Some(markup));
            groups.set_markup(markup, ClassId::new(class));
        }
        assert!(groups.set(3, ClassId::new(7)));
        let of = |group, markup| groups.class(group, Some(markup));
        assert_eq!(IoClass::ALL.map(|markup| of(2, markup)), [10, 11, 12].map(ClassId::new));
        assert_eq!(of(0, IoClass::Small), ClassId::new(11));
        assert_eq!(of(3, IoClass::Small), ClassId::new(7));
        assert_eq!(of(64, IoClass::Small), None);
        assert_eq!((0..=255).filter_map(IoClass::of).count(), 3);
    }
}
