//! The server against a client in memory, and the client against servers in memory, a module a scenario.

#![expect(clippy::unwrap_used, reason = "a failing test says where")]

mod client;
mod commands;
mod extended;
mod fuzz;
mod handshake;
mod hostile;
mod shutdown;
mod status;
mod support;
mod tls;
