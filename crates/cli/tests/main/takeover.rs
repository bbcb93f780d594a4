//! Two hosts, of which one serves a volume at a time: each has a state folder, sockets and a cache of its own; the origin and the
//! folder of marks are shared.

use crate::identity::{Loop, hits, read_all, refused};
use crate::support::{Place, Server, noise};
use rustix::io::Errno;
use rustix::process::Signal;
use std::fs;
use std::time::{Duration, SystemTime};

const MIB: usize = 1 << 20;
const EXTENT: usize = 8192;
/// What one host writes while it serves: an extent that the other one has cached, of the 2 MiB of the volume.
const WRITTEN: usize = 100 * EXTENT;
/// Longer than a reading of the mark counts.
const PAUSE: Duration = Duration::from_millis(1100);

/// Kinds of origin that hosts can share.
#[derive(Clone, Copy)]
enum Kind {
    File,
    Disk,
    Export,
}

const KINDS: [Kind; 3] = [Kind::File, Kind::Disk, Kind::Export];

/// Two hosts, and what they share.
struct Cluster {
    hosts: [Place; 2],
    shared: Place,
    origin: String,
    _disk: Option<Loop>,
    _export: Option<Server>,
}

impl Cluster {
    /// `None`: this user may not have such an origin.
    fn of(kind: Kind, content: &[u8]) -> Option<Self> {
        let shared = Place::new();
        let file = shared.write("vm.img", content);
        fs::create_dir(shared.path("marks")).unwrap();
        let (mut disk, mut export) = (None, None);
        let origin = match kind {
            Kind::File => file.display().to_string(),
            Kind::Disk => disk.insert(Loop::of(&shared, "vm.img", &[])?).0.clone(),
            Kind::Export => {
                export = Some(shared.serve("--origin vm.img --cache none"));
                format!("nbd+unix:///vm?socket={}", shared.path("run/nitro/vm.sock").display())
            }
        };
        Some(Self { hosts: [Place::new(), Place::new()], shared, origin, _disk: disk, _export: export })
    }

    fn arguments(&self, more: &str) -> String {
        let marks = self.shared.path("marks");
        format!(
            "--origin {} --name vm --takeover {} --cache cache.img --cache-size 32M --ram 0 --sequential-threshold 0 {more}",
            self.origin,
            marks.display()
        )
    }

    fn serve(&self, host: usize, more: &str) -> Server {
        self.hosts[host].serve(&self.arguments(more))
    }

    /// A server of which the whole volume is in the cache.
    fn warmed(&self, host: usize, data: &[u8]) -> Server {
        let server = self.serve(host, "");
        let place = &self.hosts[host];
        read_all(place, data);
        place.until("inserted", |status| {
            status["caches"][0]["insertions"].as_u64() >= Some((data.len() / EXTENT) as u64)
        });
        server
    }

    /// A host takes over, writes an extent, and ends, or is killed.
    fn changed(&self, host: usize, data: &mut [u8], is_killed: bool) {
        let server = self.serve(host, "");
        let new = noise(9, EXTENT);
        let mut client = self.hosts[host].client();
        assert_eq!((client.write(WRITTEN as u64, &new), client.flush()), (0, 0));
        data[WRITTEN..][..EXTENT].copy_from_slice(&new);
        drop(client);
        if is_killed {
            server.kill();
        } else {
            assert!(server.stop().0.success());
        }
    }

    fn content(&self) -> Vec<u8> {
        fs::read(self.shared.path("vm.img")).unwrap()
    }
}

#[test]
fn what_a_cache_held_before_another_host_served_is_not_believed_afterwards() {
    for kind in KINDS {
        for is_killed in [false, true] {
            let mut data = noise(1, 2 * MIB);
            let Some(cluster) = Cluster::of(kind, &data) else { continue };
            let before = fs::metadata(cluster.shared.path("vm.img")).unwrap().modified().unwrap();
            let server = cluster.warmed(0, &data);
            if is_killed {
                server.kill()
            } else {
                assert!(server.stop().0.success())
            }
            cluster.changed(1, &mut data, is_killed);
            // The time is as if nothing had happened.
            set_modified(&cluster, before);
            let server = cluster.serve(0, "");
            read_all(&cluster.hosts[0], &data);
            assert_eq!(hits(&cluster.hosts[0]), 0);
            let (_, said) = server.stop();
            assert!(said.contains("another cache") && said.contains("has served it since"), "{said}");
        }
    }
}

