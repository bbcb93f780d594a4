//! Limits of volumes, and writes that are slowed before the room for them is gone.

use crate::support::{Nbd, Place, noise};
use nitro_vhost_client::{Client, Kind, Setup};
use serde_json::Value;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const FILE: &str = "[server]\nlisten = [\"unix:n.sock\", \"vhost:guests/\"]\n[cache.c]\npath = \"cache.img\"\nsize = \"32M\"\n\
                    [volume.vm]\norigin = \"vm.img\"\n[volume.other]\norigin = \"other.img\"\n";

fn place(settings: &str) -> Place {
    let place = Place::new();
    place.file("vm.img", 16 << 20);
    place.file("other.img", 16 << 20);
    fs::create_dir(place.path("guests")).unwrap();
    configure(&place, settings);
    place
}

/// Gives the volume `vm` these settings in the file.
fn configure(place: &Place, settings: &str) {
    place.write("n.toml", FILE.replace("[volume.other]", &format!("{settings}\n[volume.other]")));
}

fn connect(place: &Place, volume: &str) -> Nbd {
    Nbd::connect(&place.path("n.sock"), volume)
}

fn volume<'a>(status: &'a Value, name: &str) -> &'a Value {
    status["volumes"].as_array().unwrap().iter().find(|volume| volume["name"] == name).unwrap()
}

fn count(status: &Value, what: &str) -> u64 {
    volume(status, "vm")[what].as_u64().unwrap()
}

/// Asks for reads of the same block, and waits for none.
fn ask(client: &mut Nbd, reads: usize) {
    (0..reads).for_each(|_| client.request(0, 4096, 512, &[]));
}

fn take(client: &mut Nbd, reads: usize) {
    for _ in 0..reads {
        assert_eq!(client.reply(), 0);
        client.take(512);
    }
}

#[test]
fn a_limit_counts_for_all_clients_of_the_volume_until_it_is_lifted() {
    let place = place("iops = 100000\nburst = 0");
    let server = place.serve("--config n.toml");
    let (mut client, mut second) = (connect(&place, "vm"), connect(&place, "vm"));
    // What the RAM cache answers counts, too.
    place.until("in the RAM cache", |status| {
        ask(&mut client, 1);
        take(&mut client, 1);
        status["caches"][0]["ram_hits"].as_u64().unwrap() > 0
    });
    place.stdout("set volume.vm.iops 1");
    ask(&mut client, 30);
    ask(&mut second, 30);
    let status = place.until("waiting", |status| count(status, "waiting_limit") > 50);
    assert_eq!((&volume(&status, "vm")["iops"], &volume(&status, "other")["iops"]), (&1.into(), &Value::Null));
    let text = place.stdout("status");
    assert!(text.contains("1 requests/s") && text.contains("wait for the limits now"), "{text}");
    // A flush waits for nobody, and neither does a neighbour.
    assert_eq!(connect(&place, "vm").flush(), 0);
    assert_eq!(connect(&place, "other").write(0, &[7; 512]), 0);
    let mut guest = Client::connect(&place.path("guests/vm.sock"), Setup { queues: 1, ..Setup::default() }).unwrap();
    let before = count(&place.status(), "waiting_limit");
    guest.queues[0].submit(0, Kind::Read, 0, 512).unwrap();
    guest.queues[0].kick().unwrap();
    let joined = |status: &Value| volume(status, "vm")["clients"] == 3 && count(status, "waiting_limit") + 10 > before;
    place.until("the guest waits behind them", joined);
    assert!(place.stdout("set volume.vm.iops none").contains("until the server ends"));
    take(&mut client, 30);
    take(&mut second, 30);
    assert_eq!(guest.queues[0].wait().unwrap().status, 0);
    let status = place.until("nobody waits", |status| count(status, "waiting_limit") == 0);
    assert!(count(&status, "limit_waits") >= 50 && count(&status, "limit_waited_us") > 0, "{status}");
    assert_eq!(volume(&status, "other")["limit_waits"], 0);
    drop(guest);
    assert!(server.stop().0.success());
}

#[test]
fn bandwidth_lets_a_request_pass_that_is_longer_and_makes_the_next_wait() {
    let place = place("bandwidth = \"64K\"\nburst = 0");
    let server = place.serve("--config n.toml");
    let mut client = connect(&place, "vm");
    assert_eq!(client.write(0, &noise(1, 4 << 20)), 0);
    // For a minute.
    client.request(1, 0, 512, &[1; 512]);
    client.request(4, 0, 4096, &[]);
    place.until("waiting", |status| count(status, "waiting_limit") == 2);
    // A higher limit counts for what they wait for; the file says so, too.
    configure(&place, "bandwidth = \"1G\"\nburst = 0");
    assert!(place.stdout("reload").contains("volume.vm.bandwidth: in force"));
    assert_eq!((client.reply(), client.reply()), (0, 0));
    assert!(place.stdout("get volume.vm.bandwidth").contains('1'));
    configure(&place, "");
    assert!(place.stdout("reload").contains("volume.vm.bandwidth: in force"));
    let status = place.status();
    assert_eq!(volume(&status, "vm")["bandwidth_bytes"], Value::Null, "{status}");
    assert!(server.stop().0.success());
}

