//! A limited number of connections, of which some are kept for peers that have few.

use super::Group;
use nitro_device::net::Peer;
use nitro_port::latch::Latch;
use parking_lot::Mutex;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The part of all places that is kept for peers with few connections: an eighth.
const RESERVE_PART: usize = 8;

/// The places of connections.
///
/// While more places are free than the reserve, a peer gets one unless it has its maximum. In the reserve, a group gets
/// one only if it has fewer connections than there are free places: no group can take the last place of others, and each
/// further group gets about half of the rest. In the first half of the reserve, a process with few connections gets one,
/// too, whatever other processes of its user have.
#[derive(Debug, Default)]
pub(crate) struct Places {
    max: AtomicUsize,
    per_peer_max: AtomicUsize,
    members: Arc<Mutex<Members>>,
}

/// A connection that has a place.
#[derive(Debug)]
struct Member {
    number: u64,
    peer: Peer,
    /// It must not lose its place to another connection.
    is_settled: bool,
    dismissed: Arc<Latch>,
}

/// The connections, in the order in which they were admitted.
#[derive(Debug, Default)]
struct Members {
    all: Vec<Member>,
    next: u64,
}

impl Members {
    fn count(&self, is_meant: impl Fn(&Member) -> bool) -> usize {
        self.all.iter().filter(|member| is_meant(member)).count()
    }

    /// Dismisses the oldest connection that is not settled, of the peer with most such connections. If there is none,
    /// no room can be made.
    fn make_room(&mut self, is_meant: impl Fn(&Member) -> bool) -> bool {
        let is_young = |member: &&Member| !member.is_settled && is_meant(member);
        let mut counts = HashMap::<Peer, usize>::new();
        self.all.iter().filter(is_young).for_each(|member| *counts.entry(member.peer).or_default() += 1);
        let oldest_of_most =
            |(_, member): &(usize, &Member)| (counts.get(&member.peer).copied(), Reverse(member.number));
        let young = self.all.iter().enumerate().filter(|(_, member)| is_young(member));
        let Some((at, _)) = young.max_by_key(oldest_of_most) else { return false };
        self.all.remove(at).dismissed.set();
        true
    }

    /// The connections of each group.
    fn groups(&self) -> HashMap<Group, usize> {
        let mut groups = HashMap::new();
        self.all.iter().for_each(|member| *groups.entry(Group::from(member.peer)).or_default() += 1);
        groups
    }

    /// Whether a peer may have one of the free places.
    fn has_place_for(&self, peer: Peer, max: usize) -> bool {
        let (free, reserve) = (max.saturating_sub(self.all.len()), max / RESERVE_PART);
        let of_group = || self.count(|member| Group::from(member.peer) == peer.into());
        let of_peer = || self.count(|member| member.peer == peer);
        free > reserve || of_group() < free || of_peer() + reserve / 2 < free
    }
}

impl Places {
    /// `max` places, of which one process or host may have `per_peer_max`.
    pub(crate) fn new(max: usize, per_peer_max: usize) -> Self {
        let places = Self::default();
        places.set_limits(max, per_peer_max);
        places
    }

    /// Changes the limits. Connections that exceed them stay.
    pub(crate) fn set_limits(&self, max: usize, per_peer_max: usize) {
        self.max.store(max, Ordering::Relaxed);
        self.per_peer_max.store(per_peer_max, Ordering::Relaxed);
    }

    /// Gives a place to a connection of `peer`, if there is one, or if one that is not settled can be dismissed: one of its
    /// own group or, if there are no free places, of a group with more connections. Otherwise returns the reason.
    pub(crate) fn admit(&self, peer: Peer) -> Result<Place, &'static str> {
        let (max, group) = (self.max.load(Ordering::Relaxed), Group::from(peer));
        let mut members = self.members.lock();
        let of_peer = members.count(|member| member.peer == peer);
        if of_peer >= self.per_peer_max.load(Ordering::Relaxed) && !members.make_room(|member| member.peer == peer) {
            return Err("too many clients of its process or host are connected");
        }
        let is_full = members.all.len() >= max;
        let is_own = |member: &Member| Group::from(member.peer) == group;
        if !members.has_place_for(peer, max) && !members.make_room(is_own) {
            let groups = members.groups();
            let count = |group: Group| groups.get(&group).copied().unwrap_or(0);
            let has_more = |member: &Member| count(member.peer.into()) > count(group);
            if !is_full {
                return Err("too many clients of its user or host are connected: the other places are kept for others");
            }
            if !members.make_room(has_more) {
                return Err("too many clients are connected");
            }
        }
        let (number, dismissed) = (members.next, Arc::<Latch>::default());
        members.next += 1;
        members.all.push(Member { number, peer, is_settled: false, dismissed: Arc::clone(&dismissed) });
        Ok(Place { members: Arc::clone(&self.members), number, dismissed })
    }
}

