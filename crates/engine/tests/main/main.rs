//! The engine on a deterministic executor with simulated devices.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod any;
mod around;
mod collisions;
mod commits;
mod destage;
mod devices;
mod discarding;
mod disk_model;
mod duplicates;
mod endurance;
mod faults;
mod format_doc;
mod forward;
mod gaps;
mod hanging;
mod insertion;
mod inspect;
mod jittery;
mod journal;
mod last_batch;
mod lean;
mod neighbours;
mod overflow;
mod partial;
mod paths;
mod pool;
mod ram;
mod recipes;
mod slowing;
mod threads;
mod transitions;
mod units;
mod urgency;
mod waiting;
mod write_log;
