//! A configuration file: checked, read again, changed; each with the real server.

use crate::support::{Nbd, Place, Server, noise};
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::path::Path;

const FILE: &str = "\
# The operator's own words.
[server]
control = \"run/nitro/x.control\"
listen = [\"unix:run/nitro/x.sock\"]

[cache.fast]   # the NVMe
path = \"cache.img\"
size = \"64M\"
ram = \"4M\"
dirty_age = \"1h\" # long

[volume.vm]
origin = \"vm.img\"

[volume.db]
origin = \"db.img\"
mode = \"write-back\"
";

/// A server with the configuration [`FILE`].
fn serve() -> (Place, Server) {
    let place = Place::new();
    fs::create_dir(place.path("run/nitro")).unwrap();
    for name in ["vm.img", "db.img", "new.img"] {
        place.file(name, 16 << 20);
    }
    place.write("nitro.toml", FILE);
    let server = place.serve_heeding("HUP", "--config nitro.toml");
    (place, server)
}

fn client(place: &Place, volume: &str) -> Nbd {
    Nbd::connect(&place.path("run/nitro/x.sock"), volume)
}

fn change(place: &Place, pairs: &[(&str, &str)]) {
    let mut text = fs::read_to_string(place.path("nitro.toml")).unwrap();
    for (old, new) in pairs {
        assert!(text.contains(old), "{old}: {text}");
        text = text.replace(old, new);
    }
    place.write("nitro.toml", text);
}

fn volume<'a>(status: &'a Value, name: &str) -> Option<&'a Value> {
    status["volumes"].as_array().unwrap().iter().find(|volume| volume["name"] == name)
}

fn json(place: &Place, arguments: &str) -> Value {
    serde_json::from_str(&place.stdout(&format!("{arguments} -o json"))).unwrap()
}

/// What became of each change, by name.
fn changes(outcome: &Value) -> Vec<(String, String)> {
    let all = outcome["changes"].as_array().cloned().unwrap_or_default();
    all.iter().map(|c| (c["what"].as_str().unwrap().to_owned(), c["done"].as_str().unwrap().to_owned())).collect()
}

#[test]
fn a_file_is_checked_without_a_server() {
    let place = Place::new();
    fs::create_dir(place.path("run/nitro")).unwrap();
    place.write("good.toml", FILE);
    let absent = place.run("check good.toml -o json");
    let told: Value = serde_json::from_slice(&absent.stdout).unwrap();
    assert_eq!((absent.status.code(), told["errors"].as_array().unwrap().len()), (Some(1), 2), "origins: {told}");
    for name in ["vm.img", "db.img"] {
        place.file(name, 16 << 20);
    }
    let told = json(&place, "check good.toml");
    assert_eq!(told["volumes"], serde_json::json!(["db", "vm"]), "{told}");
    let note = "cache.fast: cache.img does not exist, and is created with 64 MiB";
    assert_eq!((&told["notes"], &told["errors"]), (&serde_json::json!([note]), &serde_json::json!([])));
    assert!(!place.path("cache.img").exists());
    assert_eq!(place.stdout("check good.toml"), place.stdout("check --config good.toml"));
    assert!(place.stdout("check good.toml").contains("good.toml can be used"));
    for (old, new, words) in [
        ("dirty_age = \"1h\"", "dirty_agee = \"1h\"", ["line 10", "did you mean \"dirty_age\"?"]),
        ("mode = \"write-back\"", "mode = \"writeback\"", ["line 17", "write-back"]),
        ("ram = \"4M\"", "dirty_max = 95", ["dirty_max = 95", "1 to 90"]),
        ("[volume.vm]", "[volume.vm]\ncache = \"fist\"", ["volume.vm.cache", "did you mean \"fast\"?"]),
        ("control =", "control_group = \"no such\"\ncontrol =", ["no such", "getent group"]),
    ] {
        place.write("bad.toml", FILE.replace(old, new));
        let said = place.failure("check bad.toml", 1);
        assert!(words.iter().all(|word| said.contains(word)), "{new}: {said}");
    }
    assert!(place.failure("check absent.toml", 1).contains("absent.toml"));
}

