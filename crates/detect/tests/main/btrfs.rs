//! btrfs, beside its own tool.

use crate::support::{Score, Truth, check_scan, run, show, tree};
use nitro_detect::{Detector, Found};
use nitro_testkit::Rng;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use tempfile::TempDir;

const BLOCK: u64 = 4096;

/// The number after a word of a line.
fn after(line: &str, name: &str) -> Option<u64> {
    let mut words = line.split_whitespace();
    words.find(|word| *word == name)?;
    words.next()?.trim_end_matches(')').parse().ok()
}

/// What `btrfs inspect-internal dump-tree` says of an image's blocks.
fn truth_of(dump: &str, node_bytes: u64) -> Truth {
    let (mut chunks, mut chunk): (Vec<(u64, u64, u64)>, _) = (Vec::new(), (0, 0));
    let (mut sizes, mut extents, mut nodes) = (BTreeMap::new(), Vec::new(), Vec::new());
    let (mut is_files, mut key) = (false, String::new());
    for line in dump.lines() {
        let text = line.trim();
        let mut words = text.split_whitespace();
        if let (Some("leaf" | "node"), Some(address)) = (words.next(), words.next()) {
            if text.contains(" owner ") {
                is_files = text.ends_with("owner FS_TREE");
                nodes.push(address.parse::<u64>().unwrap());
            }
        } else if let Some(at) = text.find("key (").filter(|_| text.starts_with("item ")) {
            key = text[at + 5..].split(')').next().unwrap().to_owned();
        }
        let (object, kind) = key.split_once(' ').unwrap_or_default();
        if kind.starts_with("CHUNK_ITEM") && text.starts_with("length ") {
            chunk = (after(&key, "CHUNK_ITEM").unwrap(), after(text, "length").unwrap());
        } else if kind.starts_with("CHUNK_ITEM") && text.starts_with("stripe ") {
            chunks.push((chunk.0, chunk.1, after(text, "offset").unwrap()));
        } else if is_files && kind.starts_with("INODE_ITEM") && text.contains(" nbytes ") {
            sizes.insert(object.to_owned(), after(text, "size").unwrap());
        } else if is_files && kind.starts_with("EXTENT_DATA") && text.starts_with("extent data disk byte") {
            extents.push((object.to_owned(), after(text, "byte").unwrap(), after(text, "nr").unwrap()));
        }
    }
    let mut truth = Truth::from([((64 << 10) / BLOCK, Found::Metadata)]);
    let mut note = |address: u64, len: u64, found: Found| {
        for (first, bytes, at) in &chunks {
            if (*first..first + bytes).contains(&address) {
                let at = at + address - first;
                truth.extend((at / BLOCK..(at + len) / BLOCK).map(|block| (block, found)));
            }
        }
    };
    extents.into_iter().for_each(|(file, address, len)| note(address, len, Found::File(sizes[&file])));
    nodes.into_iter().for_each(|address| note(address, node_bytes, Found::Metadata));
    truth
}

/// The size of a block, and what each block is, as btrfs says.
pub fn truth(image: &Path) -> (u64, Truth) {
    let path = image.to_str().unwrap();
    let superblock = run("btrfs", &["inspect-internal", "dump-super", path]);
    let node_bytes = superblock.lines().find_map(|line| after(line, "nodesize")).unwrap();
    (BLOCK, truth_of(&run("btrfs", &["inspect-internal", "dump-tree", path]), node_bytes))
}

#[test]
fn metadata_and_sizes_are_known_after_one_pass() {
    for (node_bytes, profile) in [(16384, "dup"), (4096, "single")] {
        let place = TempDir::new().unwrap();
        let (files, image) = (place.path().join("files"), place.path().join("image"));
        tree(&files, 400, 1 << 20, &mut Rng::new(12));
        File::create(&image).unwrap().set_len(512 << 20).unwrap();
        let path = image.to_str().unwrap();
        let nodes = node_bytes.to_string();
        let options = ["-q", "-m", profile, "-n", &nodes, "--rootdir", files.to_str().unwrap(), path];
        run("mkfs.btrfs", &options);
        let (_, truth) = truth(&image);
        let bytes = fs::read(&image).unwrap();
        let mut detector = Detector::new(16 << 20);
        // What is read to begin with leads from the superblock to the chunks, and so do these extents.
        show(&mut detector, &bytes, 8192);
        Score::of(&mut detector, &bytes, BLOCK, &truth).check(&format!("btrfs, nodes of {node_bytes}, {profile}"));
        check_scan(&bytes, BLOCK, &truth, 50, &format!("btrfs, nodes of {node_bytes}, {profile}"));
        assert!(detector.counters().inodes >= 800 && detector.counters().ram_bytes <= 16 << 20);
    }
}
