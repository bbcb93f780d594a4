//! Data that a command waits for (RFC 7143 §11.7, §11.8).

use super::command::Started;
use super::reply::Asker;
use super::state::Session;
use crate::protocol::{Header, NO_TAG, opcode};
use crate::scsi::{Command, Sense};
use nitro_port::buf::BufMut;

/// Bytes by which the buffer of a command's data grows at least.
const STEP_BYTES: usize = 64 << 10;

/// A command that waits for data.
pub(super) struct Incoming {
    pub(super) asker: Asker,
    pub(super) command: Command,
    pub(super) lun: [u8; 8],
    /// Data so far, and how many.
    pub(super) buf: BufMut,
    pub(super) received: u32,
    /// How many it takes.
    pub(super) wanted: u32,
    /// Up to where data come now: without being asked for, or because of the last R2T.
    pub(super) until: u32,
    /// The tag of the last R2T; [`NO_TAG`]: data come without.
    pub(super) transfer: u32,
    /// The next DataSN, and the next R2TSN.
    pub(super) data_sn: u32,
    pub(super) r2t_sn: u32,
}

impl Incoming {
    /// Bytes that the initiator has still to send.
    pub(super) fn owed_bytes(&self) -> u32 {
        self.wanted.saturating_sub(self.received)
    }

    /// Makes room for `len` bytes more, of those that it takes.
    pub(super) fn room(&mut self, len: usize) {
        let end = self.received as usize + len;
        if end > self.buf.len() {
            let step = STEP_BYTES.max(self.buf.len());
            self.buf.grow_to(end.max(self.buf.len() + step).min(self.wanted as usize));
        }
    }

    /// Checks a Data-Out PDU: it must be the next one.
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

/// What follows once a PDU's data are there.
pub(super) enum Next {
    /// More of them come.
    More,
    /// The command can be carried out.
    Start(Started),
}

impl<D> Session<'_, D> {
    /// Some data of a command are there; `is_final`: the last that were to come for now. Asks for more where there is need.
    pub(super) fn proceed(&self, mut incoming: Incoming, is_final: bool) -> Next {
        if incoming.received >= incoming.wanted && (is_final || incoming.transfer != NO_TAG) {
            return Next::Start(incoming.into());
        }
        if is_final {
            // Fewer than were asked for: the rest is asked for again.
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