#[test]
fn what_a_start_refuses_is_refused_by_the_check_in_the_same_words() {
    let place = Place::new();
    for name in ["vm.img", "db.img", "other.img"] {
        place.file(name, 16 << 20);
    }
    place.write("plain", "no socket");
    place.write("notes.txt", "no cache, but an operator's notes".repeat(1000));
    place.write("empty.img", "");
    // A cache with 8 KiB extents and without deduplication, and one that has newer data of other.img than it has itself.
    assert!(place.serve("--origin db.img --cache made.img --cache-size 64M --dedup off").stop().0.success());
    let server =
        place.serve("--origin other.img --name vm --cache dirty.img --cache-size 64M --mode write-back --dirty-age 1h");
    let mut nbd = place.client();
    assert_eq!((nbd.write(0, &noise(1, 8192)), nbd.flush()), (0, 0));
    server.kill();
    for (old, new, words) in [
        ("origin = \"vm.img\"", "origin = \"absent.img\"", "absent.img: it does not exist"),
        ("origin = \"vm.img\"", "origin = \"run\"", "run: it is a directory"),
        ("origin = \"vm.img\"", "origin = \"empty.img\"", "empty.img: it is empty"),
        ("origin = \"vm.img\"", "origin = \"db.img\"", "is served twice"),
        ("origin = \"vm.img\"", "origin = \"cache.img\"", "cache.img: it does not exist"),
        ("origin = \"vm.img\"", "origin = \"cos:run#vm\"", "nitro cos init"),
        ("origin = \"vm.img\"", "origin = \"other.img\"", "may be in the cache"),
        ("path = \"cache.img\"", "path = \"vm.img\"\nformat = true", "is the same as the cache"),
        ("path = \"cache.img\"", "path = \"notes.txt\"", "is not a Nitro cache and is not empty"),
        ("path = \"cache.img\"", "path = \"run\"", "it is a directory"),
        ("path = \"cache.img\"", "path = \"gone/cache.img\"", "its folder does not exist"),
        ("path = \"cache.img\"\nsize = \"64M\"", "path = \"cache.img\"", "give its size"),
        ("size = \"64M\"", "size = \"4M\"", "too small"),
        ("size = \"64M\"", "size = \"30T\"", "the filesystem has only"),
        ("path = \"cache.img\"", "path = \"made.img\"\nextent_size = \"16K\"", "it was made with extent_size"),
        ("path = \"cache.img\"", "path = \"made.img\"\ndedup = true", "it was made with dedup = off"),
        ("path = \"cache.img\"", "path = \"dirty.img\"\nformat = true", "of dirty data of vm"),
        ("path = \"cache.img\"", "path = \"dirty.img\"", "of dirty data of this volume"),
        ("ram = \"4M\"", "write_log = \"log.img\"", "give its size"),
        ("ram = \"4M\"", "write_log = \"notes.txt\"", "it is not a write log"),
        ("ram = \"4M\"", "write_log = \"log.img\"\nwrite_log_size = \"64K\"", "too small for a write log"),
        ("ram = \"4M\"", "classes = \"absent.toml\"", "absent.toml"),
        ("unix:run/nitro/x.sock", "unix:plain", "not a socket"),
        ("unix:run/nitro/x.sock", "unix:gone/x.sock", "its folder does not exist"),
        ("unix:run/nitro/x.sock", "tcp:192.0.2.1:10809", "192.0.2.1"),
        ("control =", "tls = \"on\"\ntls_cert = \"c.pem\"\ntls_key = \"k.pem\"\ncontrol =", "c.pem"),
        ("control =", "http = \"127.0.0.1:0\"\nhttp_token_file = \"token\"\ncontrol =", "token"),
        ("control =", "record = \"plain\"\ncontrol =", "recording plain: it exists"),
        ("[cache.fast]", "[server.iscsi]\nchap = \"chap\"\n[cache.fast]", "chap"),
        ("[cache.fast]", "[server.iscsi.groups]\n99 = \"metadata\"\n[cache.fast]", "there is no such group"),
    ] {
        assert!(FILE.contains(old), "{old}");
        place.write("bad.toml", FILE.replace(old, new));
        let dirty = || new.contains("dirty.img").then(|| fs::read(place.path("dirty.img")).unwrap());
        let before = dirty();
        let checked = place.run("check bad.toml");
        assert!(before == dirty(), "{new}: a check changes nothing");
        let said = String::from_utf8(checked.stderr).unwrap();
        assert!(checked.status.code() == Some(1) && said.contains(words), "{new}: {said}");
        assert!(!place.path("cache.img").exists() && !place.path("log.img").exists(), "{new}: a check creates nothing");
        let refused = place.failure("serve --config bad.toml", 1);
        let _ = fs::remove_file(place.path("cache.img"));
        let last = refused.lines().rfind(|line| line.starts_with("nitro: ")).unwrap();
        // Others use the file system, too.
        let same = |line: &str| line.split(" has only ").next() == last.split(" has only ").next();
        assert!(said.lines().any(same), "{new}: the start says {refused}, the check {said}");
    }
}

