//! `nitro serve --http`: what programs get there; scripts/test-page looks at the page itself.

use crate::support::{PATIENCE, Place, Server};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
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
    let rates: Value = serde_json::from_str(&get(&place, "/rates.json").1).unwrap();
    assert_eq!((&rates["total"]["volume"], &rates["volumes"][0]["volume"]), (&"total".into(), &"vm".into()));
    assert_eq!(rates["total"]["reads_per_second"], rates["volumes"][0]["reads_per_second"]);
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
        let answer = to(method, "localhost");
        assert!(answer.starts_with("HTTP/1.1 405") && answer.contains("without http_token_file"), "{answer}");
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
    // Those that say nothing make room.
    (0..10).for_each(|_| assert!(get_quietly(&place).is_some(), "idle clients keep others out"));
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

const TOKEN: &str = "correct-horse-battery";

/// Serves with this token's file, on a unix socket.
fn with_token(place: &Place, token: &str, more: &str) -> Server {
    token_file(place, token, 0o600);
    place.serve(&format!("{SERVE} --http unix:http.sock --http-token-file token {more}"))
}

fn token_file(place: &Place, token: &str, mode: u32) {
    let path = place.write("token", format!("{token}\n"));
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// The status of the answer to an action, and its text; `headers` end with line ends.
fn act_with(place: &Place, headers: &str, body: &str) -> (u16, String) {
    let mut stream = UnixStream::connect(place.path("http.sock")).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let length = body.len();
    let head = format!(
        "POST /action HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\
         Connection: close\r\n{headers}\r\n"
    );
    // The server may answer and hang up before it has read the body.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8(answer).unwrap();
    let (head, text) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {answer:?}"));
    assert!(!head.to_lowercase().contains("access-control-allow"), "{head}");
    (head.split(' ').nth(1).unwrap().parse().unwrap(), text.to_owned())
}

fn act(place: &Place, body: &str) -> (u16, String) {
    act_with(place, &format!("Authorization: Bearer {TOKEN}\r\n"), body)
}

/// A field of the volume in the status.
fn volume(place: &Place, key: &str) -> Value {
    place.status()["volumes"][0][key].clone()
}

#[test]
fn the_token_allows_actions() {
    let place = Place::new();
    place.file("vm.img", 16 << 20);
    let server = with_token(&place, TOKEN, "--dirty-age 1h --dirty-start 90 --dirty-max 90");
    assert_eq!(get(&place, "/action").1, "{\"allowed\":true}");
    assert_eq!(act(&place, r#"{"action":"check"}"#), (200, "the token is right\n".into()));

    let (status, said) = act(&place, r#"{"action":"mode","volume":"vm","mode":"write-back"}"#);
    assert_eq!((status, volume(&place, "mode")), (200, "write-back".into()), "{said}");
    assert!(said.contains("write-back from now on"), "{said}");
    let mut client = place.client();
    assert_eq!(client.write(0, &[7; 8192]), 0);
    assert_eq!(volume(&place, "dirty_bytes"), 8192);
    let (status, said) = act(&place, r#"{"action":"flush","volume":"vm"}"#);
    assert_eq!((status, volume(&place, "dirty_bytes")), (200, 0.into()), "{said}");
    assert!(said.contains("its origin is up to date"), "{said}");
    assert_eq!(std::fs::read(place.path("vm.img")).unwrap()[..8192], [7; 8192]);

    assert_eq!(client.write(8192, &[8; 8192]), 0);
    let (status, said) = act(&place, r#"{"action":"mode","volume":"vm","mode":"write-through"}"#);
    assert_eq!((status, volume(&place, "mode")), (200, "write-through".into()), "{said}");
    assert_eq!(volume(&place, "dirty_bytes"), 0);

    for paused in [true, false] {
        let shown = format!("\"fill_paused\":{paused}");
        assert!(!get(&place, "/status.json").1.contains(&shown));
        let (status, said) = act(&place, &format!(r#"{{"action":"fill","volume":"vm","paused":{paused}}}"#));
        assert_eq!((status, volume(&place, "fill_paused")), (200, paused.into()), "{said}");
        assert!(get(&place, "/status.json").1.contains(&shown), "the page still shows the state before the action");
    }
    drop(client);
    let (_, said) = server.stop();
    assert!(said.contains("HTTP action: volume vm: write-back from now on"), "{said}");
    assert!(!said.contains(TOKEN), "{said}");
}

#[test]
fn actions_that_are_none_are_refused_in_words() {
    let place = Place::new();
    place.file("vm.img", 16 << 20);
    let _server = with_token(&place, TOKEN, "");
    let (status, said) = act(&place, r#"{"action":"flush","volume":"nothing"}"#);
    assert!(status == 409 && said.contains("it is not served here"), "{status} {said}");
    for body in [
        "",
        "{}",
        "[]",
        r#"{"action":"remove","volume":"vm"}"#,
        r#"{"action":"flush"}"#,
        r#"{"action":"flush","volume":"vm","force":true}"#,
        r#"{"action":"mode","volume":"vm","mode":"fast"}"#,
    ] {
        let (status, said) = act(&place, body);
        assert!(status == 400 && said.contains("malformed action"), "{body}: {status} {said}");
    }
    let authorized = format!("Authorization: Bearer {TOKEN}\r\n");
    let long = format!(r#"{{"action":"flush","volume":"{}"}}"#, "v".repeat(5000));
    assert_eq!(act_with(&place, &authorized, &long).0, 413);
    assert_eq!(act(&place, &"x".repeat(1 << 20)).0, 413);
    // Only the path of actions takes POST, and nothing takes other methods.
    for (method, path) in [("POST", "/"), ("POST", "/status.json"), ("PUT", "/action"), ("OPTIONS", "/action")] {
        let stream = UnixStream::connect(place.path("http.sock")).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let request = format!("{method} {path} HTTP/1.1\r\nHost: x\r\n{authorized}Connection: close\r\n\r\n");
        let answer = exchange(stream, &request);
        assert!(answer.starts_with("HTTP/1.1 405") && answer.contains("GET, HEAD, POST"), "{method} {path}: {answer}");
    }
}

#[test]
fn without_the_token_nothing_is_changed() {
    const PAUSE_FILL: &str = r#"{"action":"fill","volume":"vm","paused":true}"#;
    let place = Place::new();
    place.file("vm.img", 16 << 20);
    let server = with_token(&place, TOKEN, "");
    let (status, said) = act_with(&place, "", PAUSE_FILL);
    assert!(status == 401 && said.contains("Authorization: Bearer"), "{status} {said}");
    assert_eq!(act_with(&place, "Authorization: Basic eDp5\r\n", PAUSE_FILL).0, 401);
    let wrong = format!("{TOKEN}r");
    for authorization in ["Bearer x", "Bearer y", &format!("Bearer {wrong}")] {
        let (status, said) = act_with(&place, &format!("Authorization: {authorization}\r\n"), PAUSE_FILL);
        assert_eq!((status, said.as_str()), (401, "the token is wrong\n"), "{authorization}");
    }
    let authorized = format!("Authorization: Bearer {TOKEN}\r\n");
    for foreign in ["Origin: http://evil.example\r\n", "Origin: null\r\n", "Sec-Fetch-Site: cross-site\r\n"] {
        let (status, said) = act_with(&place, &format!("{authorized}{foreign}"), PAUSE_FILL);
        assert!(status == 403 && said.contains("another site"), "{foreign}: {status} {said}");
    }
    assert_eq!(volume(&place, "fill_paused"), false);
    assert_eq!(place.status()["server"]["http_wrong_tokens"], 3);
    let own = format!("{authorized}Origin: http://x\r\nSec-Fetch-Site: same-origin\r\n");
    assert_eq!(act_with(&place, &own, PAUSE_FILL).0, 200);
    let (_, said) = server.stop();
    assert!(said.contains("refused an action with a wrong token") && !said.contains(TOKEN), "{said}");
}

#[test]
fn wrong_tokens_do_not_keep_the_right_one_out() {
    let place = Place::new();
    place.file("vm.img", 16 << 20);
    let _server = with_token(&place, TOKEN, "");
    let check = r#"{"action":"check"}"#;
    let (is_over, is_refused) = (AtomicBool::new(false), AtomicBool::new(false));
    let flood = || {
        let mut statuses = Vec::new();
        while !is_over.load(Ordering::Relaxed) {
            let status = act_with(&place, "Authorization: Bearer wrong\r\n", check).0;
            is_refused.fetch_or(status == 429, Ordering::Relaxed);
            statuses.push(status);
        }
        statuses
    };
    let statuses: Vec<_> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..8).map(|_| scope.spawn(flood)).collect();
        // The right one comes when wrong ones are refused already.
        place.until("refused", |_| is_refused.load(Ordering::Relaxed));
        let right: Vec<_> = (0..10).map(|_| act(&place, check).0).collect();
        is_over.store(true, Ordering::Relaxed);
        assert!(right.iter().all(|status| *status == 200), "{right:?}");
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    });
    assert!(statuses.iter().all(|status| [401, 429].contains(status)) && statuses.contains(&429), "{statuses:?}");
}

#[test]
fn a_page_with_another_host_name_cannot_act() {
    let place = Place::new();
    place.file("vm.img", 16 << 20);
    token_file(&place, TOKEN, 0o600);
    let server = place.serve(&format!("{SERVE} --http 127.0.0.1:0 --http-token-file token"));
    let port = listening_port(server.child.id());
    let from = |host: &str| {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let body = r#"{"action":"check"}"#;
        let length = body.len();
        exchange(
            stream,
            &format!(
                "POST /action HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\nAuthorization: Bearer {TOKEN}\r\n\
                 Content-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
            ),
        )
    };
    assert!(from(&format!("localhost:{port}")).starts_with("HTTP/1.1 200"));
    assert!(from("evil.example").starts_with("HTTP/1.1 421"));
}

#[test]
fn a_token_that_is_no_secret_is_refused() {
    let place = Place::new();
    place.file("vm.img", 16 << 20);
    let serve = format!("serve {SERVE} --http unix:http.sock --http-token-file token");
    let refused = |token: &str, mode: u32, why: &str| {
        token_file(&place, token, mode);
        let said = place.failure(&serve, 1);
        assert!(said.contains(why), "{said}");
        assert!(token.is_empty() || !said.contains(token), "{said}");
    };
    for mode in [0o604, 0o640, 0o666] {
        refused(TOKEN, mode, "accessible to others than its owner");
    }
    refused("fifteen-letters", 0o600, "less than 16 characters");
    refused("", 0o600, "less than 16 characters");
    refused("two words that are long", 0o600, "other characters than");
    refused(&"long".repeat(300), 0o600, "too long");
    std::fs::remove_file(place.path("token")).unwrap();
    assert!(place.failure(&serve, 1).contains("No such file"));
    token_file(&place, TOKEN, 0o600);
    let alone = format!("serve {SERVE} --http-token-file token");
    assert!(place.failure(&alone, 1).contains("HTTP is not served"));
}
