//! Images of Ceph clusters as origins. Ceph's libraries are played by one that is made of `rbd_origin/fake.c`, and keeps images, locks and
//! clients that are refused in files; `scripts/test-long rbd` does the same with a cluster.

use crate::support::{PATIENCE, Place, Server, noise};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Instant;

const MIB: u64 = 1 << 20;
const BLOCK: usize = 64 << 10;

/// The folder with the libraries, built once.
fn libraries() -> PathBuf {
    static LIBRARIES: OnceLock<Place> = OnceLock::new();
    let built = LIBRARIES.get_or_init(|| {
        let folder = Place::new();
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/main/rbd_origin/fake.c");
        for name in ["librados.so.2", "librbd.so.1"] {
            let mut compiler = Command::new("cc");
            compiler.args(["-shared", "-fPIC", "-O1", "-pthread", source, "-o"]).arg(folder.path(name));
            assert!(compiler.status().unwrap().success(), "cc cannot compile {source}");
        }
        folder
    });
    built.path(".")
}

/// A cluster: the folder of the library.
struct Cluster(Place);

impl Cluster {
    /// One with the image pool/vm of 16 MiB.
    fn new() -> Self {
        let cluster = Self(Place::new());
        fs::create_dir(cluster.path("pool")).unwrap();
        cluster.image("pool/vm", 16 * MIB);
        cluster
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path(name)
    }

    fn image(&self, name: &str, bytes: u64) {
        fs::File::create(self.path(name)).unwrap().set_len(bytes).unwrap();
    }

    fn bytes(&self, at: usize, len: usize) -> Vec<u8> {
        fs::read(self.path("pool/vm")).unwrap()[at..at + len].to_vec()
    }

    fn is_locked(&self) -> bool {
        self.path("pool/vm.lock").exists()
    }

    fn is_marked(&self) -> bool {
        self.path("pool/vm.meta.nitro.dirty").exists()
    }

    /// The program, which finds the libraries in a folder.
    fn command_with(&self, folder: &Path, host: &Place, arguments: &str) -> Command {
        let mut command = host.command(arguments);
        command.env("LD_LIBRARY_PATH", folder).env("FAKE_CEPH", self.0.path("."));
        command
    }

    fn serve(&self, host: &Place, origin: &str, more: &str) -> Server {
        let arguments =
            format!("serve --origin {origin} --name vm --cache cache.img --cache-size 64M --dirty-age 1h {more}");
        Server::start(&mut self.command_with(&libraries(), host, &arguments))
    }

    /// A start that has to fail; what it says.
    fn refused(&self, host: &Place, origin: &str, more: &str) -> String {
        let arguments = format!("serve --origin {origin} --name vm --cache cache.img --cache-size 64M {more}");
        said(self.command_with(&libraries(), host, &arguments))
    }
}

/// What a command says that has to fail.
fn said(mut command: Command) -> String {
    let output = command.stdout(Stdio::null()).stderr(Stdio::piped()).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    said
}

#[test]
fn an_image_is_read_and_written_and_has_neither_lock_nor_mark_at_the_end() {
    let (cluster, host) = (Cluster::new(), Place::new());
    let server = cluster.serve(&host, "rbd:pool/vm", "--mode write-back");
    assert!(cluster.is_locked() && cluster.is_marked());
    let data = noise(1, 3 << 20);
    let mut client = host.client();
    assert_eq!(client.write(MIB, &data), 0);
    assert_eq!(client.flush(), 0);
    // Trim and zeroes.
    for (command, at) in [(4, 8 * MIB), (6, MIB)] {
        client.request(command, at, BLOCK, &[]);
        assert_eq!(client.reply(), 0);
    }
    assert!(
        client.read(MIB, BLOCK) == vec![0; BLOCK] && client.read(MIB + BLOCK as u64, BLOCK) == data[BLOCK..2 * BLOCK]
    );
    fs::OpenOptions::new().write(true).open(cluster.path("pool/vm")).unwrap().set_len(32 * MIB).unwrap();
    assert!(host.stdout("volume resize vm").contains("32 MiB"));
    assert_eq!(host.client().write(32 * MIB - BLOCK as u64, &data[..BLOCK]), 0);
    let (status, said) = server.stop();
    assert!(status.success(), "{said}");
    assert!(!cluster.is_locked() && !cluster.is_marked() && cluster.path("pool/vm.meta.nitro.volume").exists());
    assert!(cluster.bytes(MIB as usize + BLOCK, data.len() - BLOCK) == data[BLOCK..]);
    assert!(cluster.bytes(32 * MIB as usize - BLOCK, BLOCK) == data[..BLOCK]);
}

