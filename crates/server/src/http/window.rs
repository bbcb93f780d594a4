//! What each volume did in the last hours: its counters, kept every few minutes in a ring of fixed size.

use crate::control::protocol::Status;
use crate::control::rates::activity::Seen;
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};

/// The time between two marks, and how many are kept: six hours.
const MARK_EVERY_SECONDS: f64 = 180.0;
const MARKS_MAX: usize = 120;
/// Volumes that are kept.
const VOLUMES_MAX: usize = 256;
/// RAM of a volume's name and of its place in a mark.
const PLACE_BYTES: u64 = 160;

/// The maximum RAM of the marks, in bytes.
pub(super) fn ram_bytes(volumes: usize) -> u64 {
    let marks = MARKS_MAX as u64 + 2;
    volumes.min(VOLUMES_MAX) as u64 * marks * (size_of::<Seen>() as u64 + PLACE_BYTES)
}

/// The counters of all volumes at one time.
struct Mark {
    uptime_seconds: f64,
    volumes: BTreeMap<String, Seen>,
}

/// The ring of marks.
#[derive(Default)]
pub(super) struct Marks {
    marks: VecDeque<Mark>,
    newest: Option<Mark>,
}

/// What volumes did within a window that ends at the newest sample.
#[derive(Debug, Default, Serialize)]
pub(super) struct Window<'a> {
    /// Its length, less than was asked for if the server has not run so long.
    seconds: f64,
    volumes: BTreeMap<&'a str, InWindow>,
}

#[derive(Debug, Serialize)]
struct InWindow {
    read_hit_extents: u64,
    read_extents: u64,
    /// 99 % of the reads and writes took no longer.
    p99_us: Option<f64>,
}

impl Marks {
    /// Adds the present state. The first mark is the server's start.
    pub(super) fn add(&mut self, status: &Status) {
        let uptime_seconds = status.server.uptime_seconds;
        let volumes = status.volumes.iter().take(VOLUMES_MAX).map(|v| (v.name.clone(), Seen::of(v))).collect();
        if self.marks.is_empty() {
            self.marks.push_back(Mark { uptime_seconds: 0.0, volumes: BTreeMap::new() });
        }
        let newest = Mark { uptime_seconds, volumes };
        if self.marks.back().is_some_and(|last| uptime_seconds - last.uptime_seconds >= MARK_EVERY_SECONDS) {
            if self.marks.len() > MARKS_MAX {
                self.marks.pop_front();
            }
            self.marks.push_back(Mark { uptime_seconds, volumes: newest.volumes.clone() });
        }
        self.newest = Some(newest);
    }

    /// The last `seconds`, to the nearest mark.
    pub(super) fn window(&self, seconds: u64) -> Window<'_> {
        let Some(newest) = &self.newest else { return Window::default() };
        let begin = newest.uptime_seconds - seconds as f64;
        let distance = |mark: &&Mark| (mark.uptime_seconds - begin).abs();
        let Some(then) = self.marks.iter().min_by(|a, b| distance(a).total_cmp(&distance(b))) else {
            return Window::default();
        };
        let none = Seen::default();
        let volume = |(name, now): (&'_ String, &Seen)| {
            let added = now.since(then.volumes.get(name).unwrap_or(&none));
            InWindow {
                read_hit_extents: added.read_hit_extents,
                read_extents: added.read_extents,
                p99_us: added.p99_us(),
            }
        };
        Window {
            seconds: newest.uptime_seconds - then.uptime_seconds,
            volumes: newest.volumes.iter().map(|(name, now)| (name.as_str(), volume((name, now)))).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::protocol::{Latency, Server, Volume};
    use nitro_engine::metrics::VolumeCounters;

    fn status(uptime_seconds: f64, hits: u64, misses: u64) -> Status {
        let mut latency = Latency { count: hits, ..Latency::default() };
        latency.at_most[6..].fill(hits);
        let counters =
            VolumeCounters { read_hit_extents: hits, read_miss_extents: misses, ..VolumeCounters::default() };
        let volume = Volume { name: "vm".into(), counters, read_hit_latency: latency, ..Volume::default() };
        Status { server: Server { uptime_seconds, ..Server::default() }, volumes: vec![volume], ..Status::default() }
    }

    #[test]
    fn hits_are_those_of_the_window() {
        let mut marks = Marks::default();
        assert!(marks.window(900).volumes.is_empty());
        // An hour of misses only, then a quarter of an hour of hits only.
        for i in 0..=450_u64 {
            marks.add(&status(10.0 * i as f64, 100 * i.saturating_sub(360), 100 * i.min(360)));
        }
        let of = |seconds| serde_json::to_value(marks.window(seconds)).unwrap();
        let quarter = &of(900)["volumes"]["vm"];
        assert_eq!((&quarter["read_hit_extents"], &quarter["read_extents"]), (&9000.into(), &9000.into()));
        let p99 = quarter["p99_us"].as_f64().unwrap();
        assert!((70.0..=100.0).contains(&p99), "{p99}");
        let all = of(u64::MAX);
        assert_eq!(all["seconds"], 4500.0);
        assert_eq!(all["volumes"]["vm"]["read_extents"], 45_000);
    }

    #[test]
    fn marks_are_bounded_and_counters_may_start_again() {
        let mut marks = Marks::default();
        for i in 0..5000_u64 {
            marks.add(&status(10.0 * i as f64, i, 0));
        }
        assert_eq!(marks.marks.len(), MARKS_MAX + 1);
        let seconds = marks.window(21_600).seconds;
        assert!((21_500.0..=21_800.0).contains(&seconds), "{seconds}");
        marks.add(&status(50_000.0, 7, 0));
        assert_eq!(marks.window(900).volumes["vm"].read_extents, 7);
    }
}
