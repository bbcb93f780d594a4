//! Data that the initiator sends for commands, and R2T, which requests them (RFC 7143 §11.7, §11.8).

use super::command::{Complete, Started};
use super::reply::Asker;
use super::state::Session;
use crate::protocol::{Header, NO_TAG, opcode};
use crate::scsi::{Command, Sense};
use nitro_frontend::Disk;
use nitro_port::buf::BufMut;

/// Least number of bytes by which the buffer of a command's data grows.
const STEP_BYTES: usize = 64 << 10;

/// A command that waits for data.
pub(super) struct Incoming {
    pub(super) asker: Asker,
    pub(super) command: Command,
    pub(super) lun: [u8; 8],
    /// The data received so far, and their length in bytes.
    pub(super) buf: BufMut,
    pub(super) received: u32,
    /// Bytes of data that the command takes.
    pub(super) wanted: u32,
    /// The offset at which the present sequence of data ends: the unsolicited data, or those that the last R2T
    /// requested.
    pub(super) until: u32,
    /// The target transfer tag of the last R2T; [`NO_TAG`] for unsolicited data.
    pub(super) transfer: u32,
    /// The next DataSN, and the next R2TSN.
    pub(super) data_sn: u32,
    pub(super) r2t_sn: u32,
    /// Whether the command can be executed when its data have arrived. Otherwise it waits for other commands.
    pub(super) is_enabled: bool,
}

impl Incoming {
    /// Bytes that the initiator still has to send.
    pub(super) fn owed_bytes(&self) -> u32 {
        self.wanted.saturating_sub(self.received)
    }

    /// Grows the buffer for `len` more bytes of the command's data.
    pub(super) fn room(&mut self, len: usize) {
        let end = self.received as usize + len;
        if end > self.buf.len() {
            let step = STEP_BYTES.max(self.buf.len());
            self.buf.grow_to(end.max(self.buf.len() + step).min(self.wanted as usize));
        }
    }

    /// Checks the tag, number, offset and length of a Data-Out PDU: it must be the next one of the sequence.
    pub(super) fn check(&self, header: &Header) -> Result<(), Sense> {
        let len = header.data_bytes() as u32;
        if header.word(20) != self.transfer {
            return Err(Sense::UNEXPECTED_DATA);
        }
        if header.word(36) != self.data_sn || header.word(40) != self.received {
            return Err(Sense::DATA_ORDER);
        }
        match self.received.checked_add(len) {
            Some(end) if end <= self.until => Ok(()),
            _ => Err(Sense::UNEXPECTED_DATA),
        }
    }
}

/// The next step after the data of a PDU were received.
enum Next {
    /// The command waits for more data.
    More,
    /// All data have arrived.
    Complete(Complete),
}

impl<D: Disk> Session<'_, D> {
    /// Continues a command after data were received; `is_final`: they end the sequence. Then missing data are
    /// requested. Returns the command if it can be executed.
    pub(super) fn advance(&self, incoming: Incoming, is_final: bool) -> Option<Started> {
        let is_enabled = incoming.is_enabled;
        match self.proceed(incoming, is_final) {
            Next::Complete(complete) => self.accept(complete, is_enabled),
            Next::More => None,
        }
    }

    fn proceed(&self, mut incoming: Incoming, is_final: bool) -> Next {
        if incoming.received >= incoming.wanted && (is_final || incoming.transfer != NO_TAG) {
            return Next::Complete(incoming.into());
        }
        if is_final {
            // The sequence has ended and data are missing: an R2T requests them.
            self.ask(&mut incoming);
        }
        let tag = incoming.asker.tag;
        self.incoming.borrow_mut().insert(tag, incoming);
        self.note_owed();
        Next::More
    }

    fn ask(&self, incoming: &mut Incoming) {
        let len = incoming.owed_bytes().min(self.scene.params.burst_bytes);
        incoming.until = incoming.received + len;
        incoming.transfer = self.next_transfer.get();
        self.next_transfer.set(match incoming.transfer.wrapping_add(1) {
            NO_TAG => 0,
            next => next,
        });
        incoming.data_sn = 0;
        let mut header = Header::new(opcode::R2T, 0x80, incoming.asker.tag)
            .with(20, incoming.transfer)
            .with(36, incoming.r2t_sn)
            .with(40, incoming.received)
            .with(44, len);
        header.0[8..16].copy_from_slice(&incoming.lun);
        incoming.r2t_sn += 1;
        self.send(header, false, &[]);
        self.connection.note_change();
    }
}
