//! The process takes no more RAM than the server printed before it started.

use crate::support::{Nbd, Place, Server, noise};
use std::fs;
use std::thread;

const MIB: u64 = 1 << 20;
/// Small settings, so that the bound is near.
const SMALL: &str =
    "--origin vm.img --cache cache.img --cache-size 64M --ram 4M --threads 2 --max-connections 16 --request-memory 64M";

/// The most that a process ever had resident, in bytes (proc(5)).
fn resident_max(server: &Server) -> u64 {
    let text = fs::read_to_string(format!("/proc/{}/status", server.child.id())).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().trim().parse::<u64>().unwrap() << 10
}

fn assert_within_need(place: &Place, server: &Server, what: &str) {
    let ram = place.status()["ram"].clone();
    let (need, taken) = (ram["need_bytes"].as_u64().unwrap(), resident_max(server));
    println!("{what}: {} MiB of {} MiB", taken / MIB, need / MIB);
    assert!(taken <= need, "{what}: {} MiB of {} MiB: {ram}", taken / MIB, need / MIB);
}

fn serve(place: &Place, more: &str) -> Server {
    place.file("vm.img", 1024 * MIB);
    place.serve(&format!("{SMALL} {more}"))
}

/// A write of zeroes but for one extent that does not compress.
fn sparse(seed: u64, len: usize) -> Vec<u8> {
    let mut data = vec![0; len];
    let at = (seed as usize * 8192 * 7) % len;
    data[at..at + 8192].copy_from_slice(&noise(seed, 8192));
    data
}

#[test]
fn large_writes_of_which_little_is_kept_stay_within_the_need() {
    for (mode, writes) in [("", 120), ("--mode write-back", 32)] {
        let place = Place::new();
        let server = serve(&place, mode);
        let mut client = place.client();
        for seed in 0..writes {
            assert_eq!(client.write(seed * 8 * MIB % (1024 * MIB), &sparse(seed, 8 << 20)), 0);
        }
        assert_within_need(&place, &server, mode);
    }
}

#[test]
fn a_ram_cache_of_small_extents_stays_within_the_need() {
    let place = Place::new();
    let server = serve(&place, "--extent-size 4K --sequential-threshold 0");
    let mut client = place.client();
    let content = noise(3, 1 << 20);
    for at in 0..48 {
        assert_eq!(client.write(at * MIB, &content[at as usize..]), 0);
    }
    for round in 0..3 {
        for at in (0..48 * MIB).step_by(128 << 10) {
            client.read(at + round * 4096, 120 << 10);
        }
    }
    assert_within_need(&place, &server, "RAM cache");
}

#[test]
fn mixed_load_of_many_clients_stays_within_the_need() {
    for mode in ["", "--mode write-back"] {
        let place = Place::new();
        let server = serve(&place, mode);
        let socket = place.path("run/nitro/vm.sock");
        thread::scope(|scope| {
            for client in 0..8u64 {
                let socket = &socket;
                scope.spawn(move || {
                    let mut nbd = Nbd::connect(socket, "vm");
                    for step in 0..150u64 {
                        let seed = client << 32 | step;
                        let len = [4096, 8192, 65_536, 5000, 1 << 20][(seed % 5) as usize];
                        let at = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) % (512 * MIB - 8 * MIB) / 512 * 512;
                        match step % 3 {
                            0 => assert_eq!(nbd.write(at, &noise(seed, len)), 0),
                            1 => assert_eq!(nbd.write(at, &sparse(seed, len.max(8192))), 0),
                            _ => assert_eq!(nbd.read(at, len).len(), len),
                        }
                    }
                });
            }
        });
        assert_within_need(&place, &server, mode);
    }
}