fn set_modified(cluster: &Cluster, time: SystemTime) {
    fs::File::options().write(true).open(cluster.shared.path("vm.img")).unwrap().set_modified(time).unwrap();
}

#[test]
fn a_host_that_served_last_keeps_what_it_has_cached() {
    for kind in KINDS {
        let data = noise(1, 2 * MIB);
        let Some(cluster) = Cluster::of(kind, &data) else { continue };
        assert!(cluster.warmed(0, &data).stop().0.success());
        let _server = cluster.serve(0, "");
        cluster.hosts[0].until("loaded", |status| status["caches"][0]["loading"] == false);
        read_all(&cluster.hosts[0], &data);
        assert!(hits(&cluster.hosts[0]) > 200, "{}", hits(&cluster.hosts[0]));
    }
}

#[test]
fn dirty_data_keep_other_hosts_out_and_are_never_written_after_one_was_forced_in() {
    for kind in KINDS {
        let mut data = noise(1, 2 * MIB);
        let Some(cluster) = Cluster::of(kind, &data) else { continue };
        let server = cluster.serve(0, "--mode write-back --dirty-age 1h");
        let mut client = cluster.hosts[0].client();
        assert_eq!((client.write(0, &noise(2, 65_536)), client.flush()), (0, 0));
        server.kill();
        let [first, second] = &cluster.hosts;
        refused(second, &cluster.arguments(""), &["its newest data may be in the cache", "--force-discard-dirty"]);
        // Forced in, it serves the origin as it is: what was dirty is given up.
        let server = cluster.serve(1, "--force-discard-dirty");
        read_all(second, &data);
        assert!(server.stop().0.success());
        cluster.changed(1, &mut data, false);
        for option in ["", "--accept-origin vm"] {
            let phrases = ["64 KiB of dirty data", "has served it since", "never written to it", "salvage"];
            refused(first, &cluster.arguments(option), &phrases);
        }
        assert!(cluster.content() == data, "the origin was written to");
        let server = cluster.serve(0, "--force-discard-dirty");
        read_all(first, &data);
        assert!(server.stop().0.success());
        assert!(cluster.content() == data);
    }
}

#[test]
fn a_server_that_was_stopped_while_another_host_took_over_writes_nothing() {
    let mut data = noise(1, 2 * MIB);
    let cluster = Cluster::of(Kind::Export, &data).unwrap();
    let old = cluster.warmed(0, &data);
    let mut client = cluster.hosts[0].client();
    old.signal(Signal::STOP);
    let new = cluster.serve(1, "");
    let written = noise(7, EXTENT);
    assert_eq!(cluster.hosts[1].client().write(WRITTEN as u64, &written), 0);
    data[WRITTEN..][..EXTENT].copy_from_slice(&written);
    std::thread::sleep(PAUSE);
    old.signal(Signal::CONT);
    for request in [(WRITTEN, &noise(8, EXTENT)[..]), (0, &noise(8, 512)[..])] {
        assert_eq!(client.write(request.0 as u64, request.1), Errno::PERM.raw_os_error() as u32);
    }
    assert_ne!(client.flush(), 0);
    let status = cluster.hosts[0].status();
    let why = status["volumes"][0]["poisoned"].as_str().unwrap_or_default().to_owned();
    assert!(why.starts_with("taken over: another server serves the origin since"), "{status}");
    // Its end leaves mark and content to the other.
    drop(client);
    let (_, said) = old.stop();
    assert!(said.contains("taken over"), "{said}");
    std::thread::sleep(PAUSE);
    assert_eq!(cluster.hosts[1].client().write(0, &written), 0);
    data[..EXTENT].copy_from_slice(&written);
    assert!(new.stop().0.success());
    assert!(cluster.content() == data);
}

