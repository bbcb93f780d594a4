//! Persistent reservations (SPC-5 §5.14, §6.15, §6.16), and reservations of SPC-2 (RESERVE and RELEASE).

use super::nexus::Port;
use crate::scsi::{Action, PrIn, PrOut, Sense, Status};

/// Most registrations of a target.
const REGISTRATIONS_MAX: usize = 256;

/// The type of a persistent reservation (SPC-5 §6.15.3.4, table 203).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kind(u8);

impl Kind {
    pub(crate) const fn of(number: u8) -> Option<Self> {
        if matches!(number, 1 | 3 | 5..=8) { Some(Self(number)) } else { None }
    }

    pub(crate) const fn number(self) -> u8 {
        self.0
    }

    /// Whether ports without the reservation may read.
    const fn lets_read(self) -> bool {
        matches!(self.0, 1 | 5 | 7)
    }

    /// Whether each registered port has the rights of the holder.
    const fn is_for_registrants(self) -> bool {
        self.0 >= 5
    }

    /// Whether each registered port is a holder.
    const fn is_of_all(self) -> bool {
        self.0 >= 7
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Registration {
    pub(crate) port: Port,
    pub(crate) key: u64,
}

/// The registrations and reservations of a target.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Reservations {
    registrations: Vec<Registration>,
    held: Option<(Kind, Port)>,
    generation: u32,
    /// APTPL: they are kept over a restart of the server.
    is_kept: bool,
    /// The holder of an SPC-2 reservation.
    plain: Option<Port>,
}

/// The parameters of PERSISTENT RESERVE OUT.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PrOutList {
    key: u64,
    action_key: u64,
    keep: bool,
}

impl PrOutList {
    pub(crate) fn parse(action: PrOut, list: &[u8], can_keep: bool) -> Result<Self, Sense> {
        let list: &[u8; 24] = list.try_into().map_err(|_| Sense::PARAMETER_LENGTH)?;
        let number = |at: usize| list[at..at + 8].iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
        let registers = matches!(action, PrOut::Register | PrOut::RegisterAndIgnore);
        // SPEC_I_PT, registrations of other ports, is not supported.
        if list[20] & 0x08 != 0 || registers && list[20] & 1 != 0 && !can_keep {
            return Err(Sense::parameter(20));
        }
        Ok(Self { key: number(0), action_key: number(8), keep: list[20] & 1 != 0 })
    }
}

/// The effects of a change on other sessions.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Effects {
    /// Unit attention conditions, each with the ports that get it.
    pub(crate) attentions: Vec<(Vec<Port>, Sense)>,
    /// Ports whose registrations were removed.
    pub(crate) preempted: Vec<Port>,
}

const CONFLICT: Status = Status::ReservationConflict;

impl Reservations {
    /// Restores stored reservations; `None` if the holder is not registered, or there are too many registrations.
    pub(super) fn kept(registrations: Vec<Registration>, held: Option<(Kind, Port)>) -> Option<Self> {
        let is_sound = held.iter().all(|(_, holder)| registrations.iter().any(|one| one.port == *holder))
            && registrations.len() <= REGISTRATIONS_MAX;
        is_sound.then(|| Self { registrations, held, is_kept: true, ..Self::default() })
    }

    pub(super) fn registrations(&self) -> &[Registration] {
        &self.registrations
    }

    pub(super) fn held(&self) -> Option<&(Kind, Port)> {
        self.held.as_ref()
    }

    pub(super) fn is_kept(&self) -> bool {
        self.is_kept && !self.registrations.is_empty()
    }

    /// Whether there is a reservation.
    pub(super) fn is_reserved(&self) -> bool {
        self.held.is_some() || self.plain.is_some()
    }

    fn key_of(&self, port: &Port) -> Option<u64> {
        self.registrations.iter().find(|one| one.port == *port).map(|one| one.key)
    }

    fn is_holder(&self, port: &Port) -> bool {
        self.held
            .as_ref()
            .is_some_and(|(kind, holder)| holder == port || kind.is_of_all() && self.key_of(port).is_some())
    }

    /// The registered ports except `but`.
    fn others(&self, but: &Port) -> Vec<Port> {
        self.registrations.iter().map(|one| one.port.clone()).filter(|port| port != but).collect()
    }

    /// Ends the SPC-2 reservation of a session that has ended.
    pub(super) fn leave(&mut self, port: &Port) {
        if self.plain.as_ref() == Some(port) {
            self.plain = None;
        }
    }

    /// Ends the SPC-2 reservation, as a reset requires.
    pub(super) fn reset(&mut self) {
        self.plain = None;
    }

