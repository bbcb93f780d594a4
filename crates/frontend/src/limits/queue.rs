//! Which of the requests that wait is next: clients take turns, however many requests each of them has.
//!
//! Start-time fair queueing (Goyal, Vin, Cheng: SIGCOMM 1996): a client's turn begins at its tag, a virtual time, and its next one later by
//! what the request cost. The least tag is next; among equal ones, the client that is first by number.

use std::collections::{BTreeMap, VecDeque};

/// What one client has.
#[derive(Debug)]
struct Line<W> {
    waiting: VecDeque<W>,
    /// When its next turn begins.
    tag: u64,
}

/// Requests that wait, by client, each in order of arrival.
#[derive(Debug)]
pub(super) struct Turns<W> {
    lines: BTreeMap<u64, Line<W>>,
    /// The tag of the last turn.
    now: u64,
    waiting: usize,
}

impl<W> Default for Turns<W> {
    fn default() -> Self {
        Self { lines: BTreeMap::new(), now: 0, waiting: 0 }
    }
}

impl<W> Turns<W> {
    /// Requests that wait.
    pub(super) fn len(&self) -> usize {
        self.waiting
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    pub(super) fn push(&mut self, client: u64, waiter: W) {
        let now = self.now;
        let line = self.lines.entry(client).or_insert_with(|| Line { waiting: VecDeque::new(), tag: now });
        if line.waiting.is_empty() {
            // Whoever did not wait has saved nothing up.
            line.tag = line.tag.max(now);
        }
        line.waiting.push_back(waiter);
        self.waiting += 1;
    }

    /// Whose turn is next, and its oldest request.
    pub(super) fn first(&self) -> Option<(u64, &W)> {
        let waiting = self.lines.iter().filter_map(|(client, line)| Some((line.tag, *client, line.waiting.front()?)));
        waiting.min_by_key(|(tag, client, _)| (*tag, *client)).map(|(_, client, waiter)| (client, waiter))
    }

    /// A client has a turn, which costs so many units of virtual time.
    pub(super) fn charge(&mut self, client: u64, cost: u64) {
        let Some(line) = self.lines.get_mut(&client) else { return };
        self.now = self.now.max(line.tag);
        line.tag = line.tag.saturating_add(cost);
    }

    /// Removes a request that waits no longer.
    pub(super) fn remove(&mut self, client: u64, is_it: impl Fn(&W) -> bool) {
        if let Some(line) = self.lines.get_mut(&client)
            && let Some(place) = line.waiting.iter().position(is_it)
        {
            line.waiting.remove(place);
            self.waiting -= 1;
        }
        // A client that comes back before its next turn would have begun waits for it; any later one is as good as new.
        let now = self.now;
        self.lines.retain(|_, line| !line.waiting.is_empty() || line.tag > now);
    }

    /// The requests of a client.
    pub(super) fn of(&self, client: u64) -> impl Iterator<Item = &W> {
        self.lines.get(&client).into_iter().flat_map(|line| &line.waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Serves so many turns of clients with these depths and costs, each of which always waits with as many requests; returns their turns.
    fn serve(clients: &[(usize, u64)], turns: usize) -> Vec<usize> {
        let (mut line, mut served) = (Turns::default(), vec![0; clients.len()]);
        for (client, (depth, _)) in (0..).zip(clients) {
            (0..*depth).for_each(|_| line.push(client, ()));
        }
        for _ in 0..turns {
            let (client, ()) = line.first().unwrap();
            line.charge(client, clients[client as usize].1);
            line.remove(client, |()| true);
            served[client as usize] += 1;
            line.push(client, ());
        }
        assert_eq!(line.len(), clients.iter().map(|(depth, _)| depth).sum::<usize>());
        served
    }

    #[test]
    fn depth_gives_no_more_turns_and_cost_fewer() {
        assert_eq!(serve(&[(1, 10), (256, 10), (7, 10)], 300), [100, 100, 100]);
        let served = serve(&[(1, 30), (16, 10)], 400);
        assert!((99..=101).contains(&served[0]), "{served:?}");
    }

    #[test]
    fn whoever_comes_late_gets_its_share_from_then_on_and_nothing_of_before() {
        let mut line = Turns::default();
        (0..100).for_each(|_| line.push(0, ()));
        for _ in 0..50 {
            line.charge(0, 10);
            line.remove(0, |()| true);
        }
        (0..50).for_each(|_| line.push(1, ()));
        let mut turns = [0, 0];
        for _ in 0..20 {
            let (client, ()) = line.first().unwrap();
            turns[client as usize] += 1;
            line.charge(client, 10);
            line.remove(client, |()| true);
        }
        assert!(turns[0] >= 9 && turns[1] >= 9, "{turns:?}");
    }

    #[test]
    fn clients_that_have_gone_are_forgotten() {
        let mut line = Turns::default();
        for client in 0..1000 {
            line.push(client, ());
            line.charge(client, 10);
            line.remove(client, |()| true);
            line.push(5000, ());
            line.charge(5000, 100);
            line.remove(5000, |()| true);
        }
        assert!(line.is_empty() && line.lines.len() < 20, "{}", line.lines.len());
    }
}
