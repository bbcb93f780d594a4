//! The login phase (RFC 7143 §6.3): requests in, responses out, without I/O.

mod chap;
mod keys;

pub(crate) use keys::Params;

use crate::access::Access;
use crate::limits::Limits;
use crate::protocol::{Header, Pairs, opcode, put_pair};
use bytes::BytesMut;
use chap::{Chap, Outcome};
use std::net::IpAddr;

/// The stages of a login (§11.12.3).
const SECURITY: u8 = 0;
const OPERATIONAL: u8 = 1;
const FULL_FEATURE: u8 = 3;

/// The portal group's tag: there is one group.
pub(crate) const PORTAL_GROUP: &str = "1";
/// The longest name of an initiator or target in bytes (§4.2.7.1).
const NAME_BYTES_MAX: usize = 223;

/// Status class and detail of a response (§11.13.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Status(u8, u8);

impl Status {
    pub(crate) const SUCCESS: Self = Self(0, 0);
    pub(crate) const INITIATOR_ERROR: Self = Self(2, 0);
    pub(crate) const AUTHENTICATION_FAILED: Self = Self(2, 1);
    pub(crate) const NOT_AUTHORIZED: Self = Self(2, 2);
    pub(crate) const NOT_FOUND: Self = Self(2, 3);
    pub(crate) const UNSUPPORTED_VERSION: Self = Self(2, 5);
    pub(crate) const MISSING_PARAMETER: Self = Self(2, 7);
    pub(crate) const SESSION_TYPE: Self = Self(2, 9);
    pub(crate) const NO_SESSION: Self = Self(2, 0xa);
    pub(crate) const INVALID_REQUEST: Self = Self(2, 0xb);
    pub(crate) const NO_RESOURCES: Self = Self(3, 2);
}

/// Why a login is refused: what the initiator is told, and what the log is.
pub(crate) type Refusal = (Status, &'static str);

/// How a request was answered.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Another request follows.
    More,
    /// The initiator is who it may be: before it goes on, its target must be found.
    Entered,
    /// The login is over; the full feature phase follows.
    Done,
    /// It was refused.
    Refused(&'static str),
}

/// A response: its header, without the numbers of the session, and its text.
pub(crate) struct Answer {
    pub(crate) header: Header,
    pub(crate) text: BytesMut,
    pub(crate) step: Step,
}

/// A login in progress.
pub(crate) struct Login<'a> {
    access: &'a Access,
    limits: &'a Limits,
    address: Option<IpAddr>,
    /// The initiator's name (`InitiatorName`).
    pub(crate) initiator: String,
    /// The target's name (`TargetName`), of a session that is not for discovery.
    pub(crate) target: Option<String>,
    /// The initiator's part of the session's ID.
    pub(crate) isid: [u8; 6],
    /// What was agreed on.
    pub(crate) params: Params,
    chap: Option<Chap>,
    is_begun: bool,
    is_authenticated: bool,
    /// Text of requests that are continued.
    text: Vec<u8>,
}

impl<'a> Login<'a> {
    pub(crate) fn new(access: &'a Access, limits: &'a Limits, address: Option<IpAddr>) -> Self {
        Self {
            access,
            limits,
            address,
            initiator: String::new(),
            target: None,
            isid: [0; 6],
            params: Params::default(),
            chap: None,
            is_begun: false,
            is_authenticated: false,
            text: Vec::new(),
        }
    }

    /// Answers a request. `find` says whether the target may be logged in to; it is asked once the initiator has shown who it is.
    pub(crate) fn answer(
        &mut self,
        request: &Header,
        text: &[u8],
        find: impl FnMut(&Self) -> Result<(), Refusal>,
    ) -> Answer {
        let mut out = BytesMut::new();
        let (stages, step, status) = match self.proceed(request, text, &mut out, find) {
            Ok((stages, step)) => (stages, step, Status::SUCCESS),
            Err((status, reason)) => {
                out.clear();
                (request.flags() & 0x0c, Step::Refused(reason), status)
            }
        };
        let mut header = Header::new(opcode::LOGIN_RESPONSE, stages, request.tag());
        header.0[8..14].copy_from_slice(&request.0[8..14]);
        let header = header.with_byte(36, status.0).with_byte(37, status.1).with_data(out.len());
        Answer { header, text: out, step }
    }

