//! ext2, ext3 and ext4, beside debugfs and dumpe2fs.

use crate::support::{Score, Truth, check_scan, run, show, tree};
use nitro_detect::{Detector, Found, Table, table_in};
use nitro_testkit::Rng;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const RAM: u64 = 16 << 20;

/// An image of a file system that was filled, and then used for a while.
struct Image {
    _place: TempDir,
    path: PathBuf,
}

impl Image {
    fn new(options: &[&str], seed: u64) -> Self {
        let place = TempDir::new().unwrap();
        let mut random = Rng::new(seed);
        let (files, path) = (place.path().join("files"), place.path().join("image"));
        tree(&files, 400, 1 << 20, &mut random);
        let mut arguments = vec!["-q", "-F"];
        arguments.extend(options);
        let (files, image) = (files.to_str().unwrap(), path.to_str().unwrap());
        arguments.extend(["-d", files, image, "128M"]);
        run("mke2fs", &arguments);
        let image = Self { _place: place, path };
        image.age(Path::new(files), &mut random);
        image
    }

    /// Removes files, and writes others into the holes.
    fn age(&self, files: &Path, random: &mut Rng) {
        let source = files.with_extension("one");
        let mut commands = String::new();
        for number in 0..400 {
            let inside = format!("/d{}/e{}/f{number}", number % 17, number % 5);
            if number % 3 == 0 {
                writeln!(commands, "rm {inside}").unwrap();
            }
        }
        debugfs(&self.path, &["-w"], &commands);
        for number in 0..40 {
            let content: Vec<u8> = (0..random.below(700_000) + 1).map(|_| random.below(256) as u8).collect();
            fs::write(&source, content).unwrap();
            debugfs(&self.path, &["-w"], &format!("write {} new{number}\n", source.display()));
        }
    }

    fn truth(&self) -> (u64, Truth) {
        truth(&self.path)
    }
}

fn debugfs(image: &Path, options: &[&str], commands: &str) -> String {
    let script = image.with_extension("commands");
    fs::write(&script, commands).unwrap();
    let mut arguments = options.to_vec();
    arguments.extend(["-f", script.to_str().unwrap(), image.to_str().unwrap()]);
    run("debugfs", &arguments)
}

/// The size of a block, and what each block is, as debugfs says.
pub fn truth(image: &Path) -> (u64, Truth) {
    let listed = run("dumpe2fs", &[image.to_str().unwrap()]);
    let field = |name: &str| {
        let line = listed.lines().find(|line| line.starts_with(name)).unwrap();
        line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()
    };
    let (block_bytes, blocks) = (field("Block size:"), field("Block count:"));
    let mut truth: Truth = (0..blocks).map(|block| (block, Found::Metadata)).collect();
    for line in listed.lines().filter_map(|line| line.trim().strip_prefix("Free blocks: ")) {
        for run in line
            .split(", ")
            .filter(|run| !run.is_empty() && !line.chars().all(|c| c.is_ascii_digit()) || run.contains('-'))
        {
            let (first, last) = run.split_once('-').unwrap_or((run, run));
            let (first, last): (u64, u64) = (first.trim().parse().unwrap(), last.trim().parse().unwrap());
            for block in first..=last {
                truth.remove(&block);
            }
        }
    }
    // Every inode in use: what it is, how large, and its blocks without those of its tree.
    let inodes = field("Inode count:");
    let stats: String = (1..=inodes).map(|inode| format!("stat <{inode}>\n")).collect();
    let mut of = None;
    let mut in_blocks = false;
    for line in debugfs(image, &[], &stats).lines() {
        if let Some(number) = line.strip_prefix("Inode: ") {
            in_blocks = false;
            let number: u64 = number.split_whitespace().next().unwrap().parse().unwrap();
            of = match (number, line) {
                (8, _) => Some(Found::Journal),
                (_, line) if line.contains("Type: directory") => Some(Found::Directory),
                (number, line) if line.contains("Type: regular") && number > 10 => Some(Found::File(0)),
                _ => None,
            };
        } else if let Some(at) = line.find("Size: ").filter(|_| line.starts_with("User:") || line.contains("Project:"))
        {
            let bytes: u64 = line[at + 6..].split_whitespace().next().unwrap().parse().unwrap();
            if let Some(Found::File(size)) = &mut of {
                *size = bytes;
            }
        } else if line.starts_with("Links: 0") {
            of = None;
        } else if line.starts_with("EXTENTS:") || line.starts_with("BLOCKS:") {
            in_blocks = true;
        } else if in_blocks && let Some(found) = of {
            for part in line.split("), ").flat_map(|part| part.split(", (")) {
                note_blocks(part, found, &mut truth);
            }
        }
    }
    (block_bytes, truth)
}

/// Reads "(0-4):100-104", "(IND):105" or "(ETB0):106".
fn note_blocks(text: &str, found: Found, truth: &mut Truth) {
    for part in text.split(", ") {
        let Some((place, blocks)) = part.split_once("):") else { continue };
        if place.contains("IND") || place.contains("ETB") {
            continue;
        }
        let (first, last) = blocks.split_once('-').unwrap_or((blocks, blocks));
        let (Ok(first), Ok(last)) = (first.trim().parse::<u64>(), last.trim().parse::<u64>()) else { continue };
        for block in first..=last {
            truth.insert(block, found);
        }
    }
}

