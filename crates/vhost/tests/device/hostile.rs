//! Guests and monitors that lie.

use crate::support::{Ram, driven};
use nitro_device::guarded::Guard;
use nitro_vhost::VhostError;
use nitro_vhost_client::{Backing, Kind, Setup};
use std::sync::Arc;
use vm_memory::{Bytes, GuestAddress, GuestMemoryBackend};

const F_EVENT_IDX: u64 = 1 << 29;

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

/// The data of a write are gone before the device reads them, while its rings and its header are there.
#[test]
fn data_that_are_gone_are_not_written() {
    let setup = Setup { memory: Backing::Plain, ..Setup::default() };
    let (_place, disk, served, mut client) = driven(Ram::new(false), setup);
    assert_eq!(client.queues[0].run(Kind::Write, 0, &[7; 16384], 0).unwrap().0, 0);
    client.queues[0].fill(1, &[9; 16384]).unwrap();
    client.queues[0].submit(1, Kind::Write, 0, 16384).unwrap();
    client.shrink(client.queues[0].data_at(1).next_multiple_of(4096)).unwrap();
    client.queues[0].kick().unwrap();
    assert!(matches!(served.end(), Err(VhostError::MemoryLost)));
    assert!(disk.contents.lock().unwrap().0[..16384] == [7; 16384], "the disk has what the client did not write");
}

/// The rings and the data of four busy queues are gone at any moment.
#[test]
fn a_client_whose_memory_shrinks_under_load_is_cut_off() {
    for round in 0..20 {
        let setup = Setup {
            memory: Backing::Plain,
            queues: 4,
            features: !F_EVENT_IDX,
            indirect: round % 2 == 0,
            ..Setup::default()
        };
        let (_place, _disk, served, mut client) = driven(Ram::new(round % 3 == 0), setup);
        // The driver of this test survives, too.
        let (mapped, lost) = (client.memory().iter().next().unwrap().get_mmap(), Arc::default());
        let _guard = Guard::new(&mapped, &lost).unwrap();
        for queue in &mut client.queues {
            for slot in 0..64 {
                let kind = if slot % 2 == 0 { Kind::Write } else { Kind::Read };
                queue.submit(slot, kind, u64::from(slot), 32 << 10).unwrap();
            }
            queue.kick().unwrap();
        }
        // First a part of it, then all: without rings, each notification fails.
        client.shrink(client.queues[round % 4].data_at(40) / (round as u64 + 1) / 4096 * 4096).unwrap();
        std::thread::yield_now();
        client.shrink(0).unwrap();
        let ended = std::thread::spawn(move || served.end());
        while !ended.is_finished() {
            client.queues.iter_mut().for_each(|queue| queue.kick().unwrap());
            std::thread::yield_now();
        }
        assert!(matches!(ended.join().unwrap(), Err(VhostError::MemoryLost)), "round {round}");
    }
}
