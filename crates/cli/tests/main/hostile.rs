//! Clients that take what is meant for others: memory, places, time.

use crate::support::{Nbd, PATIENCE, Place, Server, noise};
use rustix::net::{AddressFamily, SocketType, sockopt};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

const LARGE: usize = 32 << 20;
const SERVE: &str = "--origin vm.img --cache none";

fn place() -> Place {
    let place = Place::new();
    place.file("vm.img", 64 << 20);
    place
}

/// Resident memory of a server in bytes (proc(5)).
fn resident_bytes(server: &Server) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.child.id())).unwrap();
    let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    kib.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() << 10
}

/// A client that has sent its part of the greeting, and `more`.
fn greet(place: &Place, more: &[u8]) -> UnixStream {
    let mut stream = UnixStream::connect(place.path("run/nitro/vm.sock")).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(&[&3u32.to_be_bytes(), more].concat()).unwrap();
    stream
}

/// Reads until the server closes the connection.
fn is_closed(mut stream: UnixStream) -> bool {
    stream.read_to_end(&mut Vec::new()).is_ok()
}

#[test]
fn announced_payloads_take_no_memory_and_stop_nobody() {
    let place = place();
    let server = place.serve(SERVE);
    let before = resident_bytes(&server);
    // The first half announces, the second begins to send.
    let mut silent: Vec<Nbd> = (0..40).map(|_| place.client()).collect();
    silent.iter_mut().for_each(|client| client.request(1, 0, LARGE, &[]));
    let mut begun: Vec<Nbd> = (0..40).map(|_| place.client()).collect();
    begun.iter_mut().for_each(|client| client.request(1, 0, LARGE, &noise(1, 64 << 10)));
    // What a neighbour is answered came after what the others have sent.
    let mut neighbour = place.client();
    let data = noise(2, 128 << 10);
    assert_eq!(neighbour.write(0, &data), 0);
    assert!(neighbour.read(0, data.len()) == data);
    place.until("connected", |s| s["server"]["connections"] == 81);
    let grown = resident_bytes(&server).saturating_sub(before);
    assert!(grown < 100 << 20, "{} MiB for what was announced", grown >> 20);
    drop((silent, begun));
    assert_eq!(neighbour.write(0, &noise(3, LARGE)), 0);
}

#[test]
fn stalled_handshakes_keep_nobody_out() {
    let place = place();
    let _server = place.serve(&format!("{SERVE} --max-connections 16"));
    let mut served = place.client();
    let stalled: Vec<_> = (0..64).map(|_| greet(&place, &[])).collect();
    assert_eq!(place.client().write(0, b"new"), 0);
    assert_eq!(served.read(0, 3), b"new");
    assert!(place.status()["server"]["connections"].as_u64().unwrap() <= 16);
    drop(stalled);
}

#[test]
fn a_handshake_has_its_time_whatever_was_sent_of_it() {
    let place = place();
    let _server = place.serve(&format!("{SERVE} --handshake-timeout 1s"));
    let mut served = place.client();
    let info = [b"IHAVEOPT\0\0\0\x06".as_slice(), &8u32.to_be_bytes(), &2u32.to_be_bytes(), b"vm", &[0, 0]].concat();
    assert!(is_closed(greet(&place, &[])));
    assert!(is_closed(greet(&place, &info)));
    assert!(is_closed(greet(&place, &info[..5])));
    // Once an export is chosen, a client may be silent.
    assert_eq!(served.write(0, b"x"), 0);
}

/// An idle client of an address of this machine that has chosen the export; `None`: it is turned away.
fn idle_client(server: SocketAddr, from: [u8; 4]) -> Option<OwnedFd> {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&socket, &SocketAddr::from((from, 0))).unwrap();
    rustix::net::connect(&socket, &server).unwrap();
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(PATIENCE)).unwrap();
    let mut stream = TcpStream::from(socket);
    stream.read_exact(&mut [0; 18]).ok()?;
    // Fixed newstyle without zeroes, then NBD_OPT_EXPORT_NAME.
    stream.write_all(&[&3u32.to_be_bytes()[..], b"IHAVEOPT\0\0\0\x01\0\0\0\x02vm"].concat()).ok()?;
    stream.read_exact(&mut [0; 10]).ok()?;
    Some(stream.into())
}

#[test]
fn idle_clients_of_some_hosts_leave_places_for_other_hosts() {
    let place = place();
    let server = place.serve(&format!("{SERVE} --max-connections 32 --listen tcp:127.0.0.1:0"));
    let address = server.ready.split("nbd://").nth(1).and_then(|uri| uri.split('/').next()).unwrap().parse().unwrap();
    let mut kept = Vec::new();
    for host in 2..5 {
        kept.extend((0..32).map_while(|_| idle_client(address, [127, 0, 0, host])));
    }
    assert!(kept.len() < 32, "they have all places");
    assert!(idle_client(address, [127, 0, 0, 9]).is_some(), "{} places are taken", kept.len());
    assert!(idle_client(address, [127, 0, 0, 2]).is_none());
}

#[test]
fn idle_clients_do_not_keep_commands_out() {
    let place = place();
    let _server = place.serve(SERVE);
    let control = || UnixStream::connect(place.path("run/nitro/vm.control")).unwrap();
    let _silent: Vec<_> = (0..40).map(|_| control()).collect();
    assert_eq!(place.status()["volumes"][0]["name"], "vm");
    let asked: Vec<_> = (0..40)
        .map(|_| {
            let mut stream = control();
            stream.write_all(b"{\"version\":1,\"command\":\"status\"}\n").unwrap();
            stream
        })
        .collect();
    assert_eq!(place.status()["volumes"][0]["name"], "vm");
    drop(asked);
}

#[test]
fn one_peer_takes_no_more_than_its_part() {
    let place = place();
    let _server = place.serve(&format!("{SERVE} --max-connections-per-peer 2"));
    let clients = [place.client(), place.client()];
    assert!(is_closed(UnixStream::connect(place.path("run/nitro/vm.sock")).unwrap()));
    drop(clients);
    place.until("gone", |s| s["server"]["connections"] == 0);
    place.client();
}

/// No part of the program has to ask for it.
#[test]
fn what_clients_cause_in_the_log_is_bounded_and_counted() {
    let place = place();
    let server = place.serve(SERVE);
    for _ in 0..200 {
        let mut stream = greet(&place, b"nonsense that is no option of the protocol");
        let _ = stream.read_to_end(&mut Vec::new());
    }
    place.until("counted", |s| s["server"]["log_lines_limited"].as_u64().unwrap() >= 180);
    let (_, said) = server.stop();
    assert!((1..=20).contains(&said.matches("a client was dropped").count()), "{said}");
}
