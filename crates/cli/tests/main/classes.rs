//! Classes of requests, from the client to the statistics and the recording; and the policies of a cache.

use crate::support::{Nbd, Place, noise};
use nitro_trace::parquet::ParquetReader;
use nitro_trace::{BadRecords, Op, Reader as _};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs::{self, File};

const MIB: u64 = 1 << 20;

fn place() -> Place {
    let place = Place::new();
    place.file("vm.img", 16 * MIB);
    place
}

/// What a list of classes says under a name, of one class.
fn of(classes: &Value, class: u64, name: &str) -> Option<u64> {
    classes.as_array()?.iter().find(|held| held["id"] == class)?[name].as_u64()
}

#[test]
fn a_class_reaches_the_statistics_and_the_recording() {
    let place = place();
    let arguments = "--origin vm.img --cache cache.img --cache-size 32M --ram 0 --class 3 --record requests.parquet";
    let server = place.serve(arguments);
    let mut client = place.client();
    let mut classed = Nbd::connect(&place.path("run/nitro/vm.sock"), "vm?class=7");
    let mut plain = Nbd::connect(&place.path("run/nitro/vm.sock"), "vm?class=0");
    assert_eq!(client.write(0, &noise(1, MIB as usize)), 0);
    assert_eq!(classed.write(MIB, &noise(2, 2 * MIB as usize)), 0);
    assert_eq!(plain.write(3 * MIB, &noise(3, MIB as usize)), 0);
    let status = place.until("inserted", |status| status["caches"][0]["insertions"].as_u64() == Some(4 * MIB / 8192));
    let cached = &status["caches"][0]["classes"];
    let held = [0, 3, 7].map(|class| of(cached, class, "cached_bytes"));
    assert_eq!(held, [Some(MIB), Some(MIB), Some(2 * MIB)], "{cached}");
    // A hit counts for the class that reads; the content stays that of the class that brought it.
    classed.read(0, 65536);
    let status = place.status();
    let asked = &status["volumes"][0]["classes"];
    assert_eq!((of(asked, 7, "read_hit_extents"), of(asked, 7, "reads")), (Some(8), Some(1)), "{asked}");
    assert_eq!((of(asked, 3, "write_bytes"), of(asked, 3, "reads")), (Some(MIB), Some(0)), "{asked}");
    assert_eq!(of(&status["caches"][0]["classes"], 3, "cached_bytes"), Some(MIB));
    // Overwritten by another class.
    assert_eq!(classed.write(0, &noise(4, MIB as usize)), 0);
    place.until("taken over", |status| {
        let cached = &status["caches"][0]["classes"];
        of(cached, 3, "cached_bytes").is_none() && of(cached, 7, "cached_bytes") == Some(3 * MIB)
    });
    let text = place.stdout("status");
    assert!(text.contains("by class      unclassified: 1 MiB, file-256k: 3 MiB"), "{text}");
    drop((client, classed, plain));
    assert!(server.stop().0.success());
    // Classes of what is cached survive a restart.
    let server = place.serve("--origin vm.img --cache cache.img --ram 0");
    let status = place.until("loaded", |status| status["caches"][0]["loading"] == false);
    let cached = &status["caches"][0]["classes"];
    assert_eq!([0, 7].map(|class| of(cached, class, "cached_bytes")), [Some(MIB), Some(3 * MIB)], "{cached}");
    assert!(server.stop().0.success());

    let file = File::open(place.path("requests.parquet")).unwrap();
    let reader = ParquetReader::new(file, BadRecords::Fatal).unwrap();
    let recorded: BTreeSet<_> =
        reader.requests().map(Result::unwrap).filter(|r| r.op == Op::Write).map(|r| r.class.number()).collect();
    assert_eq!(recorded, [0, 3, 7].into());
}

