//! After `kill -9`, all writes of the last start are still there, flushed or not, if neither the machine nor a disk was
//! restarted (`Machine`). The extents that were being written at that moment are noted in memory that survives the
//! program (`memory`).

use super::connections::sleep;
use super::place;
use crate::origins::{Uuid, origin_of};
use nitro_config::{Config, VolumeConfig};
use nitro_device::{map_words, remove_unmapped};
use nitro_engine::CrashMemory;
use nitro_files::private_folder;
use nitro_port::codec::FingerprintHash;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Words of a cache's memory: 512 KiB.
const WORDS: usize = 64 << 10;
/// The end of the names of memories.
const SUFFIX: &str = ".doubts";
/// Memories of caches whose server was killed are kept for this time, and at most so many.
const ABANDONED_AGE_MAX: Duration = Duration::from_secs(7 * 24 * 3600);
const ABANDONED_MAX: usize = 32;
/// The interval at which a server renews the age of its memories.
const RENEW_EVERY: Duration = Duration::from_secs(3600);

/// Identifies the state of the machine that matters to a cache.
#[derive(Debug, Clone, Copy)]
pub(super) struct Machine([u8; 16]);

impl Machine {
    /// The boot, and the disks of the cache's devices and of its volumes' origins, each with the number that the kernel gave it
    /// when it appeared (`diskseq`). `None`: not known.
    pub(super) fn of(config: &Config, cache: &str, paths: &[PathBuf]) -> Option<Self> {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let mut text = boot.trim().to_owned();
        for path in paths {
            let _ = write!(text, "\ncache {}", of_path(path).ok()??);
        }
        let served = config.volumes.iter().filter(|(name, _)| config.cache_of(name).is_ok_and(|of| of == cache));
        for (name, volume) in served {
            let _ = write!(text, "\nvolume {name} {}", of_path(&origin_path(volume)?).ok()??);
        }
        let digest = FingerprintHash::Blake3.of(text.as_bytes());
        digest.0.first_chunk().copied().map(Self)
    }
}

fn origin_path(volume: &VolumeConfig) -> Option<PathBuf> {
    Some(origin_of(&volume.origin).ok()?.host_path()?.to_owned())
}

/// A file and the disks under it, or a block device. `None`: an older kernel does not number disks.
fn of_path(path: &Path) -> io::Result<Option<String>> {
    let found = fs::metadata(path)?;
    let (device, inode) = match found.file_type().is_block_device() {
        true => (found.rdev(), 0),
        false => (found.dev(), found.ino()),
    };
    let mut disks = BTreeSet::new();
    let known = disks_under(device, &mut disks)?;
    Ok(known.then(|| format!("{device:x} {inode} {}", disks.into_iter().collect::<Vec<_>>().join(" "))))
}

/// Collects the names and numbers of the disks behind a device number, down to the physical ones.
pub(super) fn disks_under(device: u64, disks: &mut BTreeSet<String>) -> io::Result<bool> {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    // A filesystem without a disk of its own: the kernel, or a server elsewhere, keeps what is written to it.
    if major == 0 {
        return Ok(true);
    }
    gather(&fs::canonicalize(format!("/sys/dev/block/{major}:{minor}"))?, disks)
}

