//! The login phase (RFC 7143 §6.3): builds the responses to login requests, without I/O.

mod chap;
mod keys;

pub(crate) use keys::Params;

use crate::access::{Access, Account};
use crate::limits::Limits;
use crate::name::Name;
use crate::protocol::{Header, Pairs, opcode, put_pair};
use bytes::BytesMut;
use chap::{Chap, Outcome};
use nitro_frontend::Caller;
use std::net::IpAddr;

/// The stages of a login (§11.12.3).
const SECURITY: u8 = 0;
const OPERATIONAL: u8 = 1;
const FULL_FEATURE: u8 = 3;

/// The tag of the only portal group.
pub(crate) const PORTAL_GROUP: &str = "1";

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

/// The refusal of a login: the status of the response, and the reason for the log.
pub(crate) type Refusal = (Status, &'static str);

/// The state of the login after a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Another request follows.
    More,
    /// The security stage is over; the operational stage follows.
    Entered,
    /// The login is over; the full feature phase follows.
    Done,
    /// The login was refused, for this reason.
    Refused(&'static str),
}

/// A response: its header, without the sequence numbers and the session's handle, and its text.
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
    /// The initiator's name (`InitiatorName`), in the form in which names are compared.
    pub(crate) initiator: String,
    /// The target's name (`TargetName`) in the same form, of a session that is not for discovery.
    pub(crate) target: Option<String>,
    /// The initiator's part of the session's ID.
    pub(crate) isid: [u8; 6],
    /// The negotiated values.
    pub(crate) params: Params,
    chap: Option<Chap>,
    is_begun: bool,
    is_authenticated: bool,
    /// The account as which the initiator has authenticated.
    account: Option<&'a Account>,
    /// The text of requests so far whose continuation follows.
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
            account: None,
            text: Vec::new(),
        }
    }

    /// The initiator, as far as it has identified itself.
    pub(crate) fn caller(&self) -> Caller<'_> {
        Caller::Initiator { name: &self.initiator, account: self.account(), address: self.address }
    }

    /// The name of the account as which the initiator has authenticated.
    pub(crate) fn account(&self) -> Option<&'a str> {
        self.account.map(|account| account.name.as_str())
    }

    pub(crate) fn is_authenticated(&self) -> bool {
        self.is_authenticated
    }

    /// What a request whose answer means checking a secret claims: the names of account and initiator. `None`: no secret
    /// is checked.
    pub(crate) fn claim(&self, request: &Header, text: &[u8]) -> Option<String> {
        let is_checked = !self.is_authenticated && self.chap.as_ref().is_some_and(Chap::has_asked);
        if !is_checked || request.flags() & 0x40 != 0 {
            return None;
        }
        let pairs = Pairs::parse(text).ok();
        let account = pairs.as_ref().and_then(|pairs| pairs.get("CHAP_N")).unwrap_or_default();
        Some(format!("{} {account}", self.initiator))
    }

    /// Answers a request. `find` finds the target or refuses the login; it is called once the initiator is
    /// authenticated.
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

    /// Returns the flags of the response and the next step.
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
            return Err((Status::NO_RESOURCES, "the text of its requests is too long"));
        }
        self.text.extend(text);
        if goes_on {
            return Ok((current << 2, Step::More));
        }
        let text = std::mem::take(&mut self.text);
        let pairs =
            Pairs::parse(&text).map_err(|_| (Status::INITIATOR_ERROR, "the text of its requests is malformed"))?;
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
                return Err((Status::AUTHENTICATION_FAILED, "it skipped the required CHAP"));
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
            return Err((Status::INVALID_REQUEST, "it sent another request before the end of the login"));
        }
        if request.0[3] != 0 {
            return Err((Status::UNSUPPORTED_VERSION, "it requires an unsupported version of the protocol"));
        }
        let forward = next > current && next != 2;
        if current > OPERATIONAL || transit && (goes_on || !forward) {
            return Err((Status::INVALID_REQUEST, "it requested an invalid stage or transition"));
        }
        Ok(())
    }

    /// Takes names and session type from the first request (§6.3), and checks whether the initiator may log in.
    fn begin(&mut self, request: &Header, pairs: &Pairs<'_>) -> Result<(), Refusal> {
        if request.0[14..16] != [0, 0] {
            return Err((Status::NO_SESSION, "a session can have only one connection"));
        }
        self.isid.copy_from_slice(&request.0[8..14]);
        let name = |key| pairs.get(key).and_then(|name| name.parse::<Name>().ok()).map(String::from);
        self.initiator = name("InitiatorName").ok_or((Status::MISSING_PARAMETER, "it sent no valid initiator name"))?;
        match pairs.get("SessionType").unwrap_or("Normal") {
            "Discovery" => {}
            "Normal" => {
                let target = name("TargetName").ok_or((Status::MISSING_PARAMETER, "it sent no valid target name"))?;
                self.target = Some(target);
            }
            _ => return Err((Status::SESSION_TYPE, "the session type is unknown")),
        }
        if !self.access.allowed.allows_address(self.address) {
            return Err((Status::NOT_AUTHORIZED, "its address may not log in"));
        }
        if !self.access.allowed.allows_name(&self.initiator) {
            return Err((Status::NOT_AUTHORIZED, "its initiator name may not log in"));
        }
        Ok(())
    }

    /// Processes a request of the security stage. Returns whether the initiator may leave the stage.
    fn authenticate(&mut self, pairs: &Pairs<'_>, out: &mut BytesMut) -> Result<bool, Refusal> {
        const FAILED: Refusal = (Status::AUTHENTICATION_FAILED, "its CHAP authentication failed");
        if self.is_authenticated {
            return Ok(true);
        }
        if let Some(chap) = &mut self.chap {
            return match chap.answer(self.access, pairs, out) {
                Outcome::More => Ok(false),
                Outcome::Failed => Err(FAILED),
                Outcome::Done(account) if !account.may_claim(&self.initiator) => {
                    Err((Status::NOT_AUTHORIZED, "its account is bound to other initiator names"))
                }
                Outcome::Done(account) => {
                    self.account = Some(account);
                    self.is_authenticated = true;
                    Ok(true)
                }
            };
        }
        let offered = pairs.get("AuthMethod");
        let offers = |method: &str| offered.is_none_or(|list| list.split(',').any(|one| one == method));
        if self.access.accounts.is_empty() {
            if !offers("None") {
                return Err((Status::AUTHENTICATION_FAILED, "it requires CHAP, but no account is configured"));
            }
            if offered.is_some() {
                put_pair(out, "AuthMethod", "None");
            }
            self.is_authenticated = true;
            return Ok(true);
        }
        if offered.is_none() || !offers("CHAP") {
            return Err((Status::AUTHENTICATION_FAILED, "it does not offer the required CHAP"));
        }
        put_pair(out, "AuthMethod", "CHAP");
        self.chap = Some(Chap::default());
        Ok(false)
    }
}

#[cfg(test)]
mod tests;
