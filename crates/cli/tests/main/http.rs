//! `nitro serve --http`: what programs get there; scripts/test-page looks at the page itself.

use crate::support::{PATIENCE, Place};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::time::Duration;

const SERVE: &str = "--origin vm.img --cache cache.img --cache-size 32M";

/// Sends a request and reads all that comes, until the server hangs up.
fn exchange(mut stream: impl Read + Write, request: &str) -> String {
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn get(place: &Place, path: &str) -> (String, String) {
    let stream = UnixStream::connect(place.path("http.sock")).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let answer = exchange(stream, &format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"));
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

#[test]
fn programs_get_metrics_health_and_the_status() {
    let place = Place::new();
    place.file("vm.img", 16 << 20);
    let server = place.serve(&format!("{SERVE} --http unix:http.sock --http-mode 0660"));
    let mut client = place.client();
    client.read(0, 8192);
    assert_eq!(client.write(8192, &[7; 8192]), 0);
    let (head, _) = get(&place, "/metrics");
    assert!(head.starts_with("HTTP/1.1 200") && head.contains("text/plain; version=0.0.4"), "{head}");
    // What is shown may be a quarter of a second old.
    std::thread::sleep(Duration::from_millis(600));
    let metrics = get(&place, "/metrics").1;
    for line in [
        "nitro_volume_requests_total{volume=\"vm\",operation=\"read\"} 1.0",
        "nitro_volume_requests_total{volume=\"vm\",operation=\"write\"} 1.0",
        "nitro_volume_request_duration_seconds_count{volume=\"vm\",kind=\"write\"} 1",
        "nitro_cache_pass_through{cache=\"cache\"} 0.0",
    ] {
        assert!(metrics.lines().any(|told| told == line), "{line} is not in {metrics}");
    }
    let told: Value = serde_json::from_str(&get(&place, "/status.json").1).unwrap();
    let status = place.status();
    assert_eq!(told["volumes"][0]["read_bytes"], status["volumes"][0]["read_bytes"]);
    assert_eq!(told["caches"][0]["uuid"], status["caches"][0]["uuid"]);
    assert!(status["ram"]["parts"].to_string().contains("HTTP, with its history"));
    let units: Value = serde_json::from_str(&get(&place, "/units.json").1).unwrap();
    assert_eq!(units[0]["units"], status["caches"][0]["weus"]);
    assert_eq!((get(&place, "/healthz").1, get(&place, "/readyz").1), ("ok\n".into(), "ready\n".into()));
    assert_eq!(get(&place, "/faults.json").1, "[]");
    assert!(get(&place, "/history.json?seconds=60").1.contains("\"step_seconds\":10"));
    let (head, page) = get(&place, "/");
    assert!(
        page.starts_with("<!doctype html>") && head.contains("content-security-policy: default-src 'none'"),
        "{head}"
    );
    assert!(get(&place, "/nothing").0.starts_with("HTTP/1.1 404"));
    let mode = std::fs::metadata(place.path("http.sock")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o660);
    drop(client);
    assert!(server.stop().0.success());
    assert!(!place.path("http.sock").exists());
}

#[test]
fn nobody_changes_anything_and_other_sites_read_nothing() {
    let place = Place::new();
    place.file("vm.img", 16 << 20);
    let server = place.serve(&format!("{SERVE} --http 127.0.0.1:0"));
    // The kernel chose the port.
    let port = listening_port(server.child.id());
    let ask = |request: &str| {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        exchange(stream, request)
    };
    let to = |method: &str, host: &str| {
        ask(&format!("{method} /status.json HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"))
    };
    assert!(to("GET", "localhost").starts_with("HTTP/1.1 200"));
    assert!(to("GET", "127.0.0.1:9470").starts_with("HTTP/1.1 200"));
    assert!(to("GET", "evil.example").starts_with("HTTP/1.1 421"));
    for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
        assert!(to(method, "localhost").starts_with("HTTP/1.1 405"), "{method}");
    }
    assert!(!to("GET", "localhost").to_lowercase().contains("access-control-allow"));
}

#[test]
fn hostile_clients_neither_stop_it_nor_the_volume() {
    let place = Place::new();
    place.file("vm.img", 16 << 20);
    let _server = place.serve(&format!("{SERVE} --http unix:http.sock"));
    let connect = || UnixStream::connect(place.path("http.sock")).unwrap();
    for nonsense in ["\0\0\0\0\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "GET /%zz?\u{1f600} HTTP/1.1\r\n\r\n"]
    {
        let mut stream = connect();
        stream.write_all(nonsense.as_bytes()).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
    }
    let mut endless = connect();
    let _ = endless.write_all(b"GET / HTTP/1.1\r\n");
    // The server answers 431 and hangs up once the headers are too long.
    while endless.write_all(&[b'x'; 4096]).is_ok() {}
    // More than there is room for, none of which says anything.
    let silent: Vec<_> = (0..60).map(|_| connect()).collect();
    let mut client = place.client();
    assert_eq!(client.write(0, &[1; 8192]), 0);
    assert_eq!(client.read(0, 8192), vec![1u8; 8192]);
    drop(silent);
    let begun = std::time::Instant::now();
    while get_quietly(&place).is_none() {
        assert!(begun.elapsed() < PATIENCE, "it does not answer any more");
    }
}

/// Whether it answers; connections beyond those that there is room for are closed.
fn get_quietly(place: &Place) -> Option<()> {
    let mut stream = UnixStream::connect(place.path("http.sock")).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    answer.ends_with("ok\n").then_some(())
}

/// The port of the only TCP socket on which a process listens (proc(5)).
fn listening_port(pid: u32) -> u16 {
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    let links = files.filter_map(|file| std::fs::read_link(file.path()).ok()?.to_str().map(str::to_owned));
    let inodes: Vec<_> =
        links.filter_map(|link| Some(link.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())).collect();
    let table = std::fs::read_to_string(format!("/proc/{pid}/net/tcp")).unwrap();
    let rows = table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    // sl local_address rem_address st … inode; 0A: listening.
    let mut listening = rows.filter(|row| row[3] == "0A" && inodes.iter().any(|inode| inode == row[9]));
    let address = listening.next().unwrap()[1];
    u16::from_str_radix(address.rsplit_once(':').unwrap().1, 16).unwrap()
}

#[test]
fn who_lets_others_read_is_warned() {
    let place = Place::new();
    place.file("vm.img", 16 << 20);
    let (_, said) = place.serve(&format!("{SERVE} --http 0.0.0.0:0")).stop();
    assert!(said.contains("without a password") && said.contains("127.0.0.1"), "{said}");
    let (_, said) = place.serve(&format!("{SERVE} --http 127.0.0.1:0")).stop();
    assert!(said.contains("page and metrics: http://127.0.0.1:") && !said.contains("without a password"), "{said}");
    assert!(place.failure(&format!("serve {SERVE} --http 9470"), 2).contains("such as 127.0.0.1:9470"));
}
