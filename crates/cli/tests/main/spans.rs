//! `nitro serve --otlp`: spans of requests, as a collector gets them.

use crate::support::{PATIENCE, Place};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const SERVE: &str = "--origin vm.img --cache cache.img --cache-size 32M";
const KIB: u64 = 1 << 10;

/// A collector that accepts all spans.
struct Collector {
    port: u16,
    spans: Arc<Mutex<Vec<Value>>>,
}

impl Collector {
    fn listen(address: &str) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let (port, spans) = (listener.local_addr().unwrap().port(), Arc::new(Mutex::new(Vec::new())));
        let taken = Arc::clone(&spans);
        std::thread::spawn(move || listener.incoming().for_each(|stream| answer(stream.unwrap(), &taken)));
        Self { port, spans }
    }

    /// Waits for that number of spans.
    fn wait(&self, count: usize) -> Vec<Value> {
        let begun = Instant::now();
        loop {
            let spans = self.spans.lock().unwrap().clone();
            if spans.len() >= count {
                return spans;
            }
            assert!(begun.elapsed() < PATIENCE, "{spans:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Takes the spans of one request.
fn answer(stream: TcpStream, taken: &Mutex<Vec<Value>>) {
    let mut reader = BufReader::new(stream);
    let lines = reader.by_ref().lines().map(Result::unwrap);
    let head: Vec<_> = lines.take_while(|line| !line.is_empty()).map(|line| line.to_lowercase()).collect();
    assert_eq!(head[0], "post /v1/traces http/1.1");
    assert!(head.contains(&"content-type: application/json".to_owned()), "{head:?}");
    let length = head.iter().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    reader.read_exact(&mut body).unwrap();
    let told: Value = serde_json::from_slice(&body).unwrap();
    let resource = &told["resourceSpans"][0];
    assert_eq!(resource["resource"]["attributes"][0]["value"]["stringValue"], "nitro");
    taken.lock().unwrap().extend(resource["scopeSpans"][0]["spans"].as_array().unwrap().clone());
    reader.into_inner().write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}").unwrap();
}

/// A span in a line: name, volume, class, offset, length, outcome.
fn line(span: &Value) -> String {
    let of = |attribute: &Value| {
        let value = attribute["value"].as_object().unwrap().values().next().unwrap();
        value.as_str().unwrap().to_owned()
    };
    let attributes: Vec<_> = span["attributes"].as_array().unwrap().iter().map(of).collect();
    format!("{} {}", span["name"].as_str().unwrap(), attributes.join(" "))
}

fn nanoseconds(span: &Value, key: &str) -> u64 {
    span[key].as_str().unwrap().parse().unwrap()
}

#[test]
fn a_collector_gets_spans_of_requests() {
    let (place, collector) = (Place::new(), Collector::listen("127.0.0.1:0"));
    place.file("vm.img", 16 << 20);
    let port = collector.port;
    let server = place.serve(&format!("{SERVE} --class 3 --otlp http://127.0.0.1:{port} --otlp-sample 1"));
    let mut client = place.client();
    assert_eq!(client.write(64 * KIB, &[7; 8192]), 0);
    client.read(4096 * KIB, 8192);
    client.read(4096 * KIB, 8192);
    assert_eq!(client.flush(), 0);
    // NBD_CMD_TRIM
    client.request(4, 64 * KIB, 8192, &[]);
    assert_eq!(client.reply(), 0);
    let spans = collector.wait(5);
    let lines: Vec<_> = spans.iter().map(line).collect();
    assert_eq!(
        lines,
        [
            "write vm 3 65536 8192 done",
            "read vm 3 4194304 8192 miss",
            "read vm 3 4194304 8192 hit",
            "flush vm 3 0 0 done",
            "trim vm 3 65536 8192 done",
        ]
    );
    for pair in spans.windows(2) {
        let ends = nanoseconds(&pair[0], "endTimeUnixNano");
        assert!(nanoseconds(&pair[0], "startTimeUnixNano") <= ends, "{pair:?}");
        assert!(pair[0]["traceId"] != pair[1]["traceId"] && pair[0]["spanId"] != pair[1]["spanId"], "{pair:?}");
        assert!(pair[0]["status"].is_null(), "{pair:?}");
    }
    let status = place.until("sent", |status| status["server"]["spans"]["sent"] == 5);
    assert_eq!(status["server"]["spans"]["dropped"], 0);
    assert!(status["ram"]["parts"].to_string().contains("spans of requests"));
    let told = place.stdout("status");
    assert!(told.contains("one in 1 requests, 5 sent, 0 dropped"), "{told}");
    // What waits is sent before the server ends.
    client.read(0, 8192);
    drop(client);
    assert!(server.stop().0.success());
    assert_eq!(collector.wait(6).len(), 6);
}

#[test]
fn a_collector_that_is_away_delays_nobody_and_is_named_once() {
    let place = Place::new();
    place.file("vm.img", 16 << 20);
    // A port that nobody listens at, of this test alone.
    let address = {
        let probe = TcpListener::bind("127.0.0.1:0").unwrap();
        probe.local_addr().unwrap().to_string()
    };
    let server = place.serve(&format!("{SERVE} --otlp http://{address} --otlp-sample 1"));
    let mut client = place.client();
    // More than may wait.
    for n in 0..6_000 {
        client.read(n % 64 * 8 * KIB, 8192);
    }
    let is_dropped = |status: &Value| status["server"]["spans"]["dropped"].as_u64().unwrap() > 0;
    assert_eq!(place.until("dropped", is_dropped)["server"]["spans"]["sent"], 0);
    std::thread::sleep(Duration::from_secs(5));
    let collector = Collector::listen(&address);
    let spans = collector.wait(4_096);
    assert!(spans.len() < 6_000 && spans.iter().all(|span| span["name"] == "read"));
    drop(client);
    let (ended, said) = server.stop();
    assert!(ended.success());
    for part in ["does not accept spans", "accepts spans again"] {
        assert_eq!(said.matches(part).count(), 1, "{said}");
    }
}

#[test]
fn a_server_ends_although_the_collector_is_silent() {
    let place = Place::new();
    place.file("vm.img", 16 << 20);
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let server = place.serve(&format!("{SERVE} --otlp http://127.0.0.1:{port} --otlp-sample 1"));
    place.client().read(0, 8192);
    let begun = Instant::now();
    assert!(server.stop().0.success());
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
}

#[test]
fn nothing_is_sent_unless_it_is_asked_for() {
    let place = Place::new();
    let server = place.usual();
    place.client().read(0, 8192);
    assert!(place.status()["server"]["spans"].is_null());
    let threads = std::fs::read_dir(format!("/proc/{}/task", server.child.id())).unwrap();
    let mut names = threads.map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).unwrap());
    assert!(!names.any(|name| name.trim() == "nitro-spans"));
    drop(server);
    let said = place.failure("serve --origin vm.img --cache none --otlp https://collector:4318", 2);
    assert!(said.contains("TLS is not supported"), "{said}");
}