/// The place of a connection; given back when dropped.
#[derive(Debug)]
pub(crate) struct Place {
    members: Arc<Mutex<Members>>,
    number: u64,
    /// It has to disconnect, to make room for another connection.
    pub(crate) dismissed: Arc<Latch>,
}

impl Place {
    /// Sets whether the connection must not lose its place to another one. `false`: it has lost it already.
    pub(crate) fn settle(&self, is_settled: bool) -> bool {
        let mut members = self.members.lock();
        let own = members.all.iter_mut().find(|member| member.number == self.number);
        own.map(|member| member.is_settled = is_settled).is_some()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.members.lock().all.retain(|member| member.number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(uid: u32, pid: i32) -> Peer {
        Peer::Process { uid, pid }
    }

    /// As many settled connections of a peer as it gets.
    fn fill(places: &Places, peer: Peer) -> Vec<Place> {
        std::iter::from_fn(|| places.admit(peer).ok()).inspect(|place| assert!(place.settle(true))).collect()
    }

    #[test]
    fn stalled_connections_make_room_and_settled_ones_stay() {
        let places = Places::new(4, 4);
        let one = places.admit(process(7, 1)).unwrap();
        assert!(one.settle(true));
        let other = places.admit(process(7, 2)).unwrap();
        let stalled = [3, 3].map(|pid| places.admit(process(7, pid)).unwrap());
        // The peer with most of them loses its oldest.
        let next = places.admit(process(7, 4)).unwrap();
        let set = |place: &Place| place.dismissed.is_set();
        assert!(set(&stalled[0]) && !set(&stalled[1]) && !set(&other) && !set(&one));
        assert!([&other, &stalled[1], &next].iter().all(|place| place.settle(true)) && !stalled[0].settle(true));
        assert_eq!(places.admit(process(7, 5)).unwrap_err(), "too many clients are connected");
        drop(stalled);
        assert!(places.admit(process(7, 5)).is_ok());
        assert!(next.settle(false));
        let _fifth = places.admit(process(7, 6)).unwrap();
        let _sixth = places.admit(process(7, 7)).unwrap();
        assert!(set(&next), "it is not settled any more");
    }

    #[test]
    fn a_peer_has_no_more_than_its_maximum() {
        let places = Places::new(8, 3);
        let served = fill(&places, process(7, 1));
        assert_eq!(served.len(), 3);
        assert!(places.admit(process(7, 1)).unwrap_err().contains("its process"));
        let _other = places.admit(process(7, 2)).unwrap();
        drop(served);
        let _again = places.admit(process(7, 1)).unwrap();
    }

    #[test]
    fn the_processes_of_a_user_leave_places_for_others() {
        let places = Places::new(256, 224);
        let mut kept = Vec::new();
        // However many processes: what is left of the reserve is for other users.
        for pid in 0..300 {
            kept.extend(fill(&places, process(1, pid)).into_iter().take(128));
        }
        assert_eq!(kept.len(), 256 - 16);
        for (uid, got) in [(2, 8), (3, 4), (4, 2), (5, 1)] {
            let theirs = fill(&places, process(uid, 1000));
            assert_eq!(theirs.len(), got, "user {uid}");
            kept.extend(theirs);
        }
        assert!(places.admit(process(1, 1)).unwrap_err().contains("its user"));
        assert!(places.admit(Peer::Host([10, 0, 0, 1].into())).is_ok());
    }

    #[test]
    fn a_process_leaves_places_for_others_of_its_user_and_a_host_for_other_hosts() {
        for (one, other) in [
            (process(1, 1), process(1, 3)),
            (Peer::Host([10, 0, 0, 1].into()), Peer::Host([10, 0, 0, 2].into())),
            (Peer::Unknown, process(0, 1)),
        ] {
            for max in [16, 256, 4096] {
                let places = Places::new(max, max);
                let kept = fill(&places, one);
                assert_eq!(kept.len(), max - max / 8, "{one:?}");
                assert!(!fill(&places, other).is_empty(), "{other:?} of {max}");
            }
        }
    }

    /// One that may have no place dismisses nobody else's connections.
    #[test]
    fn stalled_connections_of_groups_with_few_stay() {
        let places = Places::new(16, 16);
        let kept = fill(&places, process(1, 1));
        let stalled = places.admit(process(2, 2)).unwrap();
        let _other = fill(&places, process(3, 3));
        assert_eq!(places.admit(process(1, 1)).unwrap_err(), "too many clients are connected");
        assert!(!stalled.dismissed.is_set());
        let mut own = Vec::new();
        kept.iter().take(4).for_each(|place| assert!(place.settle(false)));
        for uid in 4..8 {
            own.push(places.admit(process(uid, 1)).unwrap());
        }
        assert!(kept[..4].iter().all(|place| place.dismissed.is_set()) && !stalled.dismissed.is_set());
    }

    #[test]
    fn few_places_are_not_divided() {
        for max in 1..8 {
            assert_eq!(fill(&Places::new(max, max), process(1, 1)).len(), max);
        }
    }
}
