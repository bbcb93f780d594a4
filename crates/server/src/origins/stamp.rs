//! The stamp of an origin: its state when its cache last knew that no other program had changed it, in the 16 bytes
//! that a cache keeps for each volume.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | modification time in nanoseconds since 1970, as it was last made durable; 0 for a block device, which has none |
//! | 8 | 4 | in use: when it was said so, in seconds since 1970 |
//! | 12 | 3 | in use: the start of the boot's random id (random(4)) |
//! | 15 | 1 | 0 not known, 1 at rest, 2 in use |
//!
//! *At rest*, a different modification time means that another program has changed the origin. *In use*, the server
//! itself changes the origin; it renews the stamp before a write if the stamp is older than [`LEASE_SECONDS`]. Changes
//! more than [`LATE_SECONDS`] after the stamp seem to be made by other programs. A modification time that went back hints at an
//! older file, if the machine was not rebooted since: a power failure may undo times that a file system had not written
//! yet, of at most a day if it is mounted `lazytime`.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::time::{SystemTime, UNIX_EPOCH};

/// How long an origin may be changed after the cache was told that it is in use, in seconds.
pub(crate) const LEASE_SECONDS: u64 = 5;
/// A change that is later than this, in seconds, was made by another program.
const LATE_SECONDS: u64 = 10;
/// How far a power failure may set a file's time back, in seconds.
const SET_BACK_SECONDS: u64 = 24 * 3600;
const NS: u64 = 1_000_000_000;

/// Now, in seconds since 1970.
pub(crate) fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// The state of an origin that shows whether it was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// Its size.
    pub size_bytes: u64,
    /// Modification time in nanoseconds since 1970; `None` for a block device.
    pub mtime_ns: Option<u64>,
}

impl Look {
    /// The state of a file or block device.
    #[must_use]
    pub fn new(found: &Metadata, size_bytes: u64) -> Self {
        let ns = u64::try_from(found.mtime()).map_or(0, |s| s * NS + u64::try_from(found.mtime_nsec()).unwrap_or(0));
        Self { size_bytes, mtime_ns: found.is_file().then_some(ns) }
    }
}

/// A sign that another program has changed an origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    /// The server ended in order, and did not change the origin afterwards; or the size is another one.
    Certain(String),
    /// After a crash, the time of change is not one that the server's own writes would have: it depends on the clocks of the machine
    /// and of a file server, and on how long writes were delayed.
    Time(String),
}

impl Change {
    /// The description.
    pub(crate) fn why(self) -> String {
        match self {
            Self::Certain(why) | Self::Time(why) => why,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Unknown,
    AtRest,
    InUse,
}

/// The fields of a stamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    state: State,
    mtime_ns: u64,
    said_seconds: u32,
    boot: [u8; 3],
}

impl Stamp {
    /// The stamp of an origin that the server does not change.
    pub(crate) fn at_rest(look: Look) -> Self {
        Self { state: State::AtRest, mtime_ns: look.mtime_ns.unwrap_or(0), said_seconds: 0, boot: [0; 3] }
    }

    /// The stamp of an origin that the server is about to change.
    pub(crate) fn in_use(look: Look, now_seconds: u64) -> Self {
        let said_seconds = u32::try_from(now_seconds).unwrap_or(u32::MAX);
        Self { state: State::InUse, mtime_ns: look.mtime_ns.unwrap_or(0), said_seconds, boot: boot() }
    }

    pub(crate) fn encode(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.mtime_ns.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.said_seconds.to_le_bytes());
        bytes[12..15].copy_from_slice(&self.boot);
        bytes[15] = match self.state {
            State::Unknown => 0,
            State::AtRest => 1,
            State::InUse => 2,
        };
        bytes
    }

