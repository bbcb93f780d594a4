//! vhost-user-blk: the whole server, and a driver that outlives it.

use crate::support::{Place, Server, noise};
use nitro_vhost_client::{Backing, Client, Kind, Setup};
use rustix::process::Signal;

const AGAIN: &str = "--origin vm.img --cache cache.img --listen vhost:vm.blk";

fn connect(place: &Place) -> Client {
    Client::connect(&place.path("vm.blk"), Setup { queues: 2, ..Setup::default() }).unwrap()
}

fn write(client: &mut Client, queue: usize, sector: u64, data: &[u8]) -> u8 {
    client.queues[queue].run(Kind::Write, sector, data, 0).unwrap().0
}

fn read(client: &mut Client, queue: usize, sector: u64, len: usize) -> (u8, Vec<u8>) {
    client.queues[queue].run(Kind::Read, sector, &[], len as u32).unwrap()
}

#[test]
fn a_guest_in_write_through_goes_on_after_kill_9() {
    let place = Place::new();
    place.file("vm.img", 16 << 20);
    let server = place.serve(&format!("{AGAIN} --cache-size 64M"));
    let (mut client, data) = (connect(&place), noise(3, 64 << 10));
    assert_eq!(client.size_bytes().unwrap(), 16 << 20);
    assert_eq!(write(&mut client, 0, 128, &data), 0);
    assert!(read(&mut client, 1, 128, data.len()) == (0, data.clone()));
    server.kill();
    // These are in flight while there is no server.
    client.queues[0].fill(5, &data[..4096]).unwrap();
    client.queues[0].submit(5, Kind::Write, 4096, 4096).unwrap();
    let server = place.serve(AGAIN);
    client.reconnect(&place.path("vm.blk")).unwrap();
    client.queues[0].kick().unwrap();
    assert_eq!(client.queues[0].wait().unwrap().status, 0);
    assert!(read(&mut client, 0, 128, data.len()) == (0, data.clone()));
    assert!(read(&mut client, 1, 4096, 4096) == (0, data[..4096].to_vec()));
    assert_eq!(client.queues[1].run(Kind::Flush, 0, &[], 0).unwrap().0, 0);
    assert!(server.stop().0.success());
}

#[test]
fn a_guest_in_write_back_fails_after_kill_9_unless_it_has_flushed() {
    let place = Place::new();
    place.file("vm.img", 16 << 20);
    let write_back = format!("{AGAIN} --mode write-back --dirty-age 1h");
    let server = place.serve(&format!("{write_back} --cache-size 64M"));
    let (mut client, data) = (connect(&place), noise(4, 64 << 10));
    assert_eq!(write(&mut client, 0, 0, &data), 0);
    assert_eq!(client.queues[1].run(Kind::Flush, 0, &[], 0).unwrap().0, 0);
    server.kill();
    let server = place.serve(&write_back);
    client.reconnect(&place.path("vm.blk")).unwrap();
    assert!(read(&mut client, 0, 0, data.len()) == (0, data.clone()));
    assert_eq!(write(&mut client, 0, 256, &data[..4096]), 0);
    server.kill();
    let server = place.serve(&write_back);
    client.reconnect(&place.path("vm.blk")).unwrap();
    assert_eq!(client.queues[1].run(Kind::Flush, 0, &[], 0).unwrap().0, 1);
    assert_eq!(read(&mut client, 0, 0, 512).0, 1);
    client.reset().unwrap();
    assert!(read(&mut client, 0, 0, data.len()) == (0, data.clone()));
    // An end in order loses nothing.
    assert_eq!(write(&mut client, 1, 512, &data[..4096]), 0);
    server.signal(Signal::TERM);
    assert!(server.stop().0.success());
    let _server = place.serve(&write_back);
    client.reconnect(&place.path("vm.blk")).unwrap();
    assert!(read(&mut client, 0, 512, 4096) == (0, data[..4096].to_vec()));
}

/// A write that was not flushed, a kill, and a start: what a guest finds that continues.
fn written_and_killed(place: &Place, server: Server, again: &str, client: &mut Client, data: &[u8]) -> Server {
    assert_eq!(write(client, 0, 64, data), 0);
    server.kill();
    let server = place.serve(again);
    client.reconnect(&place.path("vm.blk")).unwrap();
    server
}

#[test]
fn a_guest_in_write_back_goes_on_after_kill_9_if_there_is_a_write_log() {
    let place = Place::new();
    place.file("vm.img", 16 << 20);
    let logged = format!("{AGAIN} --mode write-back --dirty-age 1h --write-log log.img");
    let mut server = place.serve(&format!("{logged} --cache-size 64M --write-log-size 8M"));
    let mut client = connect(&place);
    for round in 0..3 {
        let data = noise(20 + round, 48 << 10);
        server = written_and_killed(&place, server, &logged, &mut client, &data);
        assert_eq!(client.queues[1].run(Kind::Flush, 0, &[], 0).unwrap().0, 0, "nothing was lost");
        assert!(read(&mut client, 0, 64, data.len()) == (0, data));
    }
    assert!(server.stop().0.success());
}

