//! The two halves of a connection.

use super::adopt;
use crate::buffer::IoBuffer;
use crate::runtime::{Lent, adopt_socket};
use bytes::{Buf, Bytes};
use compio::driver::op::{Interest, PollOnce, Recv, RecvFlags, SendFlags, SendVectored};
use compio::runtime::submit;
use compio_buf::{BufResult, IntoInner, IoVectoredBuf};
use nitro_port::buf::BufMut;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{self, RecvAncillaryBuffer, RecvAncillaryMessage, Shutdown, recvmsg};
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::sync::Arc;

/// The maximum number of buffers in one system call (`IOV_MAX`).
const PIECES_MAX: usize = 1024;
/// `MSG_WAITALL`: a ring then continues after a partial send (io_uring_prep_sendmsg(3)).
const WAIT_ALL: SendFlags = SendFlags::from_bits_retain(0x100);

pub(super) fn split(socket: Arc<OwnedFd>) -> io::Result<(StreamReader, StreamWriter)> {
    adopt(&socket)?;
    adopt_socket(&socket);
    Ok((StreamReader { socket: Arc::clone(&socket) }, StreamWriter { socket }))
}

/// The receiving half of a connection.
#[derive(Debug)]
pub struct StreamReader {
    socket: Arc<OwnedFd>,
}

impl StreamReader {
    /// Receives bytes into `buf[start..]` and returns their number; 0 means that the peer will send no more.
    ///
    /// # Errors
    /// The error of the operating system.
    ///
    /// # Panics
    /// If `start` is not before the end of `buf`.
    pub async fn read(&mut self, buf: BufMut, start: usize) -> (io::Result<usize>, BufMut) {
        assert!(start < buf.len(), "no room to receive into");
        let mut buf = buf;
        loop {
            let op = Recv::new(Lent::new(&self.socket), IoBuffer::new(buf, start), RecvFlags::empty());
            let BufResult(result, op) = submit(op).await;
            buf = op.into_inner().into_buf();
            match result {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                result => return (result, buf),
            }
        }
    }

    /// Receives one byte, and the descriptor that the peer of a unix socket passes with it (`SCM_RIGHTS` of unix(7)). `None`:
    /// the peer passes none, or will send no more. Further descriptors are closed.
    ///
    /// # Errors
    /// The error of the operating system.
    pub async fn receive_descriptor(&mut self) -> io::Result<Option<OwnedFd>> {
        loop {
            let ready = submit(PollOnce::new(Lent::new(&self.socket), Interest::Readable)).await;
            ready.0?;
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut ancillary = RecvAncillaryBuffer::new(&mut space);
            let (mut byte, flags) = ([0], net::RecvFlags::DONTWAIT | net::RecvFlags::CMSG_CLOEXEC);
            match recvmsg(&self.socket, &mut [IoSliceMut::new(&mut byte)], &mut ancillary, flags) {
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(error) => return Err(error.into()),
                Ok(_) => {
                    let passed = ancillary.drain().filter_map(|message| match message {
                        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
                        _ => None,
                    });
                    return Ok(passed.flatten().next());
                }
            }
        }
    }
}

/// The sending half of a connection.
#[derive(Debug)]
pub struct StreamWriter {
    socket: Arc<OwnedFd>,
}

impl StreamWriter {
    /// Sends all `pieces`, in order, with as few system calls as possible. Returns the empty vector for reuse.
    ///
    /// # Errors
    /// The error of the operating system; the number of bytes sent is then unknown.
    pub async fn write_all(&mut self, pieces: Vec<Bytes>) -> (io::Result<()>, Vec<Bytes>) {
        let mut batch = Batch { pieces, next: 0 };
        let mut outcome = Ok(());
        batch.advance(0);
        while outcome.is_ok() && !batch.is_done() {
            let op = SendVectored::new(Lent::new(&self.socket), batch, SendFlags::NOSIGNAL | WAIT_ALL);
            let BufResult(result, op) = submit(op).await;
            batch = op.into_inner();
            match result {
                Ok(0) => outcome = Err(io::ErrorKind::WriteZero.into()),
                Ok(sent) => batch.advance(sent),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => outcome = Err(e),
            }
        }
        batch.pieces.clear();
        (outcome, batch.pieces)
    }

    /// Ends the sending direction; the peer's data can still be received.
    ///
    /// # Errors
    /// The error of the operating system.
    pub fn shutdown(&mut self) -> io::Result<()> {
        Ok(rustix::net::shutdown(&self.socket, Shutdown::Write)?)
    }
}

/// Buffers of which those before `next`, and a part of the one at `next`, have been sent.
struct Batch {
    pieces: Vec<Bytes>,
    next: usize,
}

impl Batch {
    fn is_done(&self) -> bool {
        self.next == self.pieces.len()
    }

    /// Notes that `sent` more bytes have been sent.
    fn advance(&mut self, mut sent: usize) {
        while let Some(piece) = self.pieces.get_mut(self.next) {
            if sent < piece.len() {
                piece.advance(sent);
                return;
            }
            sent -= piece.len();
            self.next += 1;
        }
    }
}

impl IoVectoredBuf for Batch {
    fn iter_slice(&self) -> impl Iterator<Item = &[u8]> {
        self.pieces[self.next..].iter().take(PIECES_MAX).map(|piece| &piece[..])
    }
}
