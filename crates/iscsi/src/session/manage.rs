//! Task management, text requests, logout (RFC 7143 §11.5, §11.10, §11.14).

use super::command::Complete;
use super::state::Session;
use crate::login::PORTAL_GROUP;
use crate::name::Name;
use crate::protocol::{Header, NO_TAG, Pairs, opcode, put_pair};
use bytes::{Bytes, BytesMut};
use nitro_frontend::{Disk, Disks};

/// Responses of task management (§11.6.1).
const COMPLETE: u8 = 0;
const NO_TASK: u8 = 1;
const NO_UNIT: u8 = 2;
const NO_REASSIGNMENT: u8 = 4;
const NOT_SUPPORTED: u8 = 5;
const REJECTED: u8 = 255;

/// Most task management requests that wait for commands to end.
const MANAGING_MAX: usize = 16;
/// Target transfer tag for the rest of a text response.
const REST_TAG: u32 = 1;

/// A task management request that is answered when its commands have ended.
pub(super) struct Management {
    tag: u32,
    commands: Vec<u32>,
}

impl<D> Session<'_, D> {
    fn answer_management(&self, tag: u32, response: u8) {
        self.send(Header::new(opcode::TASK_RESPONSE, 0x80, tag).with_byte(2, response), true, &[]);
        self.end_reply(0);
    }

    /// Notes that a command has ended, and answers the task management requests that waited only for it.
    pub(super) fn note_ended(&self, command: u32) {
        self.running.borrow_mut().remove(&command);
        let mut done = Vec::new();
        self.managing.borrow_mut().retain_mut(|management| {
            management.commands.retain(|tag| *tag != command);
            if management.commands.is_empty() {
                done.push(management.tag);
            }
            !management.commands.is_empty()
        });
        done.into_iter().for_each(|tag| self.answer_management(tag, COMPLETE));
    }

    /// Aborts commands. Those that wait for data or for other commands end at once; those that are being executed get
    /// no response. Returns the tags of the latter.
    fn give_up(&self, is_meant: impl Fn(u32) -> bool) -> Vec<u32> {
        let (held, others): (Vec<Complete>, Vec<Complete>) =
            self.held.take().into_iter().partition(|held| is_meant(held.asker.tag));
        self.held.replace(others);
        held.iter().for_each(|held| self.drop_command(&held.asker));
        let waiting: Vec<u32> = self.incoming.borrow().keys().copied().filter(|tag| is_meant(*tag)).collect();
        for tag in waiting {
            let given_up = self.incoming.borrow_mut().remove(&tag);
            if let Some(incoming) = given_up {
                self.drop_command(&incoming.asker);
            }
        }
        self.note_owed();
        let running = self.running.borrow();
        let meant = running.iter().filter(|(tag, _)| is_meant(**tag));
        meant.map(|(tag, is_unwanted)| (*tag, is_unwanted.set(true)).0).collect()
    }

    /// Aborts the commands of the session if another session has requested it.
    pub(super) fn obey(&self) {
        let Some(unit) = self.unit else { return };
        let aborts = unit.nexus.aborts();
        if self.aborts.replace(aborts) != aborts {
            self.give_up(|_| true);
        }
    }
}

impl<D: Disk> Session<'_, D> {
    /// Executes a task management request.
    pub(super) fn manage(&self, header: &Header) {
        let Some(unit) = self.unit else { return self.answer_management(header.tag(), REJECTED) };
        let function = header.flags() & 0x7f;
        let is_of_unit = matches!(function, 1..=5);
        if is_of_unit && header.lun() != [0; 8] {
            return self.answer_management(header.tag(), NO_UNIT);
        }
        if self.managing.borrow().len() >= MANAGING_MAX {
            return self.answer_management(header.tag(), REJECTED);
        }
        let commands = match function {
            1 => {
                let wanted = header.word(20);
                if !self.is_known(wanted) {
                    return self.answer_management(header.tag(), NO_TASK);
                }
                self.give_up(|tag| tag == wanted)
            }
            // ABORT TASK SET, CLEAR TASK SET: each session has its own task set (SAM-5 §7.5).
            2 | 4 => self.give_up(|_| true),
            5..=7 => {
                unit.target.reset(&unit.nexus);
                self.give_up(|_| true)
            }
            8 => return self.answer_management(header.tag(), NO_REASSIGNMENT),
            _ => return self.answer_management(header.tag(), NOT_SUPPORTED),
        };
        if commands.is_empty() {
            return self.answer_management(header.tag(), COMPLETE);
        }
        self.managing.borrow_mut().push(Management { tag: header.tag(), commands });
    }

    /// Answers a text request: SendTargets, or the request for the rest of its response.
    pub(super) fn answer_text(&self, header: &Header, data: &Bytes, disks: &impl Disks) {
        if header.flags() & 0x40 != 0 {
            return self.reject(header, opcode::REASON_UNSUPPORTED);
        }
        if header.word(20) == NO_TAG {
            let Ok(pairs) = Pairs::parse(data) else { return self.reject(header, opcode::REASON_PROTOCOL) };
            self.text.replace(self.text_of(&pairs, disks));
        } else if header.word(20) != REST_TAG {
            return self.reject(header, opcode::REASON_INVALID_FIELD);
        }
        let mut text = self.text.borrow_mut();
        let len = text.len().min(self.scene.params.segment_bytes as usize);
        let part = text.split_to(len);
        let is_last = text.is_empty();
        let (flags, rest) = if is_last { (0x80, NO_TAG) } else { (0x40, REST_TAG) };
        let reply = Header::new(opcode::TEXT_RESPONSE, flags, header.tag()).with(20, rest);
        self.send(reply, true, &[part]);
        self.end_reply(0);
    }

    fn text_of(&self, pairs: &Pairs<'_>, disks: &impl Disks) -> Bytes {
        let mut out = BytesMut::new();
        for (key, value) in pairs.iter() {
            if key != "SendTargets" {
                put_pair(&mut out, key, "NotUnderstood");
                continue;
            }
            let own = self.unit.map(|unit| unit.facts.identity.target.as_str());
            let wanted = value.parse::<Name>().ok();
            let caller = self.scene.caller();
            for unit in disks.units().into_iter().filter(|unit| disks.admits(&unit.disk, caller)) {
                let name = &unit.target;
                let is_meant = match value {
                    "All" => own.is_none_or(|own| own == name),
                    "" => own == Some(name),
                    _ => wanted.as_ref().is_some_and(|wanted| unit.is_target(wanted.as_str())),
                };
                if is_meant {
                    put_pair(&mut out, "TargetName", name);
                    if let Some(portal) = self.scene.ends.portal {
                        put_pair(&mut out, "TargetAddress", &format!("{portal},{PORTAL_GROUP}"));
                    }
                }
            }
        }
        out.freeze()
    }

    /// Answers a logout, after which the connection ends.
    pub(super) fn log_out(&self, header: &Header) {
        // Reason 2: connection recovery, which is not supported.
        let response = if header.flags() & 0x7f == 2 { 2 } else { 0 };
        self.send(Header::new(opcode::LOGOUT_RESPONSE, 0x80, header.tag()).with_byte(2, response), true, &[]);
        self.end_reply(0);
    }
}
