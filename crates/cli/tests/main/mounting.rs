//! `nitro mount`: files over FUSE, compared with a plain directory.

use crate::support::{PATIENCE, Place, Server, noise, wait};
use nitro_testkit::Rng;
use nitro_testkit::for_seeds;
use rustix::fs::{FallocateFlags, OFlags, copy_file_range, fallocate};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Whether there is what a mount needs; says what is missing.
fn can_mount() -> bool {
    let device = OpenOptions::new().read(true).write(true).open("/dev/fuse");
    let missing = match (device, Command::new("fusermount3").arg("-V").output()) {
        (Ok(_), Ok(_)) => return true,
        (Err(error), _) => format!("/dev/fuse: {error}"),
        (_, Err(error)) => format!("fusermount3: {error}"),
    };
    eprintln!("skipped, for lack of {missing}");
    false
}

/// A mounted directory; unmounted with the test, whatever becomes of the server.
struct Mounted {
    server: Option<Server>,
    tree: PathBuf,
    point: PathBuf,
}

const MOUNT: &str = "mount tree point --cache cache.img --cache-size 32M --extent-size 4K";

impl Mounted {
    fn new(place: &Place) -> Self {
        let (tree, point) = (place.path("tree"), place.path("point"));
        for folder in [&tree, &point] {
            fs::create_dir_all(folder).unwrap();
        }
        let mut mounted = Self { server: None, tree, point };
        mounted.server = Some(Server::start(&mut place.command(MOUNT)));
        mounted
    }

    fn server(&mut self) -> Server {
        self.server.take().unwrap()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        drop(self.server.take());
        unmount(&self.point);
    }
}

fn unmount(point: &Path) {
    // It may not be mounted.
    let _ = Command::new("fusermount3").args(["-u", "-z", "-q", "--"]).arg(point).output();
}

/// Reads past the kernel's pages.
fn read_cached(path: &Path) -> Vec<u8> {
    let file = OpenOptions::new().read(true).custom_flags(OFlags::DIRECT.bits() as i32).open(path).unwrap();
    let mut all = vec![0; file.metadata().unwrap().len() as usize + 1];
    let mut len = 0;
    loop {
        match file.read_at(&mut all[len..], len as u64).unwrap() {
            0 => break,
            more => len += more,
        }
    }
    all.truncate(len);
    all
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open(path)
}

/// The operations of a run: each is done in the mount and in a plain directory, with the same outcome.
struct Twins {
    roots: [PathBuf; 2],
    rng: Rng,
}

const NAMES: [&str; 6] = ["a", "b", "c", "sub/a", "sub/b", "sub/c"];
const SIZE_MAX: u64 = 160 << 10;

/// What tells outcomes apart: what was returned, or the error's number.
fn told<T>(result: io::Result<T>) -> Result<T, Option<i32>> {
    result.map_err(|error| error.raw_os_error())
}

impl Twins {
    fn both<T: PartialEq + std::fmt::Debug>(&self, what: &str, act: impl Fn(&Path) -> io::Result<T>) {
        let [mount, plain] = self.roots.each_ref().map(|root| told(act(root)));
        assert!(mount == plain, "{what}: the mount has {}, the plain directory {}", short(&mount), short(&plain));
    }

    fn name(&mut self) -> &'static str {
        NAMES[self.rng.below(NAMES.len() as u64) as usize]
    }

    fn range(&mut self) -> (u64, u64) {
        let at = self.rng.below(SIZE_MAX);
        (at, 1 + self.rng.below(40 << 10).min(SIZE_MAX - at))
    }

    fn step(&mut self, number: u64) {
        let (name, other) = (self.name(), self.name());
        let (at, len) = self.range();
        let what = format!("step {number}, {name}, {other}, {len} at {at}");
        match self.rng.below(16) {
            0..4 => {
                let data = noise(number, len as usize);
                self.both(&what, |root| open(&root.join(name))?.write_all_at(&data, at));
            }
            4..7 => self.both(&what, |root| {
                let mut data = vec![0; len as usize];
                let len = open(&root.join(name))?.read_at(&mut data, at)?;
                data.truncate(len);
                Ok(data)
            }),
            7 => {
                let mount = self.roots[0].clone();
                self.both(&what, |root| {
                    let path = root.join(name);
                    fs::metadata(&path)?;
                    if *root == mount { Ok(read_cached(&path)) } else { fs::read(&path) }
                });
            }
            8 => self.both(&what, |root| open(&root.join(name))?.set_len(at)),
            9 => {
                let modes = [
                    FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
                    FallocateFlags::ZERO_RANGE,
                    FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE,
                    FallocateFlags::empty(),
                    FallocateFlags::KEEP_SIZE,
                ];
                let mode = modes[self.rng.below(modes.len() as u64) as usize];
                self.both(&what, |root| Ok(fallocate(open(&root.join(name))?, mode, at, len)?));
            }
            10 => {
                let to = self.rng.below(SIZE_MAX);
                self.both(&what, |root| {
                    let (source, target) = (open(&root.join(name))?, open(&root.join(other))?);
                    let (mut from, mut into, mut left) = (at, to, len as usize);
                    while left > 0 {
                        match copy_file_range(&source, Some(&mut from), &target, Some(&mut into), left)? {
                            0 => break,
                            copied => left -= copied,
                        }
                    }
                    Ok(left)
                });
            }
            11 => {
                let data = noise(number, len as usize / 4);
                self.both(&what, |root| {
                    OpenOptions::new().append(true).create(true).open(root.join(name))?.write_all(&data)
                });
            }
            12 => self.both(&what, |root| fs::rename(root.join(name), root.join(other))),
            13 => self.both(&what, |root| fs::hard_link(root.join(name), root.join(other))),
            14 => self.both(&what, |root| {
                // Still open when it has no name any more.
                let file = open(&root.join(name))?;
                fs::remove_file(root.join(name))?;
                file.write_all_at(b"gone", at)?;
                let mut data = vec![0; 8];
                let len = file.read_at(&mut data, at)?;
                Ok((len, data, file.metadata()?.nlink(), file.metadata()?.len()))
            }),
            _ => {
                let data = noise(number, len as usize);
                self.both(&what, |root| fs::write(root.join(name), &data));
            }
        }
    }
}

