//! Objects of a deduplicating store as origins.

use crate::support::{Nbd, Place, Server, noise, wait};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Stdio};

pub const EXTENT: usize = 8 << 10;
const EXTENTS: usize = 400;

/// A place with a store that has the volume `vm`, its snapshot and its clone; and what they hold.
pub fn place() -> (Place, Vec<u8>) {
    let place = Place::new();
    let mut image: Vec<u8> = (0..EXTENTS as u64).flat_map(|n| noise(n, EXTENT)).collect();
    image[5 * EXTENT..9 * EXTENT].fill(0);
    place.write("vm.img", &image);
    place.stdout("cos init st --size 1G");
    place.stdout("cos import st vm vm.img");
    place.stdout("cos snapshot st vm@then");
    place.stdout("cos clone st vm copy");
    (place, image)
}

const SERVED: &str = "
[server]
listen = [\"unix:n.sock\"]
[cache.c]
path = \"cache.img\"
size = \"64M\"
ram = \"0\"
MODE
[volume.vm]
origin = \"cos:st#vm\"
[volume.copy]
origin = \"cos:st#copy\"
[volume.then]
origin = \"cos:st#vm@then\"
read_only = true
";

pub fn serve(place: &Place, mode: &str) -> Server {
    place.write("n.toml", SERVED.replace("MODE", mode));
    place.serve("--config n.toml")
}

pub fn client(place: &Place, export: &str) -> Nbd {
    Nbd::connect(&place.path("n.sock"), export)
}

fn volume(place: &Place, name: &str) -> serde_json::Value {
    let status = place.status();
    let volumes = status["volumes"].as_array().unwrap().clone();
    volumes.into_iter().find(|v| v["name"] == name).unwrap()
}

/// Reads all extents, in an order that is no stream.
fn read_all(client: &mut Nbd, image: &[u8]) {
    for i in 0..EXTENTS {
        let at = i * 37 % EXTENTS * EXTENT;
        assert!(client.read(at as u64, EXTENT) == image[at..at + EXTENT], "at {at}");
    }
}

#[test]
fn clones_and_snapshots_are_read_from_what_is_cached_of_the_volume() {
    let (place, image) = place();
    let server = serve(&place, "");
    read_all(&mut client(&place, "vm"), &image);
    place.until("inserted", |status| status["caches"][0]["insert_queue_bytes"] == 0);
    for name in ["copy", "then"] {
        read_all(&mut client(&place, name), &image);
        let volume = volume(&place, name);
        assert_eq!(volume["origin_reads"], 0, "{volume}");
        assert_eq!(volume["recipe_hit_extents"], EXTENTS, "{volume}");
    }
    let said = server.stop().1;
    assert!(!said.contains("WARN"), "{said}");
}

#[test]
fn writes_reach_the_object_alone_and_the_cache_is_kept_over_a_restart() {
    let (place, image) = place();
    let mut changed = image.clone();
    for (n, mode) in (0..).zip(["mode = \"write-through\"", "mode = \"write-back\""]) {
        let server = serve(&place, mode);
        let mut vm = client(&place, "vm");
        let at = 17 * EXTENT + 1000 + n * 77 * EXTENT;
        let data = noise(900 + n as u64, 50_000);
        assert_eq!(vm.write(at as u64, &data), 0);
        changed[at..at + data.len()].copy_from_slice(&data);
        read_all(&mut vm, &changed);
        read_all(&mut client(&place, "then"), &image);
        place.until("inserted", |status| status["caches"][0]["insert_queue_bytes"] == 0);
        let (status, said) = server.stop();
        assert!(status.success() && !said.contains("forgotten"), "{said}");
        // Nobody changed the object meanwhile.
        let server = serve(&place, mode);
        read_all(&mut client(&place, "vm"), &changed);
        let volume = volume(&place, "vm");
        assert!(volume["read_hit_extents"].as_u64().unwrap() > EXTENTS as u64 / 2, "{volume}");
        assert!(server.stop().0.success());
    }
    place.stdout("cos export st vm out.img");
    assert!(fs::read(place.path("out.img")).unwrap() == changed);
    place.stdout("cos export st copy out2.img");
    assert!(fs::read(place.path("out2.img")).unwrap() == image);
    assert!(place.stdout("cos fsck st").contains("all well"));
}

#[test]
fn what_was_flushed_outlives_a_kill() {
    for mode in ["mode = \"write-through\"", "mode = \"write-back\""] {
        let (place, mut image) = place();
        let server = serve(&place, mode);
        let mut vm = client(&place, "vm");
        for n in 0..60 {
            let at = n * 31 % EXTENTS * EXTENT;
            let data = noise(2000 + n as u64, EXTENT);
            assert_eq!(vm.write(at as u64, &data), 0);
            image[at..at + EXTENT].copy_from_slice(&data);
        }
        assert_eq!(vm.flush(), 0);
        server.kill();
        let server = serve(&place, mode);
        read_all(&mut client(&place, "vm"), &image);
        assert!(server.stop().0.success());
        place.stdout("cos export st vm out.img");
        assert!(fs::read(place.path("out.img")).unwrap() == image);
    }
}

#[test]
fn objects_that_cannot_be_served() {
    let (place, _) = place();
    let cache = "--cache cache.img --cache-size 32M";
    for (origin, phrases) in [
        ("cos:st", ["it names no object of a store", "cos:STORE#OBJECT"]),
        ("cos:gone#vm", ["gone", "nitro cos init"]),
        ("cos:st#other", ["there is no object \"other\"", "there is: copy, vm, vm@then"]),
        ("cos:st#vm@then", ["which cannot be changed", "serve it read-only"]),
    ] {
        let said = place.failure(&format!("serve --origin {origin} {cache}"), 1);
        phrases.iter().for_each(|phrase| assert!(said.contains(phrase), "{phrase:?} is not in {said}"));
    }
    // Nobody else has a store meanwhile that is served.
    let server = place.serve(&format!("--origin cos:st#vm {cache} --listen unix:n.sock"));
    assert!(place.failure("cos export st vm x.img", 1).contains("may change while it is read"));
    for command in ["list st", "export st vm@then x.img", "import st new vm.img", "scrub st", "gc st"] {
        let said = place.failure(&format!("cos {command} --control gone"), 1);
        assert!(said.contains("another program has it open") && said.contains("--control"), "{command}: {said}");
    }
    assert!(server.stop().0.success());
    place.stdout("cos export st vm x.img");
}

/// What a command said that has to fail soon.
pub fn failure(mut child: Child) -> String {
    let status = wait(&mut child);
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(!said.contains("panicked"), "{said}");
    said
}

#[test]
fn an_export_ends_when_nobody_reads_it_any_more() {
    let place = Place::new();
    place.write("vm.img", noise(1, 24 << 20));
    place.stdout("cos init st --size 1G");
    place.stdout("cos import st vm vm.img");
    let mut command = place.command("cos export st vm - --threads 4");
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdout.take().unwrap().read_exact(&mut [0]).unwrap();
    let said = failure(child);
    assert!(said.contains("standard output: Broken pipe"), "{said}");
    assert!(place.stdout("cos fsck st").contains("all well"));
}

#[test]
fn an_import_into_a_store_that_becomes_full_ends_though_its_source_goes_on() {
    let place = Place::new();
    place.stdout("cos init st --size 64M");
    let mut command = place.command("cos import st stream - --threads 4");
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut source = child.stdin.take().unwrap();
    // Nobody reads to the end, and nobody says that it has ended.
    let _ = (0..64).try_for_each(|n| source.write_all(&noise(n, 1 << 20)));
    let said = failure(child);
    assert!(said.contains("full"), "{said}");
    drop(source);
    assert!(place.stdout("cos fsck st").contains("0 objects"));
}

/// The processes with `word` in their command lines, also those that nobody has waited for.
fn processes(word: &str) -> Vec<String> {
    let folders = fs::read_dir("/proc").unwrap().filter_map(|entry| Some(entry.ok()?.path()));
    let lines = folders.filter_map(|path| fs::read(path.join("cmdline")).ok());
    lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " ")).filter(|line| line.contains(word)).collect()
}

