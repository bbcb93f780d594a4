//! A command whose standard output is imported, or that an object is sent to.

use nitro_console::error::Error;
use nitro_console::signals::name_of;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IsTerminal, stdin};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Characters of the command that errors show.
const SHOWN_CHARS_MAX: usize = 200;
/// How long a command may take to end when it is asked to; then it is killed.
const END_WAIT: Duration = Duration::from_secs(2);
/// How often is checked whether it has ended.
const END_TURN: Duration = Duration::from_millis(5);

/// A running command. When this is dropped, the command is ended and waited for.
#[derive(Debug)]
pub struct Producer {
    child: Child,
    shown: String,
    /// The command has a process group of its own, to which all processes belong that it starts.
    has_group: bool,
    /// It was waited for, and its number may be that of another process.
    is_gone: bool,
    /// What errors say of what it was for.
    consequence: &'static str,
}

impl Producer {
    /// Starts `command`, a program and its arguments, without a shell. Returns it with its standard output; its standard
    /// input and standard error are those of this process.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn start(command: &[OsString]) -> Result<(Self, File), Error> {
        let shown = shown(command);
        let fail = |e: io::Error| {
            Error::new(format_args!("command {shown}"), e)
                .or("name a program in PATH, or its path, and its arguments behind --")
        };
        let (program, arguments) = command.split_first().ok_or_else(|| fail(io::ErrorKind::InvalidInput.into()))?;
        let mut command = Command::new(program);
        command.args(arguments).stdout(Stdio::piped());
        let mut producer = Self::spawn(command, shown.clone(), "no part of the import is kept").map_err(fail)?;
        let output = producer.child.stdout.take().map(|output| File::from(OwnedFd::from(output)));
        match output {
            Some(output) => Ok((producer, output)),
            None => Err(fail(io::ErrorKind::BrokenPipe.into())),
        }
    }

    /// Starts a command line of the shell, with a connection to this process as its standard input and output. Returns it with the
    /// other end.
    ///
    /// # Errors
    /// There is no shell, or no connection.
    pub fn connect(line: &str) -> Result<(Self, File), Error> {
        let shown = shown(&[line.into()]);
        let fail = |e: io::Error| Error::new(format_args!("command {shown}"), e);
        let (ours, theirs) = UnixStream::pair().map_err(fail)?;
        let mut command = Command::new("sh");
        let output = theirs.try_clone().map_err(fail)?;
        command.args(["-c", line]).stdin(OwnedFd::from(theirs)).stdout(OwnedFd::from(output));
        let producer = Self::spawn(command, shown.clone(), "the same command continues the transfer").map_err(fail)?;
        Ok((producer, File::from(OwnedFd::from(ours))))
    }

    fn spawn(mut command: Command, shown: String, consequence: &'static str) -> io::Result<Self> {
        // At a terminal, it stays in the group to which Ctrl-C is sent, and which may ask for a password.
        let has_group = !stdin().is_terminal();
        if has_group {
            command.process_group(0);
        }
        let child = command.spawn()?;
        Ok(Self { child, shown, has_group, is_gone: false, consequence })
    }

    /// What errors call it.
    #[must_use]
    pub fn name(&self) -> String {
        format!("command {}", self.shown)
    }

    /// As [`name`](Self::name), before `command` is started.
    #[must_use]
    pub fn name_of(command: &[OsString]) -> String {
        format!("command {}", shown(command))
    }

    /// Whether it succeeded; `None`: it has not ended yet.
    ///
    /// # Errors
    /// It failed.
    pub fn succeeded(&mut self) -> Option<Result<(), Error>> {
        match self.exit_code().map_err(|e| Error::new(self.name(), e)) {
            Err(error) => Some(Err(error)),
            Ok(None) => None,
            Ok(Some(Some(0))) => Some(self.wait().map(drop)),
            Ok(Some(_)) => {
                // What it started, and left behind, has no use for a result any more.
                self.signal(Signal::TERM);
                Some(self.wait().and_then(|status| Err(Error::new(self.name(), outcome(status)).or(self.consequence))))
            }
        }
    }

    /// Its exit code if it has ended, `Some(None)` if a signal ended it. It is not waited for: its number stays its own.
    fn exit_code(&self) -> io::Result<Option<Option<i32>>> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let status = waitid(WaitId::Pid(Pid::from_child(&self.child)), options)?;
        Ok(status.map(|status| status.exit_status()))
    }

    fn wait(&mut self) -> Result<ExitStatus, Error> {
        self.is_gone = true;
        self.child.wait().map_err(|e| Error::new(self.name(), e))
    }

    /// Sends `signal` to it, and to all processes that it started if they are a group.
    fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        // It fails only if none of them is left.
        let _ = if self.has_group { kill_process_group(pid, signal) } else { kill_process(pid, signal) };
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        if self.is_gone {
            return;
        }
        self.signal(Signal::TERM);
        let begun = Instant::now();
        while begun.elapsed() < END_WAIT && matches!(self.exit_code(), Ok(None)) {
            thread::sleep(END_TURN);
        }
        self.signal(Signal::KILL);
        // Its status is of no use: the import has failed for another reason.
        let _ = self.wait();
    }
}

/// How a command ended.
fn outcome(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("it ended with exit status {code}"),
        (None, Some(signal)) => match name_of(signal) {
            Some(name) => format!("it was ended by signal {signal} ({name})"),
            None => format!("it was ended by signal {signal}"),
        },
        (None, None) => format!("it ended with {status}"),
    }
}

/// The command in one line.
fn shown(command: &[OsString]) -> String {
    let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
    let line: String = words.join(" ").chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    match line.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line,
    }
}
