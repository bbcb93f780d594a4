//! Notifies systemd of the service's state (sd_notify(3)).

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// How long systemd waits for the next notification while the service ends.
const PATIENCE: Duration = Duration::from_secs(30);

/// Notifies that clients can connect.
pub(super) fn ready() {
    tell("READY=1\n");
}

/// Notifies that the service reloads its configuration; [`ready`] follows.
pub(super) fn reloading() {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let us = i128::from(now.tv_sec) * 1_000_000 + i128::from(now.tv_nsec) / 1000;
    tell(&format!("RELOADING=1\nMONOTONIC_USEC={us}\n"));
}

/// The interval of watchdog notifications (sd_watchdog_enabled(3)): half of the time it waits.
pub(super) fn watchdog_every() -> Option<Duration> {
    let is_own = |pid: String| pid.parse() == Ok(std::process::id());
    if !std::env::var("WATCHDOG_PID").map_or(true, is_own) {
        return None;
    }
    let us: u64 = std::env::var("WATCHDOG_USEC").ok()?.parse().ok()?;
    (us > 0).then(|| Duration::from_micros(us / 2))
}

/// Notifies that the service is alive.
pub(super) fn alive() {
    tell("WATCHDOG=1\n");
}

/// Notifies that the service ends.
pub(super) fn stopping() {
    tell("STOPPING=1\n");
}

/// Extends the time for the end; `systemctl status` shows `status`. To be repeated within [`PATIENCE`].
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