#[test]
fn a_class_that_is_not_cached_when_it_is_written_goes_around_in_write_back() {
    let place = place();
    place.write("classes.toml", "[class.redo]\nid = 20\nwrite_allocate = false\n");
    let options = "--origin vm.img --cache cache.img --cache-size 32M --mode write-back --dirty-age 3000";
    let server = place.serve(&format!("{options} --classes classes.toml"));
    let mut plain = place.client();
    let mut redo = Nbd::connect(&place.path("run/nitro/vm.sock"), "vm?class=redo");
    let [first, second] = [noise(1, 65_536), noise(2, 65_536)];
    assert_eq!((plain.write(0, &first), redo.write(MIB, &second)), (0, 0));
    let image = fs::read(place.path("vm.img")).unwrap();
    assert!(image[..65_536].iter().all(|byte| *byte == 0), "the other class's write is in the origin at once");
    assert!(image[MIB as usize..][..65_536] == second[..], "the write is not in the origin");
    let status = place.status();
    let asked = &status["volumes"][0]["classes"];
    assert_eq!([0, 20].map(|class| of(asked, class, "around_write_allocate")), [Some(0), Some(8)], "{asked}");
    assert_eq!(status["volumes"][0]["dirty_bytes"], 65_536);
    drop((plain, redo));
    assert!(server.stop().0.success());
}

#[test]
fn a_rule_that_can_never_apply_is_told_by_the_check() {
    let place = place();
    let check = |dirty_max: u8| {
        let cache = format!("[cache.c]\npath = \"c.img\"\nsize = \"2G\"\nclasses = \"dss\"\ndirty_max = {dirty_max}\n");
        place.write("n.toml", format!("{cache}[volume.vm]\norigin = \"vm.img\"\nmode = \"write-back\"\n"));
        place.stdout("check n.toml")
    };
    let told = check(60);
    assert!(
        told.contains("while-clean refuses nothing, as dirty_max = 60 keeps at least 42 % of the cache clean"),
        "{told}"
    );
    assert!(!check(90).contains("while-clean"));
    assert!(!told.contains("priorities"), "{told}");
    place.write(
        "small.toml",
        "[cache.c]\npath = \"c.img\"\nsize = \"64M\"\nclasses = \"dss\"\n[volume.vm]\norigin = \"vm.img\"\n",
    );
    let told = place.stdout("check small.toml");
    assert!(told.contains("priorities of its classes apart: make it"), "{told}");
}

#[test]
fn a_class_that_does_not_exist_is_refused() {
    let place = place();
    let said = place.failure("serve --origin vm.img --cache cache.img --cache-size 32M --class 32", 1);
    assert!(said.contains("volume.vm: class = 32: must be 0 to 31"), "{said}");
    place.file("odd.img", MIB);
    let server = place.serve("--origin odd.img --name vm?class=7 --cache cache.img --cache-size 32M");
    let client = Nbd::connect(&place.path("run/nitro/vm?class=7.sock"), "vm?class=7");
    // The name as it is wins over a class in it.
    place.until("connected", |status| status["volumes"][0]["clients"] == 1);
    drop(client);
    assert!(server.stop().0.success());
}

#[test]
fn policies_are_chosen_by_name() {
    let place = place();
    let said = place.failure("serve --origin vm.img --cache cache.img --cache-size 32M --eviction clock", 2);
    assert!(said.contains("there is no policy of eviction \"clock\"; there are: heat, lru, fifo"), "{said}");
    let cache = "--origin vm.img --cache cache.img --cache-size 32M --ram 0 --sequential-threshold 0";
    let server = place.serve(&format!("{cache} --admission second-miss --eviction fifo"));
    let mut client = place.client();
    let insertions = |wanted: u64, refused: u64| {
        place.until("seen", |status| {
            let cache = &status["caches"][0];
            (cache["insertions"].as_u64(), cache["rejections"].as_u64()) == (Some(wanted), Some(refused))
        })
    };
    assert_eq!(client.write(0, &noise(1, MIB as usize)), 0);
    insertions(0, 128);
    // What was missed once is taken when it is missed again, but for the few whose place another one took.
    client.read(0, MIB as usize);
    let status = place.until("taken", |status| status["caches"][0]["insertions"].as_u64() >= Some(100));
    assert!(status["caches"][0]["insertions"].as_u64() <= Some(128), "{status}");
    assert!(server.stop().0.success());
    // Policies are no part of what is on the SSD.
    assert!(place.serve(&format!("{cache} --admission by-source")).stop().0.success());
}

/// Reads all of a stretch of the volume, 64 KiB at a time, in an order that is no stream.
fn read_scattered(client: &mut Nbd, from: u64, len: u64) {
    let pieces = len / 65536;
    (0..pieces).for_each(|piece| drop(client.read(from + piece * 37 % pieces * 65536, 65536)));
}

