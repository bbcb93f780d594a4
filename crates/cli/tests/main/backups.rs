//! Backups to and from a store while a server serves it: by the server, for a command that opens the files.

use crate::cos::{EXTENT, client, failure, place, serve};
use crate::support::{Place, Server, noise, wait};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::process::{Child, Stdio};
use std::time::Duration;

fn json(place: &Place, arguments: &str) -> Value {
    serde_json::from_str(&place.stdout(&format!("{arguments} -o json"))).unwrap()
}

fn names(place: &Place) -> Vec<String> {
    let all = json(place, "cos list st");
    all.as_array().unwrap().iter().map(|object| object["name"].as_str().unwrap().to_owned()).collect()
}

/// Starts a command that reads from, and writes to, this process.
fn start(place: &Place, arguments: &str) -> Child {
    let mut command = place.command(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// Waits until so many operations of commands are under way in the server.
fn until_under_way(place: &Place, count: usize) {
    place.until("under way", |status| {
        status["stores"][0]["operations"].as_array().is_some_and(|operations| operations.len() == count)
    });
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

fn stop(server: Server) -> String {
    let (status, said) = server.stop();
    assert!(status.success() && !said.contains("panicked"), "{said}");
    said
}

#[test]
fn a_server_imports_exports_checks_and_collects_while_it_serves() {
    let (place, image) = place();
    let server = serve(&place, "");
    let mut vm = client(&place, "vm");
    let other = noise(77, 3 << 20);
    place.write("other.img", &other);

    let told = json(&place, "cos import st other other.img");
    assert_eq!((&told["name"], &told["bytes"]), (&"other".into(), &other.len().into()));
    assert!(told["stored_bytes"].as_u64().unwrap() >= other.len() as u64, "{told}");
    place.stdout("cos export st other out.img");
    assert!(fs::read(place.path("out.img")).unwrap() == other);
    let again = json(&place, "cos import st again other.img --threads 1");
    assert_eq!(again["stored_chunks"], 0, "{again}");

    // Streams: from standard input, from a command that succeeds and one that fails; and to standard output.
    let mut child = start(&place, "cos import st stream -");
    child.stdin.take().unwrap().write_all(&other).unwrap();
    assert!(wait(&mut child).success());
    let output = place.command("cos export st stream -").output().unwrap();
    assert!(output.status.success() && output.stdout == other);
    place.stdout("cos import st words --from-command -- printf %s $HOME;*");
    place.stdout("cos export st words words.out");
    assert_eq!(fs::read_to_string(place.path("words.out")).unwrap(), "$HOME;*");
    let said = place.failure("cos import st failed --from-command -- false", 1);
    assert!(said.contains("command false: it ended with exit status 1"), "{said}");
    // Opened by the command: to the server, this is another file.
    let mut command = place.command("cos import st passed /dev/fd/0 --kind volume");
    assert!(command.stdin(File::open(place.path("other.img")).unwrap()).status().unwrap().success());

    let all = ["again", "copy", "other", "passed", "stream", "vm", "vm@then", "words"];
    assert_eq!(names(&place), all);
    assert!(vm.read(0, image.len()) == image);
    place.stdout("cos export st vm@then then.img");
    assert!(fs::read(place.path("then.img")).unwrap() == image);

    let unique = json(&place, "cos list st --unique");
    let of =
        |name: &str| unique.as_array().unwrap().iter().find(|o| o["name"] == name).unwrap()["unique_bytes"].clone();
    assert_eq!((of("other"), of("vm"), of("words")), (0.into(), 0.into(), 7.into()), "{unique}");
    place.stdout("cos delete st again other passed stream");
    let collected = json(&place, "cos gc st --alive 100");
    assert!(collected["freed_bytes"].as_u64().unwrap() >= 2 << 20, "{collected}");
    // With what the collection has copied just before.
    let scrubbed = json(&place, "cos scrub st");
    assert!(scrubbed["bytes"].as_u64().unwrap() >= (image.len() / 2) as u64, "{scrubbed}");
    assert!(place.failure("cos fsck st", 1).contains("nitro cos scrub"));
    assert!(place.failure("cos import st vm vm.img", 1).contains("already"));
    assert!(place.failure("cos import st x vm.img --compare", 1).contains("store_options"));
    assert!(place.failure("cos export st vm x.img", 1).contains("nitro cos snapshot"));
    assert!(place.failure("cos export st vm@then then.img", 1).contains("--force"));
    assert!(!place.path("x.img").exists() && !place.path("x.img.part").exists());
    drop(vm);
    stop(server);
    assert!(place.stdout("cos fsck st").contains("4 objects"));
}

#[test]
fn an_import_whose_client_is_killed_leaves_nothing_and_holds_nothing() {
    let (place, image) = place();
    let server = serve(&place, "");
    let before = names(&place);
    for way in [Signal::KILL, Signal::INT] {
        let mut child = start(&place, "cos import st stream -");
        let mut source = child.stdin.take().unwrap();
        source.write_all(&noise(5, 5 << 20)).unwrap();
        until_under_way(&place, 1);
        // The end of the source is no sign that it was complete.
        if way == Signal::KILL {
            signal(&child, Signal::STOP);
            drop(source);
            std::thread::sleep(Duration::from_millis(300));
            signal(&child, way);
            child.wait().unwrap();
        } else {
            signal(&child, way);
            let said = failure(child);
            assert!(said.contains("SIGINT interrupted the import, and no part of it is kept"), "{said}");
        }
        until_under_way(&place, 0);
        assert_eq!(names(&place), before);
    }
    assert!(client(&place, "vm").read(0, image.len()) == image);
    stop(server);
    assert!(place.stdout("cos fsck st").contains("3 objects"));
}

#[test]
fn as_many_operations_are_under_way_as_the_server_allows_and_collections_go_on() {
    let (place, _) = place();
    let server = serve(&place, "");
    let content = noise(9, 6 << 20);
    let mut children: Vec<_> = (0..4).map(|n| start(&place, &format!("cos import st stream{n} -"))).collect();
    for child in &mut children {
        child.stdin.as_mut().unwrap().write_all(&content[..4 << 20]).unwrap();
    }
    until_under_way(&place, 4);
    let said = place.failure("cos export st vm@then x.img", 1);
    assert!(said.contains("4 under way already: import of stream"), "{said}");
    assert!(place.stdout("status").contains("import of stream"));
    let ended = children.pop().map(|mut child| {
        drop(child.stdin.take());
        wait(&mut child)
    });
    assert!(ended.unwrap().success());
    until_under_way(&place, 3);
    let said = place.failure("cos import st stream0 -", 1);
    assert!(said.contains("another import of that name is under way"), "{said}");
    // What the streams have stored so far is kept.
    place.stdout("cos delete st stream3");
    json(&place, "cos gc st --alive 100");
    for (n, mut child) in (0..).zip(children) {
        child.stdin.take().unwrap().write_all(&content[4 << 20..]).unwrap();
        assert!(wait(&mut child).success());
        place.stdout(&format!("cos export st stream{n} out{n}"));
        assert!(fs::read(place.path(&format!("out{n}"))).unwrap() == content);
    }
    assert!(place.stdout("cos scrub st").contains("all well"));
    stop(server);
    assert!(place.stdout("cos fsck st").contains("all well"));
}

#[test]
fn an_export_that_nobody_reads_ends_with_its_client_and_with_the_server() {
    let place = Place::new();
    place.write("vm.img", noise(1, 24 << 20));
    place.stdout("cos init st --size 1G");
    place.stdout("cos import st vm vm.img");
    place.stdout("cos snapshot st vm@then");
    place.stdout("cos clone st vm copy");
    let server = serve(&place, "");
    for way in [Signal::INT, Signal::KILL] {
        let mut child = start(&place, "cos export st vm@then -");
        let mut out = child.stdout.take().unwrap();
        out.read_exact(&mut [0; 10]).unwrap();
        until_under_way(&place, 1);
        signal(&child, way);
        if way == Signal::INT {
            assert!(failure(child).contains("SIGINT interrupted the export at "));
        } else {
            child.wait().unwrap();
        }
        // Though somebody could still read it.
        until_under_way(&place, 0);
        drop(out);
    }
    let mut child = start(&place, "cos export st vm@then -");
    child.stdout.as_mut().unwrap().read_exact(&mut [0; 10]).unwrap();
    let mut import = start(&place, "cos import st stream -");
    import.stdin.as_mut().unwrap().write_all(&[7; 1 << 20]).unwrap();
    until_under_way(&place, 2);
    stop(server);
    for (command, what) in [(child, "export"), (import, "import")] {
        let said = failure(command);
        assert!(said.contains(&format!("the end of the server interrupted the {what}")), "{said}");
    }
    assert_eq!(names(&place), ["copy", "vm", "vm@then"]);
}

#[test]
fn objects_are_renamed_with_their_snapshots_unless_they_are_served() {
    let (place, image) = place();
    place.stdout("cos clone st vm third");
    place.stdout("cos snapshot st third@one");
    let server = serve(&place, "mode = \"write-back\"");
    let said = place.failure("cos rename st vm new", 1);
    assert!(said.contains("is served from it"), "{said}");
    assert!(place.failure("cos rename st vm@then vm@now", 1).contains("volume then is served from it"));
    assert_eq!(client(&place, "vm").write(0, &noise(3, EXTENT)), 0);
    server.kill();
    // The cache has what the object has not.
    assert!(place.failure("cos rename st vm new", 1).contains("nitro flush"));
    place.stdout("cos rename st third new");
    assert_eq!(names(&place), ["copy", "new", "new@one", "vm", "vm@then"]);
    place.stdout("cos rename st new@one new@two");
    for (old, new, why) in [
        ("none", "x", "none"),
        ("new", "vm", "already"),
        ("new@two", "vm@two", "stays one of its object"),
        ("new", "a@b", "'@'"),
    ] {
        let said = place.failure(&format!("cos rename st {old} {new}"), 1);
        assert!(said.contains(why), "{old}, {new}: {said}");
    }
    assert_eq!(names(&place), ["copy", "new", "new@two", "vm", "vm@then"]);
    for name in ["new", "new@two"] {
        place.stdout(&format!("cos export st {name} out.img --force"));
        assert!(fs::read(place.path("out.img")).unwrap() == image);
    }
    assert!(place.stdout("cos fsck st").contains("5 objects"));
}

#[test]
fn a_retention_deletes_what_it_does_not_keep_and_never_everything() {
    let (place, _) = place();
    ["a", "b", "c"].iter().for_each(|name| drop(place.stdout(&format!("cos snapshot st copy@{name}"))));
    // Later than what the place was made with.
    std::thread::sleep(Duration::from_millis(1100));
    place.stdout("cos snapshot st --timed copy vm");
    let said = place.failure("cos forget st --all", 1);
    assert!(said.contains("it would delete all snapshots") && said.contains("--keep-last 1"), "{said}");
    assert!(place.failure("cos forget st --keep-last 1", 2).contains("OBJECT"));
    assert!(place.failure("cos forget st none --keep-last 1", 1).contains("none: there is no such object"));
    let before = names(&place);
    assert_eq!(before.len(), 8, "{before:?}");
    let told = place.stdout("cos forget st copy --keep-last 1 --dry-run");
    assert_eq!((told.matches("would be deleted").count(), names(&place)), (3, before.clone()), "{told}");
    // Named by hand.
    place.stdout("cos forget st --all --timed --keep-last 1");
    assert_eq!(names(&place), before);
    let server = serve(&place, "");
    let fates = json(&place, "cos forget st --all --keep-last 1 --keep-daily 7");
    let kept: Vec<_> =
        fates.as_array().unwrap().iter().filter(|fate| !fate["kept"].as_array().unwrap().is_empty()).collect();
    assert_eq!(kept.len(), 3, "{fates}");
    assert!(
        kept.iter().any(|fate| fate["name"] == "vm@then" && fate["kept"] == serde_json::json!(["served"])),
        "{fates}"
    );
    assert_eq!(names(&place).len(), 5);
    stop(server);
}

#[test]
fn an_increment_makes_a_snapshot_in_another_store_or_nothing() {
    let (place, image) = place();
    place.stdout("cos init other --size 1G");
    place.stdout("cos export st vm@then then.img");
    place.stdout("cos import other base then.img");
    // Changed, zeroed, and moved within itself.
    let server = serve(&place, "");
    let mut changed = image.clone();
    let mut vm = client(&place, "vm");
    for (at, data) in [(70, noise(70, 3 * EXTENT)), (200, vec![0; 20 * EXTENT]), (399, image[..EXTENT].to_vec())] {
        assert_eq!(vm.write((at * EXTENT) as u64, &data), 0);
        changed[at * EXTENT..at * EXTENT + data.len()].copy_from_slice(&data);
    }
    place.stdout("cos snapshot st vm@now");
    assert!(place.failure("cos export st vm --from vm@then x", 1).contains("may change while it is read"));
    place.stdout("cos export st vm@now --from vm@then inc");
    let output = place.command("cos export st vm@now - --from vm@then").output().unwrap();
    let increment = fs::read(place.path("inc")).unwrap();
    assert!(output.status.success() && output.stdout == increment);
    assert!(increment.len() < 8 * EXTENT, "{}", increment.len());
    stop(server);

    let said = place.failure("cos import other new inc", 1);
    assert!(said.contains("add --increment"), "{said}");
    let told = json(&place, "cos import other new inc --increment");
    assert_eq!(told["bytes"], changed.len());
    place.stdout("cos export other new out.img");
    assert!(fs::read(place.path("out.img")).unwrap() == changed);
    // By way of a pipe; the base has that name nowhere.
    place.stdout("cos delete other new");
    let mut child = start(&place, "cos import other new - --increment");
    child.stdin.take().unwrap().write_all(&increment).unwrap();
    assert!(wait(&mut child).success());

    let refused = |bytes: &[u8], why: &str| {
        place.write("bad", bytes);
        let said = place.failure("cos import other bad bad --increment", 1);
        assert!(said.contains(why), "{said}");
        let all = place.stdout("cos list other");
        assert!(!all.contains("bad"), "{all}");
    };
    for cut in [0, 50, 100, increment.len() / 2, increment.len() - 1] {
        refused(&increment[..cut], "cut off at");
    }
    let mut damaged = increment.clone();
    damaged[increment.len() / 2] ^= 4;
    refused(&damaged, "checksum mismatch");
    refused(&[&increment[..], b"x"].concat(), "something follows");
    refused(&noise(3, 5000), "magic");
    let mut newer = increment.clone();
    newer[8] = 9;
    refused(&newer, "format version 9");
    // A store without the base, and a base that was changed.
    place.stdout("cos delete other base");
    refused(&increment, "no volume has the content of \"vm@then\"");
    assert!(place.stdout("cos fsck other").contains("1 objects"));
    assert!(place.failure("cos export st vm@now x --from none", 1).contains("none"));
}
