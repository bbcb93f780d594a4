//! A connection to the other side of a transfer between stores: frames over a socket, whose other end may do anything.

use super::Watch;
use super::export::Writer;
use nitro_console::error::Error;
use nitro_cos::{FrameReader, Message};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr};
use std::fs::File;
use std::io;

/// How often is checked whether the transfer has to end while nothing arrives.
const READ_WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// The connection, as one side has it.
pub(super) struct Link<'a> {
    file: File,
    out: Writer,
    watch: &'a dyn Watch,
    /// What errors call the other side.
    peer: &'a str,
    reader: FrameReader,
    /// The number of frames that were sent.
    number: u64,
    /// Bytes that were sent, and that were received.
    pub(super) bytes: (u64, u64),
}

impl<'a> Link<'a> {
    /// # Errors
    /// It is no connection.
    pub(super) fn new(file: File, peer: &'a str, watch: &'a dyn Watch) -> Result<Self, Error> {
        let fail = |e: io::Error| Error::new(peer, e);
        // Writes then take what there is room for.
        rustix::io::ioctl_fionbio(&file, true).map_err(|e| fail(e.into()))?;
        let out = Writer::new(file.try_clone().map_err(fail)?).map_err(fail)?;
        Ok(Self { file, out, watch, peer, reader: FrameReader::default(), number: 0, bytes: (0, 0) })
    }

    fn error(&self, why: impl std::fmt::Display) -> Error {
        Error::new(self.peer, why)
    }

    fn check_end(&self) -> Result<(), Error> {
        let interrupted = |cause| self.error(format_args!("{cause} interrupted the transfer"));
        self.watch.end().map_or(Ok(()), |cause| Err(interrupted(cause)))
    }

    /// Says something to the other side.
    ///
    /// # Errors
    /// The reason for which the other side has ended the connection, if it has given one; or the transfer has to end.
    pub(super) fn say(&mut self, message: &Message) -> Result<(), Error> {
        let frame = message.encode(self.number);
        self.number += 1;
        self.bytes.0 += frame.len() as u64;
        let written = self.out.write_all(&frame, || self.watch.end().is_some());
        self.check_end()?;
        if let Err(error) = written {
            // What it has said last is still there to be read.
            while let Some(message) = self.hear()? {
                drop(message);
            }
            return Err(match error.kind() {
                io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => self.unexpected(None),
                _ => self.error(error),
            });
        }
        Ok(())
    }

    /// Tells the other side why the transfer fails, if it still listens.
    pub(super) fn fail(&mut self, error: &Error) {
        let frame = Message::Failed(error.to_string()).encode(self.number);
        // The transfer fails in any case.
        let _ = self.out.write_all(&frame, || self.watch.end().is_some());
    }

    /// What the other side says next; `None`: it has ended the connection.
    ///
    /// # Errors
    /// It says that it has failed, or what no other side would say; or the transfer has to end.
    pub(super) fn hear(&mut self) -> Result<Option<Message>, Error> {
        let mut frame = Vec::new();
        if !self.take(&mut frame, FrameReader::FIRST_BYTES)? {
            return Ok(None);
        }
        let rest = FrameReader::rest(&frame).map_err(|e| self.strange(&e))?;
        if !self.take(&mut frame, rest)? {
            return Ok(None);
        }
        match self.reader.frame(&frame.into()).map_err(|e| self.strange(&e))? {
            Message::Failed(why) => Err(self.error(why)),
            message => Ok(Some(message)),
        }
    }

    fn strange(&self, error: &dyn std::fmt::Display) -> Error {
        self.error(error)
            .or("nitro cos send and nitro cos receive, of the same version, talk to each other; nothing else may")
    }

    /// The error if the other side says something that does not belong here, or nothing more.
    pub(super) fn unexpected(&self, message: Option<&Message>) -> Error {
        match message {
            Some(_) => self.strange(&"an answer of another kind"),
            None => self.error("it has ended the connection"),
        }
    }

    /// Appends the next `len` bytes. False: the connection ended before that.
    fn take(&mut self, bytes: &mut Vec<u8>, len: usize) -> Result<bool, Error> {
        let mut at = bytes.len();
        bytes.resize(at + len, 0);
        while at < bytes.len() {
            match self.read(&mut bytes[at..])? {
                0 => return Ok(false),
                read => at += read,
            }
        }
        Ok(true)
    }

    fn read(&mut self, buf: &mut [u8]) -> Result<usize, Error> {
        loop {
            self.check_end()?;
            match retry_on_intr(|| rustix::io::read(&self.file, &mut *buf)) {
                Ok(read) => {
                    self.bytes.1 += read as u64;
                    return Ok(read);
                }
                Err(Errno::AGAIN) => {
                    let ready = poll(&mut [PollFd::new(&self.file, PollFlags::IN)], Some(&READ_WAIT));
                    match ready {
                        Ok(_) | Err(Errno::INTR) => {}
                        Err(error) => return Err(self.error(io::Error::from(error))),
                    }
                }
                // The other side has ended with something unread.
                Err(Errno::CONNRESET) => return Ok(0),
                Err(error) => return Err(self.error(io::Error::from(error))),
            }
        }
    }
}
