//! Receives SCSI commands and their data. A command is checked, then answered at once if possible; otherwise it is
//! started, or its data are requested.

use super::data::Incoming;
use super::order::{Attribute, Place};
use super::reply::Asker;
use super::state::Session;
use crate::error::IscsiError;
use crate::protocol::{Header, NO_TAG, opcode};
use crate::scsi::{Action, BLOCK_BYTES, Command, Facts, Sense, Status, parse};
use bytes::Bytes;
use nitro_frontend::transport::ReadHalf;
use nitro_frontend::{Disk, Pieces, Receiver, Requester};
use nitro_port::buf::BufMut;
use std::cell::Cell;
use std::rc::Rc;

/// Flags of a command (RFC 7143 §11.3.1).
const READS: u8 = 0x40;
const WRITES: u8 = 0x20;
/// Most bytes of memory for the answer to a command with parameter data.
const PARAMETER_BYTES: u64 = 4096;
/// Bytes of a step of commands that process a range step by step.
pub(super) const STEP_BYTES: u32 = 1 << 20;
/// Longest parameter list in bytes.
const LIST_BYTES_MAX: u64 = 64 << 10;

/// A command whose data have arrived.
pub(super) struct Complete {
    pub(super) asker: Asker,
    pub(super) command: Command,
    pub(super) data: Bytes,
}

impl From<Incoming> for Complete {
    fn from(incoming: Incoming) -> Self {
        let Incoming { asker, command, mut buf, received, .. } = incoming;
        buf.truncate(received as usize);
        Self { asker, command, data: buf.freeze() }
    }
}

/// A command that is executed by a task.
pub(super) struct Started {
    pub(super) asker: Asker,
    pub(super) command: Command,
    pub(super) data: Bytes,
    pub(super) is_unwanted: Rc<Cell<bool>>,
}

