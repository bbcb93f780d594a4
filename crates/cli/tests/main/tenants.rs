//! Tenants of one cache who do not trust each other.

use crate::support::{Nbd, PATIENCE, Place, noise};
use nitro_device::{CompioClock, FileOptions, Reactor};
use nitro_engine::manager::Settings;
use nitro_engine::{Cache, EngineSettings};
use nitro_port::codec::FingerprintHash;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Makes a cache whose contents are named by SHA-1, as no program does that serves.
fn sha1_cache(place: &Place) {
    let manager = Settings::new(32 << 20);
    let settings = EngineSettings { fingerprint_hash: FingerprintHash::Sha1, ..EngineSettings::new(manager) };
    let reactor = Reactor::new().unwrap();
    reactor.block_on(async {
        let bytes = (40 << 20) + Cache::<nitro_device::FileDevice, CompioClock>::overhead_bytes(&settings);
        let device = FileOptions::new(place.path("cache.img")).create(bytes).unwrap();
        Cache::format(device, CompioClock::new(), settings, [7; 16], 9).await.unwrap();
    });
}

#[test]
fn sha1_is_not_served() {
    let place = Place::new();
    place.file("vm.img", 1 << 20);
    let served = "serve --origin vm.img --cache cache.img";
    let phrases = ["sha1", "SHA-1 collisions", "another volume"];
    place.write(
        "n.toml",
        "[cache.c]\npath = \"cache.img\"\nsize = \"32M\"\nfingerprint = \"sha1\"\n[volume.vm]\norigin = \"vm.img\"\n",
    );
    for arguments in [
        &format!("{served} --cache-size 32M --fingerprint sha1"),
        "cache create cache.img --size 32M --fingerprint sha1",
        "serve --config n.toml",
    ] {
        let said = place.failure(arguments, 1);
        assert!(phrases.iter().all(|phrase| said.contains(phrase)) && said.contains("blake3"), "{said}");
        assert!(!place.path("cache.img").exists());
    }
    sha1_cache(&place);
    let said = place.failure(served, 1);
    assert!(phrases.iter().all(|phrase| said.contains(phrase)) && said.contains("nitro cache salvage"), "{said}");
    assert!(place.stdout("cache show cache.img").contains("stopped"));
    assert!(place.stdout("cache fsck cache.img").contains("nothing is wrong"));
    assert!(place.stdout("cache salvage cache.img --list").contains("nothing is dirty"));
    assert!(place.serve("--origin vm.img --cache cache.img --format").stop().0.success());
}

/// The names of the exports that a client of a socket gets with NBD_OPT_LIST.
fn listed(socket: &Path) -> Vec<String> {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.read_exact(&mut [0; 18]).unwrap();
    stream.write_all(&[&3u32.to_be_bytes()[..], b"IHAVEOPT\0\0\0\x03\0\0\0\0"].concat()).unwrap();
    let mut names = Vec::new();
    loop {
        let mut header = [0; 20];
        stream.read_exact(&mut header).unwrap();
        let word = |at: usize| u32::from_be_bytes(*header[at..].first_chunk().unwrap());
        let mut entry = vec![0; word(16) as usize];
        stream.read_exact(&mut entry).unwrap();
        match word(12) {
            // NBD_REP_SERVER: the length of the name, and the name.
            2 => names.push(String::from_utf8(entry[4..].to_vec()).unwrap()),
            _ => return names,
        }
    }
}

fn can_open(socket: &Path, name: &str) -> bool {
    let (socket, name) = (socket.to_owned(), name.to_owned());
    std::panic::catch_unwind(move || Nbd::connect(&socket, &name)).is_ok()
}

#[test]
fn a_volume_is_offered_on_its_sockets_alone() {
    let place = Place::new();
    let mut config =
        "[server]\nlisten = [\"unix:a.sock\", \"unix:b.sock\", \"iscsi:127.0.0.1:0\"]\n[cache.c]\npath = \"none\"\n"
            .to_owned();
    for (name, more) in [("a", "sockets = [\"unix:a.sock\"]\n"), ("b", "sockets = [\"unix:b.sock\"]\n"), ("all", "")] {
        place.file(&format!("{name}.img"), 1 << 20);
        config += &format!("[volume.{name}]\norigin = \"{name}.img\"\n{more}");
    }
    place.write("n.toml", &config);
    let server = place.serve("--config n.toml");
    assert_eq!(server.ready.matches("iscsi://").count(), 1, "{}", server.ready);
    for (socket, own, other) in [("a.sock", "a", "b"), ("b.sock", "b", "a")] {
        let socket = place.path(socket);
        let mut both = [own, "all"];
        both.sort_unstable();
        assert_eq!(listed(&socket), both);
        assert!(can_open(&socket, own) && can_open(&socket, "all"));
        assert!(!can_open(&socket, other) && !can_open(&socket, &format!("{other}?class=1")));
    }
    place.write("n.toml", config.replace("sockets = [\"unix:b.sock\"]", ""));
    assert!(place.stdout("reload").contains("volume.b.sockets"));
    assert_eq!(listed(&place.path("a.sock")), ["a", "all", "b"]);
    place.write("n.toml", config.replace("[\"unix:a.sock\"]", "[\"unix:c.sock\"]"));
    assert!(place.failure("check n.toml", 1).contains("volume.a.sockets"));
}