fn short<T: std::fmt::Debug>(what: &T) -> String {
    format!("{what:?}").chars().take(300).collect()
}

/// All files below a directory, with contents and what their attributes say.
fn contents(root: &Path, read: impl Fn(&Path) -> Vec<u8>) -> BTreeMap<String, (Vec<u8>, u64, u32)> {
    let mut all = BTreeMap::new();
    for name in NAMES {
        if let Ok(found) = fs::metadata(root.join(name)) {
            all.insert(name.to_owned(), (read(&root.join(name)), found.nlink(), found.mode()));
        }
    }
    all
}

#[test]
fn random_operations_do_what_they_do_in_a_plain_directory() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let mut mounted = Mounted::new(&place);
    for_seeds(3, |seed| {
        let roots = [mounted.point.join(format!("s{seed}")), place.path(&format!("plain{seed}"))];
        roots.iter().for_each(|root| fs::create_dir_all(root.join("sub")).unwrap());
        let mut twins = Twins { roots, rng: Rng::new(seed) };
        (0..600).for_each(|number| twins.step(number));
        let [mount, plain] = twins.roots.each_ref().map(|root| contents(root, |path| fs::read(path).unwrap()));
        assert!(mount == plain, "seed {seed}: through the kernel's pages");
        assert!(contents(&twins.roots[0], read_cached) == plain, "seed {seed}: from the cache");
        let bare = mounted.tree.join(format!("s{seed}"));
        assert!(contents(&bare, |path| fs::read(path).unwrap()) == plain, "seed {seed}: in the tree itself");
    });
    let (status, said) = mounted.server().stop();
    assert!(status.success() && !said.contains("ERROR"), "{said}");
}

#[test]
fn changes_behind_its_back_are_seen_when_a_file_is_opened() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let mut mounted = Mounted::new(&place);
    let (bare, seen) = (mounted.tree.join("f"), mounted.point.join("f"));
    let read = |what: &str, expected: &[u8]| {
        for _ in 0..2 {
            assert!(fs::read(&seen).unwrap() == expected, "{what}: through the kernel's pages");
            assert!(read_cached(&seen) == expected, "{what}: from the cache");
        }
    };
    let [one, mut two, long] = [noise(1, 40_000), noise(2, 40_000), noise(3, 90_000)];
    fs::write(&bare, &one).unwrap();
    read("as it was", &one);
    fs::write(&bare, &two).unwrap();
    read("of the same size", &two);
    fs::write(&bare, &long).unwrap();
    read("longer", &long);
    fs::write(mounted.tree.join("new"), &two).unwrap();
    fs::rename(mounted.tree.join("new"), &bare).unwrap();
    read("another file under the name", &two);
    // With its time of change set back.
    let before = fs::metadata(&bare).unwrap().modified().unwrap();
    fs::write(&bare, &one).unwrap();
    File::open(&bare).unwrap().set_modified(before).unwrap();
    read("with the old time", &one);
    // Who follows a log has it open while others write it.
    let log = File::open(&seen).unwrap();
    assert_eq!(log.read_at(&mut [0; 8], one.len() as u64).unwrap(), 0);
    OpenOptions::new().append(true).open(&bare).unwrap().write_all(b"a line").unwrap();
    let begun = Instant::now();
    while log.read_at(&mut [0; 8], one.len() as u64).unwrap() != 6 {
        assert!(begun.elapsed() < PATIENCE, "the new line is not seen");
        std::thread::sleep(Duration::from_millis(50));
    }
    fs::write(&bare, &one).unwrap();
    // A write through the mount does not make what was changed before look like its own.
    let open_still = open(&seen).unwrap();
    fs::write(&bare, &two).unwrap();
    open_still.write_all_at(b"mine", 100).unwrap();
    drop(open_still);
    two[100..104].copy_from_slice(b"mine");
    read("changed by both", &two);
    assert!(fs::read(&bare).unwrap() == two);
    let (status, said) = mounted.server().stop();
    assert!(status.success() && !said.contains("ERROR"), "{said}");
}

