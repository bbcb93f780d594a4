//! NTFS, beside ntfsinfo.

use crate::support::{Score, Truth, check_scan, run, show};
use nitro_detect::{Detector, Found};
use nitro_testkit::Rng;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use tempfile::TempDir;

const FILES: u64 = 300;

/// The number after a word of ntfsinfo's output.
fn number(line: &str, name: &str) -> Option<u64> {
    line.trim().strip_prefix(name)?.split_whitespace().next()?.parse().ok()
}

fn hex(word: &str) -> Option<u64> {
    u64::from_str_radix(word.strip_prefix("0x")?, 16).ok()
}

/// Notes what one file's record says of clusters.
fn note(info: &str, inode: u64, truth: &mut Truth) {
    let is_directory = info.lines().any(|line| line.contains("MFT Record Flags:") && line.contains("DIRECTORY"));
    let (mut kind, mut size, mut is_runs) = ("", 0, false);
    for line in info.lines() {
        if let Some(rest) = line.strip_prefix("Dumping attribute ") {
            (kind, is_runs) = (rest.split(' ').next().unwrap(), false);
        }
        size = number(line, "Data size:").unwrap_or(size);
        let words: Vec<Option<u64>> = line.split_whitespace().map(hex).collect();
        if line.contains("Runlist:") {
            is_runs = true;
        } else if let ([Some(_), Some(first), Some(count)], true) = (&words[..], is_runs) {
            let found = match kind {
                "$DATA" if inode == 2 => Found::Journal,
                "$DATA" if inode >= 24 => Found::File(size),
                "$INDEX_ALLOCATION" if is_directory => Found::Directory,
                _ => Found::Metadata,
            };
            truth.extend((*first..first + count).map(|cluster| (cluster, found)));
        } else {
            is_runs = false;
        }
    }
}

/// The size of a cluster, and what each cluster is, as ntfsinfo says.
pub fn truth(image: &Path) -> (u64, Truth) {
    let path = image.to_str().unwrap();
    let volume = run("ntfsinfo", &["-f", "-m", path]);
    let field = |name: &str| volume.lines().find_map(|line| number(line, name)).unwrap();
    let cluster_bytes = field("Cluster Size:");
    let table = run("ntfsinfo", &["-f", "-v", "-i", "0", path]);
    let of_data = table.lines().skip_while(|line| !line.starts_with("Dumping attribute $DATA"));
    let table_bytes = of_data.filter_map(|line| number(line, "Data size:")).next().unwrap();
    let mut truth = Truth::new();
    for inode in 0..table_bytes / 1024 {
        // Of a record that is not in use it says nothing.
        note(&run("ntfsinfo", &["-f", "-v", "-i", &inode.to_string(), path]), inode, &mut truth);
    }
    (cluster_bytes, truth)
}

#[test]
fn metadata_and_sizes_are_known_after_one_pass() {
    for cluster_bytes in [4096, 1024, 16384] {
        let place = TempDir::new().unwrap();
        let (source, image) = (place.path().join("source"), place.path().join("image"));
        File::create(&image).unwrap().set_len(512 << 20).unwrap();
        let path = image.to_str().unwrap();
        run("mkntfs", &["-q", "-F", "-f", "-c", &cluster_bytes.to_string(), path]);
        let mut random = Rng::new(13);
        for number in 0..FILES {
            let size = 1u64 << (8 + random.below(12));
            let content: Vec<u8> = (0..size + random.below(size)).map(|_| random.below(256) as u8).collect();
            fs::write(&source, content).unwrap();
            run("ntfscp", &["-q", path, source.to_str().unwrap(), &format!("a file with a long name {number:060}")]);
        }
        let mut truth = Truth::new();
        for inode in (0..24).chain(64..64 + FILES) {
            // Some of the first are reserved.
            let info = run("ntfsinfo", &["-f", "-v", "-i", &inode.to_string(), path]);
            note(&info, inode, &mut truth);
        }
        let bytes = fs::read(&image).unwrap();
        let mut detector = Detector::new(16 << 20);
        show(&mut detector, &bytes, 8192);
        Score::of(&mut detector, &bytes, cluster_bytes, &truth).check(&format!("ntfs, clusters of {cluster_bytes}"));
        check_scan(&bytes, cluster_bytes, &truth, 25, &format!("ntfs, clusters of {cluster_bytes}"));
        assert!(detector.counters().inodes >= FILES, "{:?}", detector.counters());
    }
}

#[test]
fn files_in_clusters_above_64_kib_are_known() {
    for cluster_bytes in [128 << 10, 2 << 20] {
        let place = TempDir::new().unwrap();
        let (source, image) = (place.path().join("source"), place.path().join("image"));
        File::create(&image).unwrap().set_len(1 << 30).unwrap();
        let path = image.to_str().unwrap();
        run("mkntfs", &["-q", "-F", "-f", "-c", &cluster_bytes.to_string(), path]);
        let size = 5 * cluster_bytes + 1;
        fs::write(&source, vec![7; size as usize]).unwrap();
        run("ntfscp", &["-q", path, source.to_str().unwrap(), "file"]);
        let (found_bytes, truth) = truth(&image);
        assert_eq!(found_bytes, cluster_bytes);
        let mut detector = Detector::new(16 << 20);
        let mut file = File::open(&image).unwrap();
        let mut look = |cluster: u64| {
            let mut block = vec![0; cluster_bytes as usize];
            file.seek(SeekFrom::Start(cluster * cluster_bytes)).unwrap();
            file.read_exact(&mut block).unwrap();
            detector.look(cluster * cluster_bytes, &block).found
        };
        // Where the table is, then what it says.
        look(0);
        for &cluster in truth.keys() {
            look(cluster);
        }
        assert_eq!(truth.values().filter(|is| **is == Found::File(size)).count(), 6);
        for (&cluster, &is) in &truth {
            assert_eq!(look(cluster), Some(is), "cluster {cluster} of {cluster_bytes} bytes");
        }
    }
}
