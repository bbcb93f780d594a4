//! The engine on a deterministic executor with simulated devices.

mod disk_model;
mod faults;
mod insertion;
mod paths;
mod simulation;
