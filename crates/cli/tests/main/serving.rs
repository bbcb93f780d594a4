//! Serving, from the `ready` line to the end.

use crate::support::{Nbd, PATIENCE, Place, Server, noise, wait};
use rustix::process::{Pid, Signal};
use std::fs;
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt};

#[test]
fn a_volume_is_served_and_left_in_order() {
    let place = Place::new();
    let server = place.usual();
    let socket = place.path("run/nitro/vm.sock");
    assert_eq!(server.ready, format!("ready nbd+unix:///vm?socket={}\n", socket.display()));
    for path in [&socket, &place.path("run/nitro/vm.control")] {
        assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600, "{path:?}");
    }
    let data = noise(1, 20_000);
    let mut client = Nbd::connect(&socket, "vm");
    assert_eq!(client.write(4000, &data), 0);
    assert_eq!(client.read(4000, data.len()), data);
    let (status, said) = server.stop();
    assert_eq!(status.code(), Some(0), "{said}");
    assert!(said.contains("of RAM") && said.contains("write-evict units"), "{said}");
    assert_eq!(fs::read_dir(place.path("run/nitro")).unwrap().count(), 0);
    assert_eq!(fs::read(place.path("vm.img")).unwrap()[4000..24_000], data);
}

#[test]
fn a_second_run_takes_the_cache_file_over() {
    let place = Place::new();
    assert!(place.usual().stop().0.success());
    assert!(place.serve("--origin vm.img --cache cache.img").stop().0.success());
    assert!(place.serve("--origin vm.img --cache cache.img --cache-size 32M").stop().0.success());
}

#[test]
fn an_interrupt_ends_it_too_even_with_a_silent_client() {
    let place = Place::new();
    let mut server = place.usual();
    let _greeted = std::os::unix::net::UnixStream::connect(place.path("run/nitro/vm.sock")).unwrap();
    server.signal(Signal::INT);
    assert!(crate::support::wait(&mut server.child).success());
}

#[test]
fn a_read_only_volume_refuses_writes() {
    let place = Place::new();
    place.file("vm.img", 1 << 20);
    let server = place.serve("--origin vm.img --cache none --read-only --listen unix:n.sock --name other");
    assert!(server.ready.ends_with("/n.sock\n") && server.ready.contains(":///other?"));
    let mut client = Nbd::connect(&place.path("n.sock"), "other");
    assert_eq!(client.write(0, b"x"), 1);
    assert_eq!(client.read(5, 10), [0; 10]);
}

#[test]
fn without_a_cache_the_origin_is_read_each_time() {
    let place = Place::new();
    let data = noise(2, 1 << 20);
    place.write("vm.img", &data);
    let server = place.serve("--origin vm.img --cache none --emulate-disk 15000:2 --control c");
    let mut client = Nbd::connect(&place.path("run/nitro/vm.sock"), "vm");
    for _ in 0..3 {
        assert_eq!(client.read(8192, 4096), data[8192..12_288]);
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let status: serde_json::Value = serde_json::from_str(&place.stdout("status -o json --control c")).unwrap();
    assert_eq!(status["volumes"][0]["origin_read_bytes"], 3 * 4096);
    assert_eq!(status["caches"][0]["health"], "none");
    drop(server);
}

#[test]
fn a_configuration_file_serves_several_volumes() {
    let place = Place::new();
    place.file("a.img", 4 << 20);
    place.file("b.img", 8 << 20);
    place.write(
        "nitro.toml",
        "[server]\nlisten = [\"unix:n.sock\", \"tcp:127.0.0.1:0\"]\ncontrol = \"c.sock\"\nthreads = 2\ninsert_threads = 3\n\
         [cache.fast]\npath = \"cache.img\"\nsize = \"32M\"\ncompression = \"zstd\"\nram = 0\n\
         [volume.a]\norigin = \"a.img\"\n[volume.b]\norigin = \"b.img\"\ncache = \"fast\"\ndescription = \"second\"\n",
    );
    let server = place.serve("--config nitro.toml");
    assert_eq!(server.ready.matches("nbd+unix:///").count(), 2);
    assert_eq!(server.ready.matches("nbd://127.0.0.1:").count(), 2);
    for name in ["a", "b"] {
        let mut client = Nbd::connect(&place.path("n.sock"), name);
        assert_eq!(client.write(0, name.as_bytes()), 0);
        assert_eq!(client.read(0, 1), name.as_bytes());
    }
    let status: serde_json::Value = serde_json::from_str(&place.stdout("status --control c.sock -o json")).unwrap();
    assert_eq!((&status["server"]["threads"], &status["server"]["insert_threads"]), (&2.into(), &3.into()));
    let tasks = std::fs::read_dir(format!("/proc/{}/task", server.child.id())).unwrap();
    let names = tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).unwrap());
    assert_eq!(names.filter(|name| name.trim() == "nitro-insert").count(), 3);
    assert!(server.stop().0.success());
    assert!(!place.path("n.sock").exists() && !place.path("c.sock").exists());
}

#[test]
fn a_stale_socket_is_replaced() {
    let place = Place::new();
    let mut server = place.usual();
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    assert!(place.path("run/nitro/vm.sock").exists());
    assert!(place.serve("--origin vm.img --cache cache.img").stop().0.success());
}

