//! An origin that takes nothing, or answers nothing, and what its neighbours, the operator and the next start see of it.

use crate::support::{Nbd, Place, Server, noise};
use rustix::process::getuid;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const MIB: u64 = 1 << 20;

/// Writes a configuration of two volumes, `a` and `b`, behind one cache.
fn configure(place: &Place, origin: &Path, mode: &str, more: &str) {
    let text = format!(
        "[cache.fast]\npath = \"cache.img\"\nsize = \"64M\"\nmode = \"{mode}\"\n{more}\n\
         [volume.a]\norigin = \"{}\"\n[volume.b]\norigin = \"b.img\"\n",
        origin.display()
    );
    place.write("nitro.toml", text);
}

fn connect(place: &Place, volume: &str) -> Nbd {
    Nbd::connect(&place.path("run/nitro/nitro.sock"), volume)
}

/// Writes 64 KiB at a time from `at` on until a write is refused; says how many bytes were taken, and the error.
fn fill(client: &mut Nbd, at: u64, data: &[u8]) -> (u64, u32) {
    for taken in 0.. {
        let error = client.write(at + taken * data.len() as u64, data);
        if error != 0 {
            return (taken * data.len() as u64, error);
        }
    }
    unreachable!("a write is refused sooner");
}

/// Writes 32 MiB to the neighbour, with a FLUSH for each.
fn neighbour_goes_on(place: &Place) {
    let mut client = connect(place, "b");
    for round in 0..32 {
        assert_eq!(client.write(round % 16 * MIB, &noise(100 + round, MIB as usize)), 0);
        assert_eq!(client.flush(), 0);
    }
    // A trim is a system call that takes a thread.
    client.request(4, 0, MIB as usize, &[]);
    assert_eq!(client.reply(), 0);
}

fn count(said: &str, phrase: &str) -> usize {
    said.matches(phrase).count()
}

#[test]
fn an_origin_that_refuses_writes_is_a_state_of_its_volume() {
    const LIMIT: u64 = 100 * MIB;
    const BEYOND: u64 = 128 * MIB;
    let place = Place::new();
    let origin = place.file("a.img", 256 * MIB);
    place.file("b.img", 16 * MIB);
    configure(&place, &origin, "write-back", "dirty_wait = \"1s\"\ndirty_age = \"1s\"");
    let server = place.serve_limited("--config nitro.toml");
    // The cache and the neighbour's origin are smaller.
    server.limit_files(LIMIT);
    let data = noise(1, 64 << 10);
    let mut client = connect(&place, "a");
    let (taken, _) = fill(&mut client, BEYOND, &data);
    assert!(taken > 8 * MIB && taken < 40 * MIB, "{taken}");
    neighbour_goes_on(&place);
    assert!(client.read(BEYOND, data.len()) == data);
    assert_eq!(client.flush(), 0);
    let status = place.until("failing", |s| s["volumes"][0]["destage_failures"].as_u64().unwrap() > 1);
    let (a, b) = (&status["volumes"][0], &status["volumes"][1]);
    assert!(a["destage_error"].as_str().unwrap().contains("too large"), "{a}");
    assert!(a["destage_failing_seconds"].as_f64().unwrap() > 0.0 && a["dirty_bytes"].as_u64().unwrap() >= taken, "{a}");
    assert!(b["destage_error"].is_null() && b["destage_failures"] == 0, "{b}");
    assert!(place.stdout("status").contains("destage fails"));
    for command in ["flush a --wait", "volume set a --mode write-through"] {
        let said = place.failure(command, 1);
        assert!(said.contains("of dirty data stay in the cache") && said.contains("too large"), "{said}");
    }
    drop(client);
    let (ended, said) = server.stop();
    assert_eq!(ended.code(), Some(1), "{said}");
    assert!(said.contains("nitro: volume a: ") && said.contains("of dirty data stay in the cache"), "{said}");
    assert_eq!(count(&said, "destage fails"), 1, "{said}");

    // The origin takes writes again.
    let server = place.serve("--config nitro.toml");
    assert!(connect(&place, "a").read(BEYOND, data.len()) == data);
    let (ended, said) = server.stop();
    assert!(ended.success(), "{said}");
    let origin = fs::read(origin).unwrap();
    assert!(origin[BEYOND as usize..][..taken as usize].chunks(data.len()).all(|chunk| chunk == data));
    assert!(!place.path("a.img.nitro-dirty").exists());
}

