//! What an open file or block device is recognised by (see [`StorageId`]), from the kernel.

use crate::ioctl;
use nitro_port::{Means, StorageId};
use rustix::fd::AsFd;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, StatxFlags, fstat, fstatfs, fstatvfs, major, minor, open, statx};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Magic numbers of file systems whose number in statfs(2) is made of their UUID, or lasts as long as they do.
const LASTING_FSID: [u64; 4] = [
    0xef53,      /* ext2 to ext4 */
    0x9123_683e, /* btrfs */
    0x2fc1_2fc1, /* ZFS */
    0x0102_1994, /* tmpfs */
];
/// Magic numbers of network file systems whose inode numbers come from the server.
const NETWORK: [u64; 2] = [0x6969 /* NFS */, 0x00c3_6400 /* Ceph */];
/// Serial numbers that devices without one return.
const NO_SERIAL: [&str; 4] = ["", "0", "none", "n/a"];

/// What an open file or block device is recognised by. Means that the system does not have are left out. May block.
///
/// # Errors
/// It cannot be examined.
pub fn identify(fd: impl AsFd) -> io::Result<StorageId> {
    let fd = fd.as_fd();
    let mut id = StorageId::default();
    let stat = fstat(fd)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::BlockDevice => identify_block(stat.st_rdev, &mut id),
        _ => identify_file(fd, &mut id)?,
    }
    Ok(id)
}

fn identify_file(fd: rustix::fd::BorrowedFd<'_>, id: &mut StorageId) -> io::Result<()> {
    let found = statx(fd, "", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS | StatxFlags::BTIME);
    let stat = fstat(fd)?;
    let inode = stat.st_ino.to_le_bytes();
    if let Some(boot) = boot_id() {
        id.add(Means::BootFile, &[boot.as_bytes(), &stat.st_dev.to_le_bytes(), &inode]);
    }
    let Some(filesystem) = filesystem(fd, stat.st_dev) else { return Ok(()) };
    id.add(Means::FileNumber, &[&filesystem, &inode]);
    if let Ok(generation) = ioctl::generation(fd) {
        id.add(Means::FileGeneration, &[&filesystem, &inode, &generation.to_le_bytes()]);
    }
    if let Ok(found) = found
        && found.stx_mask & StatxFlags::BTIME.bits() != 0
    {
        let born = (found.stx_btime.tv_sec, found.stx_btime.tv_nsec);
        id.add(Means::FileBirth, &[&filesystem, &inode, &born.0.to_le_bytes(), &born.1.to_le_bytes()]);
    }
    Ok(())
}

/// What a file system is recognised by; `None`: by nothing that outlasts a boot.
fn filesystem(fd: rustix::fd::BorrowedFd<'_>, device: u64) -> Option<Vec<u8>> {
    let found = fstatfs(fd).ok()?;
    let magic = found.f_type as u64 & 0xffff_ffff;
    let number = fstatvfs(fd).ok()?.f_fsid;
    // Always by the same means: what one kernel or boot knows, another may not.
    if LASTING_FSID.contains(&magic) {
        return (number != 0).then(|| [magic.to_le_bytes(), number.to_le_bytes()].concat());
    }
    if major(device) != 0 {
        let uuid = ioctl::filesystem_uuid(fd).ok().flatten().map(|uuid| hex(&uuid));
        return uuid.or_else(|| filesystem_uuid_by_link(device)).map(String::into_bytes);
    }
    if NETWORK.contains(&magic) {
        return mount_source(device).map(String::into_bytes);
    }
    None
}

/// The UUID of the file system on a block device, from udev's links, without dashes.
fn filesystem_uuid_by_link(device: u64) -> Option<String> {
    let node = fs::canonicalize(format!("/dev/block/{}:{}", major(device), minor(device))).ok()?;
    let mut links = fs::read_dir("/dev/disk/by-uuid").ok()?.flatten();
    let link = links.find(|link| fs::canonicalize(link.path()).is_ok_and(|target| target == node))?;
    Some(link.file_name().to_string_lossy().replace('-', "").to_lowercase())
}

/// The source of the mount with a device number (proc_pid_mountinfo(5)).
fn mount_source(device: u64) -> Option<String> {
    let text = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let number = format!("{}:{}", major(device), minor(device));
    let line = text.lines().find(|line| line.split(' ').nth(2) == Some(&number))?;
    let (_, after) = line.split_once(" - ")?;
    let mut fields = after.split(' ');
    Some(format!("{} {}", fields.next()?, fields.next()?))
}