#[test]
fn a_check_lists_all_errors_and_needs_nothing_that_a_server_uses() {
    let place = Place::new();
    place.write(
        "bad.toml",
        FILE.replace("ram = \"4M\"", "dirty_max = 95").replace("control =", "threads = 0\ncontrol ="),
    );
    let said = place.failure("check bad.toml", 1);
    assert!(said.lines().count() == 2 && said.contains("dirty_max = 95") && said.contains("threads = 0"), "{said}");
    let (place, server) = serve();
    let told = json(&place, "check nitro.toml");
    let notes = told["notes"].to_string();
    assert!(notes.contains("cache.fast: a server uses it") && notes.contains("volume.db: db.img is in use"), "{told}");
    assert!(server.stop().0.success());
    let told = json(&place, "check nitro.toml");
    assert_eq!(told["notes"], serde_json::json!([]), "{told}");
}

#[test]
fn a_size_that_changed_is_applied_at_the_start() {
    let (place, server) = serve();
    let data = noise(4, 1 << 20);
    let mut writer = client(&place, "db");
    assert_eq!((writer.write(0, &data), writer.flush()), (0, 0));
    drop(writer);
    server.kill();
    for (before, after) in [("64", "80"), ("80", "48")] {
        change(&place, &[(&format!("size = \"{before}M\""), &format!("size = \"{after}M\""))]);
        let told = json(&place, "check nitro.toml");
        let note = format!("cache.fast: it gets the size of {after} MiB once it is served");
        assert_eq!(told["notes"], serde_json::json!([note]), "{told}");
        let server = place.serve("--config nitro.toml");
        let bytes = after.parse::<u64>().unwrap() << 20;
        let len = || fs::metadata(place.path("cache.img")).unwrap().len();
        place.until("resized", |_| len() == bytes);
        assert!(client(&place, "db").read(0, 1 << 20) == data);
        assert_eq!(json(&place, "reload")["message"], "configuration: nothing has changed");
        assert!(server.stop().0.success());
    }
}

#[test]
fn what_can_change_at_once_does_and_the_rest_is_named() {
    let (place, _server) = serve();
    assert_eq!(json(&place, "reload")["message"], "configuration: nothing has changed");
    let data = noise(3, 1 << 20);
    let mut writer = client(&place, "db");
    assert_eq!(writer.write(0, &data), 0);
    drop(writer);
    change(
        &place,
        &[
            ("ram = \"4M\"", "ram = \"8M\"\ndirty_max = 70\ncompression = \"zstd\"\nendurance = \"1dwpd\""),
            ("[volume.db]\norigin = \"db.img\"\nmode = \"write-back\"\n", "[volume.new]\norigin = \"new.img\"\n"),
            (
                "origin = \"vm.img\"",
                "origin = \"vm.img\"\nmode = \"write-back\"\ndirty_share_max = 50\nread_only = false",
            ),
        ],
    );
    let told = json(&place, "reload");
    let done = |what: &str| changes(&told).into_iter().find(|(name, _)| name == what).map(|(_, done)| done);
    for (what, how) in [
        ("volume.db: removed", "applied"),
        ("volume.new: added", "applied"),
        ("volume.vm.mode", "applied"),
        ("volume.vm.dirty_share_max", "applied"),
        ("cache.fast.dirty_max", "applied"),
        ("cache.fast.compression", "applied"),
        ("cache.fast.endurance", "applied"),
        ("cache.fast.ram", "restart"),
        ("volume.vm.read_only", "restart"),
    ] {
        assert_eq!(done(what).as_deref(), Some(how), "{what}: {told}");
    }
    let status = place.status();
    assert!(volume(&status, "db").is_none() && volume(&status, "new").is_some(), "{status}");
    assert_eq!(volume(&status, "vm").unwrap()["mode"], "write-back");
    assert_eq!(volume(&status, "vm").unwrap()["dirty_share_max"], 50);
    assert!(fs::read(place.path("db.img")).unwrap()[..data.len()] == data, "what was dirty is at its origin");
    assert_eq!(client(&place, "new").read(0, 4096).len(), 4096);
    // What has changed is told once; what needs a restart, each time.
    let again = changes(&json(&place, "reload"));
    assert!(again.iter().all(|(_, done)| done == "restart") && again.len() == 2, "{again:?}");
}