#[test]
fn a_volume_for_clients_with_certificates_is_for_no_others() {
    let place = Place::new();
    place.file("a.img", 1 << 20);
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    place.write("cert.pem", certified.cert.pem());
    place.write("key.pem", certified.signing_key.serialize_pem());
    let config = |server: &str, clients: &str| {
        format!(
            "[server]\nlisten = [\"unix:n.sock\"]\n{server}[cache.c]\npath = \"none\"\n[volume.a]\norigin = \"a.img\"\n\
             nbd_clients = [{clients}]\n"
        )
    };
    let tls = "tls = \"on\"\ntls_cert = \"cert.pem\"\ntls_key = \"key.pem\"\ntls_client_ca = \"cert.pem\"\n";
    for (server, clients, said) in [
        ("", "\"alice\"", "without tls_client_ca"),
        (tls, "\"\"", "is not a name of a certificate"),
        (tls, "\"sha256:12\"", "64 hexadecimal digits"),
    ] {
        place.write("n.toml", config(server, clients));
        let refused = place.failure("check n.toml", 1);
        assert!(refused.contains(said), "{refused}");
    }
    place.write("n.toml", config(tls, "\"alice\""));
    let _server = place.serve("--config n.toml");
    let socket = place.path("n.sock");
    assert!(listed(&socket).is_empty() && !can_open(&socket, "a") && !can_open(&socket, ""));
    place.write("n.toml", config(tls, ""));
    assert!(place.stdout("reload").contains("volume.a.nbd_clients"));
    assert!(listed(&socket) == ["a"] && can_open(&socket, "a"));
}

#[test]
fn domains_share_nothing_and_duplicates_are_compared() {
    let place = Place::new();
    let mut config =
        "[server]\nlisten = [\"unix:n.sock\"]\n[cache.c]\npath = \"cache.img\"\nsize = \"64M\"\nram = \"0\"\n\
                      verify_duplicates = true\nsequential_threshold = \"0\"\n"
            .to_owned();
    for (name, domain) in [("a", "red"), ("b", "blue"), ("c", "red")] {
        place.file(&format!("{name}.img"), 4 << 20);
        config += &format!("[volume.{name}]\norigin = \"{name}.img\"\ndedup_domain = \"{domain}\"\n");
    }
    place.write("n.toml", config);
    let server = place.serve("--config n.toml");
    let data = noise(5, 1 << 20);
    let write = |name: &str| {
        let mut client = Nbd::connect(&place.path("n.sock"), name);
        assert_eq!((client.write(0, &data), client.flush()), (0, 0));
    };
    let inserted =
        |extents: u64| place.until("inserted", |status| status["caches"][0]["insertions"].as_u64() == Some(extents));
    write("a");
    write("b");
    let status = inserted(256);
    assert_eq!(
        (&status["caches"][0]["dedup_ratio"], &status["caches"][0]["duplicates_compared"]),
        (&1.0.into(), &0.into())
    );
    assert_eq!(status["volumes"][1]["dedup_domain"], "blue", "{status}");
    write("c");
    let status = inserted(384);
    assert_eq!(status["caches"][0]["dedup_ratio"], 1.5, "{status}");
    assert_eq!(
        (&status["caches"][0]["duplicates_compared"], &status["caches"][0]["duplicate_mismatches"]),
        (&128.into(), &0.into())
    );
    let text = place.stdout("status");
    assert!(text.contains("128 duplicates compared") && text.contains("shares within \"red\""), "{text}");
    drop(server);
    place.write("n.toml", "[cache.c]\npath = \"none\"\n[volume.a]\norigin = \"a.img\"\ndedup_domain = \"\"\n");
    assert!(place.failure("serve --config n.toml", 1).contains("dedup_domain"));
}
