//! The control socket: how a running server tells what it does.

pub mod client;
pub mod faults;
pub mod protocol;
pub mod quantile;
pub mod rates;
pub mod report;
pub mod server;