#[test]
fn a_file_that_cannot_be_used_changes_nothing() {
    let (place, _server) = serve();
    change(&place, &[("mode = \"write-back\"\n", "mode = \"write-through\"\nnonsense = 1\n")]);
    let said = place.failure("reload", 1);
    assert!(said.contains("line 18") && said.contains("nonsense"), "{said}");
    assert_eq!(volume(&place.status(), "db").unwrap()["mode"], "write-back");
    // A volume whose origin is not there fails alone, is named, and is tried again.
    change(&place, &[("nonsense = 1\n", "[volume.later]\norigin = \"later.img\"\n")]);
    let said = place.failure("reload", 1);
    assert!(said.contains("volume.later: added"), "{said}");
    assert_eq!(volume(&place.status(), "db").unwrap()["mode"], "write-through");
    place.file("later.img", 1 << 20);
    assert_eq!(changes(&json(&place, "reload")), [("volume.later: added".to_owned(), "applied".to_owned())]);
}

#[test]
fn a_hang_up_reads_the_file_again_where_there_is_one() {
    let (place, server) = serve();
    change(&place, &[("mode = \"write-back\"\n", "")]);
    server.signal(Signal::HUP);
    place.until("write-through", |status| volume(status, "db").unwrap()["mode"] == "write-through");
    change(&place, &[("[volume.db]", "nonsense = 1\n[volume.db]")]);
    server.signal(Signal::HUP);
    // It goes on as it was.
    assert_eq!(client(&place, "db").write(0, b"x"), 0);
    let (ended, said) = server.stop();
    assert!(ended.success() && said.contains("volume.db.mode: in force"), "{said}");
}

#[test]
fn one_key_is_set_until_the_server_ends_or_for_good() {
    let (place, _server) = serve();
    let told = place.stdout("set cache.fast.dirty_max 70");
    assert!(told.contains("cache.fast.dirty_max = 70, until the server ends"), "{told}");
    assert_eq!(fs::read_to_string(place.path("nitro.toml")).unwrap(), FILE);
    for (arguments, words) in [
        ("set cache.fast.dirty_max 95", ["dirty_max = 95", "1 to 90"]),
        ("set cache.fast.dirty_start 80", ["dirty_start = 80", "above dirty_max = 70"]),
        ("set cache.slow.dirty_max 50", ["[cache.slow]", "configuration file"]),
        ("set cache.fast.dirtymax 50", ["no such key", "dirty_max"]),
        ("set cache.fast.ram 8M", ["cache.fast.ram", "--persist"]),
        ("set volume.vm.mode writeback", ["volume.vm.mode", "write-back"]),
    ] {
        let said = place.failure(arguments, 1);
        assert!(words.iter().all(|word| said.contains(word)), "{arguments}: {said}");
    }
    fs::set_permissions(place.path("nitro.toml"), std::os::unix::fs::PermissionsExt::from_mode(0o640)).unwrap();
    place.stdout("set volume.vm.mode write-back --persist");
    assert_eq!(volume(&place.status(), "vm").unwrap()["mode"], "write-back");
    let told = place.stdout("set cache.fast.ram 8M --persist");
    assert!(told.contains("from the next start on"), "{told}");
    let text = fs::read_to_string(place.path("nitro.toml")).unwrap();
    let wanted = FILE
        .replace("origin = \"vm.img\"\n", "origin = \"vm.img\"\nmode = \"write-back\"\n")
        .replace("ram = \"4M\"", "ram = \"8M\"");
    assert_eq!(text, wanted, "comments, order and blanks stay");
    let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(place.path("nitro.toml")).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o640);
}

