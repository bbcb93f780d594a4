//! Logical blocks of 4096 bytes: from the origin or by `block_size`, in each front end, and beside partition tables.

use crate::identity::Loop;
use crate::support::{Place, noise};
use nitro_vhost_client::{Client, Kind, Setup};
use std::process::Command;

const MIB: u64 = 1 << 20;
const SERVE: &str = "--cache cache.img --cache-size 32M --name vm";

fn connect(place: &Place) -> Client {
    Client::connect(&place.path("vm.blk"), Setup::default()).unwrap()
}

/// Bytes of a block and of the disk, as a guest sees them.
fn seen(client: &mut Client) -> (u32, u64) {
    let space = client.config().unwrap();
    (u32::from_le_bytes(*space[20..].first_chunk().unwrap()), client.size_bytes().unwrap())
}

/// The beginning of a disk with a partition at 1 MiB, whose table counts in blocks of that size.
fn with_gpt(block_bytes: usize) -> Vec<u8> {
    let mut disk = vec![0; 4 << 20];
    disk[510..512].copy_from_slice(&[0x55, 0xAA]);
    disk[446 + 4] = 0xEE;
    disk[446 + 8] = 1;
    disk[block_bytes..block_bytes + 8].copy_from_slice(b"EFI PART");
    disk[2 * block_bytes] = 1;
    disk[2 * block_bytes + 32..][..8].copy_from_slice(&((1 << 20) / block_bytes as u64).to_le_bytes());
    disk
}

#[test]
fn a_volume_has_the_blocks_that_it_is_given() {
    let place = Place::new();
    place.file("vm.img", 16 * MIB);
    for (option, block_bytes) in [("", 512), ("--block-size 4096", 4096), ("--block-size 4K", 4096)] {
        let server = place.serve(&format!("--origin vm.img {SERVE} {option} --listen vhost:vm.blk"));
        let mut client = connect(&place);
        assert_eq!(seen(&mut client), (block_bytes, 16 * MIB), "{option}");
        assert_eq!(place.status()["volumes"][0]["block_bytes"], block_bytes);
        assert_eq!(place.stdout("status").contains("in blocks of 4096"), block_bytes == 4096);
        let queue = &mut client.queues[0];
        let data = noise(1, 4096);
        assert_eq!(queue.run(Kind::Write, 8, &data, 0).unwrap().0, 0);
        assert_eq!(queue.run(Kind::Write, 9, &data[..512], 0).unwrap().0, u8::from(block_bytes > 512));
        if block_bytes > 512 {
            assert!(queue.run(Kind::Read, 8, &[], 4096).unwrap() == (0, data));
        }
        assert!(server.stop().0.success());
    }
}

#[test]
fn blocks_that_cannot_be_are_refused_by_name() {
    let place = Place::new();
    place.file("vm.img", 16 * MIB + 512);
    let refused = |rest: &str| place.failure(&format!("serve --origin vm.img {SERVE} {rest}"), 1);
    let said = refused("--block-size 4096");
    assert!(said.contains("volume.vm.block_size = 4096") && said.contains("make it 16781312 bytes long"), "{said}");
    let said = refused("--block-size 1024");
    assert!(said.contains("block_size = 1024") && said.contains("use 512 or 4096"), "{said}");
    let said = refused("--block-size 8K");
    assert!(said.contains("must be 512 to 4K"), "{said}");
    assert!(!place.path("cache.img").exists(), "refused before anything is made");
}

#[test]
fn a_partition_table_of_other_blocks_is_named() {
    let place = Place::new();
    let warning = |log: &str| log.lines().find(|line| line.contains("its GPT counts in blocks of")).map(str::to_owned);
    for (table, option, way_out) in
        [(512, "--block-size 4096", Some("set block_size = 512")), (512, "", None), (4096, "--block-size 4K", None)]
    {
        place.write("vm.img", with_gpt(table));
        let server = place.serve(&format!("--origin vm.img {SERVE} {option}"));
        let found = warning(&server.stop().1);
        assert_eq!(found.is_some(), way_out.is_some(), "{table} {option}: {found:?}");
        assert!(way_out.is_none_or(|way_out| found.is_some_and(|found| found.contains(way_out))), "{table} {option}");
    }
    // `nitro check` says the same before.
    place.write("n.toml", "[cache.c]\npath = \"none\"\n[volume.vm]\norigin = \"vm.img\"\n");
    let said = place.stdout("check n.toml");
    assert!(
        said.contains("volume.vm: its GPT counts in blocks of 4096 bytes") && said.contains("block_size = 4096"),
        "{said}"
    );
}

/// An MBR does not say in which blocks it counts; where its file system begins shows it.
#[test]
fn an_mbr_of_other_blocks_is_found_by_its_file_system() {
    let place = Place::new();
    place.file("fs.img", 8 * MIB);
    let made = Command::new("/usr/sbin/mkfs.ext4").args(["-q", "-F"]).arg(place.path("fs.img")).status();
    if !made.is_ok_and(|status| status.success()) {
        return eprintln!("skipped: no mkfs.ext4");
    }
    let mut disk = vec![0; 1 << 20];
    disk[510..512].copy_from_slice(&[0x55, 0xAA]);
    disk[446 + 4] = 0x83;
    disk[446 + 8..446 + 12].copy_from_slice(&256_u32.to_le_bytes());
    disk.extend(std::fs::read(place.path("fs.img")).unwrap());
    place.write("vm.img", disk);
    place.write("n.toml", "[cache.c]\npath = \"none\"\n[volume.vm]\norigin = \"vm.img\"\n");
    assert!(place.stdout("check n.toml").contains("its MBR counts in blocks of 4096 bytes"));
    place.write("n.toml", "[cache.c]\npath = \"none\"\n[volume.vm]\norigin = \"vm.img\"\nblock_size = \"4K\"\n");
    assert!(!place.stdout("check n.toml").contains("MBR"));
}

#[test]
fn a_volume_on_a_disk_of_4096_byte_blocks_has_them() {
    let place = Place::new();
    place.write("disk.img", with_gpt(512));
    let Some(disk) = Loop::of(&place, "disk.img", &["-b", "4096"]) else {
        return eprintln!("skipped: this user may not have loop devices");
    };
    let server = place.serve(&format!("--origin {} {SERVE} --listen vhost:vm.blk", disk.0));
    assert_eq!(seen(&mut connect(&place)).0, 4096);
    let log = server.stop().1;
    assert!(log.contains("its GPT counts in blocks of 512 bytes") && log.contains("losetup -b 512"), "{log}");
    let said = place.failure(&format!("serve --origin {} {SERVE} --block-size 512", disk.0), 1);
    assert!(said.contains("block_size = 512") && said.contains("has blocks of 4096 bytes"), "{said}");
}
