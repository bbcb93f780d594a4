//! How many writes of destage the origin processes at a time.

/// Concurrent writes of the origin while nothing restrains destage: many, as a hard disk can order them.
pub const WRITES_AT_ONCE_MAX: usize = 32;
/// Concurrent writes of the origin while clients read from it.
const WRITES_BESIDE_READS: usize = 2;

/// The clients that destage competes with, and those that wait for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contention {
    /// Clients read from an origin that seeks for each write.
    pub disturbs_reads: bool,
    /// Writers wait for room or are slowed, or dirty data take all the room that they may take, so that the next writer would wait.
    pub lacks_room: bool,
}

impl Contention {
    /// Concurrent writes of the origin. Few while they would delay reads; many while there is no room, because writers
    /// wait for destage then. To be asked before each write, since a round of destage may take seconds.
    #[must_use]
    pub const fn writes_at_once(self) -> usize {
        if self.disturbs_reads && !self.lacks_room { WRITES_BESIDE_READS } else { WRITES_AT_ONCE_MAX }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_reads_restrain_destage_and_only_while_there_is_room() {
        let at_once = |disturbs_reads, lacks_room| Contention { disturbs_reads, lacks_room }.writes_at_once();
        assert_eq!(at_once(true, false), WRITES_BESIDE_READS);
        for (disturbs_reads, lacks_room) in [(false, false), (false, true), (true, true)] {
            assert_eq!(at_once(disturbs_reads, lacks_room), WRITES_AT_ONCE_MAX, "{disturbs_reads} {lacks_room}");
        }
    }
}