fn gather(node: &Path, disks: &mut BTreeSet<String>) -> io::Result<bool> {
    // A partition has its disk's number.
    let places = [Some(node), node.parent()].into_iter().flatten();
    let Some(number) = places.into_iter().find_map(|place| fs::read_to_string(place.join("diskseq")).ok()) else {
        return Ok(false);
    };
    disks.insert(format!("{}={}", node.display(), number.trim()));
    let Ok(slaves) = fs::read_dir(node.join("slaves")) else { return Ok(true) };
    for slave in slaves {
        if !gather(&fs::canonicalize(slave?.path())?, disks)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The memory of a cache. Without it, a restart after `kill -9` is treated like one after a power cut.
pub(super) fn memory(uuid: Uuid, machine: Option<Machine>) -> Option<CrashMemory> {
    let Machine(identity) = machine?;
    let mut refused = Vec::new();
    for folder in folders() {
        let place = folder.join(file_name(uuid));
        let made = private_folder(&folder).map_err(|e| e.to_string());
        match made.and_then(|()| map_words(&place, WORDS).map_err(|e| e.to_string())) {
            Ok(words) => return Some(CrashMemory { words, identity }),
            Err(error) => refused.push(format!("{}: {error}", place.display())),
        }
    }
    tracing::warn!(
        "{}: after a crash of the program, regions of 16 MiB that were being written to will be read again",
        refused.join("; ")
    );
    None
}

/// Removes the memory of a cache that has ended in order: nothing of it is doubtful.
pub(super) fn forget(uuid: Uuid) {
    for folder in folders() {
        // One that stays is overwritten by the next start.
        let _ = fs::remove_file(folder.join(file_name(uuid)));
    }
}

fn file_name(uuid: Uuid) -> String {
    format!("cache-{uuid}{SUFFIX}")
}

/// The folders for memories, the best one first: a service's runtime folder, the user's runtime folder, shared memory. They
/// are in RAM. What is in shared memory is removed at the end of a unit with `RemoveIPC=` (or with `DynamicUser=`, which
/// implies it), also when it was killed; a service's folder stays with `RuntimeDirectoryPreserve=`.
pub(super) fn folders() -> Vec<PathBuf> {
    let service = place::service_folder().map(|folder| folder.join("crash"));
    let user = place::has_runtime_folder().then(place::runtime_folder);
    let shared = PathBuf::from(format!("/dev/shm/nitro-{}", rustix::process::getuid().as_raw()));
    service.into_iter().chain(user).chain([shared]).collect()
}

/// Removes memories of caches whose server will not return: those that no process has mapped, and that are older than
/// [`ABANDONED_AGE_MAX`], or more than [`ABANDONED_MAX`].
pub(super) fn clean() {
    folders().iter().for_each(|folder| clean_folder(folder, SystemTime::now()));
}

fn clean_folder(folder: &Path, now: SystemTime) {
    let is_memory = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with("cache-") && name.ends_with(SUFFIX)
    };
    let dated = |path: PathBuf| {
        let modified = fs::symlink_metadata(&path).ok()?.modified().ok()?;
        // A time ahead of the clock counts as now.
        Some((now.duration_since(modified).unwrap_or_default(), path))
    };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut found: Vec<_> = entries.filter(is_memory).filter_map(dated).collect();
    found.sort();
    let too_many = found.len().saturating_sub(ABANDONED_MAX);
    let oldest = found.iter().rev().enumerate();
    let leaving = oldest.take_while(|(number, (age, _))| *number < too_many || *age > ABANDONED_AGE_MAX);
    for (_, (age, path)) in leaving {
        match remove_unmapped(path) {
            Ok(true) => tracing::debug!("{}: removed, {} h old", path.display(), age.as_secs() / 3600),
            // In use.
            Ok(false) => {}
            Err(error) => tracing::debug!("{}: {error}", path.display()),
        }
    }
}

/// Keeps the memories of these caches young, as long as it is polled.
pub(super) async fn renew(caches: Vec<Uuid>) {
    loop {
        sleep(RENEW_EVERY).await;
        let places =
            folders().into_iter().flat_map(|folder| caches.iter().map(move |uuid| folder.join(file_name(*uuid))));
        for place in places {
            if let Ok(file) = File::options().write(true).open(place) {
                // Only an age is too great then.
                let _ = file.set_modified(SystemTime::now());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nitro_files as files;

    fn memory_in(folder: &Path, number: u8) -> PathBuf {
        let place = folder.join(file_name(Uuid([number; 16])));
        map_words(&place, 512).unwrap();
        place
    }

    /// A memory that no process has mapped.
    fn abandoned_in(folder: &Path, number: u8) -> PathBuf {
        let place = folder.join(file_name(Uuid([number; 16])));
        files::create_new(&place).unwrap().set_len(4096).unwrap();
        place
    }

    #[test]
    fn memories_that_nobody_maps_are_removed_when_they_are_old_or_many() {
        let folder = tempfile::tempdir().unwrap();
        let mapped = memory_in(folder.path(), 0);
        let abandoned: Vec<_> = (1..=40).map(|number| abandoned_in(folder.path(), number)).collect();
        let other = folder.path().join("other");
        fs::write(&other, "x").unwrap();
        clean_folder(folder.path(), SystemTime::now());
        let left = abandoned.iter().filter(|place| place.exists()).count();
        assert!((1..=ABANDONED_MAX).contains(&left), "{left}");
        clean_folder(folder.path(), SystemTime::now() + ABANDONED_AGE_MAX + RENEW_EVERY);
        assert!(mapped.exists() && other.exists() && !abandoned.iter().any(|place| place.exists()));
    }
}
