//! The pages of the documentation.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// All Markdown files below `root`, by their path below it.
///
/// # Panics
/// A file cannot be read.
#[must_use]
pub fn pages(root: &Path) -> BTreeMap<PathBuf, String> {
    let mut pages = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.insert(path.strip_prefix(root).unwrap().to_owned(), fs::read_to_string(&path).unwrap());
            }
        }
    }
    pages
}
