//! Exports of NBD servers as origins: another nitro, nbdkit and qemu-nbd, killed, stopped, away and wrong.

use crate::support::{PATIENCE, Place, Server, noise};
use rustix::process::Signal;
use std::fs;
use std::io::Write as _;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

const MIB: u64 = 1 << 20;
const BLOCK: usize = 64 << 10;

/// The socket of a nitro in a place, which serves the export `vm`.
fn socket(place: &Place) -> String {
    place.path("run/nitro/vm.sock").display().to_string()
}

/// A nitro that keeps in RAM what was not flushed: a server that loses it when it is killed.
fn forgetful(place: &Place) -> Server {
    place.serve("--origin vm.img --cache cache.img --cache-size 64M --mode write-back --dirty-age 1h")
}

/// A nitro whose origin is the export of a socket.
fn before(place: &Place, export: &str, socket: &str, more: &str) -> Server {
    place.serve(&format!(
        "--origin nbd+unix:///{export}?socket={socket} --name vm --cache cache.img --cache-size 64M {more}"
    ))
}

/// Another server, which is killed with the test.
struct Other(Child);

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a server that is to listen at a socket; `None`: it is not installed.
fn other(socket: &Path, program: &str, arguments: &[&str]) -> Option<Other> {
    let started = Command::new(program).args(arguments).stdin(Stdio::null()).stderr(Stdio::null()).spawn();
    let Ok(child) = started else {
        eprintln!("skipped: {program} is not installed (scripts/setup installs it)");
        return None;
    };
    let (child, begun) = (Other(child), Instant::now());
    while std::os::unix::net::UnixStream::connect(socket).is_err() {
        assert!(begun.elapsed() < PATIENCE, "{program} does not listen");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    Some(child)
}

#[test]
fn what_an_origin_loses_when_it_is_killed_is_sent_again() {
    let (back, front) = (Place::new(), Place::new());
    back.file("vm.img", 16 * MIB);
    let origin = forgetful(&back);
    let server = before(&front, "vm", &socket(&back), "");
    let mut client = front.client();
    let data = noise(1, 4 << 20);
    let (half, rest) = data.split_at(data.len() / 2);
    for (at, block) in half.chunks(BLOCK).enumerate() {
        assert_eq!(client.write((at * BLOCK) as u64, block), 0);
    }
    // All of it is lost there, and nobody has heard of it.
    origin.kill();
    let write = std::thread::spawn(move || {
        let rest = noise(1, 4 << 20).split_off(2 << 20);
        for (at, block) in rest.chunks(BLOCK).enumerate() {
            assert_eq!(client.write((2 << 20) + (at * BLOCK) as u64, block), 0);
        }
        assert_eq!(client.flush(), 0);
        client
    });
    let origin = forgetful(&back);
    let mut client = write.join().unwrap();
    origin.kill();
    let origin = forgetful(&back);
    assert!(back.client().read(0, data.len()) == data);
    assert!(client.read(0, half.len()) == half && client.read(half.len() as u64, rest.len()) == rest);
    let (ended, said) = server.stop();
    assert!(ended.success() && said.contains("connected again"), "{said}");
    assert!(origin.stop().0.success());
    assert!(fs::read(back.path("vm.img")).unwrap()[..data.len()] == data);
}

#[test]
fn dirty_data_wait_for_an_origin_that_is_away_and_come_to_the_same_one_alone() {
    let (back, front) = (Place::new(), Place::new());
    back.file("vm.img", 16 * MIB);
    let origin = forgetful(&back);
    let server = before(&front, "vm", &socket(&back), "--mode write-back --dirty-age 1h");
    let data = noise(2, 1 << 20);
    let mut client = front.client();
    assert_eq!(client.write(0, &data), 0);
    assert_eq!(client.flush(), 0);
    server.kill();
    // Another export of the same name and size, without what is cached of this one.
    drop(origin);
    fs::remove_file(back.path("vm.img")).unwrap();
    fs::remove_file(back.path("cache.img")).unwrap();
    fs::remove_file(back.path("vm.img.nitro-dirty")).unwrap_or_default();
    back.file("vm.img", 32 * MIB);
    let origin = forgetful(&back);
    let again =
        format!("serve --origin nbd+unix:///vm?socket={} --name vm --cache cache.img --mode write-back", socket(&back));
    let said = front.failure(&again, 1);
    assert!(said.contains("of dirty data of this volume") && said.contains("--accept-origin vm"), "{said}");
    drop(origin);
    fs::remove_file(back.path("vm.img")).unwrap();
    fs::remove_file(back.path("cache.img")).unwrap();
    fs::remove_file(back.path("vm.img.nitro-dirty")).unwrap_or_default();
    back.file("vm.img", 16 * MIB);
    let _origin = forgetful(&back);
    let server = front.serve(again.strip_prefix("serve ").unwrap());
    assert!(front.client().read(0, data.len()) == data);
    assert!(server.stop().0.success());
    assert!(back.client().read(0, data.len()) == data);
    // Without the cache it is served again: it has its data.
    let alone = format!("--origin nbd+unix:///vm?socket={} --name vm --cache none", socket(&back));
    assert!(front.serve(&alone).stop().0.success());
}

#[test]
fn an_origin_that_is_stopped_is_an_error_in_time_and_goes_on_where_it_was() {
    let (back, front) = (Place::new(), Place::new());
    back.file("vm.img", 16 * MIB);
    let origin = forgetful(&back);
    let _server = before(&front, "vm", &socket(&back), "--origin-timeout 1s");
    let mut client = front.client();
    let data = noise(3, BLOCK);
    assert_eq!(client.write(0, &data), 0);
    origin.signal(Signal::STOP);
    client.request(0, 8 * MIB, BLOCK, &[]);
    assert_eq!(client.reply(), 5);
    assert_eq!(client.write(4 * MIB, &data), 5);
    origin.signal(Signal::CONT);
    front.until("going on", |_| client.write(0, &data) == 0);
    assert!(client.read(0, BLOCK) == data);
    assert_eq!(client.flush(), 0);
    let begun = Instant::now();
    // What was given up may come there, and then does so before what is written now.
    while client.write(4 * MIB, &noise(4, BLOCK)) != 0 {
        assert!(begun.elapsed() < PATIENCE, "the write that was given up never ends");
    }
    assert!(client.read(4 * MIB, BLOCK) == noise(4, BLOCK));
}

#[test]
fn what_is_no_origin_is_refused_with_what_to_do() {
    let (back, front) = (Place::new(), Place::new());
    back.file("vm.img", 16 * MIB);
    let _origin = back.serve("--origin vm.img --cache none --read-only");
    let refused = |origin: &str, more: &str| {
        let said = front.failure(&format!("serve --origin {origin} --cache cache.img --cache-size 32M {more}"), 1);
        assert!(!front.path("cache.img").exists(), "{said}");
        said
    };
    let here = socket(&back);
    let said = refused(&format!("nbd+unix:///other?socket={here}"), "");
    assert!(said.contains("no export \"other\"") && said.contains("nbdinfo --list nbd+unix:///?socket="), "{said}");
    let read_only =
        format!("serve --origin nbd+unix:///vm?socket={here} --cache other.img --cache-size 32M --mode write-back");
    let said = front.failure(&read_only, 1);
    assert!(said.contains("it can only be read"), "{said}");
    let said = refused(&format!("nbds+unix:///vm?socket={here}&tls-certificates=/nowhere"), "");
    assert!(said.contains("/nowhere/ca-cert.pem"), "{said}");
    let said = refused("nbd+unix:///vm?socket=nobody.sock", "");
    assert!(said.contains("check that an NBD server listens at") && said.contains("No such file"), "{said}");
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let said = refused(&format!("nbd://{closed}/vm"), "");
    assert!(said.contains("Connection refused") && said.contains("listens on 127.0.0.1, port"), "{said}");
    let said = refused("nbd://nitro.invalid/vm", "");
    assert!(said.contains("listens on nitro.invalid, port 10809"), "{said}");
    assert!(refused("nbd:host/vm", "").contains("nbd://HOST[:PORT]/EXPORT"));
    assert!(
        refused(&format!("nbd+unix:///vm?socket={here}"), "--emulate-disk 7200").contains("leave out emulate_disk")
    );
    let text = format!(
        "[cache.c]\npath = \"c.img\"\nsize = \"32M\"\n[volume.a]\norigin = \"nbd+unix:///vm?socket={here}\"\n\
         [volume.b]\norigin = \"nbd+unix:///%76m?socket={here}\"\n"
    );
    front.write("twice.toml", text);
    assert!(front.failure("check twice.toml", 1).contains("is served twice"));
    assert!(front.failure("estimate nbd://host/vm", 1).contains("neither a file nor a block device"));
    // It speaks another protocol.
    let path = front.path("other.sock");
    let listener = UnixListener::bind(&path).unwrap();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let _ = stream.write_all(b"220 smtp.example ESMTP\r\n");
        }
    });
    let said = refused(&format!("nbd+unix:///vm?socket={}", path.display()), "");
    assert!(said.contains("does not speak NBD"), "{said}");
}

