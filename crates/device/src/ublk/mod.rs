//! The kernel's driver for block devices that a process serves (ublk, `linux/ublk_cmd.h`): its control device, and the queues of
//! a device. Both are reached by io_uring alone (`IORING_OP_URING_CMD`).
//!
//! What the commands mean, and what is in their buffers, is known to the front end; this module has what needs `unsafe`: the
//! addresses of buffers, the mapped descriptors, and the commands in the reactor's ring.

mod control;
mod queue;

pub use control::{CONTROL_PATH, Command, Control};
pub use queue::{DEPTH_MAX, Descriptor, QUEUES_MAX, Queue};

/// The kernel's code of a command (`_IOC` of `linux/ioctl.h`, with type `u`) with an argument of `bytes` bytes.
const fn code(is_read_only: bool, number: u32, bytes: u32) -> u32 {
    const READ: u32 = 2 << 30;
    const READ_WRITE: u32 = 3 << 30;
    (if is_read_only { READ } else { READ_WRITE }) | bytes << 16 | (b'u' as u32) << 8 | number
}

/// The device node of a ublk device that its server uses.
#[must_use]
pub fn char_path(number: u32) -> String {
    format!("/dev/ublkc{number}")
}

/// The block device of a ublk device.
#[must_use]
pub fn block_path(number: u32) -> String {
    format!("/dev/ublkb{number}")
}