#[test]
fn a_key_is_set_in_a_file_alone_and_on_a_server_without_one() {
    let place = Place::new();
    place.write("nitro.toml", FILE);
    place.stdout("set cache.fast.size 128M --file nitro.toml");
    assert_eq!(fs::read_to_string(place.path("nitro.toml")).unwrap(), FILE.replace("\"64M\"", "\"128M\""));
    assert!(place.failure("set cache.fast.dirty_max 0 --file nitro.toml", 1).contains("1 to 90"));
    let _server = place.usual();
    place.stdout("set cache.cache.compression zstd");
    place.stdout("set volume.vm.mode write-back");
    assert_eq!(place.status()["volumes"][0]["mode"], "write-back");
    assert!(place.failure("reload", 1).contains("started without a configuration file"));
    assert!(place.failure("set volume.vm.mode write-through --persist", 1).contains("--file"));
}

/// A setting of `nitro config -o json`: its value and its source.
fn setting(place: &Place, key: &str) -> (Value, String) {
    let told = json(place, "config");
    let all = told["settings"].as_array().unwrap();
    let one = all.iter().find(|one| one["key"] == key).unwrap_or_else(|| panic!("{key} is not in {told}"));
    (one["value"].clone(), one["source"].as_str().unwrap().to_owned())
}

#[test]
fn each_setting_in_force_has_a_value_and_its_source() {
    let place = Place::new();
    fs::create_dir(place.path("run/nitro")).unwrap();
    ["vm.img", "db.img", "new.img"].into_iter().for_each(|name| drop(place.file(name, 16 << 20)));
    place.write("nitro.toml", FILE);
    let _server = place.serve("--config nitro.toml --max-connections 77");
    let is =
        |key: &str, value: Value, source: &str| assert_eq!(setting(&place, key), (value, source.to_owned()), "{key}");
    is("cache.fast.dirty_age", "1h".into(), "file");
    is("cache.fast.dirty_max", "60".into(), "default");
    is("server.max_connections", 77.into(), "command-line");
    is("volume.db.mode", "write-back".into(), "file");
    is("volume.vm.mode", "write-through".into(), "default");
    place.stdout("set cache.fast.dirty_max 70");
    is("cache.fast.dirty_max", 70.into(), "run-time");
    // Commands that name no key change settings, too.
    place.stdout("volume set db --mode write-through");
    is("volume.db.mode", "write-through".into(), "run-time");
    place.stdout("cache resize fast --size 72M");
    is("cache.fast.size", "72M".into(), "run-time");
    place.stdout("volume add new --origin new.img --dirty-share-max 40");
    is("volume.new.dirty_share_max", 40.into(), "run-time");
    // An option overrides the file, and what cannot have an effect is refused.
    assert!(place.failure("set server.max_connections 5", 1).contains("command line"));
    assert_eq!(place.stdout("get cache.fast.dirty_max"), "70\n");
    assert_eq!(place.stdout("get cache.fast.ram"), "4M\n");
    assert_eq!(json(&place, "get volume.db.mode")["source"], "run-time");
    let said = place.failure("get volume.none.mode", 1);
    assert!(said.contains("no volume \"none\"") && said.contains("db, new, vm"), "{said}");
    assert!(place.failure("get cache.fast.dirtymax", 1).contains("dirty_max"));
    let table = place.stdout("config");
    assert!(
        table.lines().any(|line| line.starts_with("cache.fast.dirty_max ") && line.ends_with("set at run time")),
        "{table}"
    );
    assert!(place.stdout("config -o csv").contains("cache.fast.dirty_max,70,set at run time,\n"));
    // The same value in the file is the file's.
    place.stdout("set cache.fast.dirty_max 71 --persist");
    is("cache.fast.dirty_max", 71.into(), "file");
}

