//! After `kill -9`, all writes of the last start are still there, flushed or not, if neither the machine nor a disk was
//! restarted (`Machine`). The extents that were being written at that moment are noted in memory that survives the
//! program (`memory`).

use super::place;
use crate::config::{Config, VolumeConfig};
use crate::files::private_folder;
use crate::origins::{Uuid, origin_of};
use nitro_device::map_words;
use nitro_engine::CrashMemory;
use nitro_port::codec::FingerprintHash;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Words of a cache's memory: 512 KiB.
const WORDS: usize = 64 << 10;

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
fn disks_under(device: u64, disks: &mut BTreeSet<String>) -> io::Result<bool> {
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
    let place = place_of(uuid);
    let made = private_folder(place.parent()?).map_err(|e| e.to_string());
    match made.and_then(|()| map_words(&place, WORDS).map_err(|e| e.to_string())) {
        Ok(words) => Some(CrashMemory { words, identity }),
        Err(error) => {
            tracing::warn!(
                "{}: {error}: after a crash of the program, regions of 16 MiB that were being written to will be read again",
                place.display()
            );
            None
        }
    }
}

/// Removes the memory of a cache that has ended in order: nothing of it is doubtful.
pub(super) fn forget(uuid: Uuid) {
    // One that stays is overwritten by the next start.
    let _ = fs::remove_file(place_of(uuid));
}

/// The path of the memory, in a file system in RAM: the user's runtime folder, otherwise shared memory.
fn place_of(uuid: Uuid) -> PathBuf {
    let folder = match std::env::var_os("XDG_RUNTIME_DIR").is_some_and(|folder| Path::new(&folder).is_absolute()) {
        true => place::runtime_folder(),
        false => PathBuf::from(format!("/dev/shm/nitro-{}", rustix::process::getuid().as_raw())),
    };
    folder.join(format!("cache-{uuid}.doubts"))
}
