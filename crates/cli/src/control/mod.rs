//! The control socket: how a running server tells what it does.

pub(crate) mod client;
pub(crate) mod protocol;
pub(crate) mod report;
pub(crate) mod server;
