//! The client of the control socket.

use super::protocol::{Command, Explanation, Outcome, Request, Response, Settings, Status, VERSION};
use crate::serve::{CONTROL_SUFFIX, SYSTEM_FOLDER, runtime_folder};
use nitro_console::error::Error;
use serde::Serialize;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a server may take to answer.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// Longest answer in bytes.
const RESPONSE_BYTES_MAX: u64 = 64 << 20;

/// A connection to a running server.
pub struct Client {
    what: String,
    stream: BufReader<UnixStream>,
    /// The part of an answer that has arrived.
    line: Vec<u8>,
}

impl Client {
    /// Connects to the control socket at `path`, or else to that of the only server of this user.
    pub fn connect(path: Option<&Path>) -> Result<Self, Error> {
        let path = match path {
            Some(path) => path.to_owned(),
            None => find()?,
        };
        let what = format!("control socket {}", path.display());
        let set_up = |stream: UnixStream| stream.set_write_timeout(Some(ANSWER_MAX)).map(|()| stream);
        match UnixStream::connect(&path).and_then(set_up) {
            Ok(stream) => Ok(Self { what, stream: BufReader::new(stream), line: Vec::new() }),
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {
                Err(Error::new(what, "no server answers there")
                    .or("start one: nitro serve --origin IMAGE --cache FILE"))
            }
            Err(e) => Err(Error::new(what, e).or("run as the user who started the server")),
        }
    }

    /// Asks for the server's state.
    pub fn status(&mut self) -> Result<Status, Error> {
        let response = self.ask(Command::Status, Some(ANSWER_MAX))?;
        response.status.ok_or_else(|| self.strange())
    }

    /// Asks what a volume's cache knows about one offset.
    pub fn explain(&mut self, volume: &str, offset: u64) -> Result<Explanation, Error> {
        let response = self.ask(Command::Explain { volume: volume.to_owned(), offset }, Some(ANSWER_MAX))?;
        response.explained.ok_or_else(|| self.strange())
    }

    /// Asks for the settings in force.
    ///
    /// # Errors
    /// The server does not answer, or is too old.
    pub fn settings(&mut self) -> Result<Settings, Error> {
        let response = self.ask(Command::Settings, Some(ANSWER_MAX))?;
        response.settings.ok_or_else(|| self.strange())
    }

    /// Lets the server execute a command, without a time limit.
    pub fn execute(&mut self, command: Command) -> Result<Outcome, Error> {
        let response = self.ask(command, None)?;
        response.done.ok_or_else(|| self.strange())
    }

    pub(super) fn strange(&self) -> Error {
        Error::new(&self.what, "an answer of another kind").or("use the version of nitro that the server has")
    }

    pub(super) fn broken(&self, error: &dyn std::fmt::Display) -> Error {
        Error::new(&self.what, error).or("is the server still running?")
    }

    pub(super) fn socket(&self) -> &UnixStream {
        self.stream.get_ref()
    }

    fn ask(&mut self, command: Command, time_max: Option<Duration>) -> Result<Response, Error> {
        self.send(&Request { version: VERSION, command })?;
        self.socket().set_read_timeout(time_max).map_err(|e| self.broken(&e))?;
        self.read_line().map_err(|e| self.broken(&e))?;
        self.response()
    }

    /// Sends an object in a line.
    pub(super) fn send(&mut self, message: &impl Serialize) -> Result<(), Error> {
        let mut line = serde_json::to_string(message).map_err(|e| self.broken(&e))?;
        line.push('\n');
        let sent = self.stream.get_mut().write_all(line.as_bytes());
        sent.map_err(|e| self.broken(&e))
    }

    /// The next answer, if it arrives in a time.
    pub(super) fn answer_within(&mut self, time_max: Duration) -> Result<Option<Response>, Error> {
        self.socket().set_read_timeout(Some(time_max)).map_err(|e| self.broken(&e))?;
        match self.read_line() {
            Ok(()) => self.response().map(Some),
            // What has arrived is kept.
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(None),
            Err(e) => Err(self.broken(&e)),
        }
    }

    /// Reads up to the end of a line.
    fn read_line(&mut self) -> io::Result<()> {
        let room = RESPONSE_BYTES_MAX.saturating_sub(self.line.len() as u64);
        (&mut self.stream).take(room).read_until(b'\n', &mut self.line).map(drop)
    }

    /// The answer in the line that was read.
    fn response(&mut self) -> Result<Response, Error> {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            return Err(self.broken(&"the server has closed the connection"));
        }
        let response: Response = serde_json::from_slice(&line)
            .map_err(|e| Error::new(&self.what, e).or("use the version of nitro that the server has"))?;
        match &response.error {
            Some(error) if error.starts_with("malformed") || error.starts_with("version") => {
                Err(Error::new(&self.what, error).or("use the version of nitro that the server has"))
            }
            Some(error) => Err(Error::told(error)),
            None => Ok(response),
        }
    }
}

/// The control socket that `NITRO_CONTROL` names, else that of the only running server.
fn find() -> Result<PathBuf, Error> {
    if let Some(path) = std::env::var_os("NITRO_CONTROL").filter(|path| !path.is_empty()) {
        return Ok(path.into());
    }
    let own = runtime_folder();
    let folders = [own.as_path(), Path::new(SYSTEM_FOLDER)];
    let is_control = |path: &PathBuf| path.as_os_str().as_bytes().ends_with(CONTROL_SUFFIX.as_bytes());
    let entries = folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten();
    let mut live: Vec<PathBuf> = entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect();
    live.retain(|path| is_control(path) && UnixStream::connect(path).is_ok_and(|stream| is_served(&stream)));
    live.sort();
    match live.len() {
        1 => Ok(live.remove(0)),
        0 => {
            let where_to =
                format_args!("none is running with a control socket in {} or {SYSTEM_FOLDER}", own.display());
            Err(Error::new("server", where_to)
                .or("start one: nitro serve --origin IMAGE --cache FILE --cache-size SIZE; \
                or name its socket with --control or NITRO_CONTROL; or run as the user who started it"))
        }
        _ => {
            let list: Vec<_> = live.iter().map(|path| path.display().to_string()).collect();
            Err(Error::new("server", "several are running")
                .or(format_args!("name one with --control: {}", list.join(", "))))
        }
    }
}

/// Whether the listening process runs, and belongs to this user, to root, or to the owner of the system's folder. The
/// kernel may accept connections for a process that was killed a moment ago, as long as its I/O is in progress.
fn is_served(stream: &UnixStream) -> bool {
    let Ok(peer) = rustix::net::sockopt::socket_peercred(stream) else { return true };
    let of_system = fs::metadata(SYSTEM_FOLDER).map(|folder| rustix::process::Uid::from_raw(folder.uid())).ok();
    if ![Some(rustix::process::geteuid()), Some(rustix::process::Uid::ROOT), of_system].contains(&Some(peer.uid)) {
        return false;
    }
    is_running(peer.pid.as_raw_nonzero().get())
}

/// Whether a process runs. One that has ended, and that its parent has not asked for, does not.
pub(crate) fn is_running(pid: i32) -> bool {
    match fs::read_to_string(format!("/proc/{pid}/stat")) {
        // The state stands behind the name, which is in parentheses and may hold some.
        Ok(stat) => !stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['Z', 'X'])),
        Err(error) => error.kind() != std::io::ErrorKind::NotFound,
    }
}
