//! The server goes, and another comes, while the guest runs on.

use crate::support::{Place, Ram, driven};
use nitro_vhost_client::{Client, Kind, Setup};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Kills the server with requests in flight; another one begins.
fn crash_with_requests_under_way(keeps_writes: bool) -> (Place, Arc<Ram>, crate::support::Served, Client) {
    let (place, disk, served, mut client) = driven(Ram::new(keeps_writes), Setup::default());
    assert_eq!(client.queues[0].run(Kind::Write, 0, &[1; 4096], 0).unwrap().0, 0);
    disk.is_stuck.store(true, Ordering::SeqCst);
    for slot in 1..9 {
        client.queues[0].fill(slot, &[slot as u8; 4096]).unwrap();
        client.queues[0].submit(slot, Kind::Write, u64::from(slot) * 8, 4096).unwrap();
    }
    client.queues[0].kick().unwrap();
    // Queues are given up as they are.
    drop(served);
    disk.crash();
    disk.is_stuck.store(false, Ordering::SeqCst);
    let (served, connected) = place.serve(&disk, |path| client.reconnect(path));
    connected.unwrap();
    (place, disk, served, client)
}

#[test]
fn requests_under_way_are_done_by_the_next_server() {
    let (_place, _disk, _served, mut client) = crash_with_requests_under_way(true);
    let mut slots: Vec<_> = (0..8)
        .map(|_| client.queues[0].wait().unwrap())
        .inspect(|done| assert_eq!(done.status, 0))
        .map(|done| done.slot)
        .collect();
    slots.sort_unstable();
    assert_eq!(slots, (1..9).collect::<Vec<_>>());
    for slot in 1..9 {
        let (status, read) = client.queues[0].run(Kind::Read, slot * 8, &[], 4096).unwrap();
        assert_eq!((status, read), (0, vec![slot as u8; 4096]));
    }
    assert_eq!(client.queues[0].run(Kind::Flush, 0, &[], 0).unwrap().0, 0);
}

#[test]
fn lost_acknowledged_writes_fail_everything_until_a_reset() {
    let (_place, _disk, _served, mut client) = crash_with_requests_under_way(false);
    for _ in 0..8 {
        assert_eq!(client.queues[0].wait().unwrap().status, 1);
    }
    assert_eq!(client.queues[0].run(Kind::Flush, 0, &[], 0).unwrap().0, 1, "a flush would hide the loss");
    assert_eq!(client.queues[0].run(Kind::Read, 0, &[], 512).unwrap().0, 1);
    client.reset().unwrap();
    assert_eq!(client.queues[0].run(Kind::Read, 0, &[], 512).unwrap(), (0, vec![0; 512]));
    assert_eq!(client.queues[0].run(Kind::Flush, 0, &[], 0).unwrap().0, 0);
}

#[test]
fn flushed_writes_are_no_loss() {
    let (place, disk, served, mut client) = driven(Ram::new(false), Setup::default());
    assert_eq!(client.queues[0].run(Kind::Write, 0, &[5; 512], 0).unwrap().0, 0);
    assert_eq!(client.queues[0].run(Kind::Flush, 0, &[], 0).unwrap().0, 0);
    drop(served);
    disk.crash();
    let (_served, connected) = place.serve(&disk, |path| client.reconnect(path));
    connected.unwrap();
    assert_eq!(client.queues[0].run(Kind::Read, 0, &[], 512).unwrap(), (0, vec![5; 512]));
}

#[test]
fn a_server_that_ends_in_order_flushes_and_the_guest_goes_on() {
    let (place, disk, served, mut client) = driven(Ram::new(false), Setup::default());
    assert_eq!(client.queues[0].run(Kind::Write, 0, &[5; 512], 0).unwrap().0, 0);
    served.control.stop();
    served.end().unwrap();
    assert_eq!(disk.flushes.load(Ordering::SeqCst), 1);
    disk.crash();
    let (_served, connected) = place.serve(&disk, |path| client.reconnect(path));
    connected.unwrap();
    assert_eq!(client.queues[0].run(Kind::Read, 0, &[], 512).unwrap(), (0, vec![5; 512]));
}

#[test]
fn memory_goes_and_comes_back_while_requests_run() {
    let (_place, _disk, _served, mut client) = driven(Ram::new(false), Setup::default());
    for round in 0..20 {
        for slot in 0..8 {
            client.queues[0].submit(slot, Kind::Read, u64::from(slot) * 8 + 8, 4096).unwrap();
        }
        client.queues[0].kick().unwrap();
        client.replug_memory().unwrap();
        for _ in 0..8 {
            assert_eq!(client.queues[0].wait().unwrap().status, 0, "{round}");
        }
    }
}
