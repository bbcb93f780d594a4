//! The task set of a session: when a command may be executed, by its task attribute and those of earlier commands
//! (SAM-5 §8). Each session has a task set of its own (TST 001b of the Control mode page, SPC-5 §7.5.8).

use std::collections::VecDeque;

/// The task attribute of a command (RFC 7143 §11.3.1). A command without one is SIMPLE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attribute {
    /// It may be executed in any order with other SIMPLE commands.
    Simple,
    /// It waits for all earlier commands, and later commands wait for it.
    Ordered,
    /// It waits for no command; commands that are not yet enabled wait for it.
    HeadOfQueue,
}

impl Attribute {
    /// The field ATTR of the flags of a SCSI command. `None`: the value is reserved, or ACA, which is valid only during
    /// an auto contingent allegiance. This target has none (NORMACA is 0).
    pub(super) const fn of(flags: u8) -> Option<Self> {
        match flags & 7 {
            0 | 1 => Some(Self::Simple),
            2 => Some(Self::Ordered),
            3 => Some(Self::HeadOfQueue),
            _ => None,
        }
    }
}

/// The place of a command in the task set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Not in the task set: the command was not accepted.
    Outside,
    /// In front of all groups: a HEAD OF QUEUE command.
    Head,
    /// In the group with this number.
    Group(u64),
}

/// The commands that were accepted and have not ended.
#[derive(Debug, Default)]
pub(super) struct TaskSet {
    /// Number of HEAD OF QUEUE commands.
    heads: u32,
    /// The number of the first group; the others are numbered from it on.
    first: u64,
    /// Groups in the order of arrival. Only commands of the first group are enabled. Groups without commands lie between
    /// others only: their number is bounded by the square of the window.
    groups: VecDeque<Group>,
}

/// SIMPLE commands that arrived one after another, or one ORDERED command.
#[derive(Debug)]
struct Group {
    is_ordered: bool,
    /// Number of commands that have not ended.
    commands: u32,
}

impl TaskSet {
    /// Whether a command that is accepted now can be executed at once.
    pub(super) fn enables(&self, attribute: Attribute) -> bool {
        match attribute {
            Attribute::HeadOfQueue => true,
            Attribute::Ordered => self.heads == 0 && self.groups.is_empty(),
            Attribute::Simple => {
                let is_free = self.groups.front().is_none_or(|group| !group.is_ordered && self.groups.len() == 1);
                self.heads == 0 && is_free
            }
        }
    }

    /// Adds a command; it [leaves](Self::leave) when it ends.
    pub(super) fn enter(&mut self, attribute: Attribute) -> Place {
        let is_ordered = match attribute {
            Attribute::HeadOfQueue => {
                self.heads += 1;
                return Place::Head;
            }
            Attribute::Ordered => true,
            Attribute::Simple => false,
        };
        match self.groups.back_mut() {
            Some(last) if !is_ordered && !last.is_ordered => last.commands += 1,
            _ => self.groups.push_back(Group { is_ordered, commands: 1 }),
        }
        Place::Group(self.first + self.groups.len() as u64 - 1)
    }

    /// Whether the command at `place` can be executed.
    pub(super) fn is_enabled(&self, place: Place) -> bool {
        match place {
            Place::Outside | Place::Head => true,
            Place::Group(number) => self.heads == 0 && number == self.first,
        }
    }

