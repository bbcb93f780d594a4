//! Sockets that systemd listens on for the service (sd_listen_fds(3)): they exist before the server starts, and clients
//! that connect meanwhile wait.

use nitro_console::error::Error;
use nitro_device::net::{Listener, passed};
use std::env;

/// The name of the control socket (`FileDescriptorName=` of systemd.socket(5)); all others are for NBD clients.
const CONTROL: &str = "control";
/// More sockets than any unit has.
const PASSED_MAX: usize = 64;

/// The sockets that were passed to this process.
#[derive(Default)]
pub(super) struct Activated {
    /// For NBD clients.
    pub(super) nbd: Vec<Listener>,
    /// For commands.
    pub(super) control: Option<Listener>,
}

impl Activated {
    /// Takes the sockets that were passed, once: child processes do not get them. To be called inside a reactor.
    ///
    /// # Errors
    /// A passed descriptor is not a listening stream socket.
    pub(super) fn take() -> Result<Self, Error> {
        let mut taken = Self::default();
        let (Some(count), names) = (count(), names()) else { return Ok(taken) };
        for (at, listener) in passed(count).into_iter().enumerate() {
            let listener = listener.map_err(|e| {
                Error::with_sources(format_args!("socket {at} of LISTEN_FDS"), &e)
                    .or("a .socket unit listens with ListenStream=")
            })?;
            match names.get(at).map(String::as_str) {
                Some(CONTROL) if taken.control.is_none() => taken.control = Some(listener),
                _ => taken.nbd.push(listener),
            }
        }
        Ok(taken)
    }
}

/// The number of sockets passed; `None`: none, or they are for another process.
fn count() -> Option<usize> {
    let pid: u32 = env::var("LISTEN_PID").ok()?.parse().ok()?;
    let count: usize = env::var("LISTEN_FDS").ok()?.parse().ok()?;
    (pid == std::process::id() && (1..=PASSED_MAX).contains(&count)).then_some(count)
}

fn names() -> Vec<String> {
    env::var("LISTEN_FDNAMES").map_or_else(|_| Vec::new(), |names| names.split(':').map(str::to_owned).collect())
}
