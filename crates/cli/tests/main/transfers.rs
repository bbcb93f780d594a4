//! Transfers between stores, and stores that grow: offline, and while a server serves them.

use crate::cos::{EXTENT, client, place, serve};
use crate::support::{Place, noise, wait};
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::process::{Command, Stdio};

const NITRO: &str = env!("CARGO_BIN_EXE_nitro");

fn json(place: &Place, arguments: &str) -> Value {
    serde_json::from_str(&place.stdout(&format!("{arguments} -o json"))).unwrap()
}

/// `nitro cos send` of an object to a command of the shell.
fn send(place: &Place, object: &str, to: &str) -> Command {
    let mut command = place.command(&format!("cos send {object} -o json"));
    command.arg("--to").arg(to.replace("nitro", NITRO));
    command
}

/// What it says if it succeeds.
fn sent(place: &Place, object: &str, to: &str) -> Value {
    let output = send(place, object, to).output().unwrap();
    assert!(output.status.success(), "{object} to {to}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// What it says if it fails.
fn refused(place: &Place, object: &str, to: &str) -> String {
    let output = send(place, object, to).output().unwrap();
    assert!(!output.status.success(), "{object} to {to}: {}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stderr).unwrap()
}

fn content(place: &Place, store: &str, object: &str) -> Vec<u8> {
    place.stdout(&format!("cos export {store} {object} out.img --force"));
    fs::read(place.path("out.img")).unwrap()
}

#[test]
fn only_what_the_other_store_lacks_is_sent_from_and_to_servers_and_closed_stores() {
    let (place, image) = place();
    place.stdout("cos init other --size 1G");
    let told = sent(&place, "st vm", "nitro cos receive other vm");
    assert!(told["sent_bytes"].as_u64().unwrap() > image.len() as u64 * 9 / 10, "{told}");
    assert!(content(&place, "other", "vm") == image);

    // A server has the sender's store open: its volumes may change, snapshots do not.
    let server = serve(&place, "");
    let mut vm = client(&place, "vm");
    let mut changed = image.clone();
    changed[70 * EXTENT..71 * EXTENT].copy_from_slice(&noise(7070, EXTENT));
    assert_eq!(vm.write((70 * EXTENT) as u64, &changed[70 * EXTENT..71 * EXTENT]), 0);
    place.stdout("cos snapshot st vm@now");
    let said = refused(&place, "st vm", "nitro cos receive other new");
    assert!(said.contains("nitro cos send") && said.contains("st vm@NAME"), "{said}");
    let told = sent(&place, "st vm@now", "nitro cos receive other new");
    let bytes = told["sent_bytes"].as_u64().unwrap();
    assert!((EXTENT as u64..6 * EXTENT as u64).contains(&bytes), "{told}");
    assert!(content(&place, "other", "new") == changed);
    // And the receiver's.
    let told = sent(&place, "other new", "nitro cos receive st back");
    assert!(told["sent_bytes"].as_u64().unwrap() < 4 * EXTENT as u64, "{told}");
    place.stdout("cos snapshot st back@1");
    assert!(content(&place, "st", "back@1") == changed);
    place.write("words", "few words");
    let mut import = place.command("cos import st stream -");
    assert!(import.stdin(fs::File::open(place.path("words")).unwrap()).status().unwrap().success());
    sent(&place, "st stream", "nitro cos receive other stream");
    assert_eq!(content(&place, "other", "stream"), b"few words");
    drop(vm);
    server.stop();
    for store in ["st", "other"] {
        place.stdout(&format!("cos fsck {store}"));
        place.stdout(&format!("cos scrub {store}"));
    }
}

#[test]
fn a_transfer_that_is_cut_half_way_is_continued_by_the_same_command() {
    let (place, _) = place();
    let big = noise(123, 24 << 20);
    place.write("big.img", &big);
    place.stdout("cos import st big big.img");
    place.stdout("cos init other --size 1G");
    // The receiver gets the first 16 MB at most; then the connection is gone.
    let said = refused(&place, "st big", "dd bs=64k count=250 2> /dev/null | nitro cos receive other big");
    assert!(said.contains("continues it"), "{said}");
    let listed = json(&place, "cos list other");
    assert!(listed[0]["incomplete_at"].as_u64().is_some_and(|at| at > 4 << 20), "{listed}");
    assert!(place.failure("cos export other big x.img", 1).contains("interrupted"));
    let told = sent(&place, "st big", "nitro cos receive other big");
    let (bytes, resumed) = (told["sent_bytes"].as_u64().unwrap(), told["resumed_at"].as_u64().unwrap());
    assert!(resumed > 4 << 20 && bytes < big.len() as u64 - resumed + (2 << 20), "{told}");
    assert!(content(&place, "other", "big") == big);
    place.stdout("cos fsck other");
}

#[test]
fn what_no_other_side_says_is_refused_by_name() {
    let (place, _) = place();
    place.stdout("cos init other --size 64M");
    for (to, why) in [
        ("cat", "nitro cos send and nitro cos receive"),
        ("true", "it has ended the connection"),
        ("echo hello, this is no frame; cat > /dev/null", "nitro cos send and nitro cos receive"),
        ("no-such-program-at-all", "it has ended the connection"),
        ("nitro cos receive gone vm", "nitro cos init"),
        ("nitro cos receive other vm@1", "not a valid name"),
    ] {
        let said = refused(&place, "st vm@then", to);
        assert!(said.contains(why), "{to}: {said}");
    }
    assert!(refused(&place, "st gone", "nitro cos receive other x").contains("there is no object"));
    sent(&place, "st vm@then", "nitro cos receive other vm");
    assert!(refused(&place, "st vm@then", "nitro cos receive other vm").contains("already"));
    // Whoever talks to the receiver.
    for said in [&b"hello, receiver, this is no frame at all"[..], &[0xFF; 64], &[]] {
        let mut child = place.command("cos receive other x");
        let mut child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // It may have ended before it has all.
        drop(child.stdin.take().unwrap().write_all(said));
        assert!(!wait(&mut child).success());
        let mut why = String::new();
        child.stderr.take().unwrap().read_to_string(&mut why).unwrap();
        assert!(why.contains("sender: "), "{why}");
    }
    let names = json(&place, "cos list other");
    assert_eq!(names.as_array().unwrap().len(), 1, "{names}");
}

#[test]
fn a_served_store_grows_and_so_does_one_of_a_command() {
    let place = Place::new();
    let made = json(&place, "cos init st --size 64M --max-size 1G");
    assert!(made["size_bytes"].as_u64().unwrap() <= 64 << 20 && made["max_bytes"] == 1 << 30, "{made}");
    let data = noise(1, 90 << 20);
    place.write("a.img", &data);
    place.stdout("cos import st a a.img");
    let stats = json(&place, "cos stats st");
    let size = stats["size_bytes"].as_u64().unwrap();
    assert!(size > 90 << 20 && stats["grows_to_bytes"] == 1 << 30, "{stats}");
    assert!(place.stdout("cos stats st").contains("grows by itself up to 1 GiB"), "{}", place.stdout("cos stats st"));

    let server = place.serve("--origin cos:st#a --cache none --name vm");
    assert_eq!(place.status()["stores"][0]["size_bytes"], size);
    let grown = json(&place, "cos grow st 400M");
    assert!(grown["size_bytes"].as_u64().unwrap() > size, "{grown}");
    let mut a = place.client();
    assert_eq!(a.write(0, &[7; 8192]), 0);
    assert_eq!(a.flush(), 0);
    drop(a);
    // By itself, in the server: nothing of this is found.
    for number in 2..6 {
        place.write("more.img", noise(number, 80 << 20));
        place.stdout(&format!("cos import st more{number} more.img"));
    }
    let size = place.status()["stores"][0]["size_bytes"].as_u64().unwrap();
    assert!(size > grown["size_bytes"].as_u64().unwrap(), "{size}");
    assert!(place.stdout("status").contains("grows by itself up to"));
    server.stop();
    place.stdout("cos fsck st");
    assert!(content(&place, "st", "a")[8192..] == data[8192..]);

    for (arguments, why) in [
        ("cos grow st 10M", "already"),
        ("cos grow st", "say how large"),
        ("cos grow st --max-size 20M", "--max-size"),
        ("cos grow gone 1G", "nitro cos init"),
        ("cos init new --size 1G --max-size 100M", "--max-size"),
    ] {
        let said = place.failure(arguments, 1);
        assert!(said.contains(why), "{arguments}: {said}");
    }
    assert_eq!(json(&place, "cos grow st --max-size 2G")["max_bytes"], 2_u64 << 30);
    let small = json(&place, "cos init small --max-size 8G");
    assert!(
        small["size_bytes"].as_u64().unwrap() <= 1 << 30 && small["allocated_bytes"].as_u64().unwrap() < 80 << 20,
        "{small}"
    );
}