    /// Removes a command that has ended.
    pub(super) fn leave(&mut self, place: Place) {
        let number = match place {
            Place::Outside => return,
            Place::Head => {
                self.heads = self.heads.saturating_sub(1);
                return;
            }
            Place::Group(number) => number,
        };
        let group = number.checked_sub(self.first).and_then(|at| self.groups.get_mut(at as usize));
        if let Some(group) = group {
            group.commands = group.commands.saturating_sub(1);
        }
        while self.groups.front().is_some_and(|group| group.commands == 0) {
            self.groups.pop_front();
            self.first += 1;
        }
        // No command has the number of such a group, so that the next group may get it.
        while self.groups.back().is_some_and(|group| group.commands == 0) {
            self.groups.pop_back();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Attribute::{HeadOfQueue, Ordered, Simple};
    use super::*;

    #[test]
    fn attributes_have_the_numbers_of_the_standard() {
        let all: Vec<_> = (0..8).map(|flags| Attribute::of(0xf8 | flags)).collect();
        let (simple, ordered, head) = (Some(Simple), Some(Ordered), Some(HeadOfQueue));
        assert_eq!(all, [simple, simple, ordered, head, None, None, None, None]);
    }

    #[test]
    fn an_ordered_command_separates_earlier_from_later_ones() {
        let mut set = TaskSet::default();
        let early = [set.enter(Simple), set.enter(Simple)];
        assert!(!set.enables(Ordered) && set.enables(Simple));
        let ordered = set.enter(Ordered);
        assert!(!set.enables(Simple));
        let late = set.enter(Simple);
        let enabled = |set: &TaskSet| [early[0], early[1], ordered, late].map(|place| set.is_enabled(place));
        assert_eq!(enabled(&set), [true, true, false, false]);
        set.leave(early[1]);
        assert_eq!(enabled(&set)[2..], [false, false]);
        set.leave(early[0]);
        assert_eq!(enabled(&set)[2..], [true, false]);
        set.leave(ordered);
        assert!(set.is_enabled(late) && set.enables(Simple) && !set.enables(Ordered));
        set.leave(late);
        assert!(set.enables(Ordered) && set.groups.is_empty());
    }

    #[test]
    fn a_head_of_queue_command_is_first() {
        let mut set = TaskSet::default();
        let (ordered, late) = (set.enter(Ordered), set.enter(Simple));
        assert!(set.enables(HeadOfQueue));
        let head = set.enter(HeadOfQueue);
        assert!(set.is_enabled(head) && !set.enables(Simple));
        set.leave(ordered);
        assert!(!set.is_enabled(late), "it waits for the head of the queue");
        set.leave(head);
        assert!(set.is_enabled(late));
    }

    #[test]
    fn aborted_commands_hold_nothing_back_and_leave_no_groups() {
        let mut set = TaskSet::default();
        let early = set.enter(Simple);
        for _ in 0..1000 {
            let ordered = set.enter(Ordered);
            set.leave(ordered);
        }
        assert_eq!(set.groups.len(), 1);
        let (ordered, late) = (set.enter(Ordered), set.enter(Simple));
        set.leave(ordered);
        set.leave(early);
        assert!(set.is_enabled(late));
        set.leave(Place::Outside);
        set.leave(late);
        assert!(set.groups.is_empty());
    }

    /// Compares the set with a list of all commands, of which each is checked against all earlier ones.
    #[test]
    fn commands_are_enabled_as_in_a_list_of_all() {
        for seed in 1..200u64 {
            let mut number = seed;
            let mut draw = |below: u64| {
                number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (number >> 33) % below
            };
            let mut set = TaskSet::default();
            let mut all: Vec<(Attribute, Place)> = Vec::new();
            for _ in 0..60 {
                if all.len() < 8 && draw(2) == 0 {
                    let attribute = [Simple, Simple, Simple, Ordered, HeadOfQueue][draw(5) as usize];
                    let place = set.enter(attribute);
                    all.push((attribute, place));
                } else if !all.is_empty() {
                    // Any command may end: those that are not enabled are aborted.
                    let (_, place) = all.remove(draw(all.len() as u64) as usize);
                    set.leave(place);
                }
                let has_head = all.iter().any(|(attribute, _)| *attribute == HeadOfQueue);
                for (at, (attribute, place)) in all.iter().enumerate() {
                    let earlier = &all[..at];
                    let waits = match attribute {
                        HeadOfQueue => false,
                        Ordered => has_head || earlier.iter().any(|(other, _)| *other != HeadOfQueue),
                        Simple => has_head || earlier.iter().any(|(other, _)| *other == Ordered),
                    };
                    let is_enabled = set.is_enabled(*place);
                    assert!(!(waits && is_enabled), "seed {seed}: {attribute:?} is executed too early");
                    // The first command must not wait for one that has ended.
                    assert!(is_enabled || waits || at > 0, "seed {seed}: {attribute:?} waits for nothing");
                }
            }
        }
    }
}
