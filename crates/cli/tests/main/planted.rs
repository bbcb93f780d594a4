//! Files that hold what volumes hold are their owner's alone, and nothing that others planted is written through.

use crate::support::{Place, noise};
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

#[test]
fn a_store_is_its_owners_alone_and_a_link_in_its_place_is_not_followed() {
    let place = Place::new();
    place.stdout("cos init st --size 256M");
    let store = place.path("st/store.nitro");
    assert_eq!(mode(&store), 0o600);
    fs::set_permissions(&store, fs::Permissions::from_mode(0o644)).unwrap();
    place.stdout("cos init st --size 256M --force");
    assert_eq!(mode(&store), 0o600);
    let victim = place.write("victim", "as it was");
    fs::remove_file(&store).unwrap();
    for target in ["../victim", "nowhere"] {
        symlink(target, &store).unwrap();
        place.failure("cos init st --size 256M", 1);
        let said = place.failure("cos init st --size 256M --force", 1);
        assert!(said.contains("store.nitro"), "{said}");
        fs::remove_file(&store).unwrap();
    }
    assert_eq!(fs::read_to_string(victim).unwrap(), "as it was");
    assert!(!place.path("st/nowhere").exists());
}

#[test]
fn an_export_writes_through_no_link_and_is_its_owners_alone() {
    let place = Place::new();
    let image = noise(1, 1 << 20);
    place.write("vm.img", &image);
    place.stdout("cos init st --size 256M");
    place.stdout("cos import st vm vm.img");
    let victim = place.write("victim", "as it was");
    let part = place.path("out.img.part");
    symlink("victim", &part).unwrap();
    let said = place.failure("cos export st vm out.img", 1);
    assert!(said.contains("symbolic link") && said.contains("remove it"), "{said}");
    fs::remove_file(&part).unwrap();
    fs::hard_link(&victim, &part).unwrap();
    assert!(place.failure("cos export st vm out.img", 1).contains("hard link"));
    fs::remove_file(&part).unwrap();
    assert_eq!(fs::read_to_string(victim).unwrap(), "as it was");
    place.stdout("cos export st vm out.img");
    assert!(fs::read(place.path("out.img")).unwrap() == image);
    assert_eq!(mode(&place.path("out.img")), 0o600);
}

#[test]
fn an_export_takes_the_place_of_regular_files_only() {
    let place = Place::new();
    place.write("vm.img", noise(1, 1 << 20));
    place.stdout("cos init st --size 256M");
    place.stdout("cos import st vm vm.img");
    fs::create_dir(place.path("folder")).unwrap();
    assert!(Command::new("mkfifo").arg(place.path("fifo")).status().unwrap().success());
    symlink("fifo", place.path("link")).unwrap();
    for target in ["folder", "fifo", "link"] {
        let said = place.failure(&format!("cos export st vm {target} --force"), 1);
        assert!(said.contains("neither a regular file nor a block device"), "{said}");
        assert!(!place.path(&format!("{target}.part")).exists());
    }
    assert!(fs::symlink_metadata(place.path("fifo")).unwrap().file_type().is_fifo());
}

#[test]
fn a_recording_is_its_owners_alone_and_takes_nobodys_place() {
    let place = Place::new();
    place.file("vm.img", 1 << 20);
    let arguments = "--origin vm.img --cache none --record requests.parquet";
    symlink("nowhere", place.path("requests.parquet")).unwrap();
    assert!(place.failure(&format!("serve {arguments}"), 1).contains("it exists"));
    assert!(!place.path("nowhere").exists());
    fs::remove_file(place.path("requests.parquet")).unwrap();
    assert!(place.serve(arguments).stop().0.success());
    assert_eq!(mode(&place.path("requests.parquet")), 0o600);
}

#[test]
fn what_is_salvaged_is_its_owners_alone() {
    let place = Place::new();
    place.file("vm.img", 1 << 20);
    let server = place.serve("--origin vm.img --cache cache.img --cache-size 32M --mode write-back --dirty-age 1h");
    let mut client = place.client();
    assert_eq!((client.write(0, &noise(3, 8192)), client.flush()), (0, 0));
    server.kill();
    place.stdout("cache salvage cache.img --volume vm --to out.img");
    for name in ["out.img", "cache.img", "vm.img.nitro-dirty"] {
        assert_eq!(mode(&place.path(name)), 0o600, "{name}");
    }
}
