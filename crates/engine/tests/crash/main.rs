//! The engine on devices that lose power: seeded clients, a crash at any device operation, a restart, and an oracle that
//! knows for every sector what a disk could legally return.
//!
//! `NITRO_SEED=n` replays one seed; `NITRO_SEEDS=k` runs `k` of them, `NITRO_SEEDS=x20` twenty times as many as usual;
//! `NITRO_TRACE=1` tells of every request and device operation.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod client;
mod content;
mod oracle;
mod points;
mod scenario;
mod seeds;
mod system;
mod toy;
mod transitions;
