//! What a host does, step by step. What two of them can do to each other is gone through in `crates/cluster/exhaust`.

use super::*;

const S: Duration = Duration::from_secs(1);

fn key(fence: u64, lease: LeaseId) -> Key {
    Key { volume: "vm".to_owned(), fence: Fence(fence), lease, host: "x".to_owned() }
}

/// A host with lease 7, granted at 10 s and renewed at once.
fn host(keys: &[Key]) -> (Machine, Vec<Order>) {
    let mut machine = Machine::new(Terms::of(5 * S), ["vm".to_owned()]);
    assert_eq!(machine.ask(10 * S), Some(Ask::Grant));
    assert_eq!(machine.ask(10 * S), None, "one question at a time");
    assert!(machine.answer(10 * S, 10 * S, &Ask::Grant, Answer::Granted(7, 5 * S)).is_empty());
    let renew = machine.ask(10 * S).unwrap();
    assert_eq!(renew, Ask::Renew(7, vec!["vm".to_owned()]));
    let orders = machine.answer(10 * S, 10 * S, &renew, Answer::Renewed(5 * S, keys.to_vec()));
    (machine, orders)
}

fn owner() -> Machine {
    let (mut machine, _) = host(&[]);
    let claim = machine.ask(10 * S).unwrap();
    assert_eq!(claim, Ask::Claim("vm".to_owned(), 7));
    let orders = machine.answer(10 * S, 10 * S, &claim, Answer::Claimed(Fence(42)));
    assert_eq!(orders, [Order::Open("vm".to_owned(), Fence(42))]);
    machine.hear(&News::Opened("vm".to_owned()));
    machine
}

#[test]
fn it_owns_until_a_margin_before_its_lease_ends_counted_from_the_request() {
    let mut machine = owner();
    assert_eq!(machine.permits("vm", 14 * S - Duration::from_nanos(1)), Some(Fence(42)));
    assert_eq!(machine.permits("vm", 14 * S), None);
    let renew = machine.ask(11 * S).unwrap();
    assert!(machine.answer(13 * S, 11 * S, &renew, Answer::Renewed(5 * S, vec![key(42, 7)])).is_empty());
    assert_eq!(machine.held().unwrap().until, 15 * S);
    assert_eq!(machine.tick(15 * S), [Order::Stop(Why::Expired)]);
    assert!(machine.tick(16 * S).is_empty() && machine.ask(16 * S).is_none() && machine.due().is_none());
}

#[test]
fn an_answer_after_the_end_prolongs_nothing() {
    let mut machine = owner();
    let renew = machine.ask(13 * S).unwrap();
    let orders = machine.answer(14 * S, 13 * S, &renew, Answer::Renewed(5 * S, vec![key(42, 7)]));
    assert_eq!((orders, machine.permits("vm", 14 * S)), (vec![Order::Stop(Why::Expired)], None));
}

#[test]
fn a_volume_of_another_host_is_claimed_when_its_key_is_gone() {
    let (mut machine, orders) = host(&[key(41, 6)]);
    assert!(orders.is_empty() && machine.ask(10 * S).is_none());
    machine.hurry(10 * S);
    let renew = machine.ask(10 * S).unwrap();
    let _ = machine.answer(10 * S, 10 * S, &renew, Answer::Renewed(5 * S, vec![]));
    let claim = machine.ask(10 * S).unwrap();
    assert!(machine.answer(10 * S, 10 * S, &claim, Answer::NotClaimed).is_empty());
    assert!(machine.ask(10 * S).is_none(), "another was faster");
}

#[test]
fn a_claim_whose_answer_was_lost_is_found() {
    let (mut machine, _) = host(&[]);
    let claim = machine.ask(10 * S).unwrap();
    assert!(machine.answer(11 * S, 10 * S, &claim, Answer::Failed).is_empty());
    let renew = machine.ask(11 * S).unwrap();
    let orders = machine.answer(11 * S, 11 * S, &renew, Answer::Renewed(5 * S, vec![key(43, 7)]));
    assert_eq!(orders, [Order::Open("vm".to_owned(), Fence(43))]);
}

#[test]
fn a_lost_key_or_lease_stops_it_at_once() {
    for (answer, why) in [
        (Answer::Renewed(5 * S, vec![key(50, 9)]), Why::KeyGone("vm".to_owned())),
        (Answer::Renewed(5 * S, vec![]), Why::KeyGone("vm".to_owned())),
        (Answer::Gone, Why::LeaseGone),
    ] {
        let mut machine = owner();
        let renew = machine.ask(11 * S).unwrap();
        assert_eq!(machine.answer(11 * S, 11 * S, &renew, answer), [Order::Stop(why)]);
        assert_eq!(machine.permits("vm", 11 * S), None);
    }
}

#[test]
fn what_cannot_be_opened_is_given_to_others_first() {
    let mut machine = owner();
    machine.hear(&News::Refused("vm".to_owned()));
    assert_eq!(machine.permits("vm", 10 * S), None);
    let release = machine.ask(10 * S).unwrap();
    assert_eq!(release, Ask::Release("vm".to_owned(), Fence(42)));
    let _ = machine.answer(10 * S, 10 * S, &release, Answer::Released);
    let renew = machine.ask(11 * S).unwrap();
    let _ = machine.answer(11 * S, 11 * S, &renew, Answer::Renewed(5 * S, vec![]));
    assert_eq!(machine.ask(11 * S), None);
    let renew = machine.ask(13 * S).unwrap();
    let _ = machine.answer(13 * S, 13 * S, &renew, Answer::Renewed(5 * S, vec![]));
    let renew = machine.ask(15 * S).unwrap();
    let _ = machine.answer(15 * S, 15 * S, &renew, Answer::Renewed(5 * S, vec![]));
    assert_eq!(machine.ask(15 * S), Some(Ask::Claim("vm".to_owned(), 7)));
}

#[test]
fn the_lease_is_revoked_once_nothing_is_served_any_more() {
    let mut machine = owner();
    machine.hear(&News::Leaving);
    assert!(matches!(machine.ask(11 * S), Some(Ask::Renew(..))), "it is kept meanwhile");
    let renew = Ask::Renew(7, vec!["vm".to_owned()]);
    let _ = machine.answer(11 * S, 11 * S, &renew, Answer::Renewed(5 * S, vec![key(42, 7)]));
    assert_eq!(machine.permits("vm", 11 * S), Some(Fence(42)));
    machine.hear(&News::AtRest);
    assert_eq!((machine.permits("vm", 11 * S), machine.held()), (None, None));
    assert_eq!(machine.ask(11 * S), Some(Ask::Revoke(7)));
    assert!(machine.answer(11 * S, 11 * S, &Ask::Revoke(7), Answer::Revoked).is_empty());
    assert_eq!(machine.over(), Some(&Why::Left));
}