/// Extents that were read from the files since the start, and those that the cache had.
fn reads(place: &Place) -> (u64, u64) {
    let status = place.status();
    let of = |key: &str| status["volumes"][0][key].as_u64().unwrap_or_else(|| panic!("no {key} in {status}"));
    (of("read_miss_extents"), of("read_hit_extents"))
}

#[test]
fn after_a_kill_the_mountpoint_says_so_and_the_cache_is_used_again() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let mut mounted = Mounted::new(&place);
    let files: Vec<_> = (0..20).map(|seed| (format!("f{seed}"), noise(seed, 100_000))).collect();
    for (name, data) in &files {
        fs::write(mounted.tree.join(name), data).unwrap();
        assert!(read_cached(&mounted.point.join(name)) == *data);
    }
    fs::write(mounted.point.join("f1"), &files[2].1).unwrap();
    fs::rename(mounted.point.join("f3"), mounted.point.join("moved")).unwrap();
    fs::set_permissions(mounted.point.join("f4"), fs::Permissions::from_mode(0o640)).unwrap();
    // What was cached is written once its unit is full, or a second later; so are the versions of the files.
    std::thread::sleep(Duration::from_secs(4));
    mounted.server().kill();
    fs::write(mounted.tree.join("f5"), &files[6].1).unwrap();
    let gone = fs::read_dir(&mounted.point).err().and_then(|e| e.raw_os_error());
    assert_eq!(gone, Some(rustix::io::Errno::NOTCONN.raw_os_error()));
    let said = place.failure(MOUNT, 1);
    assert!(said.contains("server has ended") && said.contains("fusermount3 -u"), "{said}");
    unmount(&mounted.point);
    mounted.server = Some(Server::start(&mut place.command(MOUNT)));
    place.until("restored", |status| status["caches"][0]["loading"] == false);
    for (name, data) in &files {
        let (name, data) = match name.as_str() {
            "f1" => ("f1", &files[2].1),
            "f3" => ("moved", data),
            "f5" => ("f5", &files[6].1),
            _ => (name.as_str(), data),
        };
        assert!(read_cached(&mounted.point.join(name)) == *data, "{name}");
    }
    let (missed, hit) = reads(&place);
    // All but the one that was changed meanwhile, and what waited for its unit to be full.
    assert!(hit > missed, "{hit} extents came from the cache, {missed} from the files");
    let (status, said) = mounted.server().stop();
    assert!(status.success() && !said.contains("ERROR"), "{said}");
}

#[test]
fn with_another_table_nothing_of_before_is_used() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let mut mounted = Mounted::new(&place);
    let all: Vec<_> = (0..8).map(|seed| (format!("f{seed}"), noise(seed, 50_000))).collect();
    let read_in_order = |mounted: &Mounted, order: &[usize]| {
        for at in order {
            let (name, data) = &all[*at];
            assert!(read_cached(&mounted.point.join(name)) == *data, "{name}");
        }
    };
    all.iter().for_each(|(name, data)| fs::write(mounted.tree.join(name), data).unwrap());
    read_in_order(&mounted, &[0, 1, 2, 3, 4, 5, 6, 7]);
    let (status, said) = mounted.server().stop();
    assert!(status.success(), "{said}");
    let table = fs::read_dir(place.path("state")).unwrap().map(|entry| entry.unwrap().path());
    let tables: Vec<_> = table.filter(|path| path.extension().is_some_and(|suffix| suffix == "table")).collect();
    assert_eq!(tables.len(), 1);
    fs::remove_file(&tables[0]).unwrap();
    mounted.server = Some(Server::start(&mut place.command(MOUNT)));
    // In another order, files get slots that were those of others.
    read_in_order(&mounted, &[7, 6, 5, 4, 3, 2, 1, 0]);
    assert!(mounted.server().stop().0.success());
}

