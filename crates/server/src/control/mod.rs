//! The control socket, through which commands query and control a running server.

pub mod client;
pub mod faults;
pub mod health;
mod operate;
mod part;
pub mod protocol;
pub mod quantile;
pub mod rates;
pub mod report;
pub mod server;

pub use operate::News;
pub use part::part_of_volume;
