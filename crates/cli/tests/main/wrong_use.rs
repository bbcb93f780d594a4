//! Wrong use: each fault is named, with the way out.

use crate::support::{Place, noise};
use std::fs;
use std::os::unix::fs::symlink;

/// A place with an origin of 1 MiB.
fn place() -> Place {
    let place = Place::new();
    place.file("vm.img", 1 << 20);
    place
}

fn refused(place: &Place, arguments: &str, phrases: &[&str]) {
    let said = place.failure(&format!("serve {arguments}"), 1);
    let last = said.lines().last().unwrap_or_default();
    assert!(last.starts_with("nitro: "), "{said}");
    for phrase in phrases {
        assert!(said.contains(phrase), "{phrase:?} is not in {said}");
    }
}

#[test]
fn origins_that_cannot_be_used() {
    let place = place();
    let cache = "--cache cache.img --cache-size 32M";
    refused(&place, &format!("--origin gone.img {cache}"), &["origin gone.img: it does not exist", "truncate"]);
    refused(&place, &format!("--origin . --name x {cache}"), &["it is a directory; name a file"]);
    refused(&place, &format!("--origin /dev/null {cache}"), &["neither a regular file nor a block device"]);
    place.file("empty.img", 0);
    refused(&place, &format!("--origin empty.img {cache}"), &["it is empty; give it a size first"]);
    place.file("x", 1);
    refused(&place, &format!("--origin x/y {cache}"), &["Not a directory"]);
    assert!(!place.path("cache.img").exists(), "no cache is made for a server that cannot start");
}

#[test]
fn origins_without_permission() {
    if rustix::process::getuid().is_root() {
        return;
    }
    let place = place();
    let mut permissions = fs::metadata(place.path("vm.img")).unwrap().permissions();
    permissions.set_readonly(true);
    fs::set_permissions(place.path("vm.img"), permissions).unwrap();
    refused(&place, "--origin vm.img --cache none", &["Permission denied", "--read-only"]);
}

#[test]
fn caches_that_cannot_be_made() {
    let place = place();
    refused(&place, "--origin vm.img --cache cache.img", &["it does not exist yet", "--cache-size 4G"]);
    refused(&place, "--origin vm.img --cache no/cache.img --cache-size 32M", &["its folder does not exist"]);
    refused(
        &place,
        "--origin vm.img --cache cache.img --cache-size 1M",
        &["cache_size = 1048576 is too small", "6295552"],
    );
    refused(
        &place,
        "--origin vm.img --cache cache.img --cache-size 7T",
        &["7 TiB is requested", "make the cache smaller"],
    );
    refused(&place, "--origin vm.img --cache . --cache-size 32M", &["it is a directory"]);
    assert!(!place.path("cache.img").exists());
    // The nearest valid value is valid.
    assert!(place.serve("--origin vm.img --cache cache.img --cache-size 6295552").stop().0.success());
}

#[test]
fn caches_that_hold_something_else() {
    let place = place();
    place.write("letters", "not a cache\n".repeat(4_000_000));
    refused(
        &place,
        "--origin vm.img --cache letters",
        &["is not a Nitro cache and is not empty", "choose another path; --format"],
    );
    let mut filesystem = vec![0; 32 << 20];
    filesystem[0x438..0x43A].copy_from_slice(b"\x53\xEF");
    place.write("ext4.img", &filesystem);
    refused(&place, "--origin vm.img --cache ext4.img", &["it holds an ext2, ext3 or ext4 filesystem", "--format"]);
    assert!(place.serve("--origin vm.img --cache ext4.img --format").stop().0.success());
    place.file("blank", 32 << 20);
    assert!(place.serve("--origin vm.img --cache blank").stop().0.success());
}

#[test]
fn caches_of_another_size() {
    let place = place();
    place.file("blank", 32 << 20);
    refused(&place, "--origin vm.img --cache blank --cache-size 40M", &["larger than the device", "at most 33554432"]);
    refused(
        &place,
        "--origin vm.img --cache blank --cache-size 24M",
        &["it exists with 32 MiB, not the requested 24 MiB"],
    );
}

