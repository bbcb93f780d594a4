//! The devices against models, against the file system, and against the mechanics of a disk.
#![expect(clippy::unwrap_used, reason = "a test ends where something fails")]

mod common;
mod faulty;
mod file;
mod hdd;
mod model;
mod net;
mod ram;
mod runtime;
