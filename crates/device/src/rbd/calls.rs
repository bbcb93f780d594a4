//! What an image is asked to do without waiting, and how it answers.

use bytes::Bytes;
use futures_channel::oneshot;
use nitro_port::buf::BufMut;

/// A request for an image, with the memory that it reads or writes: whoever carries it out owns that memory until it has answered.
pub enum Request {
    /// Fills the buffer from an offset in bytes.
    Read {
        /// In bytes.
        offset: u64,
        /// As long as the range.
        into: BufMut,
    },
    /// Writes at an offset in bytes.
    Write {
        /// In bytes.
        offset: u64,
        /// The bytes.
        data: Bytes,
    },
    /// Tells that the content of a range is not needed.
    Discard {
        /// In bytes.
        offset: u64,
        /// In bytes.
        len: u64,
    },
    /// Makes a range read as zeroes.
    WriteZeroes {
        /// In bytes.
        offset: u64,
        /// In bytes.
        len: u64,
        /// Its storage may be released.
        may_unmap: bool,
    },
    /// Makes durable what was written before.
    Flush,
}

/// A request's answer.
pub(super) struct Answer {
    /// Bytes read, or at least 0; a negative number of the operating system's errors (errno(3)).
    pub(super) result: i64,
    /// The request, with its memory.
    pub(super) request: Request,
}

/// To whom a request is answered.
pub struct Done(oneshot::Sender<Answer>);

impl Done {
    /// A request's two ends.
    pub(super) fn new() -> (Self, oneshot::Receiver<Answer>) {
        let (sender, receiver) = oneshot::channel();
        (Self(sender), receiver)
    }

    /// Answers: see [`Answer`] for the result. Any thread may do this.
    pub fn end(self, result: i64, request: Request) {
        // Whoever asked may have given up: the memory is free then.
        let _ = self.0.send(Answer { result, request });
    }
}

/// An open image that carries out requests side by side.
pub trait Calls: Send + Sync + 'static {
    /// Begins a request. `done` is answered once, with the same request, now or later, by any thread.
    fn begin(&self, request: Request, done: Done);
}
