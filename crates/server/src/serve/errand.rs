//! A command for whose run time a server serves (`--run`).

use nitro_console::error::Error;
use nitro_port::latch::Latch;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// The number that shells add to the number of a signal in exit codes.
const SIGNALLED: i32 = 128;

/// A shell command and its result.
pub(super) struct Errand {
    command: String,
    ended: Arc<Latch>,
    code: Arc<AtomicU8>,
}

impl Errand {
    pub(super) fn new(command: &str) -> Self {
        Self { command: command.to_owned(), ended: Arc::default(), code: Arc::default() }
    }

    /// Starts the command. It inherits input and output, and its environment has the URIs of the volumes.
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

/// The exit code in the form of a shell.
fn code_of(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| SIGNALLED + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}
