//! What an operator does to a running server, and to files beside it.

use crate::support::{Place, noise};
use rustix::process::Signal;
use std::fs;

const EXTENT: u64 = 8192;

#[test]
fn a_volume_comes_back_to_its_cache_in_the_mode_that_it_left_in() {
    let place = Place::new();
    place.file("vm.img", 16 << 20);
    let _server = place.serve("--origin vm.img --cache cache.img --cache-size 32M --mode write-back --dirty-age 1h");
    let mode = || place.status()["volumes"][0]["mode"].as_str().unwrap().to_owned();
    place.stdout("cache detach cache vm");
    assert_eq!(mode(), "write-through");
    assert!(place.stdout("cache attach cache vm").contains("in write-back"));
    assert_eq!(mode(), "write-back");
    // What was said meanwhile counts.
    place.stdout("cache detach cache vm");
    place.stdout("volume set vm --mode write-through");
    assert!(place.stdout("cache attach cache vm").contains("in write-through"));
    assert_eq!(mode(), "write-through");
}

/// Serves a volume of `before` bytes, has its origin grow to `after`, and looks at all of it, before and after a restart.
fn grow(before: u64, after: u64, mode: &str) {
    let place = Place::new();
    let content = noise(before, before as usize);
    place.write("vm.img", &content);
    let serve = format!("--origin vm.img --cache cache.img --mode {mode} --dirty-age 1h");
    let server = place.serve(&format!("{serve} --cache-size 32M"));
    assert!(place.client().read(0, before as usize) == content);
    let last = noise(1, 100);
    assert_eq!(place.client().write(before - 100, &last), 0);
    let file = fs::File::options().write(true).open(place.path("vm.img")).unwrap();
    file.set_len(after).unwrap();
    let said = place.stdout("volume resize vm");
    assert!(said.contains("clients see it when they connect again"), "{said}");
    assert_eq!(place.status()["volumes"][0]["size_bytes"], after);
    let gained = noise(2, (after - before) as usize);
    assert_eq!(place.client().write(before, &gained), 0);
    let whole = [&content[..before as usize - 100], &last, &gained].concat();
    assert!(place.client().read(0, after as usize) == whole, "{before} {after} {mode}");
    assert!(place.stdout("volume resize vm").contains("its origin still has"));
    let (ended, said) = server.stop();
    assert!(ended.success(), "{said}");
    assert!(fs::read(place.path("vm.img")).unwrap() == whole, "{before} {after} {mode}");
    let server = place.serve(&serve);
    assert!(place.client().read(0, after as usize) == whole);
    let (_, said) = server.stop();
    assert!(!said.contains("another program has changed its origin"), "{said}");
}

#[test]
fn a_volume_grows_with_its_origin() {
    for mode in ["write-through", "write-back"] {
        grow(64 * EXTENT, 100 * EXTENT, mode);
        grow(64 * EXTENT + 512, 100 * EXTENT + 1024, mode);
    }
}

#[test]
fn an_origin_that_has_shrunk_is_refused() {
    let place = Place::new();
    let _server = place.usual();
    fs::File::options().write(true).open(place.path("vm.img")).unwrap().set_len(1 << 20).unwrap();
    assert!(place.failure("volume resize vm", 1).contains("has 1048576"));
}

#[test]
fn commands_name_their_own_options() {
    let place = Place::new();
    let said = place.failure("cache create cache.img", 1);
    assert!(said.contains("--size 4G"), "{said}");
    place.stdout("cache create cache.img --size 32M");
    assert!(place.stdout("cache salvage cache.img").contains("nothing is dirty"));
    assert!(place.stdout("cache salvage cache.img -o json").contains("volumes"));
}

#[test]
fn systemd_is_told_that_the_server_lives() {
    let place = Place::new();
    place.file("vm.img", 1 << 20);
    let socket = std::os::unix::net::UnixDatagram::bind(place.path("notify")).unwrap();
    socket.set_read_timeout(Some(crate::support::PATIENCE)).unwrap();
    let mut command = place.command("serve --origin vm.img --cache none");
    command.env("NOTIFY_SOCKET", place.path("notify")).env("WATCHDOG_USEC", "200000").env_remove("WATCHDOG_PID");
    let server = crate::support::Server::start(&mut command);
    let mut said = String::new();
    let mut buf = [0; 4096];
    while said.matches("WATCHDOG=1").count() < 3 || !said.contains("READY=1") {
        let len = socket.recv(&mut buf).unwrap();
        said += std::str::from_utf8(&buf[..len]).unwrap();
    }
    // One that is stopped says nothing more: what it had said before is read first.
    server.signal(Signal::STOP);
    socket.set_read_timeout(Some(std::time::Duration::from_secs(1))).unwrap();
    let mut left = 0;
    while socket.recv(&mut buf).is_ok() {
        left += 1;
        assert!(left < 100, "a stopped server goes on telling that it lives");
    }
    server.signal(Signal::CONT);
    assert!(server.stop().0.success());
}

