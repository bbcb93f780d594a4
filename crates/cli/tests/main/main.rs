//! The program itself, as its users run it.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod classes;
mod commands;
mod configuring;
mod cos;
mod costs;
mod estimating;
mod explaining;
mod fencing;
mod flash_index;
mod frozen;
mod generated;
mod hostile;
mod http;
mod operating;
mod pins;
mod planted;
mod promises;
mod ram;
mod recording;
mod reproducing;
mod restart;
mod serving;
mod sick_origin;
mod signals;
mod simulating;
mod simulating_classes;
mod status;
mod support;
mod tenants;
mod traces;
mod virtual_machines;
mod warming;
mod write_back;
mod write_log;
mod wrong_use;
