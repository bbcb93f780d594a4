//! Power fails at any device operation; unflushed sectors are old or new.

use super::{AREA, EPOCH, FIRST, append, clean, logged, now, read, recorder, state};
use nitro_engine::journal::{AppendError, Identity, Journal, Record};
use nitro_testkit::{CrashingDevice, Rng, for_seeds};
use std::collections::BTreeMap;

#[test]
fn a_crash_at_any_write_of_a_switch_leaves_the_old_or_the_new_half() {
    let flash = recorder(512);
    let mut journal = now(Journal::create(&flash, AREA, FIRST)).unwrap();
    append(&mut journal, &flash, 0..4);
    now(nitro_port::Device::flush(&flash)).unwrap();
    let begun = flash.changes();
    journal.begin_snapshot();
    for part in 0..3 {
        let records: Vec<_> = (0..100).map(|n| clean(part * 100 + n, 9)).collect();
        now(journal.snapshot_part(&flash, &records)).unwrap();
        append(&mut journal, &flash, [10 + part]);
    }
    let carry: Vec<_> = (10..13).map(|n| clean(n, n)).collect();
    now(journal.finish_snapshot(&flash, &carry)).unwrap();
    let ended = flash.changes();
    assert!(flash.was_write(ended - 1), "the old half is made void last");
    let mut rng = Rng::new(7);
    let (mut old, mut new) = (0, 0);
    for upto in begun..ended {
        for _ in 0..50 {
            let replay = read(&flash.crashed_at(upto, &mut rng));
            if replay.batches().iter().any(|b| b.is_snapshot() && b.records().count() > 0) {
                assert!(upto >= ended - 3, "the new half, before its end was written");
                assert_eq!((replay.log_batches(), state(&replay).len()), (0, 300));
                new += 1;
            } else {
                assert!(upto < ended - 1, "the old half, after the new one was durable");
                assert!(logged(&replay).starts_with(&[0, 1, 2, 3]));
                // From the flush before the end on, all of the old log is durable.
                assert!(upto < ended - 3 || logged(&replay).len() == 7);
                old += 1;
            }
        }
    }
    assert!(old > 100 && new > 50, "{old} old, {new} new");
}

/// What the journal's owner knows: the last version of each of a few keys, and how it came to be.
struct Owner {
    /// The state after each batch, by the version that the batch gave to all its keys. Those that a crash took are gone.
    states: Vec<(u64, BTreeMap<u64, u64>)>,
    next_version: u64,
    /// How many of `states` are durable for certain.
    durable: usize,
    /// Where in `states` the snapshot under way was begun.
    begun: Option<usize>,
    crashes_in_switch: u32,
}

impl Owner {
    fn new() -> Self {
        Self { states: vec![(0, BTreeMap::new())], next_version: 1, durable: 1, begun: None, crashes_in_switch: 0 }
    }

    fn last(&self) -> &BTreeMap<u64, u64> {
        &self.states[self.states.len() - 1].1
    }

    fn append(&mut self, journal: &mut Journal, flash: &CrashingDevice, rng: &mut Rng) -> bool {
        let version = self.next_version;
        let most = if rng.one_in(4) { 60 } else { 5 };
        let count = 1 + rng.below(most);
        let records: Vec<_> = (0..count).map(|_| clean(rng.below(100), version)).collect();
        match now(journal.append(flash, &records)) {
            Ok(_) => {}
            Err(AppendError::Full) => return false,
            Err(error) => panic!("{error}"),
        }
        self.next_version += 1;
        let mut state = self.last().clone();
        state.extend(records.iter().map(pair));
        self.states.push((version, state));
        true
    }

    fn flush(&mut self, journal: &mut Journal, flash: &CrashingDevice) {
        let position = journal.position();
        now(nitro_port::Device::flush(flash)).unwrap();
        journal.flushed(position);
        self.durable = self.states.len();
    }

