//! The identity of the peer of a unix socket.

use rustix::fd::{AsFd, AsRawFd};
use std::io;

/// The peer's user and process (`SO_PEERCRED` of unix(7)). The process is 0 if it is in another PID namespace; the safe
/// wrapper cannot represent this.
#[expect(unsafe_code, reason = "the safe wrapper takes no process 0")]
pub(super) fn peer(socket: impl AsFd) -> io::Result<(u32, i32)> {
    let mut found = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the descriptor is open while it is borrowed; the call writes at most `len` bytes, the size of `found`,
    // which consists of integers.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut found).cast(),
            &raw mut len,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok((found.uid, found.pid)) }
}
