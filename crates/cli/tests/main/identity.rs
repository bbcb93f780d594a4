//! Nothing is taken for something else: origins and caches are recognised by what they are, not by their paths, sizes and times.

use crate::support::{Place, Server, noise};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::process::Command;
use std::time::{Duration, SystemTime};

const MIB: usize = 1 << 20;
const SERVE: &str = "--cache cache.img --cache-size 32M --ram 0 --sequential-threshold 0 --name vm";

/// A server of `vm.img`, whose first 2 MiB are cached.
fn warmed(place: &Place, origin: &str, data: &[u8]) -> Server {
    let server = place.serve(&format!("--origin {origin} {SERVE}"));
    read_all(place, data);
    place.until("inserted", |status| status["caches"][0]["insertions"].as_u64() >= Some(data.len() as u64 / 8192));
    server
}

/// Reads a volume extent by extent, and compares it.
pub fn read_all(place: &Place, data: &[u8]) {
    let mut client = place.client();
    for (n, extent) in data.chunks(8192).enumerate() {
        assert!(client.read(n as u64 * 8192, extent.len()) == extent, "extent {n}");
    }
}

/// Extents that were hits since the server started.
pub fn hits(place: &Place) -> u64 {
    place.status()["volumes"][0]["read_hit_extents"].as_u64().unwrap()
}

/// A place where a server was killed with 64 KiB of dirty data in its cache, which are returned.
fn left_dirty(origin: &str) -> (Place, Vec<u8>) {
    let place = Place::new();
    place.write("vm.img", noise(1, 2 * MIB));
    let data = noise(2, 65_536);
    dirty(&place, origin, &data).kill();
    (place, data)
}

/// A server in write-back, with flushed data at the start of its volume.
fn dirty(place: &Place, origin: &str, data: &[u8]) -> Server {
    let server = place.serve(&format!("--origin {origin} {SERVE} --mode write-back --dirty-age 1h"));
    let mut client = place.client();
    assert_eq!((client.write(0, data), client.flush()), (0, 0));
    server
}

pub fn refused(place: &Place, arguments: &str, phrases: &[&str]) {
    let said = place.failure(&format!("serve {arguments}"), 1);
    for phrase in phrases {
        assert!(said.contains(phrase), "{phrase:?} is not in {said}");
    }
}

fn has_attributes(place: &Place) -> bool {
    let path = place.path("vm.img");
    rustix::fs::setxattr(&path, "user.nitro.test", b"x", rustix::fs::XattrFlags::empty()).is_ok()
}

/// A loop device; `None`: this user may not have one.
pub struct Loop(pub String);

impl Loop {
    pub fn of(place: &Place, file: &str, options: &[&str]) -> Option<Self> {
        let made = Command::new("losetup").args(options).args(["-f", "--show"]).arg(place.path(file)).output().ok()?;
        made.status.success().then(|| Self(String::from_utf8(made.stdout).unwrap().trim().to_owned()))
    }

    /// Leads a name to the device.
    fn link(&self, place: &Place, name: &str) {
        let _ = fs::remove_file(place.path(name));
        std::os::unix::fs::symlink(&self.0, place.path(name)).unwrap();
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["-d", &self.0]).status();
    }
}

#[test]
fn a_file_that_is_put_in_place_while_another_is_served_is_not_served_with_its_bytes() {
    let place = Place::new();
    place.write("vm.img", noise(1, 2 * MIB));
    let server = warmed(&place, "vm.img", &noise(1, 2 * MIB));
    let mut client = place.client();
    assert_eq!((client.write(0, &noise(3, 8192)), client.flush()), (0, 0));
    let restored = noise(4, 2 * MIB);
    place.write("new.img", &restored);
    fs::rename(place.path("new.img"), place.path("vm.img")).unwrap();
    let said = place.failure("volume resize vm", 1);
    assert!(said.contains("vm.img leads to another file or device than the one that is served"), "{said}");
    assert!(server.stop().0.success());
    let _server = place.serve(&format!("--origin vm.img {SERVE}"));
    read_all(&place, &restored);
    assert_eq!(hits(&place), 0);
}