    /// One step of a snapshot: it is begun, perhaps anew, or ended.
    fn snapshot(&mut self, journal: &mut Journal, flash: &CrashingDevice, rng: &mut Rng) {
        let under_way = self.begun.filter(|_| !rng.one_in(8));
        let Some(begun) = under_way else {
            journal.begin_snapshot();
            let all: Vec<_> = self.last().iter().map(|(k, v)| clean(*k, *v)).collect();
            let (first, second) = all.split_at(all.len() / 2);
            now(journal.snapshot_part(flash, first)).unwrap();
            now(journal.snapshot_part(flash, second)).unwrap();
            self.begun = Some(self.states.len() - 1);
            return;
        };
        // The state since: every key that changed.
        let carry = self.last().iter().filter(|(k, v)| self.states[begun].1.get(k) != Some(v));
        let carry: Vec<_> = carry.map(|(k, v)| clean(*k, *v)).collect();
        now(journal.finish_snapshot(flash, &carry)).unwrap();
        (self.durable, self.begun) = (self.states.len(), None);
    }

    /// Works for a while; power fails in the last step. Gives what is found on the device.
    fn live(&mut self, journal: &mut Journal, flash: &CrashingDevice, rng: &mut Rng) -> CrashingDevice {
        let (mut told, mut durable) = (flash.changes(), self.durable);
        for _ in 0..=rng.below(60) {
            (told, durable) = (flash.changes(), self.durable);
            match rng.below(8) {
                0 => self.flush(journal, flash),
                1 | 2 => self.snapshot(journal, flash, rng),
                _ => {
                    while !self.append(journal, flash, rng) {
                        (told, durable) = (flash.changes(), self.durable);
                        self.snapshot(journal, flash, rng);
                    }
                }
            }
        }
        self.durable = durable;
        self.begun = None;
        let upto = told + rng.below((flash.changes() - told) as u64 + 1) as usize;
        self.crashes_in_switch += u32::from(upto + 1 < flash.changes());
        flash.crashed_at(upto.min(flash.changes().saturating_sub(1)), rng)
    }

    /// Goes on with what is found: at least what is durable, at most all; perhaps the caller refuses some.
    fn recover(&mut self, flash: &CrashingDevice, rng: &mut Rng) -> Journal {
        let replay = read(flash);
        assert_eq!(replay.lost_batches(), 0);
        let found = state(&replay);
        let at = self.states.iter().rposition(|(_, state)| *state == found).expect("a state that was, whole");
        let version = replay.batches().iter().flat_map(|b| b.records()).map(|r| pair(&r).1).max().unwrap_or(0);
        assert!(version <= self.states[at].0.max(1) && at + 1 >= self.durable, "batch {at} of {}", self.durable);
        let refusable = (at + 1 - self.durable).min(replay.log_batches());
        let refused = if rng.one_in(3) { rng.below(refusable as u64 + 1) as usize } else { 0 };
        self.states.truncate(at + 1 - refused);
        let accepted = replay.log_batches() - refused;
        let mut journal = replay.resume(accepted, Identity { epoch: EPOCH, start: 0 });
        // What was refused is there until something durable stands in its place.
        while !self.append(&mut journal, flash, rng) {
            self.snapshot(&mut journal, flash, rng);
        }
        self.flush(&mut journal, flash);
        journal
    }
}

fn pair(record: &Record) -> (u64, u64) {
    let Record::Clean { key, version } = record else { panic!("{record:?} was never appended") };
    (key.raw(), *version)
}

#[test]
fn whatever_was_flushed_survives_every_crash_and_nothing_else_turns_up() {
    let in_switch = std::cell::Cell::new(0);
    let scenario = std::panic::AssertUnwindSafe(|seed: u64| {
        let mut rng = Rng::new(seed);
        let mut flash = recorder(if rng.one_in(3) { 4096 } else { 512 });
        let mut journal = now(Journal::create(&flash, AREA, FIRST)).unwrap();
        let mut owner = Owner::new();
        for _ in 0..8 {
            flash = owner.live(&mut journal, &flash, &mut rng);
            journal = owner.recover(&flash, &mut rng);
        }
        in_switch.set(in_switch.get() + owner.crashes_in_switch);
    });
    for_seeds(300, move |seed| {
        let scenario = &scenario;
        scenario.0(seed);
    });
}