#[test]
fn shares_of_dirty_data_are_set_while_volumes_are_served() {
    let place = Place::new();
    let origin = place.file("a.img", 16 * MIB);
    place.file("b.img", 16 * MIB);
    configure(&place, &origin, "write-back", "");
    let _server = place.serve("--config nitro.toml");
    let said = place.stdout("volume set a --dirty-share-min 10 --dirty-share-max 30");
    assert!(said.contains("volume a: 10 % of the room for dirty data is kept for it, 30 % it may take"), "{said}");
    let status = place.status();
    assert_eq!(
        (&status["volumes"][0]["dirty_share_min"], &status["volumes"][0]["dirty_share_max"]),
        (&10.into(), &30.into())
    );
    assert!(place.failure("volume set a --dirty-share-min 40", 1).contains("above dirty_share_max = 30"));
    assert!(place.failure("volume set b --dirty-share-min 91", 1).contains("10 percent of the room are reserved"));
    assert!(place.failure("volume set b", 2).contains("--mode"));
}

#[test]
fn dirty_data_that_cannot_be_read_are_no_success() {
    const AGAIN: &str = "--origin vm.img --cache cache.img --mode write-back";
    let place = Place::new();
    place.file("vm.img", 16 * MIB);
    let server = place.serve(&format!("{AGAIN} --cache-size 64M --dirty-age 1h"));
    let data = noise(5, 4 << 20);
    let mut client = place.client();
    assert_eq!(client.write(0, &data), 0);
    assert_eq!(client.flush(), 0);
    // The flush is told from a write that was torn by the crash once another commit follows it.
    let commits = place.status()["caches"][0]["commits"].as_u64().unwrap();
    place.until("confirmed", |s| s["caches"][0]["commits"].as_u64().unwrap() > commits);
    server.kill();
    // One bit of what does not shrink, and is stored as it is.
    let mut cache = fs::read(place.path("cache.img")).unwrap();
    let at = cache.windows(64).position(|window| window == &data[..64]).unwrap();
    cache[at] ^= 1;
    fs::write(place.path("cache.img"), &cache).unwrap();
    let server = place.serve(&format!("{AGAIN} --dirty-age 1h"));
    for command in
        ["flush vm --wait", "volume set vm --mode write-through", "cache detach cache vm", "volume remove vm"]
    {
        let said = place.failure(command, 1);
        for phrase in [
            "8 KiB of dirty data stay in the cache",
            "cannot be read from there any more: bytes 8192 at 0",
            "overwrite",
        ] {
            assert!(said.contains(phrase), "{command}: {said}");
        }
    }
    let (ended, said) = server.stop();
    assert!(
        ended.code() == Some(1) && said.contains("nitro: volume vm: 8 KiB of dirty data stay in the cache"),
        "{said}"
    );
    let server = place.serve(AGAIN);
    let said = place.stdout("volume remove vm --force-discard-dirty");
    assert!(said.contains("8 KiB of dirty data are discarded"), "{said}");
    assert!(server.stop().0.success());
    assert!(fs::read(place.path("vm.img")).unwrap()[8192..][..data.len() - 8192] == data[8192..]);
}

/// A filesystem of its own, which only root can make; unmounted when dropped.
struct Mounted {
    folder: PathBuf,
    frozen: bool,
}

impl Mounted {
    /// `None`: this user cannot, and the test says so.
    fn new(place: &Place, options: &[&str], what: &Path) -> Option<Self> {
        let folder = place.path("mounted");
        fs::create_dir(&folder).unwrap();
        let mounted = getuid().is_root()
            && Command::new("mount")
                .args(options)
                .args([what, &folder])
                .output()
                .is_ok_and(|done| done.status.success());
        if !mounted {
            eprintln!("not run: no filesystem can be mounted here");
            return None;
        }
        Some(Self { folder, frozen: false })
    }