/// A store keeps changes in RAM until they are flushed, also those of volumes in write-through.
#[test]
fn a_guest_on_an_object_of_a_store_fails_after_kill_9_unless_it_has_flushed() {
    let place = Place::new();
    place.write("vm.img", noise(30, 4 << 20));
    place.stdout("cos init st --size 1G");
    place.stdout("cos import st vm vm.img");
    let again = AGAIN.replace("vm.img", "cos:st#vm");
    let server = place.serve(&format!("{again} --cache-size 64M"));
    let (mut client, flushed, lost) = (connect(&place), noise(31, 64 << 10), noise(32, 64 << 10));
    assert_eq!(write(&mut client, 0, 64, &flushed), 0);
    assert_eq!(client.queues[1].run(Kind::Flush, 0, &[], 0).unwrap().0, 0);
    server.kill();
    let server = place.serve(&again);
    client.reconnect(&place.path("vm.blk")).unwrap();
    assert!(read(&mut client, 0, 64, flushed.len()) == (0, flushed.clone()));
    let server = written_and_killed(&place, server, &again, &mut client, &lost);
    assert_eq!(client.queues[1].run(Kind::Flush, 0, &[], 0).unwrap().0, 1, "a flush would hide the loss");
    assert_eq!(read(&mut client, 0, 64, 512).0, 1);
    client.reset().unwrap();
    let (status, found) = read(&mut client, 0, 64, flushed.len());
    assert!(status == 0 && (found == flushed || found == lost), "neither what was flushed nor what was written then");
    assert!(server.stop().0.success());
    assert!(place.stdout("cos fsck st").contains("all well"));
}

/// Guests of one small cache, whose volumes have different modes.
#[test]
fn a_guest_that_lost_writes_leaves_the_guests_of_other_volumes_alone() {
    let place = Place::new();
    std::fs::create_dir(place.path("blk")).unwrap();
    let names = ["back", "through"];
    let volumes = names.map(|name| {
        place.file(&format!("{name}.img"), 16 << 20);
        format!("[volume.{name}]\norigin = \"{name}.img\"\nmode = \"write-{name}\"\n")
    });
    let cache =
        "[cache.small]\npath = \"cache.img\"\nsize = \"12M\"\nweu_size = \"512K\"\ndirty_age = \"1h\"\nram = 0\n";
    place.write("nitro.toml", format!("[server]\nlisten = [\"vhost:blk/\"]\n{cache}{}", volumes.concat()));
    let server = place.serve("--config nitro.toml");
    let socket = |name: &str| place.path(&format!("blk/{name}.sock"));
    let mut guests = names.map(|name| Client::connect(&socket(name), Setup::default()).unwrap());
    // More than the cache holds, in places that change in every round.
    let content = |guest: u64, at: u64| noise(1000 * guest + at, 64 << 10);
    let sector = |at: u64| at * 37 % 256 * 128;
    for at in 0..256 {
        for (number, guest) in (1..).zip(&mut guests) {
            assert_eq!(write(guest, 0, sector(at), &content(number, at)), 0);
            assert!(read(guest, 0, sector(at / 2), 64 << 10) == (0, content(number, at / 2)), "guest {number}, {at}");
        }
    }
    for guest in &mut guests {
        assert_eq!(guest.queues[0].run(Kind::Flush, 0, &[], 0).unwrap().0, 0);
        assert_eq!(write(guest, 0, 0, &noise(7, 4096)), 0);
    }
    server.kill();
    let server = place.serve("--config nitro.toml");
    let [back, through] = &mut guests;
    back.reconnect(&socket("back")).unwrap();
    through.reconnect(&socket("through")).unwrap();
    assert_eq!(back.queues[0].run(Kind::Flush, 0, &[], 0).unwrap().0, 1);
    assert_eq!(through.queues[0].run(Kind::Flush, 0, &[], 0).unwrap().0, 0);
    assert!(read(through, 0, 0, 4096) == (0, noise(7, 4096)));
    back.reset().unwrap();
    for (number, guest) in (1..).zip(&mut guests) {
        for at in 1..256 {
            assert!(read(guest, 0, sector(at), 64 << 10) == (0, content(number, at)), "guest {number}, {at}");
        }
    }
    assert!(server.stop().0.success());
}

