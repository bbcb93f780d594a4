//! PDUs to the initiator.

use super::order::Place;
use super::state::Session;
use crate::protocol::{Digest, Header, NO_TAG, crc32c, opcode, padding_of};
use crate::scsi::{Sense, Status};
use bytes::{BufMut as _, Bytes};
use nitro_frontend::Pieces;

/// Flags of a response (RFC 7143 §11.4.1, §11.7.1).
const FINAL: u8 = 0x80;
const OVERFLOW: u8 = 0x04;
const UNDERFLOW: u8 = 0x02;
const HAS_STATUS: u8 = 0x01;

/// The part of a command that its response needs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asker {
    pub(super) tag: u32,
    /// Bytes of data that the initiator expects to read, or to write.
    pub(super) expected_in: u32,
    pub(super) expected_out: u32,
    /// The command is for logical unit 0, which is the only one.
    pub(super) is_unit: bool,
    /// The command is for immediate delivery and does not count in the window.
    pub(super) immediate: bool,
    /// Bytes of memory that the command holds.
    pub(super) bytes: u64,
    /// The command's place in the task set.
    pub(super) place: Place,
}

/// Flag and count of the residual: expected bytes that were not transferred, or bytes beyond the expected ones.
fn residual(expected: u64, actual: u64) -> (u8, u32) {
    let count = |more: u64| u32::try_from(more).unwrap_or(u32::MAX);
    match expected.cmp(&actual) {
        std::cmp::Ordering::Less => (OVERFLOW, count(actual - expected)),
        std::cmp::Ordering::Equal => (0, 0),
        std::cmp::Ordering::Greater => (UNDERFLOW, count(expected - actual)),
    }
}

impl<D> Session<'_, D> {
    /// The next StatSN; `takes`: this PDU takes it.
    fn stat_sn(&self, takes: bool) -> u32 {
        let number = self.stat_sn.get();
        if takes {
            self.stat_sn.set(number.wrapping_add(1));
        }
        number
    }

    /// Queues a PDU with the session's numbers; `takes`: it takes a StatSN.
    pub(super) fn send(&self, header: Header, takes: bool, data: &[Bytes]) {
        // MaxCmdSN: the window has room for the commands that may still arrive.
        let window = self.limits().tasks_max.saturating_sub(self.in_window.get());
        let expected = self.cmd_sn.get();
        let len = data.iter().map(Bytes::len).sum::<usize>();
        let header = header
            .with(24, self.stat_sn(takes))
            .with(28, expected)
            .with(32, expected.wrapping_add(window).wrapping_sub(1))
            .with_data(len);
        let mut queue = self.connection.queue();
        let out = queue.headers();
        out.put_slice(&header.0);
        if self.scene.params.header_digest == Digest::Crc32c {
            out.put_slice(&crc32c([&header.0[..]]));
        }
        if len == 0 {
            return;
        }
        data.iter().for_each(|piece| queue.push(piece.clone()));
        let padding = &[0; 3][..padding_of(len)];
        let out = queue.headers();
        out.put_slice(padding);
        if self.scene.params.data_digest == Digest::Crc32c {
            out.put_slice(&crc32c(data.iter().map(|piece| &piece[..]).chain([padding])));
        }
    }

    /// Removes a command from the window and from the task set, since its response is queued or it gets none.
    fn settle(&self, asker: &Asker) {
        self.tasks.borrow_mut().leave(asker.place);
        let room = if asker.immediate { &self.immediate } else { &self.in_window };
        room.set(room.get().saturating_sub(1));
        self.connection.counts.requests.add(1);
    }

    /// Ends a command without a response and releases its memory.
    pub(super) fn drop_command(&self, asker: &Asker) {
        self.settle(asker);
        self.connection.share.give(asker.bytes);
        self.connection.note_change();
    }

    /// Ends a command without data for the initiator. `actual`: bytes that it would have transferred, which determine
    /// the residual count.
    pub(super) fn respond(&self, asker: &Asker, status: Status, actual: u64) {
        self.settle(asker);
        let expected = u64::from(asker.expected_in.max(asker.expected_out));
        let (flags, count) = residual(expected, actual);
        let header =
            Header::new(opcode::SCSI_RESPONSE, FINAL | flags, asker.tag).with_byte(3, status.code()).with(44, count);
        match status {
            Status::Check(sense) => {
                self.send(header, true, &[self.sense_segment(sense)]);
            }
            _ => self.send(header, true, &[]),
        }
        self.end_reply(asker.bytes);
    }

    /// The data segment of a response with sense data (RFC 7143 §11.4.7): their length, and the sense data in the format
    /// that D_SENSE requires.
    fn sense_segment(&self, sense: Sense) -> Bytes {
        let is_descriptor = self.unit.is_some_and(|unit| unit.target.modes.has_descriptor_sense());
        let sense = if is_descriptor { sense.descriptor_bytes() } else { sense.bytes().to_vec() };
        let len = (sense.len() as u16).to_be_bytes();
        [&len[..], &sense].concat().into()
    }

    /// Ends a command with data for the initiator, of which it gets at most as many as it expects.
    pub(super) fn respond_with(&self, asker: &Asker, pieces: Pieces) {
        let actual: u64 = pieces.iter().map(|piece| piece.len() as u64).sum();
        let total = actual.min(asker.expected_in.into()) as usize;
        if total == 0 {
            return self.respond(asker, Status::Good, actual);
        }
        self.settle(asker);
        self.connection.counts.bytes_read.add(total as u64);
        let (flags, missing) = residual(asker.expected_in.into(), actual);
        let (segment, burst) = (self.scene.params.segment_bytes as usize, self.scene.params.burst_bytes as usize);
        let mut rest = pieces.into_iter();
        let (mut next, mut at, mut number) = (Bytes::new(), 0, 0);
        let mut parts = Pieces::new();
        while at < total {
            // A sequence ends at a multiple of the burst length (RFC 7143 §11.7.1).
            let len = segment.min(total - at).min(burst - at % burst);
            parts.clear();
            let mut wanted = len;
            while wanted > 0 {
                if next.is_empty() {
                    // Not reached: `total` is at most the length of all pieces.
                    let Some(piece) = rest.next() else { break };
                    next = piece;
                    continue;
                }
                let part = next.split_to(next.len().min(wanted));
                wanted -= part.len();
                parts.push(part);
            }
            let is_last = at + len == total;
            let ends = is_last || (at + len).is_multiple_of(burst);
            let mut header = Header::new(opcode::DATA_IN, if ends { FINAL } else { 0 }, asker.tag)
                .with(20, NO_TAG)
                .with(36, number)
                .with(40, at as u32);
            if is_last {
                header = header.with_byte(1, FINAL | HAS_STATUS | flags).with(44, missing);
            }
            self.send(header, is_last, &parts);
            at += len;
            number += 1;
        }
        self.end_reply(asker.bytes);
    }

    /// Rejects a PDU (RFC 7143 §11.17). The reply contains the PDU's header.
    pub(super) fn reject(&self, header: &Header, reason: u8) {
        tracing::debug!(opcode = header.opcode(), reason, "PDU rejected");
        let reply = Header::new(opcode::REJECT, FINAL, NO_TAG).with_byte(2, reason);
        self.send(reply, true, &[Bytes::copy_from_slice(&header.0)]);
        self.end_reply(0);
    }
}