#[test]
fn a_server_that_was_killed_gets_its_lock_and_its_dirty_data_back_and_no_other_machine_does() {
    let (cluster, host, other) = (Cluster::new(), Place::new(), Place::new());
    let server = cluster.serve(&host, "rbd:pool/vm", "--mode write-back");
    let data = noise(2, 1 << 20);
    let mut client = host.client();
    assert_eq!(client.write(0, &data), 0);
    assert_eq!(client.flush(), 0);
    let dead = fs::read_to_string(cluster.path("pool/vm.lock")).unwrap();
    // The same machine, and another one.
    let said = cluster.refused(&host, "rbd:pool/vm?id=admin", "");
    assert!(said.contains("another server of this machine serves it"), "{said}");
    for more in ["", "--read-only"] {
        let said = cluster.refused(&other, "rbd:pool/vm", more);
        assert!(
            said.contains(&format!("the client at {dead} has its exclusive lock")) && said.contains("?lock=break"),
            "{said}"
        );
    }
    server.kill();
    // The cluster still takes it for alive.
    assert!(cluster.refused(&other, "rbd:pool/vm", "").contains(&dead));
    let server = cluster.serve(&host, "rbd:pool/vm", "--mode write-back");
    assert!(cluster.path(&format!("refused.{}", dead.replace('/', "_"))).exists());
    assert!(host.client().read(0, data.len()) == data);
    server.kill();
    let said = cluster.refused(&other, "rbd:pool/vm?lock=break", "");
    assert!(said.contains("cache.img") && said.contains("the metadata nitro.dirty of the image pool/vm"), "{said}");
    let server = cluster.serve(&host, "rbd:pool/vm", "--mode write-back");
    assert!(server.stop().0.success());
    assert!(cluster.bytes(0, data.len()) == data);
    // What the first one has cached is not believed after another one has served the image.
    let server = cluster.serve(&other, "rbd:pool/vm", "");
    assert_eq!(other.client().write(0, &noise(3, BLOCK)), 0);
    assert!(server.stop().0.success());
    let _server = cluster.serve(&host, "rbd:pool/vm", "");
    assert!(host.client().read(0, BLOCK) == noise(3, BLOCK));
}

#[test]
fn a_server_whose_lock_was_broken_answers_nothing_and_keeps_its_dirty_data() {
    let (cluster, host, other) = (Cluster::new(), Place::new(), Place::new());
    let server = cluster.serve(&host, "rbd:pool/vm", "--mode write-back");
    let (ours, theirs) = (noise(4, BLOCK), noise(5, BLOCK));
    let mut client = host.client();
    assert_eq!(client.write(0, &ours), 0);
    assert_eq!(client.flush(), 0);
    let second = cluster.serve(&other, "rbd:pool/vm?lock=break", "--force-discard-dirty");
    assert_eq!(other.client().write(0, &theirs), 0);
    // It learns of it by itself; what it has acknowledged until then is dirty.
    let status = host.until("lost", |status| status["volumes"][0]["poisoned"].is_string());
    let reason = status["volumes"][0]["poisoned"].as_str().unwrap();
    assert!(reason.contains("another client has broken its exclusive lock"), "{reason}");
    client.request(0, 0, BLOCK, &[]);
    assert_eq!(client.reply(), 5);
    assert_eq!((client.write(0, &ours), client.flush()), (5, 5));
    assert!(status["volumes"][0]["dirty_bytes"].as_u64().unwrap() >= BLOCK as u64, "{status}");
    let (status, said) = server.stop();
    assert!(!status.success() && said.contains("of dirty data stay"), "{said}");
    assert!(other.client().read(0, BLOCK) == theirs);
    assert!(second.stop().0.success() && cluster.bytes(0, BLOCK) == theirs);
    let said = cluster.refused(&host, "rbd:pool/vm", "");
    assert!(said.contains("another cache") && said.contains("never written to it"), "{said}");
}

#[test]
fn a_write_through_a_broken_lock_fails_and_all_that_follows() {
    let (cluster, host, other) = (Cluster::new(), Place::new(), Place::new());
    let _server = cluster.serve(&host, "rbd:pool/vm", "");
    let (ours, theirs) = (noise(6, BLOCK), noise(7, BLOCK));
    let mut client = host.client();
    assert_eq!(client.write(0, &ours), 0);
    assert!(client.read(0, BLOCK) == ours);
    let _second = cluster.serve(&other, "rbd:pool/vm?lock=break", "");
    assert_eq!(other.client().write(0, &theirs), 0);
    assert_eq!(client.write(MIB, &ours), 5);
    // It is cached, and outdated.
    client.request(0, 0, BLOCK, &[]);
    assert_eq!((client.reply(), client.flush()), (5, 5));
    assert!(cluster.bytes(0, BLOCK) == theirs && cluster.bytes(MIB as usize, BLOCK) == vec![0; BLOCK]);
}