#[test]
fn dirty_data_are_not_written_to_another_file_of_the_same_name_and_size() {
    let (place, data) = left_dirty("vm.img");
    fs::rename(place.path("vm.img"), place.path("kept.img")).unwrap();
    let other = noise(5, 2 * MIB);
    place.write("vm.img", &other);
    let again = format!("--origin vm.img {SERVE} --mode write-back");
    refused(&place, &again, &["64 KiB of dirty data", "another file or device", "--accept-origin vm", "salvage"]);
    assert!(fs::read(place.path("vm.img")).unwrap() == other, "it was written to");
    refused(&place, &format!("{again} --accept-origin other"), &["there is no volume \"other\""]);
    // Who knows better may say so: the dirty data go there, and nothing else of the cache is believed.
    let server = place.serve(&format!("{again} --accept-origin vm"));
    let expected = [data.as_slice(), &other[65_536..]].concat();
    read_all(&place, &expected);
    assert!(server.stop().0.success());
    assert!(fs::read(place.path("vm.img")).unwrap() == expected);
}

#[test]
fn an_origin_that_lost_its_mark_gets_no_dirty_data() {
    let (place, data) = left_dirty("vm.img");
    if !has_attributes(&place) {
        return;
    }
    for name in ["user.nitro.volume", "user.nitro.dirty"] {
        rustix::fs::removexattr(place.path("vm.img"), name).unwrap();
    }
    fs::remove_file(place.path("vm.img.nitro-dirty")).unwrap();
    let again = format!("--origin vm.img {SERVE} --mode write-back");
    refused(&place, &again, &["does not bear the mark of the cache that served it last", "--accept-origin vm"]);
    let _server = place.serve(&format!("{again} --accept-origin vm"));
    assert!(place.client().read(0, data.len()) == data);
}

#[test]
fn an_origin_that_another_cache_has_served_since_is_read_anew() {
    let place = Place::new();
    let mut data = noise(1, 2 * MIB);
    let path = place.write("vm.img", &data);
    assert!(warmed(&place, "vm.img", &data).stop().0.success());
    if !has_attributes(&place) {
        return;
    }
    let mtime = fs::metadata(&path).unwrap().modified().unwrap();
    let server = place.serve("--origin vm.img --cache other.img --cache-size 32M --name vm");
    let new = noise(6, MIB);
    let mut client = place.client();
    assert_eq!((client.write(0, &new), client.flush()), (0, 0));
    data[..MIB].copy_from_slice(&new);
    drop(client);
    assert!(server.stop().0.success());
    // The time is as if nothing had happened.
    File::options().write(true).open(&path).unwrap().set_modified(mtime).unwrap();
    let server = place.serve(&format!("--origin vm.img {SERVE}"));
    read_all(&place, &data);
    let (_, said) = server.stop();
    assert!(said.contains("another cache") && said.contains("has served it since"), "{said}");
}

#[test]
fn an_older_copy_of_a_cache_is_refused_where_a_newer_one_has_been_used() {
    let (place, _) = left_dirty("vm.img");
    fs::copy(place.path("cache.img"), place.path("moved.img")).unwrap();
    let with = |cache: &str| format!("--origin vm.img --cache {cache} --name vm --mode write-back --dirty-age 1h");
    let server = place.serve(&with("moved.img"));
    let newer = noise(7, 65_536);
    let mut client = place.client();
    assert_eq!((client.write(0, &newer), client.flush()), (0, 0));
    server.kill();
    if has_attributes(&place) {
        refused(&place, &with("cache.img"), &["was served since with a newer copy of this cache"]);
    }
    let server = place.serve(&with("moved.img"));
    assert!(place.client().read(0, newer.len()) == newer);
    assert!(server.stop().0.success());
}

#[test]
fn a_copy_of_a_cache_that_was_made_while_it_was_served_is_not_believed_after_the_end() {
    let place = Place::new();
    let mut data = noise(1, 2 * MIB);
    place.write("vm.img", &data);
    if !has_attributes(&place) {
        return;
    }
    let server = warmed(&place, "vm.img", &data);
    server.stop();
    let server = place.serve(&format!("--origin vm.img {SERVE}"));
    read_all(&place, &data);
    fs::copy(place.path("cache.img"), place.path("copy.img")).unwrap();
    let new = noise(8, MIB);
    assert_eq!(place.client().write(0, &new), 0);
    data[..MIB].copy_from_slice(&new);
    assert!(server.stop().0.success());
    fs::rename(place.path("copy.img"), place.path("cache.img")).unwrap();
    let server = place.serve(&format!("--origin vm.img {SERVE}"));
    read_all(&place, &data);
    let (status, said) = server.stop();
    assert!(status.success() && said.contains("it was served since with a newer copy of this cache"), "{said}");
}

