//! Requests.

use crate::support::{DISK_BYTES, Ram, driven};
use nitro_vhost_client::{Backing, Client, Kind, Setup};
use std::sync::atomic::Ordering;

const F_FLUSH: u64 = 1 << 9;
const F_EVENT_IDX: u64 = 1 << 29;

fn noise(seed: u32, len: usize) -> Vec<u8> {
    let mut state = seed | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state as u8
    };
    (0..len).map(|_| next()).collect()
}

fn range(sector: u64, sectors: u32, flags: u32) -> Vec<u8> {
    [&sector.to_le_bytes()[..], &sectors.to_le_bytes(), &flags.to_le_bytes()].concat()
}

/// Writes and reads at many places, of many lengths, with a model beside.
fn exercise(client: &mut Client, model: &mut [u8]) {
    for (turn, len) in [512, 4096, 1024, 65536, 8192, 512].into_iter().cycle().take(120).enumerate() {
        let queue_count = client.queues.len();
        let queue = &mut client.queues[turn % queue_count];
        let sector = (turn as u64 * 7919) % ((DISK_BYTES - len as u64) / 512);
        let data = noise(turn as u32 + 7, len);
        assert_eq!(queue.run(Kind::Write, sector, &data, 0).unwrap().0, 0);
        model[sector as usize * 512..][..len].copy_from_slice(&data);
        let from = sector.saturating_sub(9).min((DISK_BYTES - 65536) / 512);
        let (status, read) = queue.run(Kind::Read, from, &[], 65536).unwrap();
        assert_eq!(status, 0);
        assert!(read == model[from as usize * 512..][..65536], "other bytes at sector {from}");
    }
}

#[test]
fn what_is_written_is_read_with_every_kind_of_ring() {
    for (features, indirect, queues) in
        [(u64::MAX, false, 1), (!F_EVENT_IDX, false, 2), (u64::MAX, true, 4), (!F_EVENT_IDX, true, 1)]
    {
        let setup = Setup { features, indirect, queues, ..Setup::default() };
        let (_place, _disk, _served, mut client) = driven(Ram::new(false), setup);
        exercise(&mut client, &mut vec![0; DISK_BYTES as usize]);
    }
}

#[test]
fn memory_may_be_of_every_file_in_ram() {
    for memory in [Backing::Sealed, Backing::Plain, Backing::Folder("/dev/shm")] {
        let (_place, _disk, _served, mut client) = driven(Ram::new(false), Setup { memory, ..Setup::default() });
        exercise(&mut client, &mut vec![0; DISK_BYTES as usize]);
        client.replug_memory().unwrap();
        assert_eq!(client.queues[0].run(Kind::Flush, 0, &[], 0).unwrap().0, 0);
    }
}

#[test]
fn many_requests_are_under_way_in_several_queues() {
    let setup = Setup { queues: 3, depth: 85, data_bytes: 4096, ..Setup::default() };
    let (_place, _disk, _served, mut client) = driven(Ram::new(false), setup);
    for round in 0..50 {
        for queue in &mut client.queues {
            for slot in 0..85 {
                queue.submit(slot, Kind::Read, u64::from(slot) * 8, 4096).unwrap();
            }
            queue.kick().unwrap();
        }
        for queue in &mut client.queues {
            let mut seen = [false; 85];
            for _ in 0..85 {
                let done = queue.wait().unwrap();
                assert_eq!(
                    (done.status, std::mem::replace(&mut seen[usize::from(done.slot)], true)),
                    (0, false),
                    "{round}"
                );
            }
        }
    }
}

