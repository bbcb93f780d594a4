//! Nitro's block devices on the host: it serves a [`Disk`](nitro_frontend::Disk) to the kernel's ublk driver
//! (Documentation/block/ublk.rst of Linux), which makes `/dev/ublkbN` of it.
//!
//! [`serve`] serves one queue, whose commands go through a [`Channel`]; what the control device exchanges is in [`abi`]. The crate
//! depends on no async runtime, reaches no kernel, and has no caching logic.
#![forbid(unsafe_code)]

pub mod abi;
mod action;
mod device;
mod queue;

pub use action::{Action, Descriptor};
pub use device::Device;
pub use queue::{Channel, serve};
