//! The program itself, as its users run it.

mod estimating;
mod generated;
mod serving;
mod status;
mod support;
mod wrong_use;