#[test]
fn metadata_and_sizes_are_known_after_one_pass() {
    for (seed, options) in [
        (1, ["-t", "ext4", "-b", "4096"]),
        (2, ["-t", "ext4", "-b", "1024"]),
        (3, ["-t", "ext4", "-O", "^metadata_csum,^64bit"]),
        (4, ["-t", "ext3", "-b", "1024"]),
        (5, ["-t", "ext2", "-b", "4096"]),
    ] {
        let image = Image::new(&options, seed);
        let (block_bytes, truth) = image.truth();
        let bytes = fs::read(&image.path).unwrap();
        let mut detector = Detector::new(RAM);
        show(&mut detector, &bytes, 8192);
        // What was read is known without its bytes.
        let of_files = truth.iter().filter(|(_, found)| matches!(found, Found::File(_)));
        let known = of_files.clone().filter(|(block, found)| {
            detector.found_in(*block * block_bytes..(*block + 1) * block_bytes) == Some(**found)
        });
        assert!(known.count() * 100 >= of_files.count() * 95, "{options:?}");
        assert_eq!(detector.found_in(1024..2048), Some(Found::Metadata), "{options:?}");
        assert_eq!(detector.found_in(bytes.len() as u64..bytes.len() as u64 + 8192), None, "{options:?}");
        Score::of(&mut detector, &bytes, block_bytes, &truth).check(&format!("{options:?}"));
        check_scan(&bytes, block_bytes, &truth, 40, &format!("{options:?}"));
        assert!(detector.counters().ram_bytes <= RAM);
    }
}

#[test]
fn a_file_system_in_a_partition_is_found_and_one_in_a_file_is_not() {
    let image = Image::new(&["-t", "ext4", "-b", "4096"], 6);
    let (block_bytes, truth) = image.truth();
    let inside = fs::read(&image.path).unwrap();
    let start: usize = 1 << 20;
    let shifted: Truth = truth.iter().map(|(block, found)| (block + start as u64 / block_bytes, *found)).collect();
    let mut disk = Vec::new();
    for (table, sector_bytes) in [(Table::Gpt, 512), (Table::Gpt, 4096), (Table::Mbr, 4096), (Table::Mbr, 512)] {
        disk = partitioned(table, sector_bytes, start);
        disk.extend(&inside);
        let counts = if table == Table::Gpt { Some(sector_bytes as u64) } else { None };
        assert_eq!(table_in(&disk[..8192]), Some((table, counts)));
        // A GPT shows in which blocks it counts, an MBR does not.
        let told = if table == Table::Gpt { 512 } else { sector_bytes as u32 };
        let mut detector = Detector::new(RAM).with_blocks(told);
        show(&mut detector, &disk, 4096);
        Score::of(&mut detector, &disk, block_bytes, &shifted).check(&format!("{table:?}, {sector_bytes}"));
        if table == Table::Mbr {
            let mut detector = Detector::new(RAM).with_blocks(4608 - told);
            show(&mut detector, &disk, 8192);
            assert!(!detector.knows_any(), "where no partition begins");
        }
    }
    // The same bytes where no partition begins: nothing says that they are a file system.
    let mut detector = Detector::new(RAM);
    disk[510] = 0;
    show(&mut detector, &disk, 8192);
    assert!(!detector.knows_any());
    assert_eq!((table_in(&disk[..8192]), table_in(&[])), (None, None));
}

/// The beginning of a disk with one partition, whose table counts in sectors of that size.
fn partitioned(table: Table, sector_bytes: usize, start: usize) -> Vec<u8> {
    let mut disk = vec![0; start];
    let first = start / sector_bytes;
    disk[510..512].copy_from_slice(&[0x55, 0xAA]);
    let (kind, from) = if table == Table::Gpt { (0xEE, 1) } else { (0x83, first) };
    disk[446 + 4] = kind;
    disk[446 + 8..446 + 12].copy_from_slice(&(from as u32).to_le_bytes());
    if table == Table::Gpt {
        disk[sector_bytes..sector_bytes + 8].copy_from_slice(b"EFI PART");
        disk[2 * sector_bytes] = 1;
        disk[2 * sector_bytes + 32..][..8].copy_from_slice(&(first as u64).to_le_bytes());
    }
    disk
}

#[test]
fn inodes_that_come_after_their_data_say_what_it_was() {
    let image = Image::new(&["-t", "ext4", "-b", "4096"], 7);
    let bytes = fs::read(&image.path).unwrap();
    let mut detector = Detector::new(RAM);
    // From the end to the beginning: data first.
    let (mut known, mut learned) = (0, 0);
    detector.look(0, &bytes[..8192]);
    for (number, extent) in bytes.chunks(8192).enumerate().rev() {
        let sighting = detector.look((number * 8192) as u64, extent);
        known += u64::from(matches!(sighting.found, Some(Found::File(_))));
        let of_files = sighting.learned.iter().filter(|(_, found)| matches!(found, Found::File(_)));
        learned += of_files.map(|(range, _)| range.end - range.start).sum::<u64>() / 8192;
    }
    assert!(learned > 1000 && learned > known, "{learned} extents were told later, {known} at once");
}