#[test]
fn a_scan_of_a_low_class_leaves_a_high_one_cached() {
    let place = Place::new();
    fs::write(place.path("vm.img"), noise(5, 224 << 20)).unwrap();
    let table = "[class.precious]\nid = 20\npriority = \"high\"\n[[rule]]\nclass = \"precious\"\noffset_to = \"8M\"\n";
    fs::write(place.path("classes.toml"), table).unwrap();
    let arguments =
        "--origin vm.img --cache cache.img --cache-size 64M --weu-size 512K --ram 0 --sequential-threshold 0";
    let server = place.serve(&format!("{arguments} --classes classes.toml"));
    let mut client = place.client();
    let held = |status: &Value, id| of(&status["caches"][0]["classes"], id, "cached_bytes").unwrap_or(0);
    for part in 0..2 {
        // A little at a time: what comes too fast for the SSD is not cached.
        read_scattered(&mut client, part * 4 * MIB, 4 * MIB);
        place.until("cached", |status| held(status, 20) == (part + 1) * 4 * MIB);
    }
    for part in 2..54 {
        read_scattered(&mut client, part * 4 * MIB, 4 * MIB);
    }
    let status = place.until("evicted", |status| status["caches"][0]["weus_evicted"].as_u64() > Some(20));
    assert_eq!(held(&status, 20), 8 * MIB, "{}", status["caches"][0]);
    let explained = place.stdout("explain vm 1M");
    assert!(explained.contains("class precious"), "{explained}");
    // A restart keeps them so.
    drop(client);
    assert!(server.stop().0.success());
    let server = place.serve(&format!("{arguments} --classes classes.toml"));
    place.until("loaded", |status| status["caches"][0]["loading"] == false);
    let mut client = place.client();
    for part in 2..40 {
        read_scattered(&mut client, part * 4 * MIB, 4 * MIB);
    }
    assert_eq!(held(&place.status(), 20), 8 * MIB);
    drop(client);
    assert!(server.stop().0.success());
}

#[test]
fn classes_are_listed_changed_and_loaded_while_they_are_in_force() {
    let place = Place::new();
    fs::write(place.path("vm.img"), noise(5, 8 << 20)).unwrap();
    fs::write(place.path("classes.toml"), "preset = \"file-server\"\n").unwrap();
    let server = place.serve("--origin vm.img --cache cache.img --cache-size 128M --ram 0 --classes classes.toml");
    let listed = place.stdout("class list");
    assert!(listed.contains("metadata") && listed.contains("highest") && listed.contains("file-large"), "{listed}");
    let changed = place.stdout("class set metadata --min 10 --max 50");
    assert!(changed.contains("class metadata is changed; kept in"), "{changed}");
    let kept = fs::read_to_string(place.path("classes.toml")).unwrap();
    assert!(kept.contains("[class.metadata]") && kept.contains("min = 10"), "{kept}");
    // A client names its class; what that may not bring in stays out.
    assert!(place.stdout("class set file-1g --allocation never").contains("changed"));
    let mut client = Nbd::connect(&place.path("run/nitro/vm.sock"), "vm?class=file-1g");
    client.read(0, 65536);
    place.until("refused", |status| status["caches"][0]["rejections"] == 8);
    fs::write(
        place.path("cas.csv"),
        "IO class id,IO class name,Eviction priority,Allocation\n0,unclassified,22,1\n1,request_size:ge:65536,1,0.5\n",
    )
    .unwrap();
    let loaded = place.stdout("class load cas.csv");
    assert!(loaded.contains("1 classes and 1 rules are in force"), "{loaded}");
    let mut plain = place.client();
    plain.read(MIB, 65536);
    place.until("classified", |status| of(&status["volumes"][0]["classes"], 1, "reads") == Some(1));
    for (command, told) in [
        ("class set metadata", "no change is given"),
        ("class set 77 --priority low", "there is no such class"),
        ("class set metadata --priority urgent", "there is no such priority"),
        ("class set metadata --min 85 --max 100", "more than 90 % cannot be guaranteed"),
        ("class load vm.img", "vm.img"),
        ("class load none.csv", "No such file"),
        ("class list --cache other", "there is none of that name"),
    ] {
        let refused = place.failure(command, 1);
        assert!(refused.contains(told), "{command}: {refused}");
    }
    drop((client, plain));
    assert!(server.stop().0.success());
    let refused = place.failure("serve --origin vm.img --cache cache.img --classes vms", 1);
    assert!(refused.contains("name a file, or one of none, file-server"), "{refused}");
}

