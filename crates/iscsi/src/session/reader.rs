//! Receives PDUs.

use super::command::Started;
use super::data::Incoming;
use super::reply::Asker;
use super::state::Session;
use crate::error::IscsiError;
use crate::protocol::{DIGEST_BYTES, Digest, HEADER_BYTES, Header, NO_TAG, RunningDigest, crc32c, opcode, padding_of};
use crate::server::End;
use bytes::Bytes;
use nitro_frontend::transport::ReadHalf;
use nitro_frontend::{Disk, Disks, Receiver};

/// Bytes that are received at a time of data that are not those of a command.
const PART_BYTES: usize = 4096;
/// Most bytes of ping data for which no memory is taken.
const SMALL_PING_BYTES: usize = 512;

/// Receives PDUs until the initiator disconnects or an error occurs. Passes each command that cannot be answered at
/// once to `start`.
pub(super) async fn read_pdus<X: Disks, R: ReadHalf>(
    session: &Session<'_, X::Disk>,
    disks: &X,
    mut receiver: Receiver<R>,
    mut start: impl FnMut(Started),
) -> Result<End, IscsiError> {
    loop {
        let Some(header) = session.header(&mut receiver).await? else { return Ok(End::HungUp) };
        session.turn().await;
        if !session.is_due(&header, &mut receiver).await? {
            continue;
        }
        let started = match header.opcode() {
            opcode::SCSI_COMMAND => session.command(&header, &mut receiver).await?,
            opcode::DATA_OUT => session.data_out(&header, &mut receiver).await?,
            other => {
                match (other, session.request(&header, &mut receiver).await?) {
                    (_, None) => {}
                    (opcode::NOP_OUT, Some(request)) => session.ping(&header, request),
                    (opcode::TEXT, Some(request)) => session.answer_text(&header, &request.data, disks),
                    (opcode::TASK_MANAGEMENT, Some(_)) => session.manage(&header),
                    (opcode::LOGOUT, Some(_)) => {
                        session.log_out(&header);
                        return Ok(End::LoggedOut);
                    }
                    _ => session.reject(&header, opcode::REASON_UNSUPPORTED),
                }
                None
            }
        };
        match started {
            Some(started) => {
                session.connection.pace.note_begun();
                start(started);
            }
            None => session.connection.pace.note_answered(),
        }
    }
}

/// The data of a request other than a command, and the bytes of memory that they hold.
struct Request {
    data: Bytes,
    bytes: u64,
}