#[test]
fn a_server_without_a_file_has_its_settings_from_options() {
    let place = Place::new();
    place.file("vm.img", 16 << 20);
    let _server =
        place.serve("--origin vm.img --cache cache.img --cache-size 32M --mode write-back --detect off --dirty-max 40");
    for (key, value, source) in [
        ("cache.cache.mode", Value::from("write-back"), "command-line"),
        ("cache.cache.size", "32M".into(), "command-line"),
        ("cache.cache.detect", false.into(), "command-line"),
        ("volume.vm.origin", "vm.img".into(), "command-line"),
        ("volume.vm.mode", "write-back".into(), "default"),
        ("cache.cache.compression", "lz4".into(), "default"),
    ] {
        assert_eq!(setting(&place, key), (value, source.to_owned()), "{key}");
    }
    place.stdout("set cache.cache.compression zstd");
    assert_eq!(setting(&place, "cache.cache.compression"), ("zstd".into(), "run-time".to_owned()));
    // Options are in force beside what is set.
    assert!(place.failure("set cache.cache.dirty_start 50", 1).contains("dirty_start = 50: is above dirty_max = 40"));
    assert!(place.failure("config --diff", 1).contains("without a configuration file"));
}

#[test]
fn differences_from_the_file_are_shown_until_there_are_none() {
    let (place, _server) = serve();
    assert!(place.stdout("config --diff").contains("are those of"));
    place.stdout("set cache.fast.dirty_max 70");
    place.stdout("volume add new --origin new.img");
    place.stdout("volume remove db");
    change(&place, &[("ram = \"4M\"", "ram = \"8M\"")]);
    let told = place.stdout("config --diff");
    for line in [
        "cache.fast.dirty_max: 70 in force (set at run time), not set in the file",
        "cache.fast.ram: 4M in force (file), 8M in the file",
        "volume.db: in the file, but not served",
        "volume.new: served, but not in the file",
    ] {
        assert!(told.lines().any(|said| said == line), "{line} is not in {told}");
    }
    assert!(!told.contains("dirty_age"), "{told}");
    // A reload keeps what was set at run time and has not changed in the file, and says what the file still lists.
    let said = place.stdout("reload");
    assert!(said.contains("volume.db: from the next start on: it was removed by nitro volume remove"), "{said}");
    assert_eq!(setting(&place, "cache.fast.dirty_max"), (70.into(), "run-time".to_owned()));
    change(&place, &[("ram = \"8M\"", "ram = \"8M\"\ndirty_max = 70")]);
    assert!(!place.stdout("reload").contains("dirty_max"), "nothing has changed");
    assert_eq!(setting(&place, "cache.fast.dirty_max"), (70.into(), "file".to_owned()));
    change(&place, &[("dirty_max = 70", "dirty_max = 50")]);
    assert!(place.stdout("reload").contains("cache.fast.dirty_max: in force"));
    assert_eq!(setting(&place, "cache.fast.dirty_max"), (50.into(), "file".to_owned()));
    change(&place, &[("[volume.db]\norigin = \"db.img\"\nmode = \"write-back\"\n", ""), ("8M", "4M")]);
    assert!(!place.stdout("reload").contains("next start"));
    place.stdout("volume remove new");
    assert!(place.stdout("config --diff").contains("are those of"));
    place.write("nitro.toml", "[[");
    assert!(place.failure("config --diff", 1).contains("correct the file"));
    assert!(place.stdout("config").contains("cache.fast.dirty_age"));
}