#[test]
fn advice_to_format_is_given_only_where_nothing_is_dirty() {
    let place = place();
    place.file("vm.img", 16 << 20);
    let served = "--origin vm.img --cache cache.img";
    let server = place.serve(&format!("{served} --cache-size 64M --mode write-back --dirty-age 1h"));
    let mut client = place.client();
    assert_eq!((client.write(0, &noise(1, 4 << 20)), client.flush()), (0, 0));
    server.kill();
    for option in ["--extent-size 16K", "--fingerprint-index silt", "--weu-size 512K"] {
        let said = place.failure(&format!("serve {served} {option}"), 1);
        assert!(said.contains("it holds dirty data, 4 MiB of volume \"vm\"") && said.contains("nitro flush"), "{said}");
        assert!(!["--format", "remove", "discard"].iter().any(|word| said.contains(word)), "{said}");
    }
    let server = place.serve(&format!("{served} --mode write-back"));
    place.stdout("flush vm --wait");
    assert!(server.stop().0.success());
    let said = place.failure(&format!("serve {served} --extent-size 16K"), 1);
    assert!(said.contains("nothing in it is dirty: --format"), "{said}");
}

#[test]
fn what_is_no_cache_is_called_that() {
    let place = place();
    place.file("blank", 32 << 20);
    place.write("noise", noise(5, 1 << 20));
    place.write("squash", [b"hsqs".as_slice(), &noise(6, 1 << 20)].concat());
    for (name, what) in
        [("blank", "it is empty"), ("noise", "it is not a Nitro cache"), ("squash", "a squashfs filesystem")]
    {
        for command in ["show", "fsck", "salvage --list", "upgrade"] {
            let (verb, rest) = command.split_once(' ').unwrap_or((command, ""));
            let said = place.failure(&format!("cache {verb} {name} {rest}"), 1);
            assert!(said.contains(what) && said.contains("is not a Nitro cache"), "{command} {name}: {said}");
            assert!(!said.contains("salvage extracts") && !said.contains("magic"), "{command} {name}: {said}");
        }
    }
}

#[test]
fn a_newer_cache_is_told_apart() {
    let place = place();
    let mut newer = vec![0; 32 << 20];
    newer[..8].copy_from_slice(b"NITROSSD");
    newer[8] = 99;
    place.write("newer", newer);
    refused(&place, "--origin vm.img --cache newer", &["99", "use the version of Nitro that made it"]);
}

#[test]
fn what_another_server_uses() {
    let place = place();
    let _server = place.serve("--origin vm.img --cache cache.img --cache-size 32M --listen unix:n.sock");
    refused(&place, "--origin vm.img --cache other.img --cache-size 32M", &["origin vm.img: is in use"]);
    assert!(!place.path("other.img").exists());
    place.file("db.img", 1 << 20);
    refused(&place, "--origin db.img --cache cache.img", &["cache cache.img: is in use"]);
    refused(&place, "--origin db.img --cache none --listen unix:n.sock", &["another server answers there"]);
    // As where systemd listens: the start is given the socket.
    place.write("passed.toml", "[server]\nlisten = [\"unix:n.sock\"]\ncontrol = \"its.control\"\n[cache.c]\npath = \"none\"\n[volume.v]\norigin = \"db.img\"\n");
    let said = place.failure("check passed.toml", 1);
    assert!(said.contains("another server answers there"), "{said}");
    assert!(place.run("check --sockets-passed passed.toml").status.success());
}

