//! Goes through everything within bounds. The server's machine has no fault there; with a mistake of the origin, there is one.

use nitro_cluster_exhaust::{Bounds, Plant, World};
use stateright::{Checker, Expectation, HasDiscoveries, Model};

/// Two hosts, a write, and leases that expire up to three times; no faults.
const CALM: Bounds = Bounds {
    ticks: 7,
    expiries: 3,
    pauses: 0,
    cuts: 0,
    stalls: 0,
    losses: 0,
    writes: 1,
    leaves: 0,
    plant: Plant::Nothing,
};

fn exhaust(bounds: Bounds) {
    let checker = bounds.clone().checker().threads(2).symmetry_fn(World::representative).spawn_dfs().join();
    println!("{bounds:?}: {} states, {} of them different", checker.state_count(), checker.unique_state_count());
    let (always, sometimes): (Vec<_>, Vec<_>) =
        bounds.properties().into_iter().partition(|property| matches!(property.expectation, Expectation::Always));
    assert_eq!(always.len(), 3);
    always.iter().for_each(|property| checker.assert_no_discovery(property.name));
    // Without a host that is stopped or slow, no write comes late.
    let late = "a write of an earlier owner comes late and is refused";
    let reached = sometimes.iter().filter(|property| property.name != late || bounds.pauses + bounds.stalls > 0);
    reached.for_each(|property| drop(checker.assert_any_discovery(property.name)));
}

#[test]
fn two_hosts_of_which_one_is_stopped_or_killed_never_serve_at_a_time_and_lose_nothing() {
    exhaust(Bounds { pauses: 1, writes: 2, ..CALM });
}

#[test]
fn two_hosts_that_are_cut_off_from_etcd_never_serve_at_a_time_and_lose_nothing() {
    exhaust(Bounds { cuts: 2, ..CALM });
}

#[test]
#[ignore = "a minute: scripts/test-long exhaust"]
fn two_hosts_of_which_each_may_be_stopped_or_killed_never_serve_at_a_time_and_lose_nothing() {
    exhaust(Bounds { pauses: 2, ..CALM });
}

#[test]
#[ignore = "a minute: scripts/test-long exhaust"]
fn two_hosts_of_which_one_is_slow_never_serve_at_a_time_and_lose_nothing() {
    exhaust(Bounds { stalls: 1, ..CALM });
}

#[test]
#[ignore = "a minute: scripts/test-long exhaust"]
fn two_hosts_whose_messages_are_lost_or_late_never_serve_at_a_time_and_lose_nothing() {
    exhaust(Bounds { losses: 1, leaves: 1, ..CALM });
}

/// Whether a mistake shows as a write of a host that is not the owner any more.
fn is_found(plant: Plant) -> bool {
    let bounds = Bounds { ticks: 5, expiries: 1, pauses: 1, plant, ..CALM };
    let checker = bounds.checker().threads(2).finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let what = "no write comes into the origin after it was opened with a higher number";
    checker.discovery(what).is_some_and(|path| {
        println!("{plant:?}: {:?}", path.into_actions());
        true
    })
}

#[test]
fn an_origin_that_does_not_check_numbers_is_found_out() {
    assert!(is_found(Plant::NumberUnchecked));
}

#[test]
fn an_origin_that_forgets_the_newest_number_is_found_out() {
    assert!(is_found(Plant::NewestCollected));
}