#[test]
fn settings_are_shown_without_secrets() {
    let place = Place::new();
    fs::create_dir(place.path("run/nitro")).unwrap();
    ["vm.img", "db.img"].into_iter().for_each(|name| drop(place.file(name, 16 << 20)));
    place.write("chap", "alice open-sesame-1234\n");
    fs::set_permissions(place.path("chap"), std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    place.write("token", "a-token-of-20-letters\n");
    fs::set_permissions(place.path("token"), std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let text = FILE.replace("[server]\n", "[server]\nhttp = \"unix:http.sock\"\nhttp_token_file = \"token\"\n");
    // A description may be a URL.
    let text =
        text.replace("[volume.db]\n", "[volume.db]\ndescription = \"s3://user:pass-phrase@host/x?access_key=AKIA7\"\n");
    place.write("nitro.toml", format!("{text}\n[server.iscsi]\nchap = \"chap\"\n"));
    let _server = place.serve("--config nitro.toml");
    for arguments in [
        "config",
        "config -o json",
        "config -o csv",
        "config --diff -o json",
        "get volume.db.description",
        "get server.iscsi",
    ] {
        let told = place.stdout(arguments);
        for secret in ["sesame", "letters", "pass-phrase", "AKIA7"] {
            assert!(!told.contains(secret), "{arguments}: {secret} is in {told}");
        }
    }
    assert!(place.stdout("get volume.db.description").contains("@host/x"));
    assert_eq!(place.stdout("get server.http_token_file"), "token\n");
}

#[test]
fn all_volumes_are_flushed_and_all_caches_listed() {
    let (place, _server) = serve();
    for name in ["db", "vm"] {
        place.stdout(&format!("volume set {name} --mode write-back"));
        assert_eq!(client(&place, name).write(0, &noise(5, 1 << 20)), 0);
    }
    // A write is acknowledged from RAM, and counted once it has its place.
    place.until("dirty", |status| status["caches"][0]["dirty_bytes"] == 2 << 20);
    let listed = json(&place, "cache list");
    assert_eq!(
        (&listed[0]["name"], &listed[0]["volumes"]),
        (&"fast".into(), &serde_json::json!(["db", "vm"])),
        "{listed}"
    );
    assert_eq!(listed[0]["dirty_bytes"], 2 << 20, "{listed}");
    assert!(
        place.stdout("cache list").lines().nth(1).unwrap().starts_with("fast   caching"),
        "{}",
        place.stdout("cache list")
    );
    let told = json(&place, "flush --all --wait");
    assert_eq!(told.as_array().unwrap().len(), 2, "{told}");
    for name in ["db", "vm"] {
        assert!(fs::read(place.path(&format!("{name}.img"))).unwrap()[..1 << 20] == noise(5, 1 << 20), "{name}");
    }
    assert_eq!(json(&place, "cache list")[0]["dirty_bytes"], 0);
    assert_eq!(place.stdout("flush --all").lines().count(), 2);
    assert!(place.failure("flush", 2).contains("<VOLUME>"));
    place.failure("flush vm --all", 2);
}

#[test]
fn a_resized_cache_is_kept_in_the_file_or_said_not_to_be() {
    let (place, server) = serve();
    let said = place.stdout("cache resize fast --size 72M");
    assert!(said.contains("nitro.toml says size = 64 MiB, and the next start") && said.contains("--persist"), "{said}");
    let said = place.stdout("cache resize fast --size 76M --persist");
    assert!(said.contains("kept in") && !said.contains("the next start"), "{said}");
    let told = json(&place, "reload");
    assert!(
        told["changes"].as_array().is_none_or(|changes| changes.iter().all(|c| c["what"] == "cache.fast.size")),
        "{told}"
    );
    assert!(server.stop().0.success());
    let text = fs::read_to_string(place.path("nitro.toml")).unwrap();
    assert_eq!(text, FILE.replace("size = \"64M\"", "size = \"76M\""));
    let server = place.serve("--config nitro.toml");
    assert!(server.stop().0.success());
}

#[test]
fn the_reference_is_the_programs_own() {
    let place = Place::new();
    place.stdout("man pages");
    for page in ["CONFIGURATION.md", "CLI.md"] {
        let made = fs::read_to_string(place.path("pages").join(page)).unwrap();
        let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page);
        if std::env::var_os("NITRO_WRITE_DOCS").is_some() {
            fs::write(&kept, &made).unwrap();
        }
        assert!(
            made == fs::read_to_string(&kept).unwrap(),
            "docs/{page}: NITRO_WRITE_DOCS=1 cargo test -p nitro --test main configuring"
        );
    }
    let page = fs::read_to_string(place.path("pages/nitro.toml.5")).unwrap();
    assert!(page.contains(".SH [cache.NAME]") && page.contains("\\fBdirty_max\\fR"), "{page}");
    let listed = json(&place, "set --list");
    let of = |key: &str| listed.as_array().unwrap().iter().find(|one| one["key"] == key).unwrap().clone();
    assert_eq!((&of("dirty_max")["max"], &of("dirty_max")["default"]), (&"90".into(), &"60".into()));
    assert_eq!(of("ram")["change"], "restart");
}
