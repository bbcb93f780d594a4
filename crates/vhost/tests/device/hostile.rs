//! Guests and monitors that lie.

use crate::support::{Place, Ram, driven};
use nitro_vhost_client::{Client, Kind, Setup};
use std::sync::Arc;
use vm_memory::{Bytes, GuestAddress};

#[test]
fn a_ring_that_makes_no_sense_stops_its_queue_alone() {
    let setup = Setup { queues: 2, ..Setup::default() };
    let (_place, _disk, _served, mut client) = driven(Ram::new(false), setup);
    assert_eq!(client.queues[0].run(Kind::Read, 0, &[], 512).unwrap().0, 0);
    // A request whose header lies outside the memory.
    client.queues[0].submit(0, Kind::Read, 0, 512).unwrap();
    let table = GuestAddress(0);
    client.memory().write_obj(u64::MAX - 7, table).unwrap();
    client.queues[0].kick().unwrap();
    for sector in 0..100 {
        assert_eq!(client.queues[1].run(Kind::Read, sector, &[], 512).unwrap().0, 0);
    }
    assert_eq!(client.queues[0].take().unwrap(), None, "it is not answered");
    client.reset().unwrap();
    assert_eq!(client.queues[0].run(Kind::Read, 0, &[], 512).unwrap().0, 0, "the driver begins anew");
}

#[test]
fn memory_that_can_shrink_is_refused() {
    let (place, disk) = (Place::new(), Arc::new(Ram::new(false)));
    let unsealed = Setup { unsealed: true, ..Setup::default() };
    let (_served, refused) = place.serve(&disk, |path| Client::connect(path, unsealed).map(|_| ()));
    assert!(refused.is_err());
    let (_served, mut client) = place.serve(&disk, |path| Client::connect(path, Setup::default()).unwrap());
    assert_eq!(client.queues[0].run(Kind::Read, 0, &[], 512).unwrap().0, 0);
}