fn identify_block(device: u64, id: &mut StorageId) {
    let Ok(node) = fs::canonicalize(format!("/sys/dev/block/{}:{}", major(device), minor(device))) else { return };
    // A partition is recognised by its disk and its first sector.
    let partition = word(&node.join("partition")).is_some();
    let start = if partition { word(&node.join("start")).unwrap_or_default() } else { String::new() };
    let disk = if partition { node.parent().unwrap_or(&node).to_owned() } else { node.clone() };
    let udev = udev_properties(device);
    let property =
        |name: &str| udev.iter().find_map(|line| line.strip_prefix(name)?.strip_prefix('=')).map(str::to_owned);
    if let Some(file) = loop_file_of(&disk).filter(|_| !partition) {
        identify_loop(&disk, &file, id);
    }
    let places = ["wwid", "device/wwid"];
    if let Some(wwid) = places.iter().find_map(|name| word(&disk.join(name))) {
        id.add(Means::Wwid, &[wwid.as_bytes(), start.as_bytes()]);
    }
    let mapped = ["dm/uuid", "md/uuid"];
    if let Some(uuid) = mapped.iter().find_map(|name| word(&disk.join(name))) {
        id.add(Means::MapperUuid, &[uuid.as_bytes(), start.as_bytes()]);
    }
    let serials = ["serial", "device/serial"];
    let serial = serials.iter().find_map(|name| word(&disk.join(name))).or_else(|| property("E:ID_SERIAL"));
    if let Some(serial) = serial.filter(|serial| !NO_SERIAL.contains(&serial.to_lowercase().as_str())) {
        id.add(Means::Serial, &[serial.as_bytes(), start.as_bytes()]);
    }
    if let Some(uuid) = property("E:ID_PART_ENTRY_UUID").filter(|_| partition) {
        id.add(Means::PartitionUuid, &[uuid.as_bytes()]);
    }
    if let (Some(boot), Some(number)) = (boot_id(), word(&disk.join("diskseq"))) {
        id.add(Means::BootDisk, &[boot.as_bytes(), number.as_bytes(), start.as_bytes()]);
    }
}

/// The path of the file behind a loop device.
pub(crate) fn loop_file(device: u64) -> Option<PathBuf> {
    loop_file_of(&fs::canonicalize(format!("/sys/dev/block/{}:{}", major(device), minor(device))).ok()?)
}

fn loop_file_of(disk: &Path) -> Option<PathBuf> {
    word(&disk.join("loop/backing_file")).map(PathBuf::from)
}

/// A loop device over a whole file is recognised as the file is; one over a part, by file and part.
fn identify_loop(disk: &Path, file: &Path, id: &mut StorageId) {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let Ok(fd) = open(file, flags, Mode::empty()) else { return };
    // Another file may have taken the path since. The kernel cuts a path that is gone to "PATH (deleted)".
    let mut of_file = StorageId::default();
    if identify_file(fd.as_fd(), &mut of_file).is_err() {
        return;
    }
    let [offset, limit] = ["offset", "sizelimit"].map(|name| word(&disk.join("loop").join(name)).unwrap_or_default());
    if offset == "0" && limit == "0" {
        *id = of_file;
    } else {
        id.add(Means::FileNumber, &[&of_file.encode(), offset.as_bytes(), limit.as_bytes()]);
    }
}

/// The lines of udev's database about a block device.
fn udev_properties(device: u64) -> Vec<String> {
    let text = fs::read_to_string(format!("/run/udev/data/b{}:{}", major(device), minor(device)));
    text.unwrap_or_default().lines().map(str::to_owned).collect()
}

/// A word in sysfs; `None`: there is none.
fn word(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
}

fn boot_id() -> Option<String> {
    word(Path::new("/proc/sys/kernel/random/boot_id"))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nitro_port::Sameness;
    use std::fs::File;

    fn id(path: &Path) -> StorageId {
        identify(File::open(path).unwrap()).unwrap()
    }

    #[test]
    fn a_file_keeps_its_identity_under_other_names_and_changes_and_copies_have_their_own() {
        // Not in /tmp, which may be a file system in RAM.
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let [a, b, link] = ["a", "b", "link"].map(|name| folder.path().join(name));
        fs::write(&a, "x").unwrap();
        let first = id(&a);
        assert_eq!(first.compare(&first), Sameness::Same);
        fs::write(&a, "xyz").unwrap();
        fs::hard_link(&a, &link).unwrap();
        assert_eq!(id(&link).compare(&first), Sameness::Same);
        fs::copy(&a, &b).unwrap();
        assert_eq!(id(&b).compare(&first), if first.is_lasting() { Sameness::Other } else { Sameness::Unknown });
        fs::rename(&b, &a).unwrap();
        assert_ne!(id(&a).compare(&first), Sameness::Same);
        assert_eq!(id(&link).compare(&first), Sameness::Same);
    }

    #[test]
    fn a_file_whose_inode_is_used_again_is_another_one() {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = folder.path().join("a");
        fs::write(&path, "x").unwrap();
        let first = id(&path);
        let has_birth = first.encode().chunks(9).any(|item| item[0] < 3);
        for _ in 0..64 {
            fs::remove_file(&path).unwrap();
            fs::write(&path, "x").unwrap();
            assert!(!has_birth || id(&path).compare(&first) == Sameness::Other);
        }
    }
}