#[test]
fn whoever_hangs_up_while_its_requests_wait_leaves_nothing_behind() {
    let place = place("iops = 1\nburst = 0");
    let server = place.serve("--config n.toml");
    for _ in 0..3 {
        let mut client = connect(&place, "vm");
        ask(&mut client, 200);
        place.until("waiting", |status| count(status, "waiting_limit") > 50);
        drop(client);
        let gone = |status: &Value| count(status, "waiting_limit") == 0 && volume(status, "vm")["clients"] == 0;
        place.until("nobody waits", gone);
    }
    // And whoever comes then gets its turn.
    let mut client = connect(&place, "vm");
    ask(&mut client, 1);
    take(&mut client, 1);
    assert!(server.stop().0.success());
}

#[test]
fn an_end_in_order_does_what_waits() {
    let place = place("iops = 1\nburst = 0");
    let server = place.serve("--config n.toml");
    let mut client = connect(&place, "vm");
    (0..20).for_each(|block: u64| client.request(1, block * 512, 512, &[9; 512]));
    place.until("all have come", |status| count(status, "writes") + count(status, "waiting_limit") == 20);
    let (ended, said) = server.stop();
    assert!(ended.success() && !said.contains("did not disconnect"), "{said}");
    (0..20).for_each(|_| assert_eq!(client.reply(), 0));
    assert_eq!(fs::read(place.path("vm.img")).unwrap()[..20 * 512], [9; 20 * 512]);
}

#[test]
fn wrong_limits_are_refused_by_name() {
    let place = place("");
    for (settings, name) in [
        ("iops = 0", "iops = 0"),
        ("iops = -1", "line 8: a number"),
        ("iops = \"many\"", "line 8: \"many\""),
        ("bandwidth = 0", "bandwidth = 0"),
        ("bandwidth = \"1K\"", "bandwidth = 1 KiB"),
        ("burst = \"2h\"\niops = 5", "burst"),
        ("burst = 5", "burst"),
    ] {
        configure(&place, settings);
        let said = place.failure("check n.toml", 1);
        assert!(said.contains(name), "{settings}: {said}");
    }
    configure(&place, "");
    let server = place.serve("--config n.toml");
    let said = place.failure("set volume.vm.iops 0", 1);
    assert!(said.contains("iops = 0: must be 1 or more"), "{said}");
    assert!(place.failure("set volume.vm.burst 5", 1).contains("it has no effect without a limit"));
    assert!(server.stop().0.success());
    // Options say the same.
    let options = "serve --origin vm.img --cache none --name vm";
    assert!(place.failure(&format!("{options} --iops 0"), 1).contains("iops = 0"));
    assert!(place.failure(&format!("{options} --burst 5"), 1).contains("burst"));
    let server = place.serve("--origin vm.img --cache none --name vm --iops 100 --bandwidth 20M --burst 3s");
    let status = place.status();
    let limits = [&volume(&status, "vm")["iops"], &volume(&status, "vm")["bandwidth_bytes"]];
    assert_eq!((limits, count(&status, "burst_seconds")), ([&100.into(), &(20 << 20).into()], 3));
    // What options set is kept beside what a command sets.
    place.stdout("set volume.vm.burst 7");
    assert_eq!((count(&place.status(), "iops"), count(&place.status(), "burst_seconds")), (100, 7));
    assert!(server.stop().0.success());
}

#[test]
fn writers_are_slowed_before_the_room_for_dirty_data_is_gone() {
    let place = Place::new();
    place.file("vm.img", 256 << 20);
    let slow =
        "--origin vm.img --cache cache.img --cache-size 32M --mode write-back --emulate-disk 7200 --no-destage-on-exit";
    let server = place.serve(slow);
    let data = noise(5, 8192);
    let mut client = place.client();
    let (mut at, mut status) = (0_u64, Value::Null);
    while status.is_null() || count(&status, "dirty_waits") < 20 {
        for _ in 0..50 {
            // Far apart, so that each costs the disk a seek.
            at = (at + 97 * 8192) % (256 << 20);
            assert_eq!(client.write(at, &data), 0);
        }
        status = place.status();
    }
    assert!(count(&status, "dirty_waited_us") > 0);
    let stalls = status["caches"][0]["dirty_stalls"].as_u64().unwrap();
    assert!(stalls < count(&status, "dirty_waits"), "{status}");
    let text = place.stdout("status");
    assert!(text.contains("for room for dirty data"), "{text}");
    drop(client);
    assert!(server.stop().0.success());
}

/// Ends a client's work, also if the test fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn new_clients_get_the_least_busy_thread() {
    let place = place("");
    let server = place.serve("--config n.toml --threads 2");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (mut busy, is_over) = (connect(&place, "vm"), &is_over);
        let _over = Over(is_over);
        scope.spawn(move || {
            while !is_over.load(Ordering::SeqCst) {
                ask(&mut busy, 32);
                take(&mut busy, 32);
            }
        });
        let percent = |reactor: &Value| reactor["busy_percent"].as_f64().unwrap();
        let reactors = |status: &Value| status["server"]["reactors"].as_array().unwrap().clone();
        place.until("a thread is busy", |status| reactors(status).iter().any(|reactor| percent(reactor) > 10.0));
        let mut idle = Vec::new();
        for _ in 0..3 {
            idle.push(connect(&place, "other"));
            // Until it is measured how little it takes.
            std::thread::sleep(Duration::from_millis(1200));
        }
        let mut clients: Vec<_> =
            reactors(&place.status()).iter().map(|load| load["clients"].as_u64().unwrap()).collect();
        clients.sort_unstable();
        assert_eq!(clients, [1, 3], "by number, there would be two on each");
    });
    assert!(server.stop().0.success());
}
