//! Origins whose newest data are in a cache are not served without it.

use crate::support::{Place, noise};
use std::fs::{self, File};
use std::io::Write;

const AGAIN: &str = "--origin vm.img --cache cache.img --mode write-back";

/// A place where a server was killed with 1 MiB of dirty data in its cache.
fn left_dirty() -> (Place, Vec<u8>) {
    let place = Place::new();
    place.file("vm.img", 16 << 20);
    let server = place.serve(&format!("{AGAIN} --cache-size 64M --dirty-age 1h"));
    let data = noise(31, 1 << 20);
    let mut client = place.client();
    assert_eq!(client.write(0, &data), 0);
    assert_eq!(client.flush(), 0);
    server.kill();
    (place, data)
}

fn refused(place: &Place, arguments: &str, phrases: &[&str]) {
    let said = place.failure(&format!("serve {arguments}"), 1);
    for phrase in phrases {
        assert!(said.contains(phrase), "{phrase:?} is not in {said}");
    }
}

#[test]
fn a_marked_origin_is_refused_without_its_cache() {
    let (place, data) = left_dirty();
    let mark = fs::read_to_string(place.path("vm.img.nitro-dirty")).unwrap();
    for phrase in
        ["Do not use the volume without it", "cache_uuid = ", "cache.img\"", "volume = \"vm\"", "since = \"20"]
    {
        assert!(mark.contains(phrase), "{mark}");
    }
    let phrases = ["origin vm.img: since 20", "/cache.img", "--force-discard-dirty", "vm.img.nitro-dirty"];
    refused(&place, "--origin vm.img --cache none", &phrases);
    refused(&place, "--origin vm.img --cache other.img --cache-size 32M", &phrases);
    std::os::unix::fs::symlink("vm.img", place.path("link")).unwrap();
    refused(&place, "--origin link --cache none", &["--force-discard-dirty"]);
    refused(&place, &format!("{AGAIN} --name other"), &["in this cache as volume \"vm\", not \"other\""]);
    refused(&place, "--origin vm.img --cache cache.img --read-only", &["have to be written to it"]);
    let _server = place.serve(AGAIN);
    assert!(place.client().read(0, data.len()) == data);
}

#[test]
fn forced_it_is_served_as_it_is_and_the_cache_is_not_believed_any_more() {
    let (place, data) = left_dirty();
    let server = place.serve("--origin vm.img --cache none --force-discard-dirty");
    assert!(!place.path("vm.img.nitro-dirty").exists());
    let mut client = place.client();
    assert!(client.read(0, data.len()).iter().all(|byte| *byte == 0));
    assert_eq!(client.write(0, b"newer"), 0);
    assert!(server.stop().0.success());
    refused(
        &place,
        AGAIN,
        &[
            "holds 1 MiB of dirty data of this volume, and it was served without a cache since",
            "never written to it",
            "--force-discard-dirty",
        ],
    );
    let server = place.serve(&format!("{AGAIN} --force-discard-dirty"));
    assert_eq!(place.client().read(0, 6), b"newer\0");
    let status = place.status();
    assert_eq!(status["volumes"][0]["dirty_bytes"], 0, "{status}");
    let (_, said) = server.stop();
    assert!(said.contains("1 MiB of dirty data are discarded"), "{said}");
}

#[test]
fn a_mark_that_cannot_be_read_is_not_passed_over() {
    let place = Place::new();
    place.file("vm.img", 1 << 20);
    place.write("vm.img.nitro-dirty", "?");
    refused(&place, "--origin vm.img --cache none", &["its mark of unwritten data cannot be read"]);
    let server = place.serve("--origin vm.img --cache none --force-discard-dirty");
    assert!(server.stop().0.success() && !place.path("vm.img.nitro-dirty").exists());
}

#[test]
fn a_cache_with_dirty_data_is_not_formatted() {
    let (place, data) = left_dirty();
    refused(&place, &format!("{AGAIN} --format"), &["it holds 1 MiB of dirty data of vm", "--force-discard-dirty"]);
    let said = place.failure("cache create cache.img --format", 1);
    assert!(said.contains("it holds 1 MiB of dirty data of vm"), "{said}");
    let _server = place.serve(AGAIN);
    assert!(place.client().read(0, data.len()) == data);
}

