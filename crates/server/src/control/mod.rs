//! The control socket: how a running server tells what it does.

pub mod client;
pub mod protocol;
pub mod report;
pub mod server;