    fn freeze(&mut self, how: &str) {
        let done = Command::new("fsfreeze").arg(how).arg(&self.folder).status().unwrap();
        assert!(done.success());
        self.frozen = how == "--freeze";
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.frozen {
            let _ = Command::new("fsfreeze").arg("--unfreeze").arg(&self.folder).status();
        }
        let _ = Command::new("umount").arg("--lazy").arg(&self.folder).status();
    }
}

#[test]
fn a_server_starts_again_while_its_origin_has_no_room() {
    let place = Place::new();
    let Some(small) = Mounted::new(&place, &["-t", "tmpfs", "-o", "size=4m"], Path::new("none")) else { return };
    let origin = small.folder.join("a.img");
    fs::File::create(&origin).unwrap().set_len(64 * MIB).unwrap();
    place.file("b.img", 16 * MIB);
    configure(&place, &origin, "write-back", "dirty_wait = \"1s\"\ndirty_age = \"1s\"");
    let server = place.serve("--config nitro.toml");
    let data = noise(1, 64 << 10);
    let (taken, error) = fill(&mut connect(&place, "a"), 0, &data);
    assert_eq!(error, 28, "ENOSPC");
    neighbour_goes_on(&place);
    server.kill();
    assert!(small.folder.join("a.img.nitro-dirty").exists());

    let server = place.serve("--config nitro.toml");
    let mut client = connect(&place, "a");
    for at in (0..taken).step_by(data.len()) {
        assert!(client.read(at, data.len()) == data, "at {at}");
    }
    neighbour_goes_on(&place);
    drop(client);
    let (ended, said) = server.stop();
    assert!(ended.code() == Some(1) && said.contains("stay in the cache"), "{said}");
    let server = place.serve("--config nitro.toml");
    let done = Command::new("mount").args(["-o", "remount,size=64m"]).arg(&small.folder).status().unwrap();
    assert!(done.success());
    place.until("up to date", |s| s["volumes"][0]["destage_error"].is_null() && s["volumes"][0]["dirty_bytes"] == 0);
    let (ended, said) = server.stop();
    assert!(ended.success() && count(&said, "destage succeeds again") <= 1, "{said}");
    let bytes = fs::read(&origin).unwrap();
    assert!(bytes[..taken as usize].chunks(data.len()).all(|chunk| chunk == data));
}

/// More requests than helper threads and kernel workers hang at the origin.
#[test]
fn a_frozen_origin_leaves_its_neighbour_alone() {
    let place = Place::new();
    let image = place.file("ext4.img", 64 * MIB);
    if !Command::new("mkfs.ext4").arg("-q").arg(&image).status().is_ok_and(|done| done.success()) {
        return eprintln!("not run: there is no mkfs.ext4");
    }
    let Some(mounted) = Mounted::new(&place, &["-o", "loop"], &image) else { return };
    let origin = mounted.folder.join("a.img");
    fs::write(&origin, noise(3, 16 << 20)).unwrap();
    place.file("b.img", 16 * MIB);
    configure(&place, &origin, "write-through", "origin_timeout = \"1s\"");
    let server: Server = place.serve("--config nitro.toml");
    // Dropped before the server: the process cannot end while the filesystem is frozen.
    let mut mounted = mounted;
    mounted.freeze("--freeze");
    let mut clients: Vec<Nbd> = (0..16).map(|_| connect(&place, "a")).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        // Each an extent of its own: requests for the same one wait for each other.
        for at in number * 100..(number + 1) * 100 {
            client.request(if number % 2 == 0 { 4 } else { 6 }, at as u64 * 8192, 8192, &[]);
        }
    }
    neighbour_goes_on(&place);
    for client in &mut clients {
        assert_ne!(client.reply(), 0);
    }
    mounted.freeze("--unfreeze");
    drop(clients);
    assert!(server.stop().0.success());
}
