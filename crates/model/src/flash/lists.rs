//! Ordered lists of items, doubly linked through arrays. An item is in at most one list.

use crate::flash::ids::NONE;

#[derive(Debug, Clone, Copy)]
struct Link {
    before: u32,
    behind: u32,
    list: u32,
}

#[derive(Debug, Clone, Copy)]
struct Ends {
    front: u32,
    back: u32,
}

/// A fixed number of lists over a fixed number of items.
#[derive(Debug)]
pub(crate) struct Lists {
    links: Vec<Link>,
    ends: Vec<Ends>,
}

impl Lists {
    /// Empty lists, for items 0 to `items` - 1.
    pub(crate) fn new(items: u32, lists: u32) -> Self {
        Self {
            links: vec![Link { before: NONE, behind: NONE, list: NONE }; items as usize],
            ends: vec![Ends { front: NONE, back: NONE }; lists as usize],
        }
    }

    /// Whether `item` is in any list.
    pub(crate) fn contains(&self, item: u32) -> bool {
        self.links[item as usize].list != NONE
    }

    /// The item that was added to `list` first.
    pub(crate) fn front(&self, list: u32) -> Option<u32> {
        let front = self.ends[list as usize].front;
        (front != NONE).then_some(front)
    }

    /// Moves `item` to the back of `list`, from the list that it is in.
    pub(crate) fn push_back(&mut self, list: u32, item: u32) {
        self.remove(item);
        let ends = &mut self.ends[list as usize];
        let last = std::mem::replace(&mut ends.back, item);
        match last {
            NONE => ends.front = item,
            last => self.links[last as usize].behind = item,
        }
        self.links[item as usize] = Link { before: last, behind: NONE, list };
    }

    /// Removes `item` from its list, if it is in one.
    pub(crate) fn remove(&mut self, item: u32) {
        let Link { before, behind, list } = self.links[item as usize];
        if list == NONE {
            return;
        }
        match before {
            NONE => self.ends[list as usize].front = behind,
            before => self.links[before as usize].behind = behind,
        }
        match behind {
            NONE => self.ends[list as usize].back = before,
            behind => self.links[behind as usize].before = before,
        }
        self.links[item as usize].list = NONE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keep_the_order_of_naive_lists(operations in prop::collection::vec((0u32..4, 0u32..9), 0..300)) {
            let (mut lists, mut naive) = (Lists::new(9, 3), vec![Vec::new(); 3]);
            for (list, item) in operations {
                naive.iter_mut().for_each(|l| l.retain(|i| *i != item));
                if list < 3 {
                    naive[list as usize].push(item);
                    lists.push_back(list, item);
                } else {
                    lists.remove(item);
                }
                for (list, naive) in (0..).zip(&naive) {
                    prop_assert_eq!(lists.front(list), naive.first().copied());
                }
                for item in 0..9 {
                    prop_assert_eq!(lists.contains(item), naive.iter().any(|l| l.contains(&item)));
                }
            }
            for (list, naive) in (0..).zip(&naive) {
                for item in naive {
                    prop_assert_eq!(lists.front(list), Some(*item));
                    lists.remove(*item);
                }
                prop_assert_eq!(lists.front(list), None);
            }
        }
    }
}
