//! Telling systemd how the service is (sd_notify(3)).

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// How long systemd is to wait for further news while the service ends.
const PATIENCE: Duration = Duration::from_secs(30);

/// Clients can connect.
pub(super) fn ready() {
    tell("READY=1\n");
}

/// The service is about to end.
pub(super) fn stopping() {
    tell("STOPPING=1\n");
}

/// Ending takes its time; `status` is what `systemctl status` shows. To be said again within [`PATIENCE`].
pub(super) fn still_stopping(status: &str) {
    tell(&format!("EXTEND_TIMEOUT_USEC={}\nSTATUS={status}\n", PATIENCE.as_micros()));
}

fn tell(state: &str) {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { return };
    if let Err(error) = send(&path, state) {
        tracing::warn!("cannot notify systemd at {}: {error}", path.display());
    }
}

fn send(path: &OsStr, state: &str) -> io::Result<()> {
    let address = match path.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(path)?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address).map(|_| ())
}
