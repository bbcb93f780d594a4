//! Nitro's vhost-user-blk device: it serves a [`Disk`](nitro_frontend::Disk) to virtual machines, whose requests it
//! takes from rings in their memory. The control protocol is [vhost-user][user]; rings and requests are those of
//! [virtio 1.2][virtio], §2.7 and §5.2.
//!
//! [`converse`] serves one control connection, and blocks a thread of the caller. Each queue is a future that a
//! [`Host`] runs; the crate depends on no async runtime. It has no caching logic.
//!
//! Guests and their virtual machine monitors are not trusted. Memory may shrink, so that an access to it fails: the
//! [`Host`] guards mappings, and such a client alone is disconnected. Every address, length and index in a ring is checked;
//! an invalid one stops only its own queue.
//!
//! [user]: https://qemu-project.gitlab.io/qemu/interop/vhost-user.html
//! [virtio]: https://docs.oasis-open.org/virtio/virtio/v1.2/virtio-v1.2.html
#![forbid(unsafe_code)]

mod chain;
mod config;
mod control;
mod device;
mod error;
#[doc(hidden)]
pub mod fuzzing;
mod host;
mod inflight;
mod memory;
mod queue;
mod request;
mod ring;
mod wake;

pub use control::{Control, Options, converse};
pub use device::Incarnation;
pub use error::VhostError;
pub use host::{Guard, Host, LocalTask};
pub use vm_memory::MmapRegion;
