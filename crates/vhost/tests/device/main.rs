//! The device against a driver in the same process, with a disk in memory.

mod hostile;
mod io;
mod restart;
mod support;
