use super::super::kept;
use super::*;
use crate::scsi::Range;

fn port(number: u8) -> Port {
    Port::new("iqn.a:i", [0, 0, 0, 0, 0, number])
}

fn list(key: u64, action_key: u64) -> PrOutList {
    PrOutList { key, action_key, keep: true }
}

fn registered(count: u8) -> Reservations {
    let mut reservations = Reservations::default();
    for number in 1..=count {
        let done = reservations.change(&port(number), PrOut::Register, 0, 0, &list(0, number.into()));
        assert_eq!(done, Ok(Effects::default()));
    }
    reservations
}

const RANGE: Range = Range { lba: 0, blocks: 1, block_bytes: 512 };
const READ: Action = Action::Read { range: RANGE };
const WRITE: Action = Action::Write { range: RANGE, fua: false, verify: None };

/// Whether the holder, a registered and an unregistered port may read and write, by type (SPC-5 table 73).
#[test]
fn each_type_lets_in_whom_it_should() {
    let wanted = [
        (1, [(true, true), (true, false), (true, false)]),
        (3, [(true, true), (false, false), (false, false)]),
        (5, [(true, true), (true, true), (true, false)]),
        (6, [(true, true), (true, true), (false, false)]),
        (7, [(true, true), (true, true), (true, false)]),
        (8, [(true, true), (true, true), (false, false)]),
    ];
    for (kind, wanted) in wanted {
        let mut reservations = registered(2);
        reservations.change(&port(1), PrOut::Reserve, 0, kind, &list(1, 0)).unwrap();
        for (number, wanted) in (1..).zip(wanted) {
            let may = |action| reservations.allow(&port(number), action);
            assert_eq!((may(&READ), may(&WRITE)), wanted, "type {kind}, port {number}");
            assert!(may(&Action::TestUnitReady) && !may(&Action::Reserve));
        }
    }
}

#[test]
fn keys_must_be_right() {
    let mut reservations = registered(2);
    for action in [PrOut::Register, PrOut::Reserve, PrOut::Release, PrOut::Clear, PrOut::Preempt] {
        assert_eq!(reservations.change(&port(1), action, 0, 1, &list(9, 2)), Err(CONFLICT), "{action:?}");
        assert_eq!(reservations.change(&port(3), action, 0, 1, &list(3, 2)), Err(CONFLICT), "{action:?}");
    }
    assert_eq!(reservations, registered(2));
    assert_eq!(reservations.change(&port(1), PrOut::Reserve, 1, 1, &list(1, 0)), Err(Status::Check(Sense::cdb(2))));
}

#[test]
fn preempting_takes_registration_and_reservation() {
    let mut reservations = registered(3);
    reservations.change(&port(1), PrOut::Reserve, 0, 3, &list(1, 0)).unwrap();
    assert_eq!(reservations.change(&port(2), PrOut::Reserve, 0, 3, &list(2, 0)), Err(CONFLICT));
    let effects = reservations.change(&port(2), PrOut::Preempt, 0, 1, &list(2, 1)).unwrap();
    assert_eq!(effects.preempted, [port(1)]);
    assert_eq!(effects.attentions, [(vec![port(1)], Sense::REGISTRATIONS_PREEMPTED)]);
    assert_eq!(reservations.held(), Some(&(Kind(1), port(2))));
    assert_eq!(reservations.change(&port(2), PrOut::Preempt, 0, 1, &list(2, 7)), Err(CONFLICT));
    assert_eq!(
        reservations.change(&port(2), PrOut::Release, 0, 3, &list(2, 0)),
        Err(Status::Check(Sense::INVALID_RELEASE))
    );
    assert_eq!(reservations.change(&port(3), PrOut::Release, 0, 1, &list(3, 0)), Ok(Effects::default()));
    assert!(reservations.is_reserved());
    reservations.change(&port(2), PrOut::Release, 0, 1, &list(2, 0)).unwrap();
    assert!(!reservations.is_reserved());
}

#[test]
fn one_that_all_hold_ends_with_the_last() {
    let mut reservations = registered(2);
    reservations.change(&port(1), PrOut::Reserve, 0, 8, &list(1, 0)).unwrap();
    reservations.change(&port(1), PrOut::Register, 0, 0, &list(1, 0)).unwrap();
    assert!(reservations.is_reserved() && reservations.allow(&port(2), &WRITE) && !reservations.allow(&port(1), &READ));
    reservations.change(&port(2), PrOut::Register, 0, 0, &list(2, 0)).unwrap();
    assert!(!reservations.is_reserved());
}

#[test]
fn plain_reservations_are_of_one_session() {
    let mut reservations = Reservations::default();
    assert!(reservations.reserve_plainly(&port(1), true) && reservations.reserve_plainly(&port(1), true));
    assert!(!reservations.reserve_plainly(&port(2), true) && reservations.reserve_plainly(&port(2), false));
    assert!(reservations.allow(&port(1), &WRITE) && !reservations.allow(&port(2), &READ));
    assert!(reservations.allow(&port(2), &Action::Release));
    reservations.leave(&port(2));
    assert!(reservations.is_reserved());
    reservations.leave(&port(1));
    assert!(!reservations.is_reserved());
}

#[test]
fn what_is_kept_comes_back() {
    let mut reservations = registered(3);
    reservations.change(&port(2), PrOut::Reserve, 0, 6, &list(2, 0)).unwrap();
    let bytes = kept::to_bytes(&reservations);
    let again = kept::parse(&bytes).unwrap();
    assert_eq!((again.registrations(), again.held()), (reservations.registrations(), reservations.held()));
    assert!(again.is_kept());
    for len in 0..bytes.len() - 1 {
        assert!(kept::parse(&bytes[..len]).is_err(), "{len} bytes");
    }
    assert!(kept::parse(b"nitro-iscsi-reservations 1\nreserved 1 x\nend\n").is_err());
}

#[test]
fn reports_have_their_lengths() {
    let mut reservations = registered(2);
    assert_eq!(
        reservations.report(PrIn::ReadKeys, true)[4..],
        [0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2]
    );
    assert_eq!(reservations.report(PrIn::ReadReservation, true), [0, 0, 0, 2, 0, 0, 0, 0]);
    reservations.change(&port(2), PrOut::Reserve, 0, 5, &list(2, 0)).unwrap();
    let reservation = reservations.report(PrIn::ReadReservation, true);
    assert_eq!((reservation.len(), reservation[15], reservation[21]), (24, 2, 5));
    let full = reservations.report(PrIn::ReadFullStatus, true);
    assert_eq!(full.len(), 8 + u32::from_be_bytes(*full[4..].first_chunk().unwrap()) as usize);
    assert_eq!(reservations.report(PrIn::ReportCapabilities, false)[2], 0);
}