#[test]
fn systemd_is_told() {
    let place = Place::new();
    place.file("vm.img", 1 << 20);
    let socket = std::os::unix::net::UnixDatagram::bind(place.path("notify")).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut command = place.command("serve --origin vm.img --cache cache.img --cache-size 32M --mode write-back");
    let mut child = command.env("NOTIFY_SOCKET", place.path("notify")).spawn().unwrap();
    let told = || {
        let mut message = [0; 256];
        let count = socket.recv(&mut message).unwrap();
        String::from_utf8_lossy(&message[..count]).into_owned()
    };
    assert_eq!(told(), "READY=1\n");
    assert_eq!(place.client().write(0, &noise(44, 1 << 20)), 0);
    rustix::process::kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(told(), "STOPPING=1\n");
    let news = told();
    assert!(news.starts_with("EXTEND_TIMEOUT_USEC=30000000\nSTATUS=volume vm: "), "{news}");
    assert!(news.contains("of dirty data to write back"), "{news}");
    assert!(wait(&mut child).success());
}

#[test]
fn where_tls_is_required_nothing_is_served_in_plaintext() {
    let place = Place::new();
    place.file("vm.img", 1 << 20);
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    place.write("cert.pem", certified.cert.pem());
    place.write("key.pem", certified.signing_key.serialize_pem());
    let tls = "--tls required --tls-cert cert.pem --tls-key key.pem";
    let server = place.serve(&format!("--origin vm.img --cache none --listen unix:n.sock {tls}"));
    assert!(server.ready.starts_with("ready nbds+unix:///vm?"), "{}", server.ready);
    let refused = std::panic::catch_unwind(|| Nbd::connect(&place.path("n.sock"), "vm"));
    assert!(refused.is_err());
}

#[test]
fn more_clients_than_allowed_are_turned_away() {
    let place = Place::new();
    place.file("vm.img", 1 << 20);
    let _server = place.serve("--origin vm.img --cache none --listen unix:n.sock --max-connections 1");
    let mut first = Nbd::connect(&place.path("n.sock"), "vm");
    let mut second = std::os::unix::net::UnixStream::connect(place.path("n.sock")).unwrap();
    assert_eq!(std::io::Read::read(&mut second, &mut [0; 1]).unwrap_or(0), 0);
    assert_eq!(first.read(0, 1), [0]);
}

#[test]
fn sockets_have_the_mode_and_the_group_that_they_are_given() {
    let place = Place::new();
    place.file("vm.img", 1 << 20);
    let modes = |names: [&str; 2]| names.map(|name| fs::metadata(place.path(name)).unwrap().mode() & 0o7777);
    let served = "--origin vm.img --cache none --listen unix:n.sock --control c.sock";
    let server = place.serve(served);
    assert_eq!(modes(["n.sock", "c.sock"]), [0o600, 0o600]);
    assert!(server.stop().0.success());
    // A group that this user is a member of, or any as root.
    let own = fs::metadata(place.path("vm.img")).unwrap();
    let group = if own.uid() == 0 { 4711 } else { own.gid() };
    let server = place.serve(&format!("{served} --socket-group {group} --control-mode 0640"));
    assert_eq!(modes(["n.sock", "c.sock"]), [0o660, 0o640]);
    assert_eq!(fs::metadata(place.path("n.sock")).unwrap().gid(), group);
    assert!(server.stop().0.success());
    let text = "[cache.none]\npath = \"none\"\n[volume.vm]\norigin = \"vm.img\"\n[server]\nsocket_mode = \"0666\"\nlisten = [\"unix:n.sock\"]\n";
    fs::write(place.path("nitro.toml"), text).unwrap();
    let server = place.serve("--config nitro.toml");
    assert_eq!(modes(["n.sock", "run/nitro/vm.control"]), [0o666, 0o600]);
    assert!(server.stop().0.success());
    for (wrong, told) in [
        ("--socket-mode 0060", "0600 to 0777"),
        ("--socket-mode rw", "octal digits"),
        ("--control-group nobody-knows", "server.control_group = \"nobody-knows\""),
    ] {
        let code = if wrong.contains("mode") { 2 } else { 1 };
        let said = place.failure(&format!("serve {served} {wrong}"), code);
        assert!(said.contains(told), "{wrong}: {said}");
    }
}

#[test]
fn sockets_are_in_the_folder_of_the_service_and_found_by_a_variable() {
    let place = Place::new();
    place.file("vm.img", 1 << 20);
    fs::create_dir(place.path("service")).unwrap();
    let mut command = place.command("serve --origin vm.img --cache none");
    let server = Server::start(command.env("RUNTIME_DIRECTORY", place.path("service")));
    assert!(server.ready.contains("/service/vm.sock"), "{}", server.ready);
    let asked = place.command("status").env("NITRO_CONTROL", place.path("service/vm.control")).output().unwrap();
    assert!(asked.status.success() && String::from_utf8_lossy(&asked.stdout).contains("vm"), "{asked:?}");
    let said = place.command("status").env("NITRO_CONTROL", place.path("none.control")).output().unwrap();
    assert!(String::from_utf8_lossy(&said.stderr).contains("none.control: no server answers there"), "{said:?}");
    assert!(server.stop().0.success());
}

#[test]
fn addresses_that_clients_cannot_use_are_not_printed() {
    let place = Place::new();
    place.file("vm.img", 1 << 20);
    let mut command = place.command("serve --origin vm.img --cache none --listen tcp:0.0.0.0:0");
    let mut server = Server::start(&mut command);
    assert!(server.ready.starts_with("ready nbd://") && !server.ready.contains("0.0.0.0"), "{}", server.ready);
    server.signal(Signal::TERM);
    let mut said = String::new();
    server.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(said.contains("every host that reaches this address can read and write the volumes"), "{said}");
    assert!(server.child.wait().unwrap().success());
}
