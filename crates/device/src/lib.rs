//! Nitro's devices: implementations of the device interfaces on files and block devices (io_uring), in RAM, and with
//! deliberate faults or delays; also the runtime and the sockets.
//!
//! This is the only crate with `unsafe` code, in the modules `allocator`, `buffer`, `crash_memory`, `guarded`, `ioctl`,
//! `runtime`, `net::credentials`, `net::passed`, `rbd::library`, `rbd::cluster`, `rbd::raw`,
//! `ublk::control` and `ublk::queue`. It is also the only crate that uses the async runtime
//! (compio).
#![deny(unsafe_code)]

mod allocator;
mod buffer;
mod crash_memory;
mod error;
mod ioctl;

pub mod any;
pub mod event;
pub mod faulty;
pub mod file;
pub mod guarded;
pub mod hdd;
mod identity;
mod linger;
pub mod net;
pub mod ram;
pub mod rbd;
pub mod runtime;
pub mod slice;
pub mod ublk;

pub use allocator::limit_allocator;
pub use any::AnyDevice;
pub use crash_memory::{map_words, remove_unmapped};
pub use error::{Error, ErrorKind};
pub use faulty::FaultyDevice;
pub use file::{Blocking, FileDevice, FileOptions, Medium};
pub use hdd::HddDevice;
pub use identity::identify;
pub use linger::patiently;
pub use ram::RamDevice;
pub use runtime::{CompioClock, Reactor, ReactorThread, lower_priority, spawn_local, spawn_thread};
pub use slice::SliceDevice;