#[test]
fn a_mount_ends_with_its_server_and_the_server_with_its_mount() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let mut mounted = Mounted::new(&place);
    fs::write(mounted.point.join("f"), "x").unwrap();
    fs::create_dir_all(place.path("other")).unwrap();
    assert!(
        place
            .failure("mount tree other --cache cache2.img --cache-size 32M", 1)
            .contains("another server has mounted it")
    );
    assert!(
        place.failure("mount tree tree --cache cache2.img --cache-size 32M", 1).contains("name a directory elsewhere")
    );
    let said = place.failure("mount tree other --cache tree/cache.img --cache-size 32M", 1);
    assert!(said.contains("the server would wait for itself"), "{said}");
    assert!(place.failure("mount tree other --cache c.img --mode write-back", 1).contains("write-through only"));
    let said = place.failure("serve --origin files:tree --cache c.img", 1);
    assert!(said.contains("run nitro mount"), "{said}");
    let status = place.status();
    let uri = format!("fuse:{}", fs::canonicalize(&mounted.point).unwrap().display());
    assert_eq!(status["server"]["uris"][0].as_str(), Some(uri.as_str()));
    let in_use = File::open(mounted.point.join("f")).unwrap();
    let server = mounted.server();
    let begun = Instant::now();
    server.signal(rustix::process::Signal::TERM);
    while mounted.point.join("f").exists() {
        assert!(begun.elapsed() < PATIENCE, "still mounted");
        std::thread::sleep(Duration::from_millis(10));
    }
    drop(in_use);
    assert!(server.stop().0.success());
    let mut server = Server::start(&mut place.command(MOUNT));
    assert_eq!(fs::read(mounted.point.join("f")).unwrap(), b"x");
    unmount(&mounted.point);
    assert!(wait(&mut server.child).success());
}

#[test]
fn git_and_sqlite_work_on_files_of_a_mount() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let mut mounted = Mounted::new(&place);
    symlink("f1", mounted.point.join("link")).unwrap();
    let sh = |script: &str| {
        let done = Command::new("sh").args(["-ec", script]).current_dir(&mounted.point).output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.success(), "{script}: {said}");
        String::from_utf8(done.stdout).unwrap()
    };
    if Command::new("git").arg("--version").output().is_ok() {
        sh(
            "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b; git init -q r; cd r; \
            for i in 1 2 3 4 5; do seq $i 5000 >f$i; git add -A; git commit -qm c$i; done; git gc -q; git fsck --strict; \
            git checkout -q HEAD~3; test ! -e f3; git checkout -q -; git diff --exit-code",
        );
        let bare =
            Command::new("git").args(["status", "--porcelain"]).current_dir(mounted.tree.join("r")).output().unwrap();
        assert!(bare.stdout.is_empty() && bare.status.success());
    }
    if Command::new("sqlite3").arg("--version").output().is_ok() {
        for mode in ["delete", "wal"] {
            sh(&format!(
                "sqlite3 d-{mode} \"pragma journal_mode={mode}; create table t(a); with recursive n(x) as (select 1 union all select \
                 x+1 from n where x<20000) insert into t select hex(randomblob(20)) from n; delete from t where rowid%3=0; vacuum\""
            ));
            let checked = sh(&format!("sqlite3 d-{mode} 'pragma integrity_check; select count(*) from t'"));
            assert_eq!(checked, "ok\n13334\n", "{mode}");
        }
    }
    let (status, said) = mounted.server().stop();
    assert!(status.success() && !said.contains("ERROR"), "{said}");
}

#[test]
fn a_file_that_runs_with_its_owners_rights_loses_them_when_it_is_written() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let mut mounted = Mounted::new(&place);
    let program = mounted.point.join("p");
    fs::write(&program, "#!/bin/sh\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o7777;
    assert_eq!((mode(&program), mode(&mounted.tree.join("p"))), (0o4755, 0o4755));
    // Root may write to it without that; so what an ordinary user's write does is asked of one.
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4777)).unwrap();
    if rustix::process::geteuid().is_root() {
        drop(mounted.server());
        unmount(&mounted.point);
        mounted.server = Some(Server::start(&mut place.command(&format!("{MOUNT} --allow-other"))));
        let folders: Vec<_> = mounted.point.ancestors().map(Path::to_owned).collect();
        if folders.iter().any(|folder| fs::metadata(folder).is_ok_and(|found| found.mode() & 0o005 != 0o005)) {
            eprintln!("skipped, for lack of a folder that other users reach");
            return;
        }
        let done = Command::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-c", "echo x >>\"$0\""])
            .arg(&program)
            .status();
        if !done.is_ok_and(|done| done.success()) {
            eprintln!("skipped, for lack of setpriv");
            return;
        }
    } else {
        OpenOptions::new().append(true).open(&program).unwrap().write_all(b"x").unwrap();
    }
    assert_eq!((mode(&program), mode(&mounted.tree.join("p"))), (0o777, 0o777));
    assert!(mounted.server().stop().0.success());
}