    /// RESERVE or RELEASE of SPC-2; `false` in a reservation conflict.
    pub(super) fn reserve_plainly(&mut self, port: &Port, reserve: bool) -> bool {
        if !self.registrations.is_empty() {
            return false;
        }
        match (&self.plain, reserve) {
            (Some(holder), true) if holder != port => return false,
            (Some(holder), false) if holder != port => {}
            (_, true) => self.plain = Some(port.clone()),
            (_, false) => self.plain = None,
        }
        true
    }

    /// Whether a command of a port may be executed (SPC-5 table 73, SBC-4 table 17, SPC-2 §5.5).
    pub(super) fn allow(&self, port: &Port, action: &Action) -> bool {
        let reads = match action {
            Action::Inquiry { .. } | Action::ReportLuns { .. } | Action::RequestSense { .. } => return true,
            Action::Release | Action::Reserve => return self.plain.is_some() || self.registrations.is_empty(),
            Action::PrIn { .. } | Action::PrOut { .. } | Action::TestUnitReady | Action::ReportOpcodes { .. } => None,
            Action::ReadCapacity10 { .. }
            | Action::ReadCapacity16 { .. }
            | Action::GetLbaStatus { .. }
            | Action::GetStreamStatus { .. } => None,
            Action::Read { .. } | Action::Verify { .. } | Action::Prefetch { .. } | Action::ModeSense { .. } => {
                Some(true)
            }
            _ => Some(false),
        };
        if let Some(holder) = &self.plain {
            return holder == port;
        }
        let (Some((kind, _)), Some(reads)) = (&self.held, reads) else { return true };
        self.is_holder(port) || kind.is_for_registrants() && self.key_of(port).is_some() || kind.lets_read() && reads
    }

    /// PERSISTENT RESERVE OUT.
    pub(super) fn change(
        &mut self,
        port: &Port,
        action: PrOut,
        scope: u8,
        kind: u8,
        list: &PrOutList,
    ) -> Result<Effects, Status> {
        if action == PrOut::RegisterAndIgnore {
            return self.register(port, list);
        }
        match self.key_of(port) {
            Some(key) if key == list.key => {}
            None if action == PrOut::Register && list.key == 0 => {}
            _ => return Err(CONFLICT),
        }
        let kind = || match (scope, Kind::of(kind)) {
            (0, Some(kind)) => Ok(kind),
            _ => Err(Status::Check(Sense::cdb(2))),
        };
        match action {
            PrOut::Register | PrOut::RegisterAndIgnore => self.register(port, list),
            PrOut::Reserve => self.reserve(port, kind()?),
            PrOut::Release => self.release(port, kind()?),
            PrOut::Clear => {
                let others = self.others(port);
                self.registrations.clear();
                self.held = None;
                self.generation = self.generation.wrapping_add(1);
                Ok(Effects { attentions: vec![(others, Sense::RESERVATIONS_PREEMPTED)], preempted: Vec::new() })
            }
            PrOut::Preempt | PrOut::PreemptAndAbort => self.preempt(port, kind()?, list.action_key),
        }
    }

    fn register(&mut self, port: &Port, list: &PrOutList) -> Result<Effects, Status> {
        let effects = match (self.registrations.iter().position(|one| one.port == *port), list.action_key) {
            (None, 0) => return Ok(Effects::default()),
            (Some(at), 0) => self.unregister(at),
            (Some(at), key) => {
                self.registrations[at].key = key;
                Effects::default()
            }
            (None, _) if self.registrations.len() == REGISTRATIONS_MAX => {
                return Err(Status::Check(Sense::NO_REGISTRATIONS));
            }
            (None, key) => {
                self.registrations.push(Registration { port: port.clone(), key });
                Effects::default()
            }
        };
        self.is_kept = list.keep;
        self.generation = self.generation.wrapping_add(1);
        Ok(effects)
    }

    fn unregister(&mut self, at: usize) -> Effects {
        let Registration { port, .. } = self.registrations.remove(at);
        let Some((kind, holder)) = self.held.clone() else { return Effects::default() };
        if kind.is_of_all() {
            match self.registrations.first() {
                // The other registered ports still hold the reservation.
                Some(next) if holder == port => self.held = Some((kind, next.port.clone())),
                Some(_) => {}
                None => self.held = None,
            }
            return Effects::default();
        }
        if holder != port {
            return Effects::default();
        }
        self.held = None;
        let told = if kind.is_for_registrants() { self.others(&port) } else { Vec::new() };
        Effects { attentions: vec![(told, Sense::RESERVATIONS_RELEASED)], preempted: Vec::new() }
    }

