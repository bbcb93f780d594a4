//! Images of Ceph clusters (RBD) as devices, by Ceph's own library: `librbd`, which is loaded at run time.
//!
//! [`Image::open`] connects on a thread of its own, which then makes all calls that wait. Requests go to librbd by the thread that
//! has them, and are answered by a thread of librbd's. [`RbdDevice`] makes a device of any image that [`Calls`] can reach; only the
//! modules `library`, `cluster` and `raw` know C.

mod calls;
mod cluster;
mod device;
mod fate;
mod image;
mod library;
mod lock;
mod raw;

pub use calls::{Calls, Done, Request};
pub use device::RbdDevice;
pub use image::{Facts, Image, ImageOptions, OpenError, wait_closed};
pub use library::Missing;
pub use lock::{Claim, LockError, Taken};