/// A guest's memory shrinks while it is in use: the server ends its connection, and no other.
#[test]
fn a_guest_whose_memory_shrinks_is_cut_off_alone() {
    let place = Place::new();
    std::fs::create_dir(place.path("blk")).unwrap();
    for name in ["sick", "well"] {
        place.file(&format!("{name}.img"), 16 << 20);
    }
    place.write(
        "nitro.toml",
        "[server]\nlisten = [\"vhost:blk/\"]\n[cache.fast]\npath = \"cache.img\"\nsize = \"64M\"\n\
         [volume.sick]\norigin = \"sick.img\"\n[volume.well]\norigin = \"well.img\"\n",
    );
    let server = place.serve("--config nitro.toml");
    let connect = |name: &str, memory| {
        Client::connect(&place.path(&format!("blk/{name}.sock")), Setup { memory, ..Setup::default() }).unwrap()
    };
    let (mut sick, mut well) = (connect("sick", Backing::Plain), connect("well", Backing::Folder("/dev/shm")));
    let data = noise(40, 64 << 10);
    for client in [&mut sick, &mut well] {
        assert_eq!(write(client, 0, 0, &data), 0);
    }
    let queue = &mut sick.queues[0];
    queue.fill(1, &noise(41, 64 << 10)).unwrap();
    queue.submit(1, Kind::Write, 0, 64 << 10).unwrap();
    let end = queue.data_at(1).next_multiple_of(4096);
    sick.shrink(end).unwrap();
    sick.queues[0].kick().unwrap();
    assert!(sick.wait_for_change().is_ok(), "the size, at the beginning");
    assert!(sick.wait_for_change().is_err(), "the server has closed its sockets");
    assert!(read(&mut well, 0, 0, data.len()) == (0, data.clone()));
    // The monitor starts its guest again.
    let mut sick = connect("sick", Backing::Sealed);
    assert!(read(&mut sick, 0, 0, data.len()) == (0, data), "neither zeroes nor a part of the second write");
    let (status, log) = server.stop();
    assert!(status.success() && log.contains("the guest's memory is gone"), "{log}");
}

#[test]
fn a_guest_is_informed_when_its_volume_grows() {
    let place = Place::new();
    place.file("vm.img", 16 << 20);
    let _server = place.serve(&format!("{AGAIN} --cache-size 64M --name vm"));
    let mut client = connect(&place);
    assert_eq!(write(&mut client, 0, 0, &noise(5, 4096)), 0);
    let beyond = (16 << 20) / 512;
    assert_eq!(write(&mut client, 0, beyond, &noise(5, 4096)), 1);
    let file = std::fs::OpenOptions::new().write(true).open(place.path("vm.img")).unwrap();
    file.set_len(20 << 20).unwrap();
    assert!(place.stdout("volume resize vm").contains("20 MiB from now on"));
    client.wait_for_change().unwrap();
    assert_eq!(client.size_bytes().unwrap(), 20 << 20);
    assert_eq!(write(&mut client, 0, beyond, &noise(5, 4096)), 0);
}

#[test]
fn each_volume_has_a_socket_in_a_folder() {
    let place = Place::new();
    std::fs::create_dir(place.path("blk")).unwrap();
    let config = "[server]\nlisten = [\"vhost:blk/\"]\n[cache.fast]\npath = \"cache.img\"\nsize = \"64M\"\n\
                  [volume.one]\norigin = \"one.img\"\n[volume.two]\norigin = \"two.img\"\n";
    place.file("one.img", 1 << 20);
    place.file("two.img", 2 << 20);
    place.write("nitro.toml", config);
    let server = place.serve("--config nitro.toml");
    for (name, mib) in [("one", 1), ("two", 2)] {
        let mut client = Client::connect(&place.path(&format!("blk/{name}.sock")), Setup::default()).unwrap();
        assert_eq!(client.size_bytes().unwrap(), mib << 20);
        let mut id = name.as_bytes().to_vec();
        id.resize(20, 0);
        assert_eq!(client.queues[0].run(Kind::Identify, 0, &[], 20).unwrap(), (0, id));
    }
    assert!(server.stop().0.success());
    place.write("nitro.toml", config.replace("blk/", "vm.blk"));
    assert!(place.failure("serve --config nitro.toml", 1).contains("vhost:FOLDER/"));
}

/// Names of at most 20 bytes are the serial numbers that guests know; longer ones with the same beginning differ.
#[test]
fn the_disks_of_a_guest_have_different_serial_numbers() {
    let place = Place::new();
    let names = ["twenty-bytes-of-name", "twenty-bytes-of-name-1", "twenty-bytes-of-name-2", "own"];
    let mut config = "[server]\nlisten = [\"vhost:vm/\"]\n[cache.c]\npath = \"none\"\n".to_owned();
    for name in names {
        place.file(&format!("{name}.img"), 1 << 20);
        let serial = if name == "own" { "serial = \"S-1\"\n" } else { "" };
        config += &format!("[volume.{name}]\norigin = \"{name}.img\"\n{serial}");
    }
    std::fs::create_dir(place.path("vm")).unwrap();
    place.write("n.toml", config);
    let _server = place.serve("--config n.toml");
    let serial = |name: &str| {
        let mut client = Client::connect(&place.path(&format!("vm/{name}.sock")), Setup::default()).unwrap();
        let (status, id) = client.queues[0].run(Kind::Identify, 0, &[], 20).unwrap();
        assert_eq!(status, 0);
        String::from_utf8(id).unwrap().trim_end_matches('\0').to_owned()
    };
    let [short, one, other, own] = names.map(serial);
    assert_eq!((short.as_str(), own.as_str()), (names[0], "S-1"));
    assert!(one != other && one != short && one.len() == 20, "{one} {other}");
}