/// Runs `nitro cos import st NAME --from-command -- sh -c SCRIPT`.
fn import_output(place: &Place, name: &str, script: &str) -> std::process::Command {
    let mut command = place.command(&format!("cos import st {name} -o json --from-command -- sh -c"));
    command.arg(script).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
fn the_output_of_a_command_becomes_an_object_if_the_command_succeeds() {
    let place = Place::new();
    place.stdout("cos init st --size 256M");
    let content = noise(7, 9 << 20);
    place.write("content", &content);
    let output = import_output(&place, "good", "cat content; echo what it says >&2").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && said.contains("what it says"), "{said}");
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&told["name"], &told["bytes"]), (&"good".into(), &content.len().into()));
    place.stdout("cos export st good out");
    assert!(fs::read(place.path("out")).unwrap() == content);
    // No shell interprets the arguments.
    place.stdout("cos import st words --from-command -- printf %s $HOME;*");
    place.stdout("cos export st words words.out");
    assert_eq!(fs::read_to_string(place.path("words.out")).unwrap(), "$HOME;*");

    for (script, status) in [
        ("cat content; exit 3", "it ended with exit status 3"),
        ("exit 1", "it ended with exit status 1"),
        ("cat content; kill -9 $$", "it was ended by signal 9 (SIGKILL)"),
        ("sleep 987651 > /dev/null 2>&1 & cat content; exit 4", "it ended with exit status 4"),
    ] {
        let said = failure(import_output(&place, "bad", script).spawn().unwrap());
        assert!(said.contains(&format!("command sh -c {script}")) && said.contains(status), "{script}: {said}");
    }
    let said = place.failure("cos import st bad --from-command -- no-such-program x", 1);
    assert!(said.contains("command no-such-program x: ") && said.contains("PATH"), "{said}");
    // The older object is as it was, and the command is not even started.
    let said = failure(import_output(&place, "good", "touch started").spawn().unwrap());
    assert!(said.contains("good") && !place.path("started").exists(), "{said}");
    let said = place.failure("cos import st bad --kind volume --from-command -- true", 1);
    assert!(said.contains("--from-command: ") && said.contains("leave out --kind volume"), "{said}");
    for (arguments, word) in [
        ("cos import st bad content --from-command -- true", "--from-command"),
        ("cos import st bad content -- true", "CMD"),
        ("cos import st bad -- true", "FILE"),
        ("cos import st bad --from-command", "CMD"),
        ("cos import st bad", "FILE"),
    ] {
        let said = place.failure(arguments, 2);
        assert!(said.contains(word), "{arguments}: {said}");
    }
    assert!(place.stdout("cos fsck st").contains("2 objects"));
    place.stdout("cos export st good again");
    assert!(fs::read(place.path("again")).unwrap() == content);
    assert_eq!(processes("sleep 987651"), [] as [&str; 0]);
}