#[test]
fn an_export_is_served_by_one_writer_of_a_machine() {
    let (back, front) = (Place::new(), Place::new());
    back.file("vm.img", 16 * MIB);
    let _origin = forgetful(&back);
    let origin = format!("nbd+unix:///vm?socket={}", socket(&back));
    let server = before(&front, "vm", &socket(&back), "");
    for more in ["", "--read-only"] {
        let said = front.failure(&format!("serve --origin {origin} --name b --cache none {more}"), 1);
        assert!(said.contains("another server of this machine serves it"), "{said}");
    }
    drop(server);
    let readers = ["a", "b"].map(|name| {
        front.serve(&format!("--origin {origin} --name {name} --cache none --read-only --control {name}.control"))
    });
    let said = front.failure(&format!("serve --origin {origin} --name c --cache none"), 1);
    assert!(said.contains("another server of this machine serves it"), "{said}");
    drop(readers);
}

#[test]
fn a_read_only_export_is_checked_and_served_read_only() {
    let (back, front) = (Place::new(), Place::new());
    let image = back.file("vm.img", 16 * MIB);
    fs::write(&image, noise(5, 1 << 20)).unwrap();
    let _origin = back.serve("--origin vm.img --cache none --read-only");
    let text = format!(
        "[cache.c]\npath = \"cache.img\"\nsize = \"32M\"\n[volume.vm]\norigin = \"nbd+unix:///vm?socket={}\"\n",
        socket(&back)
    );
    front.write("nitro.toml", text);
    front.stdout("check nitro.toml");
    let _server = front.serve("--config nitro.toml");
    let mut client = front.client();
    assert!(client.read(0, 1 << 20) == noise(5, 1 << 20));
    assert_eq!(client.write(0, &[0; 512]), 1);
    assert!(front.stdout("status").contains("nbd+unix:///vm"));
}

