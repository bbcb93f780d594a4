use super::*;
use rustix::fs::{CWD, mkfifoat};
use std::fs;
use std::os::unix::fs::symlink;
use tempfile::TempDir;

fn place() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("target"), "as it was").unwrap();
    symlink("target", folder.path().join("link")).unwrap();
    symlink("nowhere", folder.path().join("dangling")).unwrap();
    fs::create_dir(folder.path().join("folder")).unwrap();
    mkfifoat(CWD, folder.path().join("fifo"), Mode::from_raw_mode(0o666)).unwrap();
    folder
}

const PLANTED: [&str; 4] = ["link", "dangling", "folder", "fifo"];

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

#[test]
fn nothing_that_was_planted_is_opened() {
    let place = place();
    for name in PLANTED {
        let path = place.path().join(name);
        assert!(open_to_read(&path).is_err(), "{name}");
        assert!(open_own(&path).is_err(), "{name}");
        assert_eq!(create_new(&path).unwrap_err().kind(), io::ErrorKind::AlreadyExists, "{name}");
        assert!(read_text(&path, Links::Followed, 100).is_err(), "{name}");
        assert!(make_durable(&path, Links::Followed).is_err(), "{name}");
    }
    assert_eq!(fs::read_to_string(place.path().join("target")).unwrap(), "as it was");
    assert!(!place.path().join("nowhere").exists());
}

#[test]
fn what_is_written_takes_the_place_of_a_link_and_not_of_its_target() {
    let place = place();
    for name in ["link", "dangling", "fifo", "target", "new"] {
        let path = place.path().join(name);
        write_durably(&path, Links::Followed, b"mark").unwrap();
        assert_eq!(read_text(&path, Links::Followed, 4).unwrap().unwrap(), "mark");
        assert!(read_text(&path, Links::Followed, 3).is_err(), "too long");
        assert_eq!(mode(&path), 0o600);
        remove_durably(&path, Links::Followed).unwrap();
        remove_durably(&path, Links::Followed).unwrap();
        assert_eq!(read_text(&path, Links::Followed, 4).unwrap(), None);
    }
    assert!(write_durably(&place.path().join("folder"), Links::Followed, b"mark").is_err());
    let left: Vec<_> = fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["folder"], "no drafts are left");
}

#[test]
fn removing_and_creating_anew_leave_the_target_of_a_link() {
    let place = place();
    let (link, target) = (place.path().join("link"), place.path().join("target"));
    remove_durably(&link, Links::Followed).unwrap();
    assert!(!link.exists() && target.exists());
    symlink("target", &link).unwrap();
    create_anew(&link).unwrap().write_all(b"new").unwrap();
    assert_eq!(fs::read_to_string(&target).unwrap(), "as it was");
    assert_eq!(fs::read_to_string(&link).unwrap(), "new");
}

#[test]
fn new_files_are_their_owners_alone() {
    let place = place();
    drop(create_new(&place.path().join("one")).unwrap());
    drop(open_target(&place.path().join("two")).unwrap());
    for name in ["one", "two"] {
        assert_eq!(mode(&place.path().join(name)), 0o600);
    }
    // A link that this user made is meant.
    open_target(&place.path().join("link")).unwrap().set_len(2).unwrap();
    assert_eq!(fs::read_to_string(place.path().join("target")).unwrap(), "as");
    for name in ["fifo", "folder", "dangling"] {
        assert!(open_target(&place.path().join(name)).is_err(), "{name}");
    }
}

#[test]
fn a_file_with_a_second_name_is_not_written_to() {
    let place = place();
    let target = place.path().join("target");
    assert!(open_own(&target).is_ok());
    fs::hard_link(&target, place.path().join("second")).unwrap();
    assert!(open_own(&target).unwrap_err().to_string().contains("hard link"));
}

#[test]
fn a_path_that_was_resolved_has_no_links() {
    let place = place();
    symlink("folder", place.path().join("way")).unwrap();
    let by_link = fs::canonicalize(place.path()).unwrap().join("way/file");
    write_durably(&by_link, Links::Followed, b"x").unwrap();
    assert!(write_durably(&by_link, Links::Refused, b"y").is_err());
    assert!(read_text(&by_link, Links::Refused, 9).is_err());
    let direct = fs::canonicalize(place.path()).unwrap().join("folder/file");
    assert_eq!(read_text(&direct, Links::Refused, 9).unwrap().unwrap(), "x");
}

#[test]
fn folders_of_others_are_not_used() {
    let place = place();
    let made = place.path().join("a/b");
    own_folder(&made).unwrap();
    assert_eq!(mode(&made), 0o700);
    fs::set_permissions(&made, Permissions::from_mode(0o777)).unwrap();
    assert!(own_folder(&made).is_err());
    let private = place.path().join("private");
    private_folder(&private).unwrap();
    private_folder(&private).unwrap();
    symlink("private", place.path().join("lure")).unwrap();
    assert!(private_folder(&place.path().join("lure")).is_err());
    if rustix::process::getuid().is_root() {
        std::os::unix::fs::chown(&private, Some(65_534), None).unwrap();
        assert!(private_folder(&private).is_err());
        // The state of a service: root and the service see each other's marks.
        own_folder(&private).unwrap();
        write_durably(&private.join("mark"), Links::Followed, b"x").unwrap();
        assert_eq!(fs::metadata(private.join("mark")).unwrap().uid(), 65_534);
        std::os::unix::fs::lchown(place.path().join("lure"), Some(65_534), None).unwrap();
        assert!(own_folder(&place.path().join("lure")).is_err());
        assert!(open_target(&place.path().join("lure")).is_err());
    }
}