    /// Decodes a stamp; a stamp in an unknown form counts as none.
    pub(crate) fn decode(bytes: [u8; 16]) -> Self {
        let [m0, m1, m2, m3, m4, m5, m6, m7, s0, s1, s2, s3, b0, b1, b2, state] = bytes;
        Self {
            state: match state {
                1 => State::AtRest,
                2 => State::InUse,
                _ => State::Unknown,
            },
            mtime_ns: u64::from_le_bytes([m0, m1, m2, m3, m4, m5, m6, m7]),
            said_seconds: u32::from_le_bytes([s0, s1, s2, s3]),
            boot: [b0, b1, b2],
        }
    }

    /// The change if another program seems to have changed an origin that had `size_bytes`; otherwise `None`.
    pub(crate) fn change(self, size_bytes: u64, now: Look) -> Option<Change> {
        if now.size_bytes != size_bytes {
            return Some(Change::Certain(format!("it had {size_bytes} bytes and has {}", now.size_bytes)));
        }
        let mtime_ns = now.mtime_ns?;
        let late_ns = (u64::from(self.said_seconds) + LATE_SECONDS) * NS;
        let back_ns = self.mtime_ns.saturating_sub(mtime_ns);
        match self.state {
            State::Unknown => Some(Change::Certain("it is not known when it was last served".to_owned())),
            State::AtRest if mtime_ns != self.mtime_ns => {
                Some(Change::Certain("another program has changed its origin: its modification time is not the one of the last end".to_owned()))
            }
            State::InUse if mtime_ns > late_ns => {
                Some(Change::Time("another program seems to have changed its origin: its modification time is later than the cache was last in use".to_owned()))
            }
            State::InUse if back_ns > 0 && (self.boot == boot() || back_ns > SET_BACK_SECONDS * NS) => {
                Some(Change::Time("an older state of its origin seems to be in place: its modification time is earlier than when the cache was last in use".to_owned()))
            }
            State::AtRest | State::InUse => None,
        }
    }
}

/// The start of the boot's random id; zeroes if the kernel has none.
fn boot() -> [u8; 3] {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let byte = |at: usize| text.get(at..at + 2).and_then(|hex| u8::from_str_radix(hex, 16).ok()).unwrap_or(0);
    [byte(0), byte(2), byte(4)]
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECONDS: u64 = 1_700_000_000;

    fn look(ns: u64) -> Look {
        Look { size_bytes: 9, mtime_ns: Some(SECONDS * NS + ns) }
    }

    #[test]
    fn a_stamp_comes_back() {
        for stamp in [Stamp::at_rest(look(7)), Stamp::in_use(look(7), SECONDS)] {
            assert_eq!(Stamp::decode(stamp.encode()), stamp);
        }
        assert_eq!(Stamp::decode([0; 16]).state, State::Unknown);
        assert_eq!(Stamp::decode([99; 16]).state, State::Unknown);
    }

    #[test]
    fn at_rest_any_other_time_or_size_is_a_change() {
        let stamp = Stamp::at_rest(look(7));
        assert_eq!(stamp.change(9, look(7)), None);
        assert!(stamp.change(9, look(8)).is_some() && stamp.change(9, look(6)).is_some());
        assert!(stamp.change(8, look(7)).is_some());
        assert_eq!(stamp.change(9, Look { mtime_ns: None, ..look(0) }), None);
    }

    #[test]
    fn in_use_only_what_comes_late_or_went_back_is_a_change() {
        let stamp = Stamp::in_use(look(7), SECONDS);
        for ns in [7, 8, 9 * NS] {
            assert_eq!(stamp.change(9, look(ns)), None, "{ns}");
        }
        assert!(stamp.change(9, look(11 * NS)).is_some());
        assert!(stamp.change(9, look(6)).is_some());
        let booted = Stamp { boot: [1, 2, 3], ..stamp };
        assert_eq!(booted.change(9, look(6)), None);
        let day = Look { mtime_ns: Some((SECONDS - 2 * SET_BACK_SECONDS) * NS), ..look(0) };
        assert!(booted.change(9, day).is_some());
    }
}