#[test]
fn dirty_data_of_a_volume_that_is_not_served_stay() {
    let (place, data) = left_dirty();
    place.file("db.img", 1 << 20);
    let server = place.serve("--origin db.img --cache cache.img");
    let list = place.stdout("volume list -o csv");
    assert!(list.contains("vm,no,write-back,cache,16777216,1048576,0,"), "{list}");
    assert!(place.failure("volume remove vm", 1).contains("holds 1 MiB of dirty data of it"));
    let (_, said) = server.stop();
    assert!(said.contains("1 MiB (128 extents) of dirty data of volume \"vm\""), "{said}");
    let server = place.serve(AGAIN);
    assert!(place.client().read(0, data.len()) == data);
    server.kill();
    let _server = place.serve("--origin db.img --cache cache.img");
    let said = place.stdout("volume remove vm --force-discard-dirty");
    assert!(said.contains("1 MiB are discarded"), "{said}");
    assert!(!place.stdout("volume list").contains("vm"));
}

/// Whether the file system under a place has extended attributes for users.
fn has_attributes(place: &Place) -> bool {
    let probe = place.write("probe", "");
    let set = rustix::fs::setxattr(&probe, "user.nitro.probe", b"", rustix::fs::XattrFlags::empty());
    fs::remove_file(probe).unwrap();
    if set.is_err() {
        eprintln!("skipped: {set:?}");
    }
    set.is_ok()
}

#[test]
fn a_renamed_origin_stays_marked() {
    let (place, data) = left_dirty();
    if !has_attributes(&place) {
        return;
    }
    fs::rename(place.path("vm.img"), place.path("moved.img")).unwrap();
    let phrases = ["since 20", "/cache.img", "--force-discard-dirty", "attribute user.nitro.dirty of moved.img"];
    refused(&place, "--origin moved.img --cache none", &phrases);
    let server = place.serve("--origin moved.img --name vm --cache cache.img --mode write-back");
    assert!(place.client().read(0, data.len()) == data);
    assert!(server.stop().0.success());
    assert!(fs::read(place.path("moved.img")).unwrap()[..data.len()] == data);
    assert!(place.serve("--origin moved.img --cache none").stop().0.success(), "nothing marks it any more");
}

#[test]
fn a_hard_link_to_an_origin_is_marked_too() {
    let (place, _) = left_dirty();
    if !has_attributes(&place) {
        return;
    }
    fs::hard_link(place.path("vm.img"), place.path("other.img")).unwrap();
    refused(&place, "--origin other.img --cache none", &["its newest data may be in the cache"]);
    assert!(place.serve("--origin other.img --cache none --force-discard-dirty").stop().0.success());
    fs::remove_file(place.path("vm.img.nitro-dirty")).unwrap();
    assert!(place.serve("--origin vm.img --cache none").stop().0.success());
}

#[test]
fn a_copy_that_carries_the_mark_is_refused_as_one() {
    let (place, _) = left_dirty();
    if !has_attributes(&place) {
        return;
    }
    let mut mark = vec![0; 4096];
    let name = "user.nitro.dirty";
    let len = rustix::fs::getxattr(place.path("vm.img"), name, &mut mark[..]).unwrap();
    fs::copy(place.path("vm.img"), place.path("copy.img")).unwrap();
    rustix::fs::setxattr(place.path("copy.img"), name, &mark[..len], rustix::fs::XattrFlags::empty()).unwrap();
    refused(&place, "--origin copy.img --cache none", &["the newest data of the file that it is a copy of"]);
    rustix::fs::setxattr(place.path("copy.img"), name, b"?", rustix::fs::XattrFlags::empty()).unwrap();
    refused(&place, "--origin copy.img --cache none", &["its mark of unwritten data cannot be read"]);
    assert!(place.serve("--origin copy.img --cache none --force-discard-dirty").stop().0.success());
    assert!(place.serve("--origin copy.img --cache none").stop().0.success());
}

#[test]
fn links_planted_where_marks_are_made_are_not_followed() {
    let place = Place::new();
    place.file("vm.img", 1 << 20);
    let victim = place.write("victim", "as it was");
    let plant = |name: &str| std::os::unix::fs::symlink("victim", place.path(name)).unwrap();
    plant("vm.img.nitro-dirty.new");
    plant("vm.img.nitro-dirty");
    let arguments = format!("{AGAIN} --cache-size 32M");
    refused(&place, &arguments, &["its mark of unwritten data cannot be read", "it is a symbolic link"]);
    let server = place.serve(&format!("{AGAIN} --force-discard-dirty"));
    assert!(fs::symlink_metadata(place.path("vm.img.nitro-dirty")).unwrap().is_file());
    assert!(server.stop().0.success());
    assert_eq!(fs::read_to_string(victim).unwrap(), "as it was");
}