#[test]
fn files_used_twice() {
    let place = place();
    symlink("vm.img", place.path("link")).unwrap();
    refused(&place, "--origin vm.img --cache link", &["is the same as the cache"]);
    let volumes = "[cache.c]\npath = \"none\"\n[volume.a]\norigin = \"vm.img\"\n[volume.b]\norigin = \"link\"\n";
    place.write("twice.toml", volumes);
    refused(&place, "--config twice.toml", &["is served twice, as \"a\" and \"b\""]);
    let caches = "[cache.c]\npath = \"x\"\nsize = \"32M\"\n[cache.d]\npath = \"x\"\nsize = \"32M\"\n";
    place.write("caches.toml", format!("{caches}[volume.a]\norigin = \"vm.img\"\ncache = \"c\"\n"));
    refused(&place, "--config caches.toml", &["in use"]);
}

#[test]
fn sockets_that_cannot_be_made() {
    let place = place();
    let long = "x".repeat(120);
    refused(
        &place,
        &format!("--origin vm.img --cache none --listen unix:{long}"),
        &["120 bytes long", "use a shorter path"],
    );
    place.write("file", "mine");
    refused(&place, "--origin vm.img --cache none --listen unix:file", &["the file there is not a socket"]);
    refused(&place, "--origin vm.img --cache none --control file", &["the file there is not a socket"]);
    assert_eq!(fs::read(place.path("file")).unwrap(), b"mine");
    refused(&place, "--origin vm.img --cache none --listen unix:no/n.sock", &["its folder does not exist"]);
}

#[test]
fn configuration_files_that_cannot_be_used() {
    let place = place();
    refused(&place, "--config gone.toml", &["gone.toml: No such file"]);
    place.write("garbage.toml", b"\x01\x02 = [");
    refused(&place, "--config garbage.toml", &["garbage.toml, line 1: "]);
    place.write("key.toml", "[cache.c]\npath = \"none\"\n[volume.vm]\norigins = \"vm.img\"\n");
    refused(&place, "--config key.toml", &["key.toml, line 4: unknown key \"origins\"; did you mean \"origin\"?"]);
    place.write("cache.toml", "[cache.fast]\npath = \"none\"\n[volume.vm]\norigin = \"vm.img\"\ncache = \"fest\"\n");
    refused(&place, "--config cache.toml", &["volume.vm.cache", "did you mean \"fast\"?"]);
}

#[test]
fn settings_that_cannot_be_used() {
    let place = place();
    let served = "--origin vm.img --cache cache.img --cache-size 32M";
    refused(&place, "--origin vm.img --cache none --mode write-back", &["write-back requires a cache"]);
    refused(&place, &format!("{served} --dirty-max 95"), &["must be 1 to 90 percent"]);
    refused(&place, &format!("{served} --dirty-start 80"), &["is above dirty_max = 60"]);
    refused(&place, &format!("{served} --mode write-back --read-only"), &["cannot be in write-back"]);
    refused(
        &place,
        &format!("{served} --extent-size 6000"),
        &["extent_size = 6000", "the nearest valid value is 4096"],
    );
    refused(&place, &format!("{served} --fingerprint-index-ratio 101"), &["the nearest valid value is 100"]);
    refused(&place, &format!("{served} --index lean --fingerprint-index silt"), &["those are in RAM"]);
    refused(&place, &format!("{served} --index lean --fingerprint-index-ratio 50"), &["those are in RAM"]);
    refused(&place, &format!("{served} --threads 0"), &["threads = 0: must be 1 to 256"]);
    refused(&place, &format!("{served} --insert-threads 0"), &["insert_threads = 0: must be 1 to 256"]);
    refused(&place, &format!("{served} --tls required"), &["it needs a certificate and its key"]);
    refused(&place, &format!("{served} --tls on --tls-cert a --tls-key b"), &["TLS", "no usable certificate"]);
}

#[test]
fn command_lines_that_make_no_sense() {
    let place = place();
    for (arguments, phrase) in [
        ("serve", "--origin"),
        ("serve --origin vm.img", "--cache"),
        ("serve --origin vm.img --cache c --cache-size 4X", "4G, 512M or 64KiB"),
        ("serve --origin vm.img --cache none --listen nowhere", "unix:PATH, tcp:HOST:PORT or iscsi:HOST:PORT"),
        ("serve --origin vm.img --cache c --dirty-age 3w", "such as 30s"),
        ("serve --origin vm.img --cache none --emulate-disk 5400", "write 7200 or 15000"),
        ("serve --config a --origin vm.img --cache none", "cannot be used with"),
        ("sreve", "serve"),
    ] {
        let said = place.failure(arguments, 2);
        assert!(said.contains(phrase), "{said}");
    }
}

