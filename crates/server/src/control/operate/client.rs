//! The client's side.

use super::{Message, News};
use crate::control::client::Client;
use crate::control::protocol::{Command, Request, VERSION};
use crate::cos::transfer::{Job, Report, Watch};
use nitro_console::error::Error;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::fs::File;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::Duration;

/// How often `watch` is asked, at least.
const TURN: Duration = Duration::from_millis(100);

impl Client {
    /// Lets the server carry out an operation on the store at `store`, and tells `watch` about it. `open` opens the file that
    /// the operation needs, once the server has accepted it.
    ///
    /// # Errors
    /// The server refuses the operation, the file cannot be opened, the operation fails, or `watch` has ended it.
    pub fn operate(
        mut self,
        store: PathBuf,
        job: Job,
        open: impl FnOnce() -> Result<File, Error>,
        watch: &dyn Watch,
    ) -> Result<Report, Error> {
        self.send(&Request { version: VERSION, command: Command::Operate { store, job } })?;
        let mut open = Some(open);
        let (mut asked, mut failed) = (false, None);
        let mut ended = false;
        loop {
            if let Some(cause) = watch.end().filter(|_| !ended) {
                ended = true;
                self.tell(&Message::End { cause });
            }
            if asked && let Some(complete) = watch.complete() {
                asked = false;
                match complete {
                    Ok(()) => self.tell(&Message::Complete),
                    Err(error) => {
                        self.tell(&Message::End { cause: error.to_string() });
                        failed = Some(error);
                    }
                }
            }
            let Some(answer) = self.answer_within(TURN)? else { continue };
            match answer.news {
                Some(News::Descriptor) => match open.take() {
                    Some(open) => self.pass(&open()?)?,
                    None => return Err(self.strange()),
                },
                Some(News::Progress { what, unit, done, total }) => watch.show(&what, unit, done, total),
                Some(News::Note(text)) => watch.note(text),
                Some(News::Complete) => asked = true,
                None => {
                    // The server only knows that it was to end the operation.
                    let refused = answer.error.map(|error| failed.take().unwrap_or_else(|| Error::told(&error)));
                    return refused.map_or_else(|| answer.report.ok_or_else(|| self.strange()), Err);
                }
            }
        }
    }

    /// Tells the server something during the operation. If it has ended the connection, its answer is there to be read, or that
    /// there is none.
    fn tell(&mut self, message: &Message) {
        drop(self.send(message));
    }

    /// Passes a descriptor to the server.
    fn pass(&mut self, file: &File) -> Result<(), Error> {
        let descriptors = [file.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let is_put = ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
        debug_assert!(is_put, "there is room for one");
        let sent = sendmsg(self.socket(), &[IoSlice::new(b"\n")], &mut ancillary, SendFlags::NOSIGNAL);
        sent.map(drop).map_err(|e| self.broken(&e))
    }
}
