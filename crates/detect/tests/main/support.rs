//! File systems without a kernel, and a comparison.

use nitro_detect::{Detector, Found};
use nitro_testkit::Rng;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// How often it is tried to unmount a file system.
const UNMOUNTS_MAX: u32 = 100;

/// What a block is in truth.
pub type Truth = BTreeMap<u64, Found>;

/// What a program prints.
pub fn run(program: &str, arguments: &[&str]) -> String {
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let ran = Command::new(program).args(arguments).env("PATH", path).stdin(Stdio::null()).output();
    let ran = ran.unwrap_or_else(|error| panic!("{program}: {error}; scripts/setup installs it"));
    let text = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(ran.status.success(), "{program} {arguments:?}: {}{text}", String::from_utf8_lossy(&ran.stderr));
    text
}

/// A file system of an image, in use; unmounted when dropped.
pub struct Mounted {
    /// Where its root is.
    pub folder: PathBuf,
}

impl Mounted {
    /// By that command; `None`: whoever runs this cannot.
    pub fn new(command: &[&str], image: &Path, folder: &Path) -> Option<Self> {
        let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
        let ran = Command::new(command[0]).args(&command[1..]).arg(image).arg(folder).env("PATH", path).output();
        ran.is_ok_and(|ran| ran.status.success()).then(|| Self { folder: folder.to_owned() })
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // FUSE closes files in the background, and whoever looks at all mounts has each open for a moment.
        for _ in 0..UNMOUNTS_MAX {
            if Command::new("umount").arg(&self.folder).status().is_ok_and(|done| done.success()) {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        assert!(std::thread::panicking(), "{:?} is in use", self.folder);
    }
}

/// A tree of files of sizes as on a file server: most are small, and most bytes are in large ones.
pub fn tree(folder: &Path, files: u64, bytes_max: u64, random: &mut Rng) {
    for number in 0..files {
        let inside = folder.join(format!("d{}/e{}", number % 17, number % 5));
        fs::create_dir_all(&inside).unwrap();
        let size = 1 << (8 + random.below(u64::from(bytes_max.ilog2()) - 8));
        let size = size + random.below(size);
        let content: Vec<u8> = (0..size).map(|_| random.below(256) as u8).collect();
        fs::write(inside.join(format!("f{number}")), content).unwrap();
    }
    // One directory of many blocks.
    let many = folder.join("many");
    fs::create_dir_all(&many).unwrap();
    (0..files).for_each(|number| fs::write(many.join(format!("a file with a long name {number:060}")), b"x").unwrap());
}

/// Shows all of an image to a detector, in extents of that size.
pub fn show(detector: &mut Detector, image: &[u8], extent_bytes: usize) {
    for (number, extent) in image.chunks(extent_bytes).enumerate() {
        detector.look((number * extent_bytes) as u64, extent);
    }
}

/// Scans an image with a detector that knows nothing, and checks that data have the right class, of which no block has been looked at. A
/// part of the image is read, in percent at most.
pub fn check_scan(image: &[u8], block_bytes: u64, truth: &Truth, percent_max: u64, what: &str) {
    let mut detector = Detector::new(16 << 20);
    detector.scan(image.len() as u64);
    let mut read = 0;
    while let Some(range) = detector.next_to_scan() {
        let end = range.end.min(image.len() as u64);
        detector.look(range.start, &image[range.start as usize..end as usize]);
        read += end - range.start;
        assert!(detector.counters().ram_bytes <= 16 << 20);
    }
    let score = Score::of(&mut detector, &vec![0; image.len()], block_bytes, truth);
    let Score { data, data_found, wrong, .. } = score;
    println!("{what}: {} of {} KiB scanned, data {data_found} of {data}", read >> 10, image.len() >> 10);
    assert!(data > 1000 && data_found * 100 >= data * 95, "{what}: {data_found} of {data}: {wrong:?}");
    assert!(read * 100 <= image.len() as u64 * percent_max, "{what}: {read} bytes read");
    assert_eq!((detector.next_to_scan(), detector.bytes_to_scan()), (None, 0));
}

/// How well blocks were told apart.
#[derive(Debug, Default)]
pub struct Score {
    /// Metadata, directories and journal: blocks, those found, and those that were taken for it.
    pub own: u64,
    pub own_found: u64,
    pub own_claimed: u64,
    /// Data: blocks, and those with the size class of their file.
    pub data: u64,
    pub data_found: u64,
    /// The first mistakes.
    pub wrong: Vec<String>,
}

/// The step of DSS's file sizes.
const fn step(bytes: u64) -> u32 {
    let mut step = 0;
    while step < 10 && bytes > 4096 << (2 * step) {
        step += 1;
    }
    step
}

impl Score {
    /// Asks about each block of which the truth is known. Where it says nothing a block is free.
    pub fn of(detector: &mut Detector, image: &[u8], block_bytes: u64, truth: &Truth) -> Self {
        let mut score = Self::default();
        for (number, block) in (0..).zip(image.chunks(block_bytes as usize)) {
            let (found, is) = (detector.look(number * block_bytes, block).found, truth.get(&number).copied());
            let is_own =
                |found: Option<Found>| matches!(found, Some(Found::Metadata | Found::Directory | Found::Journal));
            score.own += u64::from(is_own(is));
            score.own_claimed += u64::from(is_own(found) && is.is_some());
            score.own_found += u64::from(is_own(is) && found == is);
            let mut right = !is_own(is) || found == is;
            if let Some(Found::File(bytes)) = is {
                right = matches!(found, Some(Found::File(claimed)) if step(claimed) == step(bytes));
                score.data += 1;
                score.data_found += u64::from(right);
            }
            if !right && score.wrong.len() < 12 {
                score.wrong.push(format!("block {number}: {found:?} where {is:?} is right"));
            }
        }
        score
    }

    /// Checks what is asked for: 99 % of metadata, and as much of what was taken for it, and 95 % of the data.
    pub fn check(&self, what: &str) {
        let Self { own, own_found, own_claimed, data, data_found, wrong } = self;
        println!("{what}: metadata {own_found} of {own} ({own_claimed} taken for it), data {data_found} of {data}");
        assert!(*own > 50 && *data > 1000, "{what}: {own} blocks of metadata, {data} of data");
        assert!(own_found * 100 >= own * 99, "{what}: recall: {self:?}");
        assert!(own_found * 100 >= own_claimed * 99, "{what}: precision: {self:?}");
        assert!(data_found * 100 >= data * 95, "{what}: {wrong:?}");
    }
}