    /// Gives the flags of the response.
    fn proceed(
        &mut self,
        request: &Header,
        text: &[u8],
        out: &mut BytesMut,
        mut find: impl FnMut(&Self) -> Result<(), Refusal>,
    ) -> Result<(u8, Step), Refusal> {
        let flags = request.flags();
        let (transit, goes_on, current, next) = (flags & 0x80 != 0, flags & 0x40 != 0, flags >> 2 & 3, flags & 3);
        self.check(request, transit, goes_on, current, next)?;
        if self.text.len() + text.len() > self.limits.text_bytes_max {
            return Err((Status::NO_RESOURCES, "its text is too long"));
        }
        self.text.extend(text);
        if goes_on {
            return Ok((current << 2, Step::More));
        }
        let text = std::mem::take(&mut self.text);
        let pairs = Pairs::parse(&text).map_err(|_| (Status::INITIATOR_ERROR, "its text cannot be understood"))?;
        if !self.is_begun {
            self.begin(request, &pairs)?;
            self.is_begun = true;
            if self.target.is_some() {
                put_pair(out, "TargetPortalGroupTag", PORTAL_GROUP);
            }
        }
        let mut may_transit = transit;
        if current == SECURITY {
            may_transit &= self.authenticate(&pairs, out)?;
        } else if !self.is_authenticated {
            if !self.access.accounts.is_empty() {
                return Err((Status::AUTHENTICATION_FAILED, "it did not log in by CHAP"));
            }
            self.is_authenticated = true;
        }
        keys::negotiate(&pairs, current == OPERATIONAL, self.limits, &mut self.params, out)?;
        if self.is_authenticated && (may_transit || current == OPERATIONAL) {
            find(self)?;
        }
        if !may_transit {
            return Ok((current << 2, Step::More));
        }
        let step = if next == FULL_FEATURE { Step::Done } else { Step::Entered };
        Ok((0x80 | current << 2 | next, step))
    }

    fn check(&self, request: &Header, transit: bool, goes_on: bool, current: u8, next: u8) -> Result<(), Refusal> {
        if request.opcode() != opcode::LOGIN {
            return Err((Status::INVALID_REQUEST, "a request came before the login was over"));
        }
        if request.0[3] != 0 {
            return Err((Status::UNSUPPORTED_VERSION, "it speaks another version"));
        }
        let forward = next > current && next != 2;
        if current > OPERATIONAL || transit && (goes_on || !forward) {
            return Err((Status::INVALID_REQUEST, "a stage is none, or none that follows"));
        }
        Ok(())
    }

    /// Who it is and what it wants: declared in the first request (§6.3).
    fn begin(&mut self, request: &Header, pairs: &Pairs<'_>) -> Result<(), Refusal> {
        if request.0[14..16] != [0, 0] {
            return Err((Status::NO_SESSION, "a session has one connection"));
        }
        self.isid.copy_from_slice(&request.0[8..14]);
        let is_name = |name: &str| !name.is_empty() && name.len() <= NAME_BYTES_MAX;
        let name = pairs.get("InitiatorName").filter(|name| is_name(name));
        self.initiator = name.ok_or((Status::MISSING_PARAMETER, "it told no name"))?.to_owned();
        match pairs.get("SessionType").unwrap_or("Normal") {
            "Discovery" => {}
            "Normal" => {
                let name = pairs.get("TargetName").filter(|name| is_name(name));
                self.target = Some(name.ok_or((Status::MISSING_PARAMETER, "it named no target"))?.to_owned());
            }
            _ => return Err((Status::SESSION_TYPE, "there is no such type of session")),
        }
        if !self.access.allows_address(self.address) {
            return Err((Status::NOT_AUTHORIZED, "its address is not one of those that may log in"));
        }
        if !self.access.allows_name(&self.initiator) {
            return Err((Status::NOT_AUTHORIZED, "its name is not one of those that may log in"));
        }
        Ok(())
    }

    /// The security stage; whether it may be left.
    fn authenticate(&mut self, pairs: &Pairs<'_>, out: &mut BytesMut) -> Result<bool, Refusal> {
        const FAILED: Refusal = (Status::AUTHENTICATION_FAILED, "its CHAP failed");
        if self.is_authenticated {
            return Ok(true);
        }
        if let Some(chap) = &mut self.chap {
            return match chap.answer(self.access, pairs, out) {
                Outcome::More => Ok(false),
                Outcome::Failed => Err(FAILED),
                Outcome::Done => {
                    self.is_authenticated = true;
                    Ok(true)
                }
            };
        }
        let offered = pairs.get("AuthMethod");
        let offers = |method: &str| offered.is_none_or(|list| list.split(',').any(|one| one == method));
        if self.access.accounts.is_empty() {
            if !offers("None") {
                return Err((Status::AUTHENTICATION_FAILED, "it wants CHAP, and no account is configured"));
            }
            if offered.is_some() {
                put_pair(out, "AuthMethod", "None");
            }
            self.is_authenticated = true;
            return Ok(true);
        }
        if offered.is_none() || !offers("CHAP") {
            return Err((Status::AUTHENTICATION_FAILED, "it does not offer CHAP"));
        }
        put_pair(out, "AuthMethod", "CHAP");
        self.chap = Some(Chap::default());
        Ok(false)
    }
}

#[cfg(test)]
mod tests;