#[test]
fn the_end_of_a_server_leaves_the_marks_of_the_host_that_took_over() {
    for mode in ["write-through", "write-back --dirty-age 1h"] {
        let data = noise(1, 2 * MIB);
        let cluster = Cluster::of(Kind::Export, &data).unwrap();
        let old = cluster.serve(0, "");
        let new = cluster.serve(1, &format!("--mode {mode}"));
        let mut client = cluster.hosts[1].client();
        assert_eq!((client.write(0, &noise(7, EXTENT)), client.flush()), (0, 0));
        // It has not written since, and does not know yet.
        let said = cluster.hosts[0].failure("volume set vm --mode write-back", 1);
        assert!(said.contains("its origin is not this server's any more"), "{said}");
        old.stop();
        if mode.starts_with("write-back") {
            let marks = fs::read_dir(cluster.shared.path("marks")).unwrap().flatten();
            let names: Vec<_> = marks.map(|mark| mark.file_name().to_string_lossy().into_owned()).collect();
            assert!(names.iter().any(|name| name.ends_with(".nitro-dirty")), "{names:?}");
        }
        std::thread::sleep(PAUSE);
        assert_eq!((client.write(0, &noise(8, EXTENT)), client.flush()), (0, 0));
        drop(client);
        assert!(new.stop().0.success());
        assert!(cluster.content()[..EXTENT] == noise(8, EXTENT));
    }
}

/// Bytes of a block that a client numbers.
const BLOCK: usize = 65_536;

/// A client writes generation after generation of all blocks, with a FLUSH after each, until its server is killed. Returns the last
/// one that was flushed.
fn write_generations(place: &Place, server: Server, blocks: usize, least_points: u64) -> u64 {
    let mut client = place.client();
    let mut generation: u64 = 0;
    loop {
        generation += 1;
        for block in 0..blocks {
            let bytes = [generation.to_le_bytes(), (block as u64).to_le_bytes()].concat().repeat(BLOCK / 16);
            assert_eq!(client.write((block * BLOCK) as u64, &bytes), 0);
        }
        assert_eq!(client.flush(), 0);
        let status = place.status();
        if status["volumes"][0]["point"]["number"].as_u64() >= Some(least_points) && generation > 20 {
            break;
        }
        assert!(generation < 100_000, "no points are reached: {status}");
    }
    server.kill();
    generation
}

/// The generation that all blocks of an image have.
fn generation_of(image: &[u8]) -> u64 {
    let numbers = |at: usize| u64::from_le_bytes(image[at..at + 8].try_into().unwrap());
    let first = numbers(0);
    for at in (0..image.len()).step_by(16) {
        let block = if first == 0 { 0 } else { (at / BLOCK) as u64 };
        assert_eq!((numbers(at), numbers(at + 8)), (first, block), "the image has more than one generation, at {at}");
    }
    first
}

#[test]
fn a_host_that_is_lost_with_its_ssd_leaves_a_whole_image_that_another_one_takes_over() {
    for kind in KINDS {
        let Some(cluster) = Cluster::of(kind, &vec![0; 2 * MIB]) else { continue };
        let options = "--mode write-back --points --max-age 1s --dirty-age 1h";
        let server = cluster.serve(0, options);
        let [first, second] = &cluster.hosts;
        let last = write_generations(first, server, 2 * MIB / BLOCK, 3);
        std::fs::remove_file(first.path("cache.img")).unwrap();
        refused(second, &cluster.arguments(options), &["its newest data may be in the cache", "--force-discard-dirty"]);
        let config = format!(
            "[server]\ntakeover = \"{}\"\n[cache.ssd]\npath = \"cache.img\"\nsize = \"32M\"\n[volume.vm]\norigin = \"{}\"\n\
             mode = \"write-back\"\npoints = true\n",
            cluster.shared.path("marks").display(),
            cluster.origin
        );
        second.write("nitro.toml", config.as_bytes());
        let before = cluster.content();
        let looked = second.run("takeover vm --config nitro.toml");
        let told = String::from_utf8(looked.stdout).unwrap();
        assert_eq!(looked.status.code(), Some(1), "{told}");
        assert!(told.contains("since its point") && told.contains("--accept-loss"), "{told}");
        assert!(cluster.content() == before, "the origin was changed without --accept-loss");
        let told = second.stdout("takeover vm --config nitro.toml --accept-loss");
        assert!(told.contains("given up is what was written in the last"), "{told}");
        let generation = generation_of(&cluster.content());
        assert!((1..=last).contains(&generation), "{generation} of {last}");
        let told = second.failure("takeover vm --config nitro.toml", 1);
        assert!(told.contains("nothing is to be given up"), "{told}");
        let server = cluster.serve(1, options);
        read_all(second, &cluster.content());
        assert_eq!((second.client().write(0, &noise(3, BLOCK)), second.client().flush()), (0, 0));
        assert!(server.stop().0.success());
        assert!(cluster.content()[..BLOCK] == noise(3, BLOCK));
    }
}

