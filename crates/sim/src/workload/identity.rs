//! What identifies a trace.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A text that identifies a trace: another trace, or the same one read in another way, has another text. Traces in files
/// are identified by their whole content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceIdentity {
    text: String,
    files: Vec<(PathBuf, Stamp)>,
}

/// What a file was when it was read: device, inode, size, and the times of its content's and its inode's last change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    inode: (u64, u64),
    size: u64,
    times: [(i64, i64); 2],
}

impl Stamp {
    /// The stamp of a file.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn of(path: &Path) -> io::Result<Self> {
        let found = fs::metadata(path)?;
        let times = [(found.mtime(), found.mtime_nsec()), (found.ctime(), found.ctime_nsec())];
        Ok(Self { inode: (found.dev(), found.ino()), size: found.size(), times })
    }
}

impl From<String> for TraceIdentity {
    /// The identity of a trace without files, by its parameters.
    fn from(text: String) -> Self {
        Self { text, files: Vec::new() }
    }
}

impl From<&str> for TraceIdentity {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl TraceIdentity {
    /// Adds a file, which is read to its end.
    ///
    /// # Errors
    /// It cannot be read.
    pub(super) fn add(&mut self, path: &Path) -> io::Result<()> {
        let stamp = Stamp::of(path)?;
        let mut hasher = blake3::Hasher::new();
        hasher.update_reader(File::open(path)?)?;
        self.text.push(' ');
        self.text.push_str(hasher.finalize().to_hex().as_str());
        self.files.push((path.to_owned(), stamp));
        Ok(())
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The first file that is not what it was when its content was read.
    #[must_use]
    pub fn changed(&self) -> Option<&Path> {
        let has_changed = |(path, stamp): &&(PathBuf, Stamp)| Stamp::of(path).ok() != Some(*stamp);
        self.files.iter().find(has_changed).map(|(path, _)| path.as_path())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn a_byte_in_the_middle_makes_another_trace() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace");
        let of = || {
            let mut identity = TraceIdentity::from("how");
            identity.add(&path).unwrap();
            identity
        };
        fs::write(&path, vec![1; 1 << 20]).unwrap();
        let before = of();
        assert_eq!((before.as_str(), before.changed()), (of().as_str(), None));
        // Size and time of the content stay.
        let file = File::options().write(true).open(&path).unwrap();
        let modified = file.metadata().unwrap().modified().unwrap();
        file.write_all_at(&[2], 500_000).unwrap();
        file.set_modified(modified).unwrap();
        assert_ne!(of().as_str(), before.as_str());
        assert_eq!(before.changed(), Some(path.as_path()));
    }
}