/// Makes a file system.
fn make(program: &str, arguments: &[&str]) {
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap());
    assert!(std::process::Command::new(program).args(arguments).env("PATH", path).status().unwrap().success());
}

#[test]
fn a_file_system_that_is_made_while_it_is_served_is_found() {
    let place = Place::new();
    let files = place.path("files");
    fs::create_dir(&files).unwrap();
    (0..60).for_each(|number| fs::write(files.join(format!("f{number}")), noise(number, 9000)).unwrap());
    let image = place.file("image", 128 * MIB);
    make("mkfs.btrfs", &["-q", "-m", "single", "--rootdir", files.to_str().unwrap(), image.to_str().unwrap()]);
    place.file("vm.img", 128 * MIB);
    let server = place.serve("--origin vm.img --cache cache.img --cache-size 64M --ram 0 --mode write-back");
    let mut client = place.client();
    // The superblock comes last, as it does from mkfs: what leads from it to the files has been there for long.
    for (number, piece) in fs::read(&image).unwrap().chunks(1 << 20).enumerate().rev() {
        if piece.iter().any(|byte| *byte != 0) {
            assert_eq!(client.write(number as u64 * MIB, piece), 0);
        }
    }
    place.until("classified", |status| {
        let volume = &status["volumes"][0]["detection"];
        volume["file_systems"] == 1 && of(&status["caches"][0]["classes"], 1, "cached_bytes").unwrap_or(0) >= 64 << 10
    });
    drop(client);
    assert!(server.stop().0.success());
}

#[test]
fn what_a_file_system_says_gives_its_blocks_their_classes() {
    let place = Place::new();
    let files = place.path("files");
    for number in 0..200 {
        let inside = files.join(format!("d{}", number % 9));
        fs::create_dir_all(&inside).unwrap();
        fs::write(inside.join(format!("f{number}")), noise(number, 3000)).unwrap();
    }
    fs::write(files.join("large"), noise(77, 6 << 20)).unwrap();
    let (files, image) = (files.to_str().unwrap().to_owned(), place.path("vm.img").to_str().unwrap().to_owned());
    make("mke2fs", &["-q", "-F", "-t", "ext4", "-b", "4096", "-d", &files, &image, "64M"]);
    let bytes = fs::read(&image).unwrap();
    let arguments = "--cache cache.img --cache-size 128M --ram 0 --sequential-threshold 0 --classes hypervisor";
    let server = place.serve(&format!("--origin vm.img {arguments}"));
    let mut client = place.client();
    read_scattered(&mut client, 0, 64 * MIB);
    // Where inodes come after their data, the data have their class later.
    let status = place.until("classified", |status| {
        let classes = &status["caches"][0]["classes"];
        let held = |id| of(classes, id, "cached_bytes").unwrap_or(0);
        held(1) >= 64 << 10 && held(3) >= 9 * 4096 && held(4) >= MIB / 2 && held(10) >= 5 * MIB && held(1) < 16 * MIB
    });
    let detection = &status["volumes"][0]["detection"];
    assert_eq!(detection["file_systems"], 1, "{detection}");
    assert!(detection["inodes"].as_u64() >= Some(210), "{detection}");
    let text = place.stdout("status");
    assert!(text.contains("1 file systems") && text.contains("metadata: "), "{text}");
    let superblock = place.stdout("explain vm 0");
    assert!(superblock.contains("class metadata (by blocks)"), "{superblock}");
    drop(client);
    assert!(server.stop().0.success());
    // In write-back, what is written is told apart too.
    place.file("new.img", 64 * MIB);
    let arguments = arguments.replace("cache.img", "other.img");
    let server = place.serve(&format!("--origin new.img --name vm --mode write-back {arguments}"));
    let mut client = place.client();
    for (number, piece) in bytes.chunks(1 << 20).enumerate() {
        assert_eq!(client.write(number as u64 * MIB, piece), 0);
    }
    assert_eq!(client.flush(), 0);
    let held = |status: &Value, id| of(&status["caches"][0]["classes"], id, "cached_bytes").unwrap_or(0);
    place.until("classified", |status| held(status, 1) >= 64 << 10 && held(status, 4) >= MIB / 2);
    assert!(place.stdout("volume set vm --write-policy update").contains("write policy update"));
    drop(client);
    assert!(server.stop().0.success());
}

