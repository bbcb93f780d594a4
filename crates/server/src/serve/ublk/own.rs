//! Files and devices that lie on a block device of this server: their requests would wait for the server, and the server for them.

use super::super::outlive::disks_under;
use super::driver;
use nitro_console::error::Error;
use nitro_device::ublk::block_path;
use rustix::fs::makedev;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A line of `/proc/self/mountinfo`.
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    device: u64,
    at: PathBuf,
    source: PathBuf,
}

/// Refuses a path on a block device that this server serves, or that waits for one.
///
/// # Errors
/// It is on such a device.
pub(in super::super) fn refuse(path: &Path) -> Result<(), Error> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mounts: Vec<_> = mounts.lines().filter_map(parse).collect();
    // First without a look at the file system, which may not answer.
    let by_name = std::path::absolute(path).ok().and_then(|path| holding(&mounts, &path)).map(device_of);
    check(path, by_name)?;
    let Ok(found) = fs::metadata(path) else { return Ok(()) };
    if found.file_type().is_block_device() {
        return check(path, Some(found.rdev()));
    }
    let device = found.dev();
    check(path, mounts.iter().find(|mount| mount.device == device).map(device_of).or(Some(device)))
}

fn check(path: &Path, device: Option<u64>) -> Result<(), Error> {
    let mut disks = BTreeSet::new();
    // What cannot be found out is no device of this server.
    let _ = device.map(|device| disks_under(device, &mut disks));
    let Some(number) = disks.iter().filter_map(|disk| number_of(disk)).find(|number| is_own(*number)) else {
        return Ok(());
    };
    let why = format!("it is on {}, which is a volume of this server, or waits for its server", block_path(number));
    Err(Error::new(path.display(), why).or("use a file or device that does not depend on the server itself"))
}

fn is_own(number: u32) -> bool {
    driver::info(number).is_some_and(|info| !driver::is_served_elsewhere(&info))
}

/// The number of a ublk device, by its node in sysfs and what follows it.
fn number_of(disk: &str) -> Option<u32> {
    let node = disk.split('=').next()?;
    node.split('/').find_map(|part| part.strip_prefix("ublkb")?.parse().ok())
}

/// The mount that holds a path, by name.
fn holding<'a>(mounts: &'a [Mount], path: &Path) -> Option<&'a Mount> {
    let holding = mounts.iter().enumerate().filter(|(_, mount)| path.starts_with(&mount.at));
    // Of several at one place, the last one counts.
    holding.max_by_key(|(line, mount)| (mount.at.as_os_str().len(), *line)).map(|(_, mount)| mount)
}

/// The device of a mount. File systems such as btrfs have a number of their own, and name their device.
fn device_of(mount: &Mount) -> u64 {
    if rustix::fs::major(mount.device) != 0 || !mount.source.is_absolute() {
        return mount.device;
    }
    fs::metadata(&mount.source).ok().filter(|found| found.file_type().is_block_device()).map_or(0, |found| found.rdev())
}

fn parse(line: &str) -> Option<Mount> {
    let (before, after) = line.split_once(" - ")?;
    let mut fields = before.split(' ').skip(2);
    let (major, minor) = fields.next()?.split_once(':')?;
    let at = fields.nth(1)?;
    let source = after.split(' ').nth(1)?;
    let device = makedev(major.parse().ok()?, minor.parse().ok()?);
    Some(Mount { device, at: unescaped(at), source: unescaped(source) })
}

/// Blanks, tabs, line ends and backslashes are three octal digits (proc_pid_mountinfo(5)).
fn unescaped(text: &str) -> PathBuf {
    let plain = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    PathBuf::from(plain.iter().fold(text.to_owned(), |text, (escaped, plain)| text.replace(escaped, plain)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_found_by_the_paths_below_them() {
        let text = "22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
                    40 22 0:31 / /mnt/a\\040b rw - btrfs /dev/ublkb3 rw\n\
                    41 22 259:7 / /mnt rw,noatime - xfs /dev/ublkb12p1 rw\n";
        let mounts: Vec<_> = text.lines().filter_map(parse).collect();
        assert_eq!(mounts.len(), 3);
        let of = |path: &str| holding(&mounts, Path::new(path)).unwrap().source.display().to_string();
        assert_eq!(
            [of("/mnt/a b/cache.img"), of("/mnt/x"), of("/mntx")],
            ["/dev/ublkb3", "/dev/ublkb12p1", "/dev/vda"]
        );
        assert_eq!(mounts[2].device, makedev(259, 7));
    }

    #[test]
    fn devices_are_known_by_their_nodes_and_partitions_by_their_disks() {
        assert_eq!(number_of("/sys/devices/virtual/block/ublkb12/ublkb12p1=7"), Some(12));
        assert_eq!(number_of("/sys/devices/virtual/block/ublkb0=7"), Some(0));
        assert_eq!(number_of("/sys/devices/virtual/block/dm-0=7"), None);
    }

    #[test]
    fn a_file_elsewhere_is_not_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        refuse(file.path()).unwrap();
        refuse(Path::new("/does/not/exist")).unwrap();
    }
}