    fn reserve(&mut self, port: &Port, kind: Kind) -> Result<Effects, Status> {
        match &self.held {
            None => self.held = Some((kind, port.clone())),
            Some((now, _)) if *now == kind && self.is_holder(port) => {}
            Some(_) => return Err(CONFLICT),
        }
        Ok(Effects::default())
    }

    fn release(&mut self, port: &Port, kind: Kind) -> Result<Effects, Status> {
        if !self.is_holder(port) {
            return Ok(Effects::default());
        }
        if self.held.as_ref().is_some_and(|(now, _)| *now != kind) {
            return Err(Status::Check(Sense::INVALID_RELEASE));
        }
        self.held = None;
        let told = if kind.is_for_registrants() { self.others(port) } else { Vec::new() };
        Ok(Effects { attentions: vec![(told, Sense::RESERVATIONS_RELEASED)], preempted: Vec::new() })
    }

    fn preempt(&mut self, port: &Port, kind: Kind, key: u64) -> Result<Effects, Status> {
        let of_all = self.held.as_ref().is_some_and(|(now, _)| now.is_of_all());
        let takes_over = match &self.held {
            Some(_) if of_all => key == 0,
            Some((_, holder)) => self.key_of(holder) == Some(key),
            None => false,
        };
        if key == 0 && !takes_over {
            return Err(Status::Check(Sense::parameter(8)));
        }
        let goes = |one: &Registration| one.port != *port && (of_all && key == 0 || one.key == key);
        let preempted: Vec<Port> =
            self.registrations.iter().filter(|one| goes(one)).map(|one| one.port.clone()).collect();
        let found = self.registrations.iter().any(|one| one.key == key);
        if !takes_over && !found {
            return Err(CONFLICT);
        }
        self.registrations.retain(|one| !goes(one));
        let mut attentions = vec![(preempted.clone(), Sense::REGISTRATIONS_PREEMPTED)];
        if takes_over {
            let before = self.held.replace((kind, port.clone())).map(|(kind, _)| kind);
            if before.is_some_and(|before| before != kind && before.is_for_registrants()) {
                attentions.push((self.others(port), Sense::RESERVATIONS_RELEASED));
            }
        } else if let Some((now, holder)) = self.held.clone()
            && preempted.contains(&holder)
        {
            // All registrants hold the reservation, so that it remains.
            self.held = Some((now, port.clone()));
        }
        self.generation = self.generation.wrapping_add(1);
        Ok(Effects { attentions, preempted })
    }

    /// PERSISTENT RESERVE IN.
    pub(super) fn report(&self, action: PrIn, can_keep: bool) -> Vec<u8> {
        if action == PrIn::ReportCapabilities {
            // PTPL_C; TMV and PTPL_A; the mask of supported types.
            let keeps = u8::from(can_keep);
            return vec![0, 8, keeps, 0x80 | u8::from(self.is_kept()), 0xea, 0x01, 0, 0];
        }
        let mut body = Vec::new();
        match action {
            PrIn::ReadKeys => self.registrations.iter().for_each(|one| body.extend(one.key.to_be_bytes())),
            PrIn::ReadReservation => {
                if let Some((kind, holder)) = &self.held {
                    let key = if kind.is_of_all() { 0 } else { self.key_of(holder).unwrap_or(0) };
                    body.extend(key.to_be_bytes());
                    body.extend([0, 0, 0, 0, 0, kind.number(), 0, 0]);
                }
            }
            _ => self.registrations.iter().for_each(|one| body.extend(self.full_status(one))),
        }
        let mut bytes = self.generation.to_be_bytes().to_vec();
        bytes.extend((body.len() as u32).to_be_bytes());
        bytes.extend(body);
        bytes
    }

    /// A descriptor of READ FULL STATUS, with an iSCSI TransportID (SPC-5 §7.6.4.6).
    fn full_status(&self, one: &Registration) -> Vec<u8> {
        let mut name = one.port.0.clone().into_bytes();
        name.push(0);
        name.resize(name.len().next_multiple_of(4).max(20), 0);
        let kind = self.held.as_ref().filter(|_| self.is_holder(&one.port)).map(|(kind, _)| kind.number());
        let mut bytes = one.key.to_be_bytes().to_vec();
        bytes.extend([0, 0, 0, 0, u8::from(kind.is_some()), kind.unwrap_or(0), 0, 0, 0, 0, 0, 1]);
        bytes.extend((4 + name.len() as u32).to_be_bytes());
        bytes.extend([0x45, 0]);
        bytes.extend((name.len() as u16).to_be_bytes());
        bytes.extend(name);
        bytes
    }
}

#[cfg(test)]
mod tests;
