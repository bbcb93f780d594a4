//! File systems that were used for a while: what was removed, overwritten and moved left old inodes, nodes and journals behind. They are
//! mounted, which only root can do; without it these tests say so and end. `NITRO_SEEDS` is how often each is aged, by other numbers.

use crate::support::{Mounted, Score, Truth, check_scan, run, show, tree};
use crate::{btrfs, ext, ntfs, xfs};
use nitro_detect::Detector;
use nitro_testkit::Rng;
use std::fs::{self, File, OpenOptions};
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const RAM: u64 = 16 << 20;
const ROUNDS: u64 = 12;
/// Files of a tree.
const FILES: u64 = 250;
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Bytes of the image for each tree that is there at once: most of them get used, again and again.
const TREE_BYTES: u64 = 40 << 20;
const TREES: u64 = 5;
/// XFS is never smaller than 300 MiB, and btrfs gives out its space in large chunks.
const TREES_LARGE: u64 = 8;

fn content(bytes: u64, random: &mut Rng) -> Vec<u8> {
    (0..bytes).map(|_| random.below(256) as u8).collect()
}

/// All files below a folder, in the same order each time.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut entries: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    entries.into_iter().flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// Copies a tree, byte by byte: files of a copy that is made by reference share their blocks.
fn copy(from: &Path, to: &Path) {
    for file in files(from) {
        let copied = to.join(file.strip_prefix(from).unwrap());
        fs::create_dir_all(copied.parent().unwrap()).unwrap();
        fs::write(copied, fs::read(&file).unwrap()).unwrap();
    }
}

/// Changes some files of a tree: removed, overwritten, longer, shorter, in the place of another.
fn change(folder: &Path, random: &mut Rng) {
    for file in files(folder) {
        let bytes = fs::metadata(&file).unwrap().len();
        let open = || OpenOptions::new().write(true).open(&file).unwrap();
        match random.below(14) {
            0 | 1 => fs::remove_file(&file).unwrap(),
            2 => fs::write(&file, content(bytes / 2 + 1, random)).unwrap(),
            3 => {
                let mut opened = open();
                let at = random.below(bytes + 1);
                opened.seek(SeekFrom::Start(at)).unwrap();
                opened.write_all(&content((bytes - at).min(60_000), random)).unwrap();
            }
            4 => {
                let mut opened = open();
                opened.seek(SeekFrom::End(0)).unwrap();
                let more = random.below(3 * bytes.min(200_000) + 9000);
                opened.write_all(&content(more, random)).unwrap();
            }
            5 => open().set_len(random.below(bytes + 1)).unwrap(),
            6 => {
                let new = file.with_extension("new");
                let more = 1 << (8 + random.below(10));
                fs::write(&new, content(more, random)).unwrap();
                fs::rename(&new, &file).unwrap();
            }
            7 => fs::write(file.with_extension("added"), content(1 << (8 + random.below(12)), random)).unwrap(),
            8 => fs::rename(&file, file.with_extension(format!("moved{}", random.below(9)))).unwrap(),
            _ => {}
        }
    }
}

/// Uses a file system for a while. It is unmounted now and then, so that what it keeps in its journal gets to its place, but not at
/// the end of each round.
fn age(mount: &dyn Fn() -> Mounted, trees_max: u64, random: &mut Rng) {
    let mut trees: Vec<String> = Vec::new();
    let mut mounted = mount();
    for round in 1..=ROUNDS {
        let (new, copied) = (format!("new-{round}"), format!("copy-{round}"));
        tree(&mounted.folder.join(&new), FILES, FILE_BYTES_MAX, random);
        trees.push(new);
        let from = &trees[random.below(trees.len() as u64) as usize];
        copy(&mounted.folder.join(from), &mounted.folder.join(&copied));
        trees.push(copied);
        while trees.len() as u64 + 2 > trees_max {
            let gone = trees.remove(random.below(trees.len() as u64) as usize);
            fs::remove_dir_all(mounted.folder.join(gone)).unwrap();
        }
        for tree in &trees {
            change(&mounted.folder.join(tree), random);
        }
        run("sync", &["-f", mounted.folder.to_str().unwrap()]);
        if round % 3 == 0 {
            drop(mounted);
            mounted = mount();
        }
    }
}

