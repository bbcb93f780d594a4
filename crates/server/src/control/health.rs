//! The health of a server in one word and one line, for monitoring systems. It follows from the [faults].

use super::faults::{Fault, Severity, faults};
use super::protocol::Status;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The state of a service, in the words and with the exit codes of Nagios' plugins (Monitoring Plugins Development
/// Guidelines).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// No faults, or notices only.
    Ok,
    /// The worst fault is a warning.
    Warning,
    /// There is a critical fault.
    Critical,
    /// The server does not answer.
    Unknown,
}

impl State {
    /// The word that begins the line.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Warning => "WARNING",
            Self::Critical => "CRITICAL",
            Self::Unknown => "UNKNOWN",
        }
    }

    /// The exit code of a plugin.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Warning => 1,
            Self::Critical => 2,
            Self::Unknown => 3,
        }
    }
}

/// A value of performance data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Performance {
    /// Its name, such as `vm dirty`.
    pub label: String,
    /// Its value.
    pub value: u64,
    /// Its unit: `B`: bytes; `c`: a counter since the start; empty: a number of things.
    pub unit: &'static str,
}

/// The health of a server.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Health {
    /// The state.
    pub state: State,
    /// The exit code.
    pub code: u8,
    /// The worst fault, and the number of others; or a summary.
    pub message: String,
    /// The faults, the most severe first.
    pub faults: Vec<Fault>,
    /// Values for graphs.
    pub performance: Vec<Performance>,
}

impl Health {
    /// The health of a server that answers.
    #[must_use]
    pub fn of(status: &Status) -> Self {
        let faults = faults(status);
        let state = match faults.iter().map(|fault| fault.severity).min() {
            Some(Severity::Critical) => State::Critical,
            Some(Severity::Warning) => State::Warning,
            Some(Severity::Notice) | None => State::Ok,
        };
        let message = match (faults.first(), faults.len()) {
            (Some(fault), 1) => format!("{}: {}", fault.subject, fault.what),
            (Some(fault), count) => format!("{}: {} (and {} more)", fault.subject, fault.what, count - 1),
            (None, _) => format!("{} volumes, {} caches", status.volumes.len(), status.caches.len()),
        };
        Self { state, code: state.code(), message, faults, performance: performance(status) }
    }

    /// The health of a server that does not answer.
    #[must_use]
    pub fn unknown(why: &impl fmt::Display) -> Self {
        let (state, message) = (State::Unknown, why.to_string());
        Self { state, code: state.code(), message, faults: Vec::new(), performance: Vec::new() }
    }
}

impl fmt::Display for Health {
    /// One line: the state, the message, and behind a `|` the performance data.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let message: String = self.message.chars().map(|c| if c == '|' || c.is_control() { ' ' } else { c }).collect();
        write!(f, "NITRO {}: {message}", self.state.as_str())?;
        for (at, Performance { label, value, unit }) in self.performance.iter().enumerate() {
            let label: String =
                label.chars().map(|c| if matches!(c, '\'' | '=' | '|') || c.is_control() { '_' } else { c }).collect();
            write!(f, "{} '{label}'={value}{unit}", if at == 0 { " |" } else { "" })?;
        }
        Ok(())
    }
}

fn performance(status: &Status) -> Vec<Performance> {
    let value = |label: String, value, unit| Performance { label, value, unit };
    let mut all = vec![value("clients".to_owned(), status.server.connections, "")];
    for cache in &status.caches {
        all.push(value(format!("cache {} cached", cache.name), cache.cached_bytes, "B"));
        all.push(value(format!("cache {} dirty", cache.name), cache.dirty_bytes, "B"));
    }
    for volume in &status.volumes {
        let counters = &volume.counters;
        all.push(value(format!("volume {} dirty", volume.name), volume.dirty_bytes, "B"));
        all.push(value(format!("volume {} extents read", volume.name), counters.read_extents(), "c"));
        all.push(value(format!("volume {} extents hit", volume.name), counters.read_hit_extents, "c"));
        all.push(value(format!("volume {} errors", volume.name), counters.errors, "c"));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::protocol::{Cache, Volume};

    #[test]
    fn the_worst_fault_decides_and_the_line_is_one_line() {
        let mut status = Status {
            caches: vec![Cache { name: "fast".into(), health: "caching".into(), ..Cache::default() }],
            volumes: vec![Volume { name: "a'b=|\n".into(), attached: true, ..Volume::default() }],
            ..Status::default()
        };
        let health = Health::of(&status);
        assert_eq!((health.state, health.code), (State::Ok, 0));
        let line = health.to_string();
        assert!(line.starts_with("NITRO OK: 1 volumes, 1 caches | 'clients'=0 'cache fast cached'=0B"), "{line}");
        assert!(
            line.matches('|').count() == 1 && !line.contains('\n') && line.contains("'volume a_b___ dirty'=0B"),
            "{line}"
        );
        status.caches[0].loading = true;
        assert_eq!(Health::of(&status).state, State::Ok, "a notice is no warning");
        status.caches[0].counters.corrupt_extents = 3;
        assert_eq!(Health::of(&status).state, State::Warning);
        status.volumes[0].destage_error = Some("no | room\n".into());
        let health = Health::of(&status);
        assert_eq!((health.state, health.code), (State::Critical, 2));
        assert!(health.to_string().matches('|').count() == 1, "{health}");
        assert!(health.message.ends_with("(and 2 more)"), "{}", health.message);
    }
}
