//! Hosts of which an etcd decides which one serves a volume. Each has a state folder, sockets and a cache of its own; the origin and
//! the folder of marks are shared.

use crate::identity::refused;
use crate::support::{PATIENCE, Place, Server, noise, wait};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::Read as _;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const MIB: usize = 1 << 20;
const EXTENT: usize = 8192;
/// The shortest lease: a host stops at most 1.6 s after its last renewal.
const LEASE: &str = "2s";

/// An etcd with one member.
struct Etcd {
    url: String,
    child: Child,
    _place: Place,
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Etcd {
    /// `None`: etcd is not installed.
    fn start() -> Option<Self> {
        let place = Place::new();
        let (url, peers) = (format!("http://127.0.0.1:{}", free_port()), format!("http://127.0.0.1:{}", free_port()));
        let log = fs::File::create(place.path("etcd.log")).unwrap();
        let started = Command::new("etcd")
            .args(["--name", "e", "--logger", "zap", "--data-dir"])
            .arg(place.path("data"))
            .args(["--listen-client-urls", &url, "--advertise-client-urls", &url, "--listen-peer-urls", &peers])
            .args(["--initial-advertise-peer-urls", &peers, "--initial-cluster", &format!("e={peers}")])
            .args(["--heartbeat-interval", "20", "--election-timeout", "200"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        let Ok(child) = started else {
            eprintln!("skipped: etcd is not installed (scripts/setup installs it)");
            return None;
        };
        let etcd = Self { url, child, _place: place };
        let begun = Instant::now();
        while etcd.ask("maintenance/status", "{}").is_none() {
            assert!(begun.elapsed() < PATIENCE, "etcd does not answer");
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(etcd)
    }

    /// The answer of its JSON gateway.
    fn ask(&self, method: &str, body: &str) -> Option<String> {
        let url = format!("{}/v3/{method}", self.url);
        let asked = Command::new("curl").args(["-sfm", "10", "--noproxy", "*", "-d", body, &url]).output().unwrap();
        asked.status.success().then(|| String::from_utf8(asked.stdout).unwrap())
    }

    /// How often anything was changed, plus one.
    fn revision(&self) -> u64 {
        let answer = self.ask("maintenance/status", "{}").unwrap();
        let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
        answer["header"]["revision"].as_str().unwrap().parse().unwrap()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Two hosts, and what they share. The origin is an export: hosts that are one machine would keep each other out by the lock of a file.
struct Cluster {
    hosts: [Place; 2],
    shared: Place,
    etcd: Etcd,
    _export: Server,
}

impl Cluster {
    fn new(content: &[u8]) -> Option<Self> {
        let etcd = Etcd::start()?;
        let shared = Place::new();
        shared.write("vm.img", content);
        fs::create_dir(shared.path("marks")).unwrap();
        let export = shared.serve("--origin vm.img --cache none");
        Some(Self { hosts: [Place::new(), Place::new()], shared, etcd, _export: export })
    }

    /// What a host is started with, without etcd.
    fn alone(&self, more: &str) -> String {
        let path = |name| self.shared.path(name).display().to_string();
        format!(
            "--origin nbd+unix:///vm?socket={} --name vm --takeover {} --cache cache.img --cache-size 32M --ram 0 --sequential-threshold 0 {more}",
            path("run/nitro/vm.sock"),
            path("marks")
        )
    }

    fn arguments(&self, host: usize, more: &str) -> String {
        let url = &self.etcd.url;
        self.alone(&format!("--cluster --etcd {url} --host host{host} --lease {LEASE} {more}"))
    }

    fn serve(&self, host: usize) -> Server {
        self.hosts[host].serve(&self.arguments(host, ""))
    }

    /// Waits until a host serves the volume. Returns how long it took.
    fn until_served(&self, host: usize) -> Duration {
        let begun = Instant::now();
        self.hosts[host].until("served", |status| status["volumes"][0]["name"] == "vm");
        begun.elapsed()
    }

    fn content(&self) -> Vec<u8> {
        fs::read(self.shared.path("vm.img")).unwrap()
    }

    /// The fencing number in the mark of the origin.
    fn number(&self) -> u64 {
        let marks = fs::read_dir(self.shared.path("marks")).unwrap().flatten();
        let texts = marks.filter_map(|mark| fs::read_to_string(mark.path()).ok());
        let numbers =
            texts.filter_map(|text| text.lines().find_map(|line| line.strip_prefix("fence = ")?.parse().ok()));
        numbers.max().unwrap()
    }
}

/// The exit code of a server that ends by itself, and what it said.
fn ended(mut server: Server) -> (Option<i32>, String) {
    let status = wait(&mut server.child);
    let mut said = String::new();
    server.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    (status.code(), said)
}

#[test]
fn a_host_that_was_stopped_for_longer_than_its_lease_answers_and_writes_nothing_any_more() {
    let mut data = noise(1, 2 * MIB);
    let Some(cluster) = Cluster::new(&data) else { return };
    let first = cluster.serve(0);
    cluster.until_served(0);
    let mut client = cluster.hosts[0].client();
    assert_eq!(client.write(0, &noise(2, EXTENT)), 0);
    data[..EXTENT].copy_from_slice(&noise(2, EXTENT));
    assert_eq!(client.read(0, EXTENT), data[..EXTENT]);
    let number = cluster.number();
    // It waits: the volume is the other one's.
    let second = cluster.serve(1);
    let status = cluster.hosts[1].status();
    assert_eq!(status["server"]["etcd"]["waits_for"][0], "vm", "{status}");
    assert_eq!((status["volumes"].as_array().map(Vec::len), cluster.number()), (Some(0), number), "{status}");
    first.signal(Signal::STOP);
    cluster.until_served(1);
    assert!(cluster.number() > number);
    let mut other = cluster.hosts[1].client();
    assert_eq!(other.read(0, EXTENT), data[..EXTENT]);
    assert_eq!(other.write(0, &noise(3, EXTENT)), 0);
    data[..EXTENT].copy_from_slice(&noise(3, EXTENT));
    // What the first one's cache has is outdated, and so is what it is asked to write.
    client.request(0, 0, EXTENT, &[]);
    client.request(1, EXTENT as u64, EXTENT, &noise(4, EXTENT));
    client.request(3, 0, 0, &[]);
    first.signal(Signal::CONT);
    assert!(client.is_cut(), "a request was answered after the lease");
    let (code, said) = ended(first);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("this host serves no more") && said.contains("start the server again"), "{said}");
    assert_eq!(other.read(0, EXTENT), data[..EXTENT]);
    drop(other);
    // An orderly end gives the volume up at once.
    let first = cluster.serve(0);
    let (status, said) = second.stop();
    assert!(status.success(), "{said}");
    cluster.until_served(0);
    assert_eq!(cluster.hosts[0].client().read(0, EXTENT), data[..EXTENT]);
    assert!(first.stop().0.success());
    assert!(cluster.content() == data, "the origin was written to");
}

#[test]
fn a_host_that_does_not_reach_etcd_stops_before_its_lease_ends() {
    let data = noise(1, 2 * MIB);
    let Some(cluster) = Cluster::new(&data) else { return };
    let server = cluster.serve(0);
    cluster.until_served(0);
    let mut client = cluster.hosts[0].client();
    assert_eq!(client.write(0, &data[..EXTENT]), 0);
    cluster.etcd.signal(Signal::STOP);
    let (code, said) = ended(server);
    cluster.etcd.signal(Signal::CONT);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("its lease was not renewed in time"), "{said}");
    assert!(client.is_cut());
    // It is there again as soon as its last lease is over.
    let server = cluster.serve(0);
    cluster.until_served(0);
    assert!(server.stop().0.success());
    assert!(cluster.content() == data);
}

#[test]
fn what_does_not_fit_into_the_cluster_is_refused_by_name() {
    let data = noise(1, 2 * MIB);
    let Some(mut cluster) = Cluster::new(&data) else { return };
    let server = cluster.serve(0);
    cluster.until_served(0);
    // The lease of another host.
    let taken = cluster.arguments(0, "");
    refused(&cluster.hosts[1], &taken, &["the name \"host0\" is in use", "give each host a name of its own"]);
    // A volume that is served elsewhere, by a server that does not ask.
    refused(
        &cluster.hosts[1],
        &cluster.alone(""),
        &["etcd (cluster", "decides which host serves it", "--accept-origin vm"],
    );
    // A peer of another version.
    let put = r#"{"key":"L290aGVyL2Zvcm1hdA==","value":"bml0cm8tY2x1c3RlciA5"}"#;
    assert!(cluster.etcd.ask("kv/put", put).is_some());
    let other = cluster.arguments(1, "--etcd-prefix /other");
    refused(&cluster.hosts[1], &other, &["is of format \"nitro-cluster 9\"", "give all hosts the same version"]);
    assert!(server.stop().0.success());
    // Another etcd knows nothing of who served it.
    cluster.etcd = Etcd::start().unwrap();
    let server = cluster.serve(1);
    cluster.hosts[1].until("given up", |status| status["server"]["etcd"]["waits_for"][0] == "vm");
    // Format, name, the claim and its return are its first revisions after 1.
    let begun = Instant::now();
    while cluster.etcd.revision() < 5 {
        assert!(begun.elapsed() < PATIENCE, "the volume is not given back");
        std::thread::sleep(Duration::from_millis(20));
    }
    let said = server.stop().1;
    assert!(said.contains("another etcd cluster decided who serves it"), "{said}");
    // No etcd at all.
    cluster.etcd.url = format!("http://127.0.0.1:{}", free_port());
    refused(&cluster.hosts[1], &cluster.arguments(1, ""), &["no server answers as etcd 3.4", "check the URLs"]);
    assert!(cluster.content() == data);
}