#[test]
fn a_command_whose_output_is_imported_ends_with_the_import() {
    let place = Place::new();
    place.stdout("cos init st --size 64M");
    for signal in ["INT", "TERM"] {
        // The second one stays when it is asked to end, and has a child of its own.
        for (script, word) in
            [("echo x; exec sleep 987652", "sleep 987652"), ("trap '' TERM; echo x; sleep 987653; true", "987653")]
        {
            let child = import_output(&place, "never", script).spawn().unwrap();
            for _ in 0..1000 {
                if processes(word).len() > 1 {
                    break;
                }
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            let pid = child.id().to_string();
            // Not before it handles signals.
            std::thread::sleep(std::time::Duration::from_millis(300));
            assert!(std::process::Command::new("kill").args(["-s", signal, &pid]).status().unwrap().success());
            let said = failure(child);
            assert!(said.contains(&format!("SIG{signal} interrupted the import")), "{said}");
            assert_eq!(processes(word), [] as [&str; 0], "{signal}");
        }
    }
    // A store that becomes full.
    let said = failure(import_output(&place, "never", "cat /dev/urandom; : 987654").spawn().unwrap());
    assert!(said.contains("full"), "{said}");
    assert_eq!(processes("987654"), [] as [&str; 0]);
    assert!(place.stdout("cos fsck st").contains("0 objects"));
}

#[test]
fn a_server_takes_snapshots_and_collects_while_it_serves() {
    let (place, image) = place();
    let server = serve(&place, "mode = \"write-back\"");
    let mut vm = client(&place, "vm");
    let mut changed = image.clone();
    for n in 0..EXTENTS {
        let data = noise(5000 + n as u64, EXTENT);
        assert_eq!(vm.write((n * EXTENT) as u64, &data), 0);
        changed[n * EXTENT..(n + 1) * EXTENT].copy_from_slice(&data);
    }
    // With what only the cache had.
    let control = "--control run/nitro/n.control";
    let control = if place.path("run/nitro/n.control").exists() { control } else { "" };
    place.stdout(&format!("cos snapshot st vm@now {control}"));
    assert!(place.failure(&format!("cos delete st vm {control}"), 1).contains("volume vm is served from it"));
    assert!(place.stdout(&format!("cos list st {control}")).contains("vm@now"));
    place.stdout(&format!("cos delete st vm@now {control}"));
    let before: serde_json::Value =
        serde_json::from_str(&place.stdout(&format!("cos stats st -o json {control}"))).unwrap();
    for n in 0..EXTENTS {
        assert_eq!(vm.write((n * EXTENT) as u64, &image[n * EXTENT..(n + 1) * EXTENT]), 0);
    }
    place.stdout(&format!("cos snapshot st vm@again {control}"));
    let collected: serde_json::Value =
        serde_json::from_str(&place.stdout(&format!("cos gc st --alive 100 -o json {control}"))).unwrap();
    assert!(collected["dead_chunks"].as_u64().unwrap() > 0, "{collected} after {before}");
    read_all(&mut vm, &image);
    read_all(&mut client(&place, "then"), &image);
    assert!(server.stop().0.success());
    place.stdout("cos export st vm@again out.img");
    assert!(fs::read(place.path("out.img")).unwrap() == image);
    assert!(place.stdout("cos scrub st").contains("all well"));
}

#[test]
fn a_volume_that_is_overwritten_again_and_again_does_not_fill_its_store() {
    const STORE_BYTES: usize = 64 << 20;
    const VOLUME_BYTES: usize = 24 << 20;
    const ROUNDS: usize = 8;
    for (mode, options) in [("write-through", ""), ("write-back", ""), ("write-through", "\"no-auto-gc\"")] {
        let place = Place::new();
        place.write("vm.img", vec![1; VOLUME_BYTES]);
        place.stdout(&format!("cos init st --size {STORE_BYTES}"));
        place.stdout("cos import st vm vm.img");
        let config = format!(
            "[server]\nlisten = [\"unix:n.sock\"]\n[cache.c]\npath = \"cache.img\"\nsize = \"64M\"\nram = \"0\"\n\
             [volume.vm]\norigin = \"cos:st#vm\"\nmode = \"{mode}\"\nstore_options = [{options}]\n"
        );
        place.write("n.toml", config);
        let server = place.serve("--config n.toml");
        let mut vm = client(&place, "vm");
        // Each round writes other extents than the others.
        const SHIFT: usize = 1000;
        let data = noise(1, VOLUME_BYTES + ROUNDS * SHIFT);
        let round = |n: usize| &data[n * SHIFT..][..VOLUME_BYTES];
        let piece = 1 << 20;
        let mut refused = 0;
        for n in 0..ROUNDS {
            for at in (0..VOLUME_BYTES).step_by(piece) {
                refused += u32::from(vm.write(at as u64, &round(n)[at..at + piece]) != 0);
            }
            refused += u32::from(vm.flush() != 0);
        }
        let is_automatic = options.is_empty();
        for at in (0..VOLUME_BYTES).step_by(piece).filter(|_| is_automatic) {
            let read = vm.read(at as u64, piece);
            assert!(refused > 0 || read == round(ROUNDS - 1)[at..at + piece], "{mode}, at {at}");
        }
        let (status, said) = server.stop();
        assert_eq!(refused == 0, is_automatic, "{mode}: {refused} writes failed: {said}");
        assert_eq!(said.contains("a collection freed"), is_automatic, "{mode}: {said}");
        if is_automatic {
            assert!(status.success(), "{said}");
            place.stdout("cos export st vm out.img");
            assert!(fs::read(place.path("out.img")).unwrap() == round(ROUNDS - 1), "{mode}");
        }
        assert!(place.stdout("cos scrub st").contains("all well"));
    }
}

#[test]
fn tables_for_programs_have_numbers_without_units() {
    let (place, _) = place();
    let csv = place.stdout("cos stats st -o csv");
    let stats: serde_json::Value = serde_json::from_str(&place.stdout("cos stats st -o json")).unwrap();
    assert!(csv.starts_with("metric,value\n") && csv.lines().count() > 10, "{csv}");
    for (name, value) in csv.lines().skip(1).filter_map(|line| line.split_once(',')) {
        assert!(value.is_empty() || value.parse::<f64>().is_ok(), "{name}: {value}");
    }
    assert!(csv.contains(&format!("stored_bytes,{}\n", stats["stored_bytes"])), "{csv}");
    let list = place.stdout("cos list st -o csv");
    assert!(!list.contains("iB") && list.contains(&(EXTENTS * EXTENT).to_string()), "{list}");
}

/// Bytes that a store takes on the disk.
fn used(place: &Place, store: &str) -> u64 {
    let bytes = |path: &Path| fs::metadata(path).map_or(0, |found| found.blocks() * 512);
    let path = place.path(store);
    match path.read_dir() {
        Ok(files) => files.map(|file| bytes(&file.unwrap().path())).sum(),
        Err(_) => bytes(&path),
    }
}

#[test]
fn an_import_of_a_file_that_shrinks_is_an_error() {
    const BYTES: usize = 96 << 20;
    for kind in ["volume", "stream"] {
        let place = Place::new();
        place.stdout("cos init st --size 512M");
        let image = noise(3, BYTES);
        let path = place.write("vm.img", &image);
        let before = used(&place, "st");
        let command = format!("cos import st vm vm.img --threads 1 --kind {kind}");
        let import = place.command(&command).stderr(Stdio::piped()).spawn().unwrap();
        let begun = std::time::Instant::now();
        while used(&place, "st") < before + BYTES as u64 / 20 && begun.elapsed() < crate::support::PATIENCE {
            std::thread::yield_now();
        }
        fs::File::options().write(true).open(path).unwrap().set_len(BYTES as u64 / 2).unwrap();
        let output = import.wait_with_output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        if output.status.success() {
            // It was over before the file was cut.
            place.stdout("cos export st vm copy.img");
            assert!(fs::read(place.path("copy.img")).unwrap() == image, "{kind}: what was never in the file");
            continue;
        }
        assert_eq!(output.status.code(), Some(1), "{kind}: {said}");
        assert!(said.contains("it became shorter while it was read"), "{kind}: {said}");
        assert!(!place.stdout("cos list st").contains("vm"), "{kind}");
        // The file as it is now can be imported.
        place.stdout("cos import st vm vm.img");
        place.stdout("cos export st vm copy.img");
        assert!(fs::read(place.path("copy.img")).unwrap() == image[..BYTES / 2], "{kind}");
    }
}

#[test]
fn an_unfinished_export_is_overwritten_and_belongs_to_one_export() {
    let (place, image) = place();
    // Of another object, and longer.
    place.write("copy.img.part", noise(9, image.len() + 12_345));
    place.stdout("cos export st vm copy.img");
    assert!(fs::read(place.path("copy.img")).unwrap() == image);
    let part = fs::File::create(place.path("second.img.part")).unwrap();
    part.lock().unwrap();
    let said = place.failure("cos export st vm second.img", 1);
    assert!(said.contains("another export is writing to it"), "{said}");
}