#[test]
fn discard_zeroes_flush_and_identity() {
    let (_place, disk, _served, mut client) = driven(Ram::new(false), Setup::default());
    let queue = &mut client.queues[0];
    assert_eq!(queue.run(Kind::Write, 0, &[7; 16384], 0).unwrap().0, 0);
    assert_eq!(queue.run(Kind::Discard, 0, &[range(0, 8, 0), range(16, 8, 0)].concat(), 0).unwrap().0, 0);
    assert_eq!(disk.trimmed_bytes.load(Ordering::SeqCst), 8192);
    assert_eq!(queue.run(Kind::WriteZeroes, 0, &range(8, 4, 1), 0).unwrap().0, 0);
    let (status, read) = queue.run(Kind::Read, 0, &[], 16384).unwrap();
    assert_eq!(status, 0);
    for (sector, data) in read.chunks(512).enumerate() {
        let is_zero = !(12..16).contains(&sector) && sector < 24;
        assert_eq!(data, [if is_zero { 0 } else { 7 }; 512], "{sector}");
    }
    assert_eq!(queue.run(Kind::Flush, 0, &[], 0).unwrap().0, 0);
    assert_eq!(disk.flushes.load(Ordering::SeqCst), 1);
    assert_eq!(queue.run(Kind::Identify, 0, &[], 20).unwrap(), (0, b"a disk in memory\0\0\0\0".to_vec()));
    assert_eq!(queue.run(Kind::Read, DISK_BYTES / 512, &[], 512).unwrap().0, 1);
    assert_eq!(queue.run(Kind::Discard, 0, &range(0, 8, 1), 0).unwrap().0, 2);
}

#[test]
fn without_flush_every_write_is_durable_before_it_is_acknowledged() {
    let setup = Setup { features: !F_FLUSH, ..Setup::default() };
    let (_place, disk, _served, mut client) = driven(Ram::new(false), setup);
    assert_eq!(client.queues[0].run(Kind::Write, 0, &[9; 512], 0).unwrap().0, 0);
    disk.crash();
    assert_eq!(client.queues[0].run(Kind::Read, 0, &[], 512).unwrap(), (0, vec![9; 512]));
}

#[test]
fn a_disk_of_larger_blocks_refuses_parts_of_them() {
    let (_place, _disk, _served, mut client) = driven(Ram { block_bytes: 4096, ..Ram::new(false) }, Setup::default());
    let space = client.config().unwrap();
    assert_eq!((client.size_bytes().unwrap(), &space[20..24]), (DISK_BYTES, &4096_u32.to_le_bytes()[..]));
    let queue = &mut client.queues[0];
    assert_eq!(queue.run(Kind::Write, 8, &[5; 8192], 0).unwrap().0, 0);
    for (sector, bytes) in [(8, 512), (1, 4096), (12, 4096)] {
        assert_eq!(queue.run(Kind::Write, sector, &vec![6; bytes], 0).unwrap().0, 1, "{sector} {bytes}");
        assert_eq!(queue.run(Kind::Read, sector, &[], bytes as u32).unwrap().0, 1, "{sector} {bytes}");
    }
    assert_eq!(queue.run(Kind::Discard, 0, &range(8, 1, 0), 0).unwrap().0, 1);
    assert_eq!(queue.run(Kind::Read, 8, &[], 8192).unwrap(), (0, vec![5; 8192]));
}

#[test]
fn a_read_only_disk_takes_no_writes() {
    let disk = Ram { read_only: true, ..Ram::new(false) };
    let (_place, _disk, _served, mut client) = driven(disk, Setup::default());
    assert_eq!(client.queues[0].run(Kind::Write, 0, &[9; 512], 0).unwrap().0, 1);
    assert_eq!(client.queues[0].run(Kind::Read, 0, &[], 512).unwrap(), (0, vec![0; 512]));
}

#[test]
fn the_guest_is_told_of_another_size() {
    let (_place, disk, served, mut client) = driven(Ram::new(false), Setup::default());
    client.wait_for_change().unwrap();
    assert_eq!(client.size_bytes().unwrap(), DISK_BYTES);
    disk.size_bytes.store(DISK_BYTES / 2, Ordering::SeqCst);
    served.control.resized(DISK_BYTES / 2);
    client.wait_for_change().unwrap();
    assert_eq!(client.size_bytes().unwrap(), DISK_BYTES / 2);
    assert_eq!(client.queues[0].run(Kind::Read, DISK_BYTES / 1024, &[], 512).unwrap().0, 1);
}