/// A volume with one large file in an ext4; gives where its data begin.
fn with_large_file(place: &Place) -> u64 {
    let files = place.path("files");
    fs::create_dir(&files).unwrap();
    (0..100).for_each(|number| fs::write(files.join(format!("f{number}")), noise(number, 3000)).unwrap());
    let large = noise(77, 6 << 20);
    fs::write(files.join("large"), &large).unwrap();
    let (files, image) = (files.to_str().unwrap().to_owned(), place.path("vm.img").to_str().unwrap().to_owned());
    make("mke2fs", &["-q", "-F", "-t", "ext4", "-b", "4096", "-d", &files, &image, "64M"]);
    let begins = fs::read(&image).unwrap().chunks(4096).position(|block| block == &large[..4096]);
    begins.unwrap() as u64 * 4096
}

#[test]
fn a_scan_knows_files_before_their_inodes_pass_by() {
    let place = Place::new();
    let at = with_large_file(&place).next_multiple_of(8192);
    let arguments = "--origin vm.img --cache cache.img --cache-size 64M --ram 0 --sequential-threshold 0";
    let server = place.serve(&format!("{arguments} --detect-scan"));
    let scan = |status: &Value| status["volumes"][0]["detection"]["scan"].clone();
    let status = place.until("scanned", |status| scan(status)["done"] == true);
    let (read, left) = (scan(&status)["read_bytes"].as_u64().unwrap(), &scan(&status)["left_bytes"]);
    assert!((128 << 10..32 << 20).contains(&read) && *left == 0, "{status}");
    assert!(status["volumes"][0]["detection"]["inodes"].as_u64() >= Some(101), "{status}");
    // Nothing of it was cached, and no client is said to have read it.
    assert_eq!(
        (&status["caches"][0]["insertions"], &status["volumes"][0]["reads"]),
        (&0.into(), &0.into()),
        "{status}"
    );
    assert!(place.stdout("status").contains("scan          done: "), "{}", place.stdout("status"));
    let mut client = place.client();
    client.read(at, 65536);
    let held = |status: &Value, id| of(&status["caches"][0]["classes"], id, "cached_bytes");
    place.until("classified", |status| held(status, 10) == Some(65536) && held(status, 0).is_none());
    drop(client);
    assert!(server.stop().0.success());
    // Without a scan, the same read tells nothing.
    let server = place.serve(&format!("{} --name plain", arguments.replace("cache.img", "other.img")));
    let mut client = Nbd::connect(&place.path("run/nitro/plain.sock"), "plain");
    client.read(at, 65536);
    let status = place.until("cached", |status| status["caches"][0]["insertions"] == 8);
    assert_eq!((held(&status, 10), scan(&status)), (None, Value::Null), "{status}");
    drop(client);
    assert!(server.stop().0.success());
}

#[test]
fn a_slow_scan_shows_its_progress_waits_while_detached_and_ends_with_its_volume() {
    let place = Place::new();
    with_large_file(&place);
    place.file("first.img", 16 * MIB);
    let server = place.serve("--origin first.img --cache cache.img --cache-size 64M --ram 0");
    place.stdout("volume add vm --origin vm.img --read-only --detect-scan=64K");
    let of_vm = |status: &Value| {
        let volumes = status["volumes"].as_array().unwrap();
        volumes.iter().find(|volume| volume["name"] == "vm").map(|volume| volume["detection"]["scan"].clone())
    };
    let read = |status: &Value| of_vm(status).and_then(|scan| scan["read_bytes"].as_u64());
    let status = place.until("scanning", |status| read(status) >= Some(64 << 10));
    let scan = of_vm(&status).unwrap();
    assert!(scan["done"] == false && scan["left_bytes"].as_u64() > Some(0), "{scan}");
    assert!(place.stdout("status").contains("to go"));
    place.stdout("cache detach cache vm");
    let before = read(&place.status()).unwrap();
    // Several windows' time; one may have been on its way.
    std::thread::sleep(std::time::Duration::from_secs(4));
    let after = read(&place.status()).unwrap();
    assert!(after <= before + (64 << 10), "{before} bytes, then {after}");
    place.stdout("cache attach cache vm");
    let before = read(&place.status()).unwrap();
    place.until("scanning again", |status| read(status) >= Some(before + (64 << 10)));
    place.stdout("volume remove vm");
    assert_eq!(of_vm(&place.status()), None);
    // A scan that is not done keeps no server from its end.
    place.stdout("volume add vm --origin vm.img --read-only --detect-scan=64K");
    assert!(server.stop().0.success());
}