/// Makes a file system, ages it, and compares what is told of its blocks after one pass with the truth.
fn check(make: &[&str], mount: &[&str], truth: &dyn Fn(&Path) -> (u64, Truth)) {
    let trees = if ["mkfs.xfs", "mkfs.btrfs"].contains(&make[0]) { TREES_LARGE } else { TREES };
    let seeds = std::env::var("NITRO_SEEDS").map_or(1, |seeds| seeds.parse::<u64>().unwrap());
    for seed in 1..=seeds {
        let place = TempDir::new().unwrap();
        let (image, folder) = (place.path().join("image"), place.path().join("mounted"));
        File::create(&image).unwrap().set_len(trees * TREE_BYTES).unwrap();
        run(make[0], &[&make[1..], &[image.to_str().unwrap()]].concat());
        fs::create_dir(&folder).unwrap();
        if Mounted::new(mount, &image, &folder).is_none() {
            eprintln!("not run: no {} can be mounted here", make[0]);
            return;
        }
        age(&|| Mounted::new(mount, &image, &folder).unwrap(), trees, &mut Rng::new(seed));
        let (block_bytes, truth) = truth(&image);
        let bytes = fs::read(&image).unwrap();
        let mut detector = Detector::new(RAM);
        show(&mut detector, &bytes, 8192);
        Score::of(&mut detector, &bytes, block_bytes, &truth).check(&format!("aged {make:?}, seed {seed}"));
        assert!(detector.counters().ram_bytes <= RAM);
        check_scan(&bytes, block_bytes, &truth, 60, make[0]);
    }
}

const LOOP: [&str; 3] = ["mount", "-o", "loop"];

#[test]
fn ext4_with_blocks_of_4_kib_and_checksums() {
    check(&["mke2fs", "-q", "-F", "-t", "ext4", "-b", "4096", "-O", "metadata_csum"], &LOOP, &ext::truth);
}

#[test]
#[ignore = "slow; make test-long runs it"]
fn ext4_with_blocks_of_1_kib_and_checksums() {
    check(&["mke2fs", "-q", "-F", "-t", "ext4", "-b", "1024", "-O", "metadata_csum"], &LOOP, &ext::truth);
}

#[test]
#[ignore = "slow; make test-long runs it"]
fn ext4_with_blocks_of_4_kib_and_none() {
    check(&["mke2fs", "-q", "-F", "-t", "ext4", "-b", "4096", "-O", "^metadata_csum,^64bit"], &LOOP, &ext::truth);
}

#[test]
fn ext4_with_blocks_of_1_kib_and_none() {
    check(&["mke2fs", "-q", "-F", "-t", "ext4", "-b", "1024", "-O", "^metadata_csum,^64bit"], &LOOP, &ext::truth);
}

#[test]
fn xfs_with_blocks_of_4_kib() {
    check(&["mkfs.xfs", "-q", "-f"], &LOOP, &xfs::truth);
}

#[test]
#[ignore = "slow; make test-long runs it"]
fn xfs_with_blocks_of_1_kib() {
    check(&["mkfs.xfs", "-q", "-f", "-b", "size=1024"], &LOOP, &xfs::truth);
}

#[test]
#[ignore = "slow; make test-long runs it"]
fn btrfs_with_two_copies_of_large_nodes() {
    check(&["mkfs.btrfs", "-q", "-m", "dup", "-n", "16384"], &LOOP, &btrfs::truth);
}

#[test]
fn btrfs_with_one_copy_of_small_nodes() {
    check(&["mkfs.btrfs", "-q", "-m", "single", "-n", "4096"], &LOOP, &btrfs::truth);
}

#[test]
fn ntfs_with_clusters_of_4_kib() {
    check(&["mkntfs", "-q", "-F", "-f", "-c", "4096"], &["ntfs-3g"], &ntfs::truth);
}

#[test]
#[ignore = "slow; make test-long runs it"]
fn ntfs_with_clusters_of_1_kib() {
    check(&["mkntfs", "-q", "-F", "-f", "-c", "1024"], &["ntfs-3g"], &ntfs::truth);
}