#[test]
fn a_server_runs_for_a_command_and_ends_with_its_code() {
    let place = Place::new();
    let data = noise(5, 1 << 20);
    place.write("vm.img", &data);
    let serve = |command: &str| {
        let mut server =
            place.command("serve --origin vm.img --cache cache.img --cache-size 32M --mode write-back --run");
        server.arg(command).output().unwrap()
    };
    let nitro = env!("CARGO_BIN_EXE_nitro");
    let output = serve(&format!("echo \"is $NITRO_URI\"; '{nitro}' volume list -o csv; exit 7"));
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(7), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("is nbd+unix:///vm?socket=") && said.contains("vm,yes,write-back"), "{said}");
    assert_eq!(serve("true").status.code(), Some(0));
    assert_eq!(serve("kill -9 $$").status.code(), Some(137));
    assert!(!place.path("vm.img.nitro-dirty").exists(), "it ended in order");
}

#[test]
fn a_doctor_looks_at_machine_and_devices_and_names_remedies() {
    let place = Place::new();
    place.file("vm.img", 1 << 20);
    let told: serde_json::Value = serde_json::from_str(&place.stdout("doctor vm.img -o json")).unwrap();
    let all = told.as_array().unwrap();
    for check in ["kernel", "io_uring", "locked memory", "available RAM", "huge pages", "clock", "path", "access"] {
        assert!(all.iter().any(|one| one["check"] == check), "{check}: {told}");
    }
    for one in all.iter().filter(|one| one["state"] == "warn") {
        assert!(!one["remedy"].as_str().unwrap().is_empty(), "{one}");
    }
    let told: serde_json::Value = serde_json::from_str(&place.stdout("doctor . -o json")).unwrap();
    for check in ["free space", "file system", "access", "direct I/O", "allocation ahead"] {
        assert!(
            told.as_array().unwrap().iter().any(|one| one["subject"] == "." && one["check"] == check),
            "{check}: {told}"
        );
    }
    let told = place.stdout("doctor /dev/shm");
    assert!(told.contains("tmpfs") && told.contains("lost with the machine"), "{told}");
    assert!(place.failure("doctor /dev/null", 1).contains("would not work: path"));
    assert!(place.stdout("doctor -o csv").starts_with("subject,check,state,found,remedy"));
    assert!(place.failure("doctor absent.img", 1).contains("would not work: path"));
    // A limit that is too low is told.
    let mut limited = std::process::Command::new("sh");
    limited.args(["-c", "ulimit -n 256; exec \"$0\" doctor -o csv", env!("CARGO_BIN_EXE_nitro")]);
    let said = String::from_utf8(limited.output().unwrap().stdout).unwrap();
    assert!(said.contains("open files,warn,256"), "{said}");
}

#[test]
fn a_pause_keeps_what_is_read_out_of_the_cache() {
    let place = Place::new();
    place.write("vm.img", noise(9, 4 << 20));
    let _server = place.serve("--origin vm.img --cache cache.img --cache-size 32M --ram 0 --sequential-threshold 0");
    let reads = || place.status()["volumes"][0]["read_hit_extents"].as_u64().unwrap();
    assert!(place.stdout("volume set vm --pause-fill on").contains("are not cached"));
    assert_eq!(place.status()["volumes"][0]["fill_paused"], true);
    (0..3).for_each(|_| drop(place.client().read(0, 1 << 20)));
    assert_eq!(reads(), 0);
    place.stdout("volume set vm --pause-fill off");
    drop(place.client().read(0, 1 << 20));
    place.until("cached", |_| {
        drop(place.client().read(0, 1 << 20));
        reads() >= 128
    });
}

#[test]
fn a_support_bundle_has_the_state_and_no_secrets() {
    let place = Place::new();
    place.file("vm.img", 1 << 20);
    place.write("nitro.toml", "# my words\n[cache.c]\npath = \"none\"\n[volume.vm]\norigin = \"vm.img\"\n");
    let _server = place.serve("--config nitro.toml");
    place.stdout("support-bundle bundle.json");
    let text = std::fs::read_to_string(place.path("bundle.json")).unwrap();
    let bundle: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(bundle["status"]["volumes"][0]["name"], "vm", "{text}");
    assert_eq!(bundle["configuration"]["volume"]["vm"]["origin"], "vm.img", "{text}");
    assert!(!text.contains("my words") && bundle["doctor"].as_array().unwrap().len() > 5);
    assert!(place.failure("support-bundle bundle.json", 1).contains("bundle.json"), "nothing is overwritten");
}
