//! A command that a server serves, and for which alone it runs.

use super::latch::Latch;
use nitro_console::error::Error;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// What shells add to the number of a signal.
const SIGNALLED: i32 = 128;

/// A command of the shell, and what became of it.
pub(super) struct Errand {
    command: String,
    ended: Arc<Latch>,
    code: Arc<AtomicU8>,
}

impl Errand {
    pub(super) fn new(command: &str) -> Self {
        Self { command: command.to_owned(), ended: Arc::default(), code: Arc::default() }
    }

    /// Starts it. It has this process's input and output, and finds the volumes in its environment.
    ///
    /// # Errors
    /// There is no shell.
    pub(super) fn start(&self, uris: &[String]) -> Result<(), Error> {
        let fail = |e| Error::new(format_args!("--run {}", self.command), e).or("check the command");
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(&self.command).stdin(Stdio::inherit());
        command.env("NITRO_URI", uris.first().map_or("", String::as_str)).env("NITRO_URIS", uris.join("\n"));
        // They are the server's own.
        for name in ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_FDS", "LISTEN_PID"] {
            command.env_remove(name);
        }
        let mut child = command.spawn().map_err(fail)?;
        let (ended, code) = (Arc::clone(&self.ended), Arc::clone(&self.code));
        let wait = move || {
            code.store(child.wait().map_or(1, code_of), Ordering::SeqCst);
            ended.set();
        };
        std::thread::Builder::new().name("nitro-run".to_owned()).spawn(wait).map(drop).map_err(fail)
    }

    /// Waits for its end.
    pub(super) async fn done(&self) {
        self.ended.wait().await;
    }

    /// Its exit code; 0 while it runs.
    pub(super) fn code(&self) -> u8 {
        self.code.load(Ordering::SeqCst)
    }
}

/// As a shell tells it.
fn code_of(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| SIGNALLED + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}
