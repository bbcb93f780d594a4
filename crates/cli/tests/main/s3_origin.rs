//! Volumes in a bucket of an S3 server (moto) as origins: made, served, killed, taken over, refused.

use crate::support::{Nbd, PATIENCE, Place, Server, noise};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;

/// An S3 server in RAM, which ends with the test.
struct Moto {
    child: Child,
    port: u16,
}

impl Drop for Moto {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Moto {
    /// Starts it, with a bucket; `None`: it is not installed.
    fn start() -> Option<Self> {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut command = Command::new("python3");
        command.args([concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/peers/moto-server.py"), &port.to_string()]);
        let started = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let Ok(child) = started else {
            eprintln!("skipped: no python3");
            return None;
        };
        let (mut moto, begun) = (Self { child, port }, Instant::now());
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if matches!(moto.child.try_wait(), Ok(Some(_))) {
                eprintln!("skipped: moto is not installed (pip install 'moto[server]')");
                return None;
            }
            assert!(begun.elapsed() < PATIENCE, "moto does not listen");
            std::thread::sleep(Duration::from_millis(50));
        }
        assert!(moto.ask("PUT", "/bucket").starts_with("HTTP/1.1 200"));
        Some(moto)
    }

    /// The answer to a request without a body.
    fn ask(&self, method: &str, path: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let request =
            format!("{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// The number of objects with a prefix.
    fn count(&self, prefix: &str) -> usize {
        self.ask("GET", &format!("/bucket?list-type=2&prefix={prefix}")).matches("<Key>").count()
    }

    fn uri(&self, rest: &str) -> String {
        format!("s3://{rest}?endpoint=http://127.0.0.1:{}&region=us-east-1", self.port)
    }
}

/// A command with keys.
fn command(place: &Place, arguments: &str) -> Command {
    let mut command = place.command(arguments);
    for name in ["AWS_ENDPOINT_URL", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_SHARED_CREDENTIALS_FILE"] {
        command.env_remove(name);
    }
    command.env("AWS_ACCESS_KEY_ID", "peer").env("AWS_SECRET_ACCESS_KEY", "peersecret");
    command
}

/// Runs a command that fails; what it says.
fn failure(place: &Place, arguments: &str) -> String {
    let output = command(place, arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    said
}

fn success(place: &Place, arguments: &str) -> String {
    let output = command(place, arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn serve(uri: &str, more: &str) -> String {
    format!("serve --origin {uri} --name vm --cache cache.img --cache-size 64M --mode write-back {more}")
}

/// Serves the volume of a URI as `vm`.
fn served(place: &Place, uri: &str, more: &str) -> Server {
    Server::start(&mut command(place, &serve(uri, more)))
}

/// What `nitro check` says of a configuration with that volume.
fn checked(place: &Place, uri: &str, mode: &str, more: &str) -> std::process::Output {
    let cache = format!("[cache.c]\npath = \"cache.img\"\nsize = \"64M\"\nmode = \"{mode}\"\n");
    place.write("nitro.toml", format!("{cache}[volume.vm]\norigin = \"{uri}\"\n{more}\n"));
    command(place, "check nitro.toml").output().unwrap()
}

/// A small volume in small objects.
fn make(place: &Place, uri: &str) {
    let said = success(place, &format!("s3 init {uri} --size 20M --object-size 1M"));
    assert!(said.contains("a volume of 20 MiB"), "{said}");
}

/// A server with a MiB of dirty data that it does not write back, and its client.
fn dirty(place: &Place, uri: &str) -> (Server, Nbd) {
    make(place, uri);
    let server = served(place, uri, "--dirty-age 1h");
    let mut client = place.client();
    assert_eq!((client.write(0, &noise(1, MIB as usize)), client.flush()), (0, 0));
    (server, client)
}

#[test]
fn what_was_flushed_is_in_the_bucket_or_the_cache_after_a_kill_and_elsewhere_after_an_end() {
    let Some(moto) = Moto::start() else { return };
    let (place, other) = (Place::new(), Place::new());
    let uri = moto.uri("bucket/vm");
    make(&place, &uri);
    assert_eq!(checked(&place, &uri, "write-back", "").status.code(), Some(0));
    assert_eq!(moto.count("vm/manifest/"), 0, "a check takes nothing over");
    let server = served(&place, &uri, "");
    let data = noise(1, 5 * MIB as usize);
    let mut client = place.client();
    assert_eq!(client.write(3 * MIB + 4096, &data), 0);
    assert_eq!(client.flush(), 0);
    // Killed while what is dirty goes there.
    let killed = std::thread::spawn({
        let mut flush = command(&place, "flush --wait vm");
        move || flush.output().unwrap()
    });
    std::thread::sleep(Duration::from_millis(300));
    server.kill();
    killed.join().unwrap();
    let server = served(&place, &uri, "");
    assert!(place.client().read(3 * MIB + 4096, data.len()) == data);
    success(&place, "flush --wait vm");
    // Whole objects, and two partial ones at the ends; nothing else is left.
    place.until("without garbage", |_| moto.count("vm/data/") == 6);
    assert_eq!(place.client().write(0, &noise(2, 8192)), 0);
    let (ended, said) = server.stop();
    assert!(ended.success(), "{said}");
    // Another machine, with nothing but the bucket.
    let server = served(&other, &uri, "");
    let mut client = other.client();
    assert!(client.read(3 * MIB + 4096, data.len()) == data && client.read(0, 8192) == noise(2, 8192));
    assert!(client.read(19 * MIB, 4096) == vec![0; 4096]);
    assert!(server.stop().0.success());
    // Here, it is known that another machine has had it: nothing has changed there.
    let server = served(&place, &uri, "");
    assert!(place.client().read(3 * MIB + 4096, data.len()) == data);
    assert!(server.stop().0.success());
}

#[test]
fn a_server_that_has_lost_the_volume_writes_nothing_and_keeps_its_data() {
    let Some(moto) = Moto::start() else { return };
    let (old, new) = (Place::new(), Place::new());
    let uri = moto.uri("bucket/vm");
    let (server, _client) = dirty(&old, &uri);
    // Another machine is told of it, and takes it over all the same.
    let other = served(&new, &uri, "--force-discard-dirty");
    let mut there = new.client();
    assert_eq!(there.write(0, &noise(2, 64 << 10)), 0);
    success(&new, "flush --wait vm");
    let said = failure(&old, "flush --wait vm");
    assert!(said.contains("dirty") || said.contains("origin"), "{said}");
    assert!(old.status()["volumes"][0]["dirty_bytes"].as_u64().unwrap() > 0);
    assert!(there.read(0, 64 << 10) == noise(2, 64 << 10));
    assert!(other.stop().0.success());
    let (_, said) = server.stop();
    assert!(said.contains("another server has taken the volume over"), "{said}");
    let server = served(&new, &uri, "");
    assert!(new.client().read(0, 64 << 10) == noise(2, 64 << 10));
    assert!(server.stop().0.success());
}

#[test]
fn dirty_data_elsewhere_keep_a_server_out_and_are_not_written_after_it_was_forced_in() {
    let Some(moto) = Moto::start() else { return };
    let (old, new) = (Place::new(), Place::new());
    let uri = moto.uri("bucket/vm");
    let (server, client) = dirty(&old, &uri);
    server.kill();
    drop(client);
    let said = failure(&new, &serve(&uri, ""));
    assert!(said.contains("its newest data may be in the cache") && said.contains("--force-discard-dirty"), "{said}");
    let server = served(&new, &uri, "--force-discard-dirty");
    let mut client = new.client();
    assert!(client.read(0, MIB as usize) == vec![0; MIB as usize]);
    assert_eq!((client.write(MIB, &noise(2, 64 << 10)), client.flush()), (0, 0));
    drop(client);
    assert!(server.stop().0.success());
    for option in ["", "--accept-origin vm"] {
        let said = failure(&old, &serve(&uri, option));
        assert!(said.contains("has served it since") && said.contains("never written to it"), "{said}");
    }
    let server = served(&old, &uri, "--force-discard-dirty");
    let mut client = old.client();
    assert!(client.read(MIB, 64 << 10) == noise(2, 64 << 10) && client.read(0, 4096) == vec![0; 4096]);
    drop(client);
    assert!(server.stop().0.success());
}

#[test]
fn what_is_no_volume_is_refused_with_what_to_do() {
    let Some(moto) = Moto::start() else { return };
    let place = Place::new();
    let serve = |uri: &str, more: &str| {
        let said =
            failure(&place, &format!("serve --origin {uri} --name vm --cache cache.img --cache-size 64M {more}"));
        assert!(!place.path("cache.img").exists(), "{said}");
        said
    };
    let write_back = "--mode write-back";
    let said = serve(&moto.uri("bucket/none"), write_back);
    assert!(said.contains("there is no volume") && said.contains("nitro s3 init"), "{said}");
    let said = serve(&moto.uri("no-bucket/vm"), write_back);
    assert!(said.contains("no such bucket"), "{said}");
    assert_eq!(moto.count(""), 0, "nothing is made where there is no volume");
    let uri = moto.uri("bucket/vm");
    make(&place, &uri);
    let said = failure(&place, &format!("s3 init {uri} --size 1G"));
    assert!(said.contains("something here already"), "{said}");
    let said = failure(&place, &format!("s3 init {} --size 1000", moto.uri("bucket/odd")));
    assert!(said.contains("size in bytes"), "{said}");
    let said = serve(&uri, "");
    assert!(said.contains("write-through") && said.contains("--mode write-back"), "{said}");
    let said = checked(&place, &uri, "write-through", "");
    assert_eq!(said.status.code(), Some(1));
    let said = [said.stdout, said.stderr].concat();
    assert!(String::from_utf8_lossy(&said).contains("every FLUSH of a client"), "{}", String::from_utf8_lossy(&said));
    let said = checked(&place, &uri, "write-back", "points = true");
    assert_eq!(said.status.code(), Some(1));
    let said = [said.stdout, said.stderr].concat();
    assert!(String::from_utf8_lossy(&said).contains("no consistent points"), "{}", String::from_utf8_lossy(&said));
    let said = failure(&place, "serve --config nitro.toml");
    assert!(said.contains("no consistent points") && said.contains("leave out points"), "{said}");
    assert_eq!(moto.count("vm/manifest/"), 0, "it was not taken over");
    assert!(!Path::new(&place.path("cache.img")).exists());
    // One server of this machine.
    let server = served(&place, &uri, "");
    let said = failure(
        &place,
        &format!(
            "serve --origin {uri} --name x --cache other.img --cache-size 64M {write_back} --control x.sock --listen unix:x"
        ),
    );
    assert!(said.contains("another server of this machine serves it"), "{said}");
    let said = failure(&place, "volume set vm --mode write-through");
    assert!(said.contains("every FLUSH of a client"), "{said}");
    assert!(server.stop().0.success());
}

#[test]
fn snapshots_and_growth_by_the_server_that_serves_the_volume_and_without_one() {
    let Some(moto) = Moto::start() else { return };
    let (place, other) = (Place::new(), Place::new());
    let (uri, one, empty) = (moto.uri("bucket/vm"), moto.uri("bucket/vm@one"), moto.uri("bucket/vm@empty"));
    make(&place, &uri);
    let said = success(&place, &format!("s3 snapshot {empty}"));
    assert!(said.contains("vm@empty") && said.contains("made"), "{said}");
    let server = served(&place, &uri, "--dirty-age 1h");
    let (old, new) = (noise(1, 2 * MIB as usize), noise(2, 2 * MIB as usize));
    let mut client = place.client();
    assert_eq!((client.write(MIB, &old), client.flush()), (0, 0));
    // The server writes back first; another machine is kept out meanwhile.
    let said = failure(&other, &format!("s3 snapshot {one}"));
    assert!(said.contains("its newest data may be in a cache"), "{said}");
    success(&place, &format!("s3 snapshot {one}"));
    let said = failure(&place, &format!("s3 snapshot {one}"));
    assert!(said.contains("there is a snapshot \"one\" already"), "{said}");
    assert_eq!((client.write(MIB, &new), client.flush()), (0, 0));
    success(&place, "flush --wait vm");
    let said = success(&place, &format!("s3 grow {uri} 40M"));
    assert!(said.contains("40 MiB from now on"), "{said}");
    let status = place.status();
    assert_eq!(status["volumes"][0]["size_bytes"], 40 * MIB);
    let bill = &status["volumes"][0]["s3_bill"];
    assert!(bill["dollars"].as_f64().unwrap() > 0.0 && bill["requests"].as_u64().unwrap() > 20, "{bill}");
    assert!(success(&place, "status").contains(" in 30 days"));
    // Another machine serves the snapshot.
    let arguments = format!("serve --origin {one} --name vm --cache cache.img --cache-size 64M");
    let reader = Server::start(&mut command(&other, &arguments));
    let mut there = other.client();
    assert!(there.read(MIB, old.len()) == old && client.read(MIB, new.len()) == new);
    assert_ne!(there.write(0, &noise(3, 4096)), 0, "it is read-only");
    drop(there);
    assert!(reader.stop().0.success());
    let listed = success(&other, &format!("s3 list {uri}"));
    let names: Vec<_> = listed.lines().skip(1).map(|line| line.split_whitespace().next().unwrap()).collect();
    assert_eq!(names, ["empty", "one"], "{listed}");
    let before = moto.count("vm/data/");
    success(&place, &format!("s3 delete {one}"));
    place.until("without the snapshot", |_| moto.count("vm/data/") < before);
    let mut client = place.client();
    assert_eq!((client.write(39 * MIB, &old[..4096]), client.flush()), (0, 0));
    drop(client);
    assert!(server.stop().0.success());
    // Nobody serves it.
    success(&place, &format!("s3 grow {uri} 44M -o json"));
    let said = failure(&place, &format!("s3 grow {uri} 20M"));
    assert!(said.contains("cannot become smaller"), "{said}");
    success(&place, &format!("s3 delete {empty}"));
    let said = failure(&place, &format!("s3 delete {empty}"));
    assert!(said.contains("there is no snapshot") && said.contains("nitro s3 list"), "{said}");
    let server = served(&place, &uri, "");
    let mut client = place.client();
    assert!(client.read(MIB, new.len()) == new && client.read(39 * MIB, 4096) == old[..4096]);
    assert_eq!((client.write(43 * MIB, &old[..8192]), client.flush()), (0, 0));
    let said = failure(&place, &format!("s3 delete {uri}"));
    assert!(said.contains("it names no snapshot"), "{said}");
    assert!(server.stop().0.success());
}
