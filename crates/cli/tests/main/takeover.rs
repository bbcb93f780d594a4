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