#[test]
fn nbdkit_is_an_origin_with_its_errors() {
    let place = Place::new();
    let (path, trigger) = (place.path("kit.sock"), place.path("trigger"));
    let (at, error_file) = (path.display().to_string(), format!("error-file={}", trigger.display()));
    let arguments =
        ["-f", "-U", &at, "--filter=error", "memory", "16M", "error=ENOSPC", "error-pwrite-rate=100%", &error_file];
    let Some(_kit) = other(&path, "nbdkit", &arguments) else { return };
    let server = before(&place, "", &at, "");
    let mut client = place.client();
    let data = noise(6, 3 << 20);
    assert_eq!(client.write(0, &data), 0);
    assert_eq!(client.flush(), 0);
    fs::write(&trigger, "").unwrap();
    assert_eq!(client.write(8 * MIB, &data), 28);
    fs::remove_file(&trigger).unwrap();
    assert_eq!(client.write(8 * MIB, &data), 0);
    // Trim and zeroes.
    for command in [4, 6] {
        client.request(command, 0, BLOCK, &[]);
        assert_eq!(client.reply(), 0);
    }
    assert!(client.read(0, BLOCK) == vec![0; BLOCK]);
    assert!(client.read(8 * MIB, data.len()) == data);
    assert!(server.stop().0.success());
}

#[test]
fn qemu_nbd_is_an_origin_with_a_single_connection() {
    let place = Place::new();
    let image = place.file("disk.img", 16 * MIB);
    let (path, image) = (place.path("qemu.sock"), image.display().to_string());
    let at = path.display().to_string();
    let arguments = ["-f", "raw", "-k", &at, "--persistent", "--shared=1", "-x", "vm", &image];
    let Some(qemu) = other(&path, "qemu-nbd", &arguments) else { return };
    let server = before(&place, "vm", &at, "");
    let mut client = place.client();
    let data = noise(7, 3 << 20);
    assert_eq!(client.write(MIB, &data), 0);
    drop(qemu);
    let Some(_qemu) = other(&path, "qemu-nbd", &arguments) else { return };
    assert_eq!(client.flush(), 0);
    assert!(client.read(MIB, data.len()) == data);
    assert!(server.stop().0.success());
    assert!(fs::read(image).unwrap()[MIB as usize..][..data.len()] == data);
}
