//! XFS, beside xfs_db.

use crate::support::{Score, Truth, check_scan, run, show, tree};
use nitro_detect::{Detector, Found};
use nitro_testkit::Rng;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// A prototype of mkfs.xfs for a folder.
fn prototype(folder: &Path, text: &mut String) {
    let mut entries: Vec<_> = fs::read_dir(folder).unwrap().map(Result::unwrap).collect();
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let (name, path) = (entry.file_name().into_string().unwrap().replace(' ', "_"), entry.path());
        if path.is_dir() {
            writeln!(text, "{name} d--755 0 0").unwrap();
            prototype(&path, text);
        } else {
            writeln!(text, "{name} ---644 0 0 {}", path.display()).unwrap();
        }
    }
    writeln!(text, "$").unwrap();
}

/// The numbers after a word of xfs_db's output.
fn number(line: &str, name: &str) -> Option<u64> {
    line.strip_prefix(name)?.trim().trim_start_matches("= ").trim().parse().ok()
}

/// The size of a block, and what each block is, as xfs_db says.
pub fn truth(image: &Path) -> (u64, Truth) {
    let path = image.to_str().unwrap();
    let super_block = run(
        "xfs_db",
        &["-r", "-c", "sb 0", "-c", "p blocksize agblocks agblklog dblocks logstart logblocks rootino", path],
    );
    let field = |name: &str| super_block.lines().find_map(|line| number(line, name)).unwrap();
    let (block_bytes, group_blocks, shift) = (field("blocksize"), field("agblocks"), field("agblklog"));
    let linear = |block: u64| (block >> shift) * group_blocks + (block & ((1 << shift) - 1));
    let mut truth: Truth = (0..field("dblocks")).map(|block| (block, Found::Metadata)).collect();
    for block in 0..field("logblocks") {
        truth.insert(linear(field("logstart")) + block, Found::Journal);
    }
    // What is free, and what inodes refer to.
    for line in run("xfs_db", &["-r", "-c", "freesp -d", path]).lines() {
        let numbers: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        if let [group, first, count] = *numbers
            && line.split_whitespace().count() == 3
        {
            for block in 0..count {
                truth.remove(&(group * group_blocks + first + block));
            }
        }
    }
    let listed = run("xfs_db", &["-r", "-c", "blockget -n", "-c", "ncheck", path]);
    let inodes: Vec<u64> = listed.lines().filter_map(|line| line.split_whitespace().next()?.parse().ok()).collect();
    let mut commands = Vec::new();
    for inode in inodes.iter().chain([&field("rootino").max(128)]) {
        commands.extend([
            "-c".to_owned(),
            format!("inode {inode}"),
            "-c".to_owned(),
            "p core.mode core.size".to_owned(),
        ]);
        commands.extend(["-c".to_owned(), "bmap".to_owned()]);
    }
    let mut found = None;
    for part in commands.chunks(6 * 200) {
        let mut arguments = vec!["-r"];
        arguments.extend(part.iter().map(String::as_str));
        arguments.push(path);
        for line in run("xfs_db", &arguments).lines() {
            if let Some(mode) = line.strip_prefix("core.mode = ") {
                found = Some(if mode.starts_with("04") { Found::Directory } else { Found::File(0) });
            } else if let Some(size) = number(line, "core.size") {
                found = found.map(|found| if found == Found::Directory { found } else { Found::File(size) });
            } else if let Some(found) = found.filter(|_| line.starts_with("data offset")) {
                let words: Vec<&str> = line.split_whitespace().collect();
                let after = |name: &str| words[words.iter().position(|word| *word == name).unwrap() + 1];
                let (first, count): (u64, u64) =
                    (after("startblock").parse().unwrap(), after("count").parse().unwrap());
                for block in 0..count {
                    truth.insert(linear(first) + block, found);
                }
            }
        }
    }
    (block_bytes, truth)
}

#[test]
fn metadata_and_sizes_are_known_after_one_pass() {
    let place = TempDir::new().unwrap();
    let (files, image) = (place.path().join("files"), place.path().join("image"));
    tree(&files, 400, 1 << 20, &mut Rng::new(11));
    // Names with spaces are not for prototypes.
    let many = files.join("many");
    for entry in fs::read_dir(&many).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap().replace(' ', "_");
        fs::rename(entry.path(), many.join(name)).unwrap();
    }
    let mut text = "/dev/null\n0 0\nd--755 0 0\n".to_owned();
    prototype(&files, &mut text);
    let list = place.path().join("prototype");
    fs::write(&list, text).unwrap();
    let path = image.to_str().unwrap();
    let size = format!("name={path},size=400m,file=1");
    run("mkfs.xfs", &["-q", "-f", "-d", &size, "-p", list.to_str().unwrap()]);
    let (block_bytes, truth) = truth(&image);
    let bytes = fs::read(&image).unwrap();
    let mut detector = Detector::new(16 << 20);
    show(&mut detector, &bytes, 8192);
    Score::of(&mut detector, &bytes, block_bytes, &truth).check("xfs");
    check_scan(&bytes, block_bytes, &truth, 25, "xfs");
}
