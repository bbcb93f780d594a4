//! Checks a file or block device, with the kernel's information about its disk (sysfs-block of the kernel's ABI
//! documentation).

use super::{Finding, State, folder};
use nitro_console::size::Size;
use rustix::fs::{FileType, major, minor, stat};
use std::fs;
use std::path::{Path, PathBuf};

/// The alignment of write-evict units.
const ALIGNMENT_BYTES: u64 = 4096;

/// Checks a file, a block device, or a folder for files.
#[must_use]
pub fn look(path: &Path) -> Vec<Finding> {
    let subject = path.display().to_string();
    let of = |check, state, found: String| Finding::new(&subject, check, state, found);
    let found = match stat(path) {
        Ok(found) => found,
        Err(error) => {
            let (why, remedy) = match crate::origins::elsewhere(path) {
                Some(why) => (why.to_owned(), "nitro check FILE examines it with its configuration"),
                None => (error.to_string(), "check the path and its folders' permissions"),
            };
            return vec![of("path", State::Fail, why).or(remedy)];
        }
    };
    let (kind, number) = match FileType::from_raw_mode(found.st_mode) {
        FileType::BlockDevice => ("block device", found.st_rdev),
        FileType::RegularFile => ("file", found.st_dev),
        FileType::Directory => return folder::look(path),
        _ => {
            return vec![
                of("path", State::Fail, "it is neither a file, a block device nor a folder".to_owned())
                    .or("name one of them"),
            ];
        }
    };
    let mut all = vec![of("path", State::Ok, kind.to_owned())];
    let writable = rustix::fs::access(path, rustix::fs::Access::READ_OK | rustix::fs::Access::WRITE_OK).is_ok();
    all.push(match writable {
        true => of("access", State::Ok, "it can be read and written".to_owned()),
        false => of("access", State::Warn, "this user cannot read and write it".to_owned())
            .or("the unit's user is nitro, in group disk; chgrp or chmod the file, or name the partition nitro-..."),
    });
    let Some(disk) = Disk::of(major(number), minor(number)) else {
        all.push(of("disk", State::Unknown, "the kernel does not report its disk".to_owned()));
        return all;
    };
    all.extend(disk.look().map(|(check, state, found, remedy)| of(check, state, found).or(remedy)));
    all
}

/// The sysfs folders of a block device.
struct Disk {
    /// The folder of the device or partition.
    own: PathBuf,
    /// The folder of the whole disk.
    whole: PathBuf,
}

type Look = (&'static str, State, String, &'static str);

impl Disk {
    fn of(major: u32, minor: u32) -> Option<Self> {
        let own = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?;
        let whole = if own.join("queue").is_dir() { own.clone() } else { own.parent()?.to_owned() };
        whole.join("queue").is_dir().then_some(Self { own, whole })
    }

    fn text(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.whole.join(name)).ok().map(|text| text.trim().to_owned())
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.text(name)?.parse().ok()
    }

    fn look(&self) -> impl Iterator<Item = Look> {
        [self.name(), self.alignment(), self.trim(), self.write_cache(), self.scheduler()].into_iter()
    }

    fn name(&self) -> Look {
        let name = self.whole.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let model = self.text("device/model").unwrap_or_default();
        let kind = match self.number("queue/rotational") {
            Some(0) => "not a rotating disk",
            Some(_) => "a rotating disk, or reported as one: suitable for volumes, not for a cache",
            None => "of unknown kind",
        };
        ("disk", State::Ok, format!("{name} {model}, {kind}").replace(" ,", ","), "")
    }

    fn alignment(&self) -> Look {
        let start = fs::read_to_string(self.own.join("start")).ok().and_then(|text| text.trim().parse::<u64>().ok());
        let start_bytes = start.unwrap_or(0) * 512;
        let block = self.number("queue/physical_block_size").unwrap_or(512);
        let optimal = self.number("queue/optimal_io_size").unwrap_or(0);
        let grain = block.max(optimal).max(ALIGNMENT_BYTES);
        let is_aligned = start_bytes.is_multiple_of(grain);
        let state = if is_aligned { State::Ok } else { State::Warn };
        let found = format!("begins at byte {start_bytes}; sectors of {block} bytes, best in {}", Size(grain));
        ("alignment", state, found, "create the partition again, beginning at a multiple of 1 MiB")
    }

    fn trim(&self) -> Look {
        let max = self.number("queue/discard_max_bytes").unwrap_or(0);
        let remedy = "an SSD behind a RAID controller or hypervisor often hides TRIM: pass it through (discard=unmap)";
        match (max, self.number("queue/rotational")) {
            (0, Some(1)) => ("TRIM", State::Ok, "none, and a rotating disk needs none".to_owned(), ""),
            (0, _) => {
                ("TRIM", State::Warn, "not supported: the SSD copies what the cache has evicted".to_owned(), remedy)
            }
            (max, _) => ("TRIM", State::Ok, format!("up to {} at a time", Size(max)), ""),
        }
    }

    fn write_cache(&self) -> Look {
        // A device without a volatile cache, or with one that power loss does not empty, says "write through".
        match self.text("queue/write_cache").as_deref() {
            Some("write through") => {
                let found =
                    "reports that acknowledged writes are durable: power-loss protection, or no cache".to_owned();
                ("power loss", State::Ok, found, "")
            }
            Some(_) => {
                let found = "has a volatile write cache: each FLUSH waits for the flash".to_owned();
                let remedy = "an SSD with power-loss protection, or a write log on one (write_log)";
                ("power loss", State::Warn, found, remedy)
            }
            None => ("power loss", State::Unknown, "the kernel does not report it".to_owned(), ""),
        }
    }

    fn scheduler(&self) -> Look {
        let text = self.text("queue/scheduler").unwrap_or_default();
        let chosen = text.split(['[', ']']).nth(1).unwrap_or(&text).to_owned();
        let spins = self.number("queue/rotational") == Some(1);
        match chosen.as_str() {
            "" => ("scheduler", State::Unknown, "the kernel does not report it".to_owned(), ""),
            "bfq" | "cfq" if !spins => (
                "scheduler",
                State::Warn,
                format!("{chosen} makes an SSD much slower"),
                "echo none > /sys/block/DISK/queue/scheduler",
            ),
            _ => ("scheduler", State::Ok, chosen, ""),
        }
    }
}
