//! Makes a digest of the sources that determine outcomes, so that stored outcomes of another program are recognised.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// Folders of the crates whose sources determine outcomes, next to this one.
const CRATES: [&str; 6] = ["cache", "model", "port", "sim", "trace", "units"];

fn main() -> io::Result<()> {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let mut hasher = DefaultHasher::new();
    for name in CRATES {
        let sources = here.join("..").join(name).join("src");
        println!("cargo::rerun-if-changed={}", sources.display());
        add(&sources, &mut hasher)?;
    }
    println!("cargo::rustc-env=NITRO_SIM_SOURCES={:016x}", hasher.finish());
    Ok(())
}

/// Adds all files in a folder, in order of their names.
fn add(folder: &Path, hasher: &mut DefaultHasher) -> io::Result<()> {
    let mut paths = folder.read_dir()?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    for path in paths {
        path.file_name().hash(hasher);
        if path.is_dir() {
            add(&path, hasher)?;
        } else {
            fs::read(&path)?.hash(hasher);
        }
    }
    Ok(())
}
