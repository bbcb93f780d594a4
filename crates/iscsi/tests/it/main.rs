//! Initiators against the target, over streams in memory.

mod commands;
mod digests;
mod fuzz;
mod hostile;
mod modes;
mod order;
mod sessions;
mod support;