#[test]
fn a_snapshot_is_served_beside_its_image_and_takes_no_writes() {
    let (cluster, host, other) = (Cluster::new(), Place::new(), Place::new());
    let before = noise(8, BLOCK);
    fs::write(cluster.path("pool/vm"), [before.clone(), vec![0; 16 * MIB as usize - BLOCK]].concat()).unwrap();
    fs::copy(cluster.path("pool/vm"), cluster.path("pool/vm@monday")).unwrap();
    let server = cluster.serve(&host, "rbd:pool/vm", "--mode write-back");
    assert_eq!(host.client().write(0, &noise(9, BLOCK)), 0);
    let snapshot = cluster.serve(&other, "rbd:pool/vm@monday", "");
    let mut client = other.client();
    assert!(client.read(0, BLOCK) == before);
    assert_eq!(client.write(0, &before), 1);
    assert!(server.stop().0.success() && snapshot.stop().0.success());
    assert!(cluster.refused(&Place::new(), "rbd:pool/vm@monday", "--mode write-back").contains("read-only"));
}

#[test]
fn an_image_that_does_not_answer_is_an_error_in_time_and_goes_on_where_it_was() {
    let (cluster, host) = (Cluster::new(), Place::new());
    let _server = cluster.serve(&host, "rbd:pool/vm", "--origin-timeout 1s");
    let (mut client, data) = (host.client(), noise(10, BLOCK));
    fs::write(cluster.path("hang"), "").unwrap();
    assert_eq!(client.write(0, &data), 5);
    client.request(0, 8 * MIB, BLOCK, &[]);
    assert_eq!(client.reply(), 5);
    fs::remove_file(cluster.path("hang")).unwrap();
    let begun = Instant::now();
    while client.write(0, &noise(11, BLOCK)) != 0 {
        assert!(begun.elapsed() < PATIENCE, "the write that was given up never ends");
    }
    assert!(client.read(0, BLOCK) == noise(11, BLOCK));
    fs::write(cluster.path("lie"), "").unwrap();
    client.request(0, 4 * MIB, BLOCK, &[]);
    assert_eq!(client.reply(), 5);
}

#[test]
fn what_is_not_there_is_named_with_what_to_do() {
    let (cluster, host) = (Cluster::new(), Place::new());
    cluster.image("pool/plain", MIB);
    cluster.image("pool/empty", 0);
    fs::write(cluster.path("pool/plain.plain"), "").unwrap();
    for (origin, phrases) in [
        ("rbd:lake/vm", ["the pool \"lake\" cannot be opened: No such file", "ceph osd pool ls"]),
        ("rbd:pool/db", ["the image \"db\" cannot be opened: No such file", "rbd ls pool"]),
        ("rbd:pool/team/vm", ["the image \"vm\" cannot be opened: No such file", "rbd ls pool/team"]),
        ("rbd:pool/vm@never", ["no snapshot \"never\"", "rbd snap ls pool/vm"]),
        ("rbd:pool/plain", ["exclusive-lock", "rbd feature enable pool/plain exclusive-lock"]),
        ("rbd:pool/empty", ["it is empty", "rbd resize pool/empty"]),
        ("rbd:pool/vm?conf=/nowhere/ceph.conf", ["configuration cannot be read", "/nowhere/ceph.conf"]),
        ("rbd:pool/vm?id=nobody", ["the cluster cannot be reached: Permission denied", "ceph auth get client.nobody"]),
        ("rbd:vm", ["it names no pool and image", "rbd:POOL/IMAGE"]),
    ] {
        let said = cluster.refused(&host, origin, "");
        assert!(phrases.iter().all(|phrase| said.contains(phrase)), "{origin}: {said}");
        assert!(!host.path("cache.img").exists(), "{said}");
    }
    let slow = cluster.refused(&host, "rbd:pool/vm", "--emulate-disk 7200");
    assert!(slow.contains("leave out emulate_disk"), "{slow}");
    assert!(cluster.serve(&host, "rbd:pool/plain", "--read-only").stop().0.success());
    // A library that cannot be loaded, such as one for another machine.
    let other = Place::new();
    fs::copy(libraries().join("librados.so.2"), other.path("librados.so.2")).unwrap();
    fs::write(other.path("librbd.so.1"), "for another machine").unwrap();
    let told = said(cluster.command_with(&other.path("."), &host, "serve --origin rbd:pool/vm --cache none"));
    assert!(told.contains("librbd.so.1 cannot be used") && told.contains("package librbd1"), "{told}");
    // What is served is not examined, and the look leaves nothing behind.
    host.write("nitro.toml", "[cache.c]\npath = \"c.img\"\nsize = \"32M\"\n[volume.vm]\norigin = \"rbd:pool/vm\"\n");
    let check = || cluster.command_with(&libraries(), &host, "check nitro.toml").output().unwrap();
    assert!(check().status.success() && !cluster.is_locked());
    let server = cluster.serve(&Place::new(), "rbd:pool/vm", "");
    let checked = check();
    let told = [checked.stdout, checked.stderr].concat();
    assert!(checked.status.success() && String::from_utf8(told).unwrap().contains("is in use"));
    assert!(server.stop().0.success());
}