#[test]
fn what_is_planted_while_a_volume_is_served_blocks_nobody() {
    let place = Place::new();
    place.file("vm.img", 1 << 20);
    let server = place.serve("--origin vm.img --cache cache.img --cache-size 32M");
    let mark = place.path("vm.img.nitro-dirty");
    fs::create_dir(&mark).unwrap();
    let said = place.failure("volume set vm --mode write-back", 1);
    assert!(said.contains("write-back needs it to protect the origin"), "{said}");
    fs::remove_dir(&mark).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, &mark, rustix::fs::Mode::from_raw_mode(0o666)).unwrap();
    place.stdout("volume set vm --mode write-back");
    assert!(fs::symlink_metadata(&mark).unwrap().is_file());
    assert_eq!(place.client().write(0, &[1; 4096]), 0);
    assert!(server.stop().0.success() && fs::symlink_metadata(&mark).is_err());
    rustix::fs::mkfifoat(rustix::fs::CWD, &mark, rustix::fs::Mode::from_raw_mode(0o666)).unwrap();
    refused(&place, AGAIN, &["cannot be read", "it is not a regular file"]);
}

#[test]
fn write_back_without_a_mark_is_refused() {
    use std::os::unix::fs::{PermissionsExt, chown};
    let place = Place::new();
    for (name, bytes) in [("vm.img", 1 << 20), ("cache.img", 32 << 20)] {
        place.file(name, bytes);
    }
    let mode = |name: &str, bits| fs::set_permissions(place.path(name), fs::Permissions::from_mode(bits)).unwrap();
    // Nothing stops root from writing to a folder: another user runs the server.
    let is_root = rustix::process::getuid().is_root();
    if is_root {
        fs::create_dir(place.path("state")).unwrap();
        for name in ["vm.img", "cache.img", "run", "state"] {
            chown(place.path(name), Some(65_534), Some(65_534)).unwrap();
        }
    }
    mode("run", 0o700);
    mode(".", 0o555);
    let run = |arguments: &str| {
        let nitro = place.command(&format!("serve {arguments}"));
        let mut command = std::process::Command::new("setpriv");
        if is_root {
            command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
        }
        command.arg(nitro.get_program()).args(nitro.get_args()).current_dir(place.folder.path());
        command.envs(nitro.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command
    };
    let output = run(AGAIN).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let server = crate::support::Server::start(&mut run("--origin vm.img --cache cache.img"));
    let stopped = server.stop();
    mode(".", 0o755);
    assert!(!output.status.success() && said.contains("write-back needs it to protect the origin"), "{said}");
    assert!(said.contains("make its folder writable"), "{said}");
    assert!(stopped.0.success(), "{}", stopped.1);
}

#[test]
fn salvage_writes_out_what_only_the_cache_has() {
    let (place, data) = left_dirty();
    let list = place.stdout("cache salvage cache.img --list");
    assert!(list.contains("vm") && list.contains("1048576") && list.contains("certain"), "{list}");
    let said = place.stdout("cache salvage cache.img --volume vm --to out.img");
    assert!(said.contains("1 MiB of volume vm written to out.img"), "{said}");
    let out = fs::read(place.path("out.img")).unwrap();
    assert!(out.len() == 16 << 20 && out[..data.len()] == data && out[data.len()..].iter().all(|byte| *byte == 0));
    assert!(place.failure("cache salvage cache.img --volume db --to out.img", 1).contains("it has dirty data of: vm"));
    assert_eq!(place.stdout("cache salvage cache.img"), list, "it lists, too");
    let shown = place.stdout("cache show cache.img");
    for phrase in ["cache.img: stopped", "1 MiB, which keep", "vm: 16 MiB, write-back, 1 MiB dirty, not served"] {
        assert!(shown.contains(phrase), "{shown}");
    }
    // Looking has changed nothing.
    let _server = place.serve(AGAIN);
    assert!(place.client().read(0, data.len()) == data);
    assert!(place.failure("cache show cache.img", 1).contains("a server uses it"));
}

#[test]
fn a_mark_survives_its_origin_being_written_by_others() {
    let (place, _) = left_dirty();
    File::options().append(true).open(place.path("vm.img")).unwrap().write_all(&[1; 4096]).unwrap();
    refused(&place, AGAIN, &["it had 16777216 bytes and has 16781312"]);
    assert!(place.path("vm.img.nitro-dirty").exists());
}