impl<D: Disk> Session<'_, D> {
    /// Receives a command and its immediate data. `None`: it was answered, or waits for data.
    pub(super) async fn command<R: ReadHalf>(
        &self,
        header: &Header,
        receiver: &mut Receiver<R>,
    ) -> Result<Option<Started>, IscsiError> {
        let len = header.data_bytes();
        let announced = self.check_announced(header, len)?;
        if self.is_known(header.tag()) {
            self.skip_segment(receiver, len).await?;
            self.reject(header, opcode::REASON_TASK_IN_PROGRESS);
            return Ok(None);
        }
        let mut asker = self.asker(header);
        let attribute = Attribute::of(header.flags());
        let is_enabled = attribute.is_some_and(|attribute| self.tasks.borrow().enables(attribute));
        let checked = match attribute {
            Some(attribute) => self
                .check(parse(&header.cdb(), self.block_bytes()), &asker, is_enabled)
                .map(|command| (attribute, command)),
            None => Err(Status::Check(Sense::INVALID_MESSAGE)),
        };
        let (attribute, command) = match checked {
            Ok(checked) => checked,
            Err(status) => {
                self.skip_segment(receiver, len).await?;
                self.respond(&asker, status, 0);
                return Ok(None);
            }
        };
        let wanted = command.action.data_out_bytes().min(asker.expected_out.into()) as u32;
        let bytes = self.memory_of(&command, wanted);
        if !self.take(bytes).await {
            self.skip_segment(receiver, len).await?;
            self.respond(&asker, Status::TaskSetFull, 0);
            return Ok(None);
        }
        asker.bytes = bytes;
        asker.place = self.tasks.borrow_mut().enter(attribute);
        if wanted == 0 && len == 0 && header.is_final() {
            return Ok(self.accept(Complete { asker, command, data: Bytes::new() }, is_enabled));
        }
        let buf = BufMut::with_capacity(wanted as usize);
        let incoming = Incoming {
            asker,
            command,
            lun: header.lun(),
            buf,
            received: 0,
            wanted,
            until: announced,
            transfer: NO_TAG,
            data_sn: 0,
            r2t_sn: 0,
            is_enabled,
        };
        match self.receive_into(incoming, len, receiver).await? {
            Ok(incoming) => Ok(self.advance(incoming, header.is_final())),
            Err(asker) => {
                self.refuse_data(header, &asker);
                Ok(None)
            }
        }
    }

    /// Counts a command in the window, and returns the part of it that its response needs.
    fn asker(&self, header: &Header) -> Asker {
        let expected = header.word(20);
        let of = |flag| if header.flags() & flag != 0 { expected } else { 0 };
        let immediate = header.is_immediate();
        let room = if immediate { &self.immediate } else { &self.in_window };
        room.set(room.get() + 1);
        Asker {
            tag: header.tag(),
            expected_in: of(READS),
            expected_out: of(WRITES),
            is_unit: header.lun() == [0; 8],
            immediate,
            bytes: 0,
            place: Place::Outside,
        }
    }

    /// Answers a command whose data arrived with a wrong checksum: rejects the PDU and ends the command (RFC 7143 §7.8).
    fn refuse_data(&self, header: &Header, asker: &Asker) {
        self.reject(header, opcode::REASON_DATA_DIGEST);
        self.respond(asker, Status::Check(Sense::DATA_DIGEST), 0);
    }

    /// Receives a Data-Out PDU. `None`: the command waits for more data, was answered with an error, or has ended
    /// before.
    pub(super) async fn data_out<R: ReadHalf>(
        &self,
        header: &Header,
        receiver: &mut Receiver<R>,
    ) -> Result<Option<Started>, IscsiError> {
        let len = header.data_bytes();
        let found = self.incoming.borrow_mut().remove(&header.tag());
        let Some(mut incoming) = found else {
            // The command was answered or aborted meanwhile.
            self.skip_segment(receiver, len).await?;
            return Ok(None);
        };
        if let Err(sense) = incoming.check(header) {
            self.skip_segment(receiver, len).await?;
            self.respond(&incoming.asker, Status::Check(sense), 0);
            self.note_owed();
            return Ok(None);
        }
        incoming.data_sn = incoming.data_sn.wrapping_add(1);
        let received = self.receive_into(incoming, len, receiver).await?;
        let started = match received {
            Err(asker) => {
                self.refuse_data(header, &asker);
                None
            }
            Ok(incoming) => self.advance(incoming, header.is_final()),
        };
        self.note_owed();
        Ok(started)
    }

    /// Returns the bytes of unsolicited data that the command may have.
    fn check_announced(&self, header: &Header, len: usize) -> Result<u32, IscsiError> {
        let params = &self.scene.params;
        let writes = header.flags() & WRITES != 0;
        let expected = if writes { header.word(20) } else { 0 };
        let announced = expected.min(params.first_burst_bytes);
        if len > 0 && (!params.immediate_data || len > announced as usize) {
            return Err(IscsiError::Protocol("a command has more immediate data than allowed"));
        }
        if !header.is_final() && (params.initial_r2t || !writes) {
            return Err(IscsiError::Protocol("a command announces unsolicited data, which are not allowed"));
        }
        Ok(announced)
    }

    /// Checks whether a command may be executed. The error is the status of its response. A command that is not enabled
    /// is checked again when it is: until then, other commands may change what it depends on, such as reservations.
    fn check(&self, parsed: Result<Command, Sense>, asker: &Asker, is_enabled: bool) -> Result<Command, Status> {
        let check = Status::Check;
        let Some(unit) = self.unit else { return Err(check(Sense::NO_UNIT)) };
        self.look_at_size();
        let is_unit = asker.is_unit;
        if let Ok(Command { action: Action::Inquiry { .. } | Action::ReportLuns { .. }, .. }) = parsed {
            return parsed.map_err(check);
        }
        if !is_unit {
            let asks = matches!(parsed, Ok(Command { action: Action::RequestSense { .. }, .. }));
            return if asks { parsed.map_err(check) } else { Err(check(Sense::NO_UNIT)) };
        }
        let is_request_sense = matches!(parsed, Ok(Command { action: Action::RequestSense { .. }, .. }));
        if is_enabled
            && !is_request_sense
            && let Some(sense) = unit.nexus.attention()
        {
            return Err(check(sense));
        }
        let command = parsed.map_err(check)?;
        if is_enabled && !unit.target.allows(&unit.nexus, &command.action) {
            return Err(Status::ReservationConflict);
        }
        if is_enabled && command.action.writes() && unit.target.modes.is_protected() {
            return Err(check(Sense::WRITE_PROTECTED));
        }
        self.facts_check(&unit.facts, &command.action, asker).map_err(check)?;
        Ok(command)
    }

    fn facts_check(&self, facts: &Facts, action: &Action, asker: &Asker) -> Result<(), Sense> {
        let blocks = self.blocks.get();
        let inside = |range: crate::scsi::Range| match range.lba.checked_add(range.blocks.into()) {
            Some(end) if end <= blocks => Ok(()),
            _ => Err(Sense::OUT_OF_RANGE),
        };
        if action.writes() && facts.read_only {
            return Err(Sense::WRITE_PROTECTED);
        }
        match *action {
            Action::Read { range } | Action::Write { range, .. } | Action::Verify { range, compare: 1 } => {
                inside(range)?;
                if range.blocks > facts.transfer_blocks_max {
                    return Err(Sense::INVALID_FIELD);
                }
            }
            Action::CompareAndWrite { range, .. } | Action::Verify { range, .. } | Action::Prefetch { range, .. } => {
                inside(range)?;
            }
            Action::Synchronize { range } => inside(range)?,
            Action::WriteSame { range, .. } => {
                if range.blocks == 0 || range.blocks > facts.write_same_blocks_max() {
                    return Err(Sense::INVALID_FIELD);
                }
                inside(range)?;
            }
            Action::GetLbaStatus { lba, .. } if lba >= blocks => return Err(Sense::OUT_OF_RANGE),
            Action::Unmap { .. } if !facts.can_unmap => return Err(Sense::INVALID_OPCODE),
            Action::ModeSelect { .. } | Action::PrOut { .. } | Action::Unmap { .. }
                if action.data_out_bytes() > LIST_BYTES_MAX =>
            {
                return Err(Sense::PARAMETER_LENGTH);
            }
            _ => {}
        }
        // The initiator must send all data that are compared, or written with a comparison or repeatedly.
        let (sent, needed) = (u64::from(asker.expected_out), action.data_out_bytes());
        let is_wrong = match action {
            Action::CompareAndWrite { .. } | Action::WriteSame { .. } => sent != needed,
            Action::Verify { .. } => sent < needed,
            _ => false,
        };
        if is_wrong { Err(Sense::INVALID_FIELD) } else { Ok(()) }
    }

    /// Bytes of a logical block of the unit.
    fn block_bytes(&self) -> u32 {
        self.unit.map_or(BLOCK_BYTES, |unit| unit.facts.block_bytes)
    }

    /// Checks the size of the unit. A change causes the unit attention condition CAPACITY DATA HAS CHANGED.
    fn look_at_size(&self) {
        let Some(unit) = self.unit else { return };
        let blocks = unit.disk.size_bytes() / u64::from(unit.facts.block_bytes);
        if self.blocks.replace(blocks) != blocks {
            unit.nexus.attend(Sense::CAPACITY_CHANGED);
        }
    }

    /// Bytes of memory that a command takes. A read or write takes whole physical blocks, since the disk may hold these
    /// in memory for it.
    fn memory_of(&self, command: &Command, wanted: u32) -> u64 {
        let Some(unit) = self.unit else { return 0 };
        let physical = u64::from(unit.facts.physical_bytes);
        match command.action {
            Action::Read { range } | Action::Write { range, .. } => {
                let (offset, len) = (range.offset(), range.bytes());
                let bytes = (offset % physical + len)
                    .next_multiple_of(physical)
                    .min(self.limits().transfer_bytes_max.max(len as u32).into());
                let is_verified = matches!(command.action, Action::Write { verify: Some(_), .. });
                bytes + if is_verified { len.min(STEP_BYTES.into()) } else { 0 }
            }
            Action::CompareAndWrite { range, .. } => 2 * range.bytes() + 2 * physical,
            Action::Verify { compare: 3, .. } => u64::from(wanted) + 2 * u64::from(STEP_BYTES),
            Action::Verify { .. } | Action::WriteSame { .. } => u64::from(wanted) + u64::from(STEP_BYTES),
            _ => u64::from(wanted) + PARAMETER_BYTES,
        }
    }

    /// Starts a command without data from the initiator, or answers it at once (`None`).
    fn begin(&self, complete: Complete) -> Option<Started> {
        let Complete { asker, command, .. } = &complete;
        if let (Action::Read { range }, Some(unit)) = (command.action, self.unit) {
            if range.blocks == 0 {
                self.respond_with(asker, Pieces::new());
                return None;
            }
            let from = self.requester(command);
            if let Some(Ok(pieces)) = unit.disk.try_read(from, range.offset(), range.bytes() as u32) {
                self.connection.pace.note_answered();
                self.respond_with(asker, pieces);
                return None;
            }
        }
        Some(self.note_running(complete))
    }

    fn note_running(&self, complete: Complete) -> Started {
        let Complete { asker, command, data } = complete;
        let is_unwanted = Rc::default();
        self.running.borrow_mut().insert(asker.tag, Rc::clone(&is_unwanted));
        Started { asker, command, data, is_unwanted }
    }

    /// Starts a command whose data have arrived. `None`: it was answered at once, or waits for other commands.
    pub(super) fn accept(&self, complete: Complete, is_enabled: bool) -> Option<Started> {
        if !is_enabled {
            self.held.borrow_mut().push(complete);
            // Meanwhile the commands for which it waits may have ended.
            self.connection.note_change();
            return None;
        }
        if complete.data.is_empty() { self.begin(complete) } else { Some(self.note_running(complete)) }
    }

    /// Passes the commands that waited for others, and wait no longer, to `start`.
    pub(super) fn release(&self, start: impl Fn(Started)) {
        while let Some(at) = self.next_enabled()
            && self.connection.pace.may_begin()
        {
            let held = self.held.borrow_mut().remove(at);
            let started = match self.check(Ok(held.command), &held.asker, true) {
                Ok(_) => self.accept(held, true),
                Err(status) => {
                    self.respond(&held.asker, status, 0);
                    None
                }
            };
            match started {
                Some(started) => {
                    self.connection.pace.note_begun();
                    start(started);
                }
                None => self.connection.pace.note_answered(),
            }
        }
    }

    fn next_enabled(&self) -> Option<usize> {
        let tasks = self.tasks.borrow();
        self.held.borrow().iter().position(|held| tasks.is_enabled(held.asker.place))
    }

    /// The requester of a command, with the class of the command's group if that has one.
    pub(super) fn requester(&self, command: &Command) -> Requester {
        let usual = self.unit.map(|unit| unit.requester).unwrap_or_default();
        let markup = self.unit.and_then(|unit| unit.target.modes.io_class(command.group));
        Requester { class: self.options.groups.class(command.group, markup).or(usual.class), ..usual }
    }
}