impl<D: Disk> Session<'_, D> {
    /// Receives the next header. `None`: the initiator closed the stream.
    async fn header<R: ReadHalf>(&self, receiver: &mut Receiver<R>) -> Result<Option<Header>, IscsiError> {
        if !receiver.fill(HEADER_BYTES).await? {
            return if receiver.window().is_empty() { Ok(None) } else { Err(IscsiError::Truncated) };
        }
        let header = Header::parse(receiver.window()).ok_or(IscsiError::Truncated)?;
        let (segments, digest) = (HEADER_BYTES + header.additional_bytes(), self.scene.params.header_digest);
        if !receiver.fill(segments + digest.bytes()).await? {
            return Err(IscsiError::Truncated);
        }
        let window = receiver.window();
        if digest == Digest::Crc32c && crc32c([&window[..segments]]) != window[segments..segments + DIGEST_BYTES] {
            return Err(IscsiError::HeaderDigest);
        }
        receiver.consume(segments + digest.bytes());
        if header.data_bytes() > self.limits().segment_bytes_max as usize {
            return Err(IscsiError::Protocol("a data segment is longer than the declared maximum"));
        }
        Ok(Some(header))
    }

    /// Whether a request is immediate, or the next one in order (RFC 7143 §4.2.2.1). Others are discarded with their
    /// data.
    async fn is_due<R: ReadHalf>(&self, header: &Header, receiver: &mut Receiver<R>) -> Result<bool, IscsiError> {
        let has_number = !matches!(header.opcode(), opcode::DATA_OUT | opcode::SNACK);
        let is_due = if !has_number {
            true
        } else if header.is_immediate() {
            if self.immediate.get() >= self.limits().immediate_max {
                self.skip_segment(receiver, header.data_bytes()).await?;
                self.reject(header, opcode::REASON_TOO_MANY_IMMEDIATE);
                return Ok(false);
            }
            true
        } else {
            let is_next = header.word(24) == self.cmd_sn.get();
            is_next && self.in_window.get() < self.limits().tasks_max
        };
        if !is_due {
            self.skip_segment(receiver, header.data_bytes()).await?;
            return Ok(false);
        }
        if has_number && !header.is_immediate() {
            self.cmd_sn.set(self.cmd_sn.get().wrapping_add(1));
        }
        Ok(true)
    }

    /// Discards a data segment.
    pub(super) async fn skip_segment<R: ReadHalf>(
        &self,
        receiver: &mut Receiver<R>,
        len: usize,
    ) -> Result<(), IscsiError> {
        let digest = if len > 0 { self.scene.params.data_digest.bytes() } else { 0 };
        match receiver.skip(len + padding_of(len) + digest).await? {
            true => Ok(()),
            false => Err(IscsiError::Truncated),
        }
    }

    /// Receives the data of a request other than a command. `None`: it was rejected, because their checksum is wrong
    /// (RFC 7143 §7.8), they are too long, or there is no memory for them.
    async fn request<R: ReadHalf>(
        &self,
        header: &Header,
        receiver: &mut Receiver<R>,
    ) -> Result<Option<Request>, IscsiError> {
        let len = header.data_bytes();
        if len == 0 {
            return Ok(Some(Request { data: Bytes::new(), bytes: 0 }));
        }
        // Ping data are kept until they are sent back. A text is answered at once. Other requests have no data.
        let (kept, bytes) = match header.opcode() {
            opcode::NOP_OUT if len > SMALL_PING_BYTES => (len, len as u64),
            opcode::NOP_OUT => (len, 0),
            opcode::TEXT => (len.min(self.limits().text_bytes_max), 0),
            _ => (0, 0),
        };
        if bytes > 0 && !self.take(bytes).await {
            self.skip_segment(receiver, len).await?;
            self.reject(header, opcode::REASON_OUT_OF_RESOURCES);
            return Ok(None);
        }
        let reason = match self.receive_request(len, kept, receiver).await? {
            None => opcode::REASON_DATA_DIGEST,
            Some(_) if header.opcode() == opcode::TEXT && kept < len => opcode::REASON_PROTOCOL,
            Some(data) => return Ok(Some(Request { data, bytes })),
        };
        self.connection.share.give(bytes);
        self.reject(header, reason);
        Ok(None)
    }

    /// Receives a data segment of `len` bytes, and returns its first `kept` bytes. `None`: its checksum is wrong.
    async fn receive_request<R: ReadHalf>(
        &self,
        len: usize,
        kept: usize,
        receiver: &mut Receiver<R>,
    ) -> Result<Option<Bytes>, IscsiError> {
        let mut digest = RunningDigest::new(self.scene.params.data_digest);
        let (mut data, mut rest) = (Vec::new(), len + padding_of(len));
        while rest > 0 {
            let part = rest.min(PART_BYTES);
            if !receiver.fill(part).await? {
                return Err(IscsiError::Truncated);
            }
            let received = &receiver.window()[..part];
            digest.add(received);
            data.extend_from_slice(&received[..part.min(kept - data.len())]);
            receiver.consume(part);
            rest -= part;
        }
        Ok(self.ends_right(&digest, receiver).await?.then(|| data.into()))
    }

    /// Receives the checksum of a data segment, and returns whether it is right.
    async fn ends_right<R: ReadHalf>(
        &self,
        digest: &RunningDigest,
        receiver: &mut Receiver<R>,
    ) -> Result<bool, IscsiError> {
        let bytes = digest.bytes();
        if !receiver.fill(bytes).await? {
            return Err(IscsiError::Truncated);
        }
        let is_right = digest.is_right(&receiver.window()[..bytes]);
        receiver.consume(bytes);
        Ok(is_right)
    }

    /// Receives a data segment of a command, and discards data that the command does not take. The inner error: the
    /// checksum is wrong.
    pub(super) async fn receive_into<R: ReadHalf>(
        &self,
        mut incoming: Incoming,
        len: usize,
        receiver: &mut Receiver<R>,
    ) -> Result<Result<Incoming, Asker>, IscsiError> {
        if len == 0 {
            return Ok(Ok(incoming));
        }
        let taken = len.min(incoming.owed_bytes() as usize);
        let start = incoming.received as usize;
        if taken > 0 {
            incoming.room(taken);
            let (is_whole, buf) = receiver.payload_into(incoming.buf, start, taken).await?;
            incoming.buf = buf;
            if !is_whole {
                return Err(IscsiError::Truncated);
            }
        }
        let mut digest = RunningDigest::new(self.scene.params.data_digest);
        // If the command takes no more data, the buffer may end before `start`.
        digest.add(incoming.buf.get(start..start + taken).unwrap_or_default());
        let mut rest = len - taken + padding_of(len);
        while rest > 0 {
            let part = rest.min(PART_BYTES);
            if !receiver.fill(part).await? {
                return Err(IscsiError::Truncated);
            }
            digest.add(&receiver.window()[..part]);
            receiver.consume(part);
            rest -= part;
        }
        if !self.ends_right(&digest, receiver).await? {
            return Ok(Err(incoming.asker));
        }
        incoming.received += len as u32;
        self.connection.counts.bytes_written.add(taken as u64);
        Ok(Ok(incoming))
    }

    /// Answers a NOP-Out (RFC 7143 §11.18).
    fn ping(&self, header: &Header, request: Request) {
        let Request { data, bytes } = request;
        if header.tag() == NO_TAG {
            self.connection.share.give(bytes);
            return;
        }
        let data = data.slice(..data.len().min(self.scene.params.segment_bytes as usize));
        let mut reply = Header::new(opcode::NOP_IN, 0x80, header.tag()).with(20, NO_TAG);
        reply.0[8..16].copy_from_slice(&header.lun());
        self.send(reply, true, &[data]);
        self.end_reply(bytes);
    }
}