#[test]
fn an_older_state_of_an_origin_is_not_served_with_newer_bytes() {
    let place = Place::new();
    let mut data = noise(1, 2 * MIB);
    let path = place.write("vm.img", &data);
    if !has_attributes(&place) {
        return;
    }
    assert!(place.serve(&format!("--origin vm.img {SERVE}")).stop().0.success());
    let mut mark = vec![0; 4096];
    let len = rustix::fs::getxattr(&path, "user.nitro.volume", &mut mark[..]).unwrap();
    let (old, mtime) = (data.clone(), fs::metadata(&path).unwrap().modified().unwrap());
    let server = warmed(&place, "vm.img", &data);
    let new = noise(8, MIB);
    assert_eq!(place.client().write(0, &new), 0);
    data[..MIB].copy_from_slice(&new);
    assert!(server.stop().0.success());
    assert!(fs::read(&path).unwrap() == data);
    // A snapshot of the file system is restored, with the file, its mark and its times as they were.
    let file = File::options().write(true).open(&path).unwrap();
    file.write_all_at(&old, 0).unwrap();
    rustix::fs::setxattr(&path, "user.nitro.volume", &mark[..len], rustix::fs::XattrFlags::empty()).unwrap();
    file.set_modified(mtime).unwrap();
    let _server = place.serve(&format!("--origin vm.img {SERVE}"));
    read_all(&place, &old);
}

#[test]
fn a_cache_is_not_resized_in_another_file() {
    let place = Place::new();
    place.write("vm.img", noise(1, 2 * MIB));
    let server = dirty(&place, "vm.img", &noise(2, MIB));
    fs::rename(place.path("cache.img"), place.path("moved.img")).unwrap();
    let other = noise(9, MIB);
    place.write("cache.img", &other);
    let said = place.failure("cache resize cache --size 40M", 1);
    assert!(said.contains("cache.img leads to another file"), "{said}");
    assert!(fs::read(place.path("cache.img")).unwrap() == other, "it was written to");
    fs::rename(place.path("moved.img"), place.path("cache.img")).unwrap();
    place.stdout("cache resize cache --size 40M");
    assert!(place.client().read(0, MIB) == noise(2, MIB));
    assert!(server.stop().0.success());
}

#[test]
fn times_that_are_not_those_of_this_clock_keep_no_flushed_data_from_being_served() {
    for ahead in [true, false] {
        let place = Place::new();
        let path = place.write("vm.img", noise(1, 2 * MIB));
        let set = |time| File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
        if ahead {
            set(SystemTime::now() + Duration::from_secs(3600));
        }
        let data = noise(2, 65_536);
        let server = dirty(&place, "vm.img", &data);
        place.stdout("flush vm --wait");
        assert_eq!((place.client().write(MIB as u64, &data), place.client().flush()), (0, 0));
        server.kill();
        if !ahead {
            // As a file server would set it whose clock is ahead, or the end of a pause of this machine.
            set(SystemTime::now() + Duration::from_secs(3600));
        }
        let server = place.serve(&format!("--origin vm.img {SERVE} --mode write-back"));
        let mut expected = noise(1, 2 * MIB);
        expected[..65_536].copy_from_slice(&data);
        expected[MIB..][..65_536].copy_from_slice(&data);
        read_all(&place, &expected);
        assert!(server.stop().0.success());
    }
}

/// A file system whose files are recognised by nothing.
struct Nameless(std::path::PathBuf);

impl Nameless {
    /// `None`: this user may not mount.
    fn of(place: &Place, folder: &str) -> Option<Self> {
        let path = place.path(folder);
        fs::create_dir_all(&path).unwrap();
        let mounted = Command::new("mount").args(["-t", "ramfs", "none"]).arg(&path).output().ok()?;
        mounted.status.success().then_some(Self(path))
    }
}