/// Runs the program, which must fail with `code`; returns the object that it prints on standard error.
fn failure_as_json(place: &Place, arguments: &str, code: i32) -> serde_json::Value {
    let said = place.failure(arguments, code);
    let object = serde_json::from_str(said.lines().last().unwrap())
        .unwrap_or_else(|error| panic!("{arguments}: {error}: {said}"));
    assert_eq!(said.lines().count(), 1, "{arguments}: {said}");
    object
}

#[test]
fn failures_are_json_where_the_results_would_be() {
    let place = Place::new();
    let told = failure_as_json(&place, "status -o json", 1);
    assert!(told["error"].as_str().unwrap().starts_with("server: none is running"), "{told}");
    assert!(told["remedy"].as_str().unwrap().starts_with("start one") && told["code"] == 1, "{told}");
    let told = failure_as_json(&place, "volume set vm --output=json", 2);
    assert!(told["error"].as_str().unwrap().contains("--mode") && told["code"] == 2, "{told}");
    failure_as_json(&place, "statuss -o json", 2);
    failure_as_json(&place, "check absent.toml -o json", 1);
    failure_as_json(&place, "cache show absent.img -o json", 1);
    failure_as_json(&place, "sim absent -o json", 2);
    failure_as_json(&place, "cos list absent -o json", 1);
    let _server = place.usual();
    for arguments in
        ["flush none", "volume remove none", "get volume.none.mode", "explain vm 1T", "set cache.cache.dirty_max 99"]
    {
        failure_as_json(&place, &format!("{arguments} -o json"), 1);
    }
    assert!(place.failure("flush none", 1).starts_with("nitro: volume none: "));
}

#[test]
fn every_command_that_prints_results_prints_json() {
    fn without_output(command: &clap::Command, path: &str, found: &mut Vec<String>) {
        if command.get_subcommands().next().is_none() {
            if !command.get_arguments().any(|arg| arg.get_id() == "format" && arg.get_long() == Some("output")) {
                found.push(path.trim().to_owned());
            }
            return;
        }
        for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
            without_output(inner, &format!("{path} {}", inner.get_name()), found);
        }
    }
    let mut found = Vec::new();
    without_output(&nitro_cli::command(), "", &mut found);
    // What they make is a server, a screen, or a file.
    assert_eq!(found, ["serve", "mount", "top", "support-bundle", "man", "completions"]);
}

#[test]
fn names_cannot_control_the_terminal() {
    let place = Place::new();
    let evil = "a\u{1b}[2J\u{9b}31m\u{202e}.img";
    place.file(evil, 1 << 20);
    let _server = place.serve(&format!("--origin {evil} --name vm --cache none"));
    for arguments in [
        "status",
        "volume list",
        "volume list -o csv",
        "config",
        "get volume.vm.origin",
        "status -o json",
        "cache list",
    ] {
        let told = place.stdout(arguments);
        let is_harmful = |c: char| c.is_control() && c != '\n' || c == '\u{202e}';
        assert!(!told.contains(is_harmful), "{arguments}: {told:?}");
    }
    assert!(place.stdout("volume list").contains("a\\u{1b}[2J"), "{}", place.stdout("volume list"));
    let told: serde_json::Value = serde_json::from_str(&place.stdout("volume list -o json")).unwrap();
    assert_eq!(told[0]["origin"], evil, "programs get the name itself");
    let said = place.failure(&format!("flush {evil}"), 1);
    assert!(!said.contains(['\u{1b}', '\u{9b}', '\u{202e}']), "{said:?}");
}