#[test]
fn a_scan_that_cannot_be_is_refused() {
    let place = place();
    for (arguments, told) in [
        ("--cache cache.img --detect-scan=1K", "detect_scan = 1 KiB: must be 64K or more"),
        ("--cache cache.img --detect off --detect-scan", "does not detect classes"),
        ("--cache none --detect-scan", "does not detect classes"),
        ("--cache cache.img --detect-scan=fast", "is not a size"),
    ] {
        let code = if told.contains("size") { 2 } else { 1 };
        let refused = place.failure(&format!("serve --origin vm.img {arguments}"), code);
        assert!(refused.contains(told), "{arguments}: {refused}");
    }
}

#[test]
fn the_pattern_of_requests_gives_a_class_to_what_has_none() {
    let place = Place::new();
    fs::write(place.path("vm.img"), noise(5, 64 << 20)).unwrap();
    let arguments = "--origin vm.img --cache cache.img --cache-size 128M --ram 0 --sequential-threshold 0";
    let server = place.serve(&format!("{arguments} --patterns on"));
    // They are listed before there is anything of them.
    let listed = place.stdout("class list");
    assert!(["scan", "read-once", "random"].iter().all(|name| listed.contains(name)), "{listed}");
    let mut client = place.client();
    let held = |status: &Value, id| of(&status["caches"][0]["classes"], id, "cached_bytes").unwrap_or(0);
    let [scan, once, random] = [29, 30, 31];
    // The first mebibyte of a run is not known to be one.
    (0..64).for_each(|piece| drop(client.read(piece * 65536, 65536)));
    place.until("scanned", |status| (held(status, scan), held(status, once)) == (3 * MIB + 65536, MIB - 65536));
    read_scattered(&mut client, 32 * MIB, 4 * MIB);
    place.until("read", |status| held(status, once) == 5 * MIB - 65536);
    let source = |offset: u64| {
        let explained: Value = serde_json::from_str(&place.stdout(&format!("explain vm {offset} -o json"))).unwrap();
        let at = &explained["stored"];
        [&at["class_name"], &at["class_source"]].map(|text| text.as_str().unwrap_or_default().to_owned())
    };
    assert_eq!([source(2 * MIB), source(33 * MIB)], [["scan", "pattern"], ["read-once", "pattern"]]);
    // A further use outside of a run, and a write.
    read_scattered(&mut client, 32 * MIB, 2 * MIB);
    assert_eq!(client.write(48 * MIB, &noise(9, 65536)), 0);
    place
        .until("used again", |status| (held(status, once), held(status, random)) == (3 * MIB - 65536, 2 * MIB + 65536));
    assert!(place.stdout("explain vm 32M").contains("class random (by pattern)"), "{}", place.stdout("explain vm 32M"));
    // Any other source comes first.
    let mut classed = Nbd::connect(&place.path("run/nitro/vm.sock"), "vm?class=7");
    classed.read(56 * MIB, 65536);
    place.until("classified", |status| held(status, 7) == 65536);
    assert_eq!(source(56 * MIB), ["file-256k", "request"]);
    drop((client, classed));
    assert!(server.stop().0.success());
    let server = place.serve(&format!("{} --name plain", arguments.replace("cache.img", "other.img")));
    let mut client = Nbd::connect(&place.path("run/nitro/plain.sock"), "plain");
    client.read(0, 65536);
    let status = place.until("cached", |status| status["caches"][0]["insertions"] == 8);
    assert_eq!(status["caches"][0]["classes"], Value::Array(Vec::new()), "{status}");
    drop(client);
    assert!(server.stop().0.success());
}
