//! The device against a driver in the same process, with a disk in memory.
#![expect(clippy::unwrap_used, reason = "a test ends where something fails")]

mod hostile;
mod io;
mod libblkio;
mod restart;
mod support;
