//! The mark of an origin whose newest data may be in a cache, and its format.

use super::stamp::unix_seconds;
use nitro_console::date::utc;
use nitro_port::StorageId;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use std::path::Path;
use std::str::FromStr;

/// The permanent identity of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Uuid(pub [u8; 16]);

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, byte) in self.0.iter().enumerate() {
            let dash = if matches!(at, 4 | 6 | 8 | 10) { "-" } else { "" };
            write!(f, "{dash}{byte:02x}")?;
        }
        Ok(())
    }
}

impl FromStr for Uuid {
    type Err = io::Error;

    fn from_str(text: &str) -> Result<Self, io::Error> {
        let invalid = || io::Error::new(io::ErrorKind::InvalidData, "not a UUID");
        let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b'-').collect();
        let mut uuid = [0; 16];
        if digits.len() != 2 * uuid.len() {
            return Err(invalid());
        }
        for (byte, pair) in uuid.iter_mut().zip(digits.chunks_exact(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| invalid())?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| invalid())?;
        }
        Ok(Self(uuid))
    }
}

/// Longer cache paths are cut in an extended attribute: a file system may give all attributes of a file one block.
const ATTRIBUTE_PATH_BYTES_MAX: usize = 512;

/// The content of a mark.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// The cache with the newest data.
    pub cache_uuid: String,
    /// The path of the cache.
    pub cache_path: String,
    /// The volume's name in the cache.
    pub volume: String,
    /// When the mark was made (UTC).
    pub since: String,
    /// In an extended attribute: the device and inode number of the file on which it was made. Device numbers change: `origin` is
    /// what counts, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// What the origin was recognised by, which distinguishes it from its copies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
}

impl Mark {
    pub(crate) fn new(uuid: Uuid, cache: &Path, volume: &str, origin: &StorageId) -> Self {
        let cache = std::path::absolute(cache).unwrap_or_else(|_| cache.to_owned());
        Self {
            cache_uuid: uuid.to_string(),
            cache_path: cache.to_string_lossy().into_owned(),
            volume: volume.to_owned(),
            since: utc(unix_seconds()),
            file: None,
            origin: Some(origin.to_string()),
        }
    }

    /// What the origin was recognised by when the mark was made; `None`: an earlier program made it.
    pub(crate) fn origin_id(&self) -> Option<StorageId> {
        self.origin.as_deref().and_then(StorageId::parse)
    }

    /// Whether two marks name the same volume of the same cache, at the same path, and were made on the same file.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let named = |mark: &Self| (mark.cache_uuid.clone(), mark.cache_path.clone(), mark.volume.clone());
        named(self) == named(other) && self.file == other.file
    }

    /// The mark in the form of an extended attribute of a file.
    pub(crate) fn on(&self, file: String) -> Self {
        let mut mark = Self { file: Some(file), ..self.clone() };
        let end = (0..=ATTRIBUTE_PATH_BYTES_MAX).rev().find(|at| mark.cache_path.is_char_boundary(*at));
        mark.cache_path.truncate(end.unwrap_or(0));
        mark
    }

    /// The fields, as TOML.
    pub(crate) fn fields(&self) -> io::Result<String> {
        toml::to_string(self).map_err(io::Error::other)
    }

    /// The content of a mark's file.
    pub(crate) fn text(&self) -> io::Result<String> {
        let fields = self.fields()?;
        Ok(format!(
            "# The newest data of this volume are in a Nitro cache. Do not use the volume without it: serve it with\n\
             # that cache, which removes this file once everything is written back.\n{fields}"
        ))
    }

    /// Parses a mark.
    pub(crate) fn parse(text: &str) -> io::Result<Self> {
        toml::from_str(text).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e.message().to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nitro_port::Means;

    #[test]
    fn a_uuid_comes_back() {
        let uuid = Uuid(*b"0123456789abcdef");
        assert_eq!(uuid.to_string().parse::<Uuid>().unwrap(), uuid);
        assert!("0123".parse::<Uuid>().is_err() && "x".repeat(32).parse::<Uuid>().is_err());
    }

    #[test]
    fn a_mark_on_a_file_fits_into_an_attribute() {
        let long = format!("/{}", "ä".repeat(3000));
        let mut id = StorageId::default();
        Means::ALL.into_iter().for_each(|means| id.add(means, &[b"x"]));
        let mark = Mark::new(Uuid([7; 16]), Path::new(&long), "vm", &id).on("8:1:77".to_owned());
        let fields = mark.fields().unwrap();
        assert!(fields.len() < 1024, "{}", fields.len());
        assert_eq!(Mark::parse(&fields).unwrap(), mark);
        assert!(Mark::parse("?").is_err());
    }
}
