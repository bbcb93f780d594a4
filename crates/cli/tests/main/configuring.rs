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
        assert!(said.lines().any(|line| line == last), "{new}: the start says {refused}, the check {said}");
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

#[test]
fn a_resized_cache_is_kept_in_the_file_or_said_not_to_be() {
    let (place, server) = serve();
    let said = place.stdout("cache resize fast --size 72M");
    assert!(said.contains("nitro.toml says size = 64 MiB") && said.contains("--persist"), "{said}");
    let said = place.stdout("cache resize fast --size 76M --persist");
    assert!(said.contains("kept in") && !said.contains("would be refused"), "{said}");
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