#[test]
fn points_go_on_where_the_cache_survives_and_end_with_the_setting() {
    let cluster = Cluster::of(Kind::File, &vec![0; 2 * MIB]).unwrap();
    let options = "--mode write-back --points --max-age 1s --dirty-age 1h";
    let place = &cluster.hosts[0];
    let last = write_generations(place, cluster.serve(0, options), 2 * MIB / BLOCK, 2);
    let server = cluster.serve(0, options);
    let mut all = vec![0; 2 * MIB];
    let mut client = place.client();
    for (at, out) in (0_usize..).step_by(BLOCK).zip(all.chunks_mut(BLOCK)) {
        out.copy_from_slice(&client.read(at as u64, BLOCK));
    }
    assert_eq!(generation_of(&all), last);
    drop(client);
    // The last points bring all of it to the origin.
    let told = place.stdout("volume set vm --mode write-through");
    assert!(told.contains("vm"), "{told}");
    assert!(server.stop().0.success());
    assert_eq!(generation_of(&cluster.content()), last);
    let redo = cluster.shared.path("vm.img.nitro-redo");
    assert!(redo.exists());
    assert!(cluster.serve(0, "").stop().0.success());
    assert!(!redo.exists(), "it would be applied over what is written later");
}

#[test]
fn points_are_refused_by_name_where_they_cannot_be_had() {
    let cluster = Cluster::of(Kind::Export, &vec![0; MIB]).unwrap();
    let [place, _] = &cluster.hosts;
    let alone = format!("--origin {} --name vm --cache cache.img --cache-size 32M", cluster.origin);
    for (options, phrases) in [
        ("--mode write-back --points", ["volume.vm.points", "takeover in [server]"]),
        ("--points", ["volume.vm: points", "in write-through, the origin is never behind"]),
        ("--mode write-back --max-age 5s", ["volume.vm: max_age", "no effect without points"]),
    ] {
        refused(place, &format!("{alone} {options}"), &phrases);
    }
}

#[test]
fn without_the_folder_of_marks_nothing_is_served_and_nothing_written() {
    let data = noise(1, 2 * MIB);
    let cluster = Cluster::of(Kind::Export, &data).unwrap();
    let (marks, away) = (cluster.shared.path("marks"), cluster.shared.path("away"));
    fs::rename(&marks, &away).unwrap();
    refused(&cluster.hosts[0], &cluster.arguments(""), &["takeover", "mount the file system that all hosts share"]);
    fs::rename(&away, &marks).unwrap();
    let server = cluster.serve(0, "");
    let mut client = cluster.hosts[0].client();
    assert_eq!(client.write(0, &data[..EXTENT]), 0);
    fs::rename(&marks, &away).unwrap();
    std::thread::sleep(PAUSE);
    assert_eq!(client.write(0, &noise(2, EXTENT)), Errno::PERM.raw_os_error() as u32);
    // It may have been a moment's failure of the file system.
    fs::rename(&away, &marks).unwrap();
    assert_eq!(client.write(0, &data[..EXTENT]), 0);
    drop(client);
    assert!(server.stop().0.success());
    assert!(cluster.content() == data);
}
