//! Signals: what was acknowledged is there after any number of them that the process ends in order for.

use crate::support::{Place, noise, wait};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{Read, Write};
use std::process::Stdio;

const WRITE_BACK: &str = "--origin vm.img --cache cache.img --mode write-back --dirty-age 1h --ram 4M";
/// How often two signals are sent at once.
const ROUNDS: u64 = 100;
const EXTENT: usize = 8192;

/// A volume of 16 MiB in write-back.
fn place() -> Place {
    let place = Place::new();
    place.file("vm.img", 16 << 20);
    place
}

#[test]
fn two_signals_at_once_lose_nothing_that_was_acknowledged() {
    let place = place();
    let size = "--cache-size 32M";
    let mut server = place.serve(&format!("{WRITE_BACK} {size}"));
    for round in 0..ROUNDS {
        let (at, flushed, unflushed) =
            (round * 2 * EXTENT as u64, noise(2 * round, EXTENT), noise(2 * round + 1, EXTENT));
        let mut client = place.client();
        assert_eq!(client.write(at, &flushed), 0);
        assert_eq!(client.flush(), 0);
        assert_eq!(client.write(at + EXTENT as u64, &unflushed), 0);
        drop(client);
        server.signal(Signal::TERM);
        // Equal signals may arrive as one, different ones do not.
        server.signal(if round % 2 == 0 { Signal::TERM } else { Signal::INT });
        let status = wait(&mut server.child);
        assert!(status.success(), "round {round}: {status}");
        server = place.serve(WRITE_BACK);
        let mut client = place.client();
        assert!(client.read(at, EXTENT) == flushed, "round {round}: flushed data are lost");
        assert!(client.read(at + EXTENT as u64, EXTENT) == unflushed, "round {round}: acknowledged data are lost");
    }
}

#[test]
fn a_hang_up_ends_it_in_order() {
    let place = place();
    let mut server = place.serve_heeding("HUP", &format!("{WRITE_BACK} --cache-size 32M"));
    let data = noise(1, 1 << 20);
    assert_eq!(place.client().write(0, &data), 0);
    // As a terminal that is closed: nobody reads the log, and both the kernel and the shell send the signal.
    drop(server.child.stderr.take());
    server.signal(Signal::HUP);
    server.signal(Signal::HUP);
    let status = wait(&mut server.child);
    assert!(status.success(), "{status}");
    assert!(fs::read(place.path("vm.img")).unwrap()[..data.len()] == data);
    assert!(!place.path("vm.img.nitro-dirty").exists());
}

#[test]
fn a_log_that_nobody_reads_keeps_nobody_waiting() {
    let place = place();
    let mut server = place.serve(&format!("{WRITE_BACK} --cache-size 32M --log debug"));
    let left_out = |place: &Place| place.status()["server"]["log_lines_left_out"].as_u64().unwrap();
    let data = noise(1, EXTENT);
    // A line for each client that leaves: more than the pipe and the queue have room for.
    for _ in 0..100 {
        if left_out(&place) > 0 {
            break;
        }
        (0..200).for_each(|_| drop(place.client()));
    }
    assert!(left_out(&place) > 0);
    assert_eq!(place.client().write(0, &data), 0);
    server.signal(Signal::TERM);
    assert!(wait(&mut server.child).success());
    assert!(fs::read(place.path("vm.img")).unwrap()[..EXTENT] == data);
}

#[test]
fn a_hang_up_that_is_ignored_stays_ignored() {
    let place = place();
    let server = place.serve_ignoring("HUP", &format!("{WRITE_BACK} --cache-size 32M"));
    server.signal(Signal::HUP);
    assert_eq!(place.client().write(0, b"x"), 0);
    let (status, said) = server.stop();
    assert!(status.success() && said.contains("SIGTERM") && !said.contains("SIGHUP"), "{said}");
}

#[test]
fn an_import_that_is_broken_off_closes_its_store() {
    let place = Place::new();
    place.stdout("cos init st --size 64M");
    let mut import = place.command("cos import st backup -");
    let mut import = import.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // More than a pipe holds: the import is under way when all is written.
    import.stdin.as_mut().unwrap().write_all(&noise(1, 1 << 20)).unwrap();
    kill_process(Pid::from_child(&import), Signal::TERM).unwrap();
    let status = wait(&mut import);
    let mut said = String::new();
    import.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("SIGTERM interrupted the import"), "{said}");
    assert!(!place.stdout("cos list st").contains("backup"));
}