impl Drop for Nameless {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn an_origin_that_nothing_recognises_is_compared_with_what_is_cached_of_it() {
    let place = Place::new();
    let (data, other, then) =
        (noise(1, 2 * MIB), noise(2, 2 * MIB), SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 30));
    let put = |content: &[u8]| {
        let path = place.write("ram/vm.img", content);
        File::options().write(true).open(path).unwrap().set_modified(then).unwrap();
    };
    let Some(mount) = Nameless::of(&place, "ram") else { return };
    put(&data);
    assert!(warmed(&place, "ram/vm.img", &data).stop().0.success());
    drop(mount);
    for (content, is_kept) in [(&data, true), (&other, false)] {
        let _mount = Nameless::of(&place, "ram").unwrap();
        put(content);
        let server = place.serve(&format!("--origin ram/vm.img {SERVE}"));
        read_all(&place, content);
        assert_eq!(hits(&place) > 250, is_kept, "{}", hits(&place));
        let (_, said) = server.stop();
        let expected = if is_kept { "cached extents are the same there" } else { "differs from the cached content" };
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn disks_that_change_their_names_keep_their_contents_and_those_that_change_places_do_not() {
    let place = Place::new();
    let (a, b) = (noise(1, 2 * MIB), noise(2, 2 * MIB));
    place.write("a.img", &a);
    place.write("b.img", &b);
    let (Some(first), Some(second)) = (Loop::of(&place, "a.img", &[]), Loop::of(&place, "b.img", &[])) else { return };
    first.link(&place, "disk");
    assert!(warmed(&place, "disk", &a).stop().0.success());
    // The same disk under another number.
    drop(first);
    let third = Loop::of(&place, "a.img", &[]).unwrap();
    third.link(&place, "disk");
    let server = place.serve(&format!("--origin disk {SERVE}"));
    place.until("loaded", |status| status["caches"][0]["loading"] == false);
    read_all(&place, &a);
    assert!(hits(&place) > 200, "{}", hits(&place));
    assert!(server.stop().0.success());
    second.link(&place, "disk");
    let server = place.serve(&format!("--origin disk {SERVE}"));
    read_all(&place, &b);
    let (_, said) = server.stop();
    assert!(said.contains("another file or device"), "{said}");
}

#[test]
fn dirty_data_of_a_disk_are_not_written_to_another_of_the_same_size() {
    let place = Place::new();
    place.file("a.img", 2 << 20);
    place.file("b.img", 2 << 20);
    let (Some(first), Some(second)) = (Loop::of(&place, "a.img", &[]), Loop::of(&place, "b.img", &[])) else { return };
    first.link(&place, "disk");
    let data = noise(3, 65_536);
    dirty(&place, "disk", &data).kill();
    second.link(&place, "disk");
    let again = format!("--origin disk {SERVE} --mode write-back");
    refused(&place, &again, &["64 KiB of dirty data", "another file or device"]);
    assert!(fs::read(place.path("b.img")).unwrap().iter().all(|byte| *byte == 0));
    // The mark of a disk is found whatever it is called.
    refused(&place, &format!("--origin {} --cache none", first.0), &["its newest data may be in the cache"]);
    first.link(&place, "disk");
    let server = place.serve(&again);
    assert!(place.client().read(0, data.len()) == data);
    assert!(server.stop().0.success());
}

#[test]
fn a_disk_that_one_server_writes_is_not_served_by_another_by_any_way() {
    let place = Place::new();
    place.write("a.img", noise(1, 2 * MIB));
    let Some(disk) = Loop::of(&place, "a.img", &[]) else { return };
    disk.link(&place, "disk");
    let server = place.serve(&format!("--origin disk {SERVE}"));
    let also = "--cache none --name other --control other.sock --listen unix:other.nbd";
    for origin in ["disk --read-only", "a.img --read-only", "a.img"] {
        refused(&place, &format!("--origin {origin} {also}"), &["is in use"]);
    }
    let again = Loop::of(&place, "a.img", &[]).unwrap();
    refused(&place, &format!("--origin {} {also}", again.0), &["is in use"]);
    assert!(server.stop().0.success());
}

#[test]
fn a_disk_that_can_only_be_read_is_served_read_only_and_not_in_write_back() {
    let place = Place::new();
    let data = noise(1, 2 * MIB);
    place.write("a.img", &data);
    let Some(disk) = Loop::of(&place, "a.img", &["-r"]) else { return };
    disk.link(&place, "disk");
    refused(&place, &format!("--origin disk {SERVE} --mode write-back"), &["it can only be read"]);
    let server = place.serve(&format!("--origin disk {SERVE}"));
    read_all(&place, &data);
    assert_eq!(place.client().write(0, &[1; 4096]), rustix::io::Errno::PERM.raw_os_error() as u32);
    let (_, said) = server.stop();
    assert!(said.contains("the volume is read-only"), "{said}");
}
