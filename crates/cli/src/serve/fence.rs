//! Marks on origins whose newest data may be in a cache: nobody is to use such an origin alone.
//!
//! A file's mark is a file beside it, a block device's lies in the server's state folder.

use super::stamp::unix_seconds;
use crate::error::Error;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// How a mark's name ends.
pub(crate) const MARK_SUFFIX: &str = ".nitro-dirty";
/// Where udev names devices for good.
const STABLE_NAMES: &str = "/dev/disk/by-id";
/// Longer files are no marks.
const MARK_BYTES_MAX: u64 = 64 << 10;

/// Names a cache, for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Uuid(pub(crate) [u8; 16]);

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, byte) in self.0.iter().enumerate() {
            let dash = if matches!(at, 4 | 6 | 8 | 10) { "-" } else { "" };
            write!(f, "{dash}{byte:02x}")?;
        }
        Ok(())
    }
}

/// What a mark says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mark {
    /// Which cache has the newest data.
    pub(crate) cache_uuid: String,
    /// Where it was.
    pub(crate) cache_path: String,
    /// The volume's name there.
    pub(crate) volume: String,
    /// When the mark was made (UTC).
    pub(crate) since: String,
}

impl Mark {
    pub(super) fn new(uuid: Uuid, cache: &Path, volume: &str) -> Self {
        let cache = std::path::absolute(cache).unwrap_or_else(|_| cache.to_owned());
        Self {
            cache_uuid: uuid.to_string(),
            cache_path: cache.to_string_lossy().into_owned(),
            volume: volume.to_owned(),
            since: utc(unix_seconds()),
        }
    }

    /// Whether two marks name the same volume of the same cache, at the same place.
    fn is_same(&self, other: &Self) -> bool {
        let named = |mark: &Self| (mark.cache_uuid.clone(), mark.cache_path.clone(), mark.volume.clone());
        named(self) == named(other)
    }

    fn text(&self) -> io::Result<String> {
        let fields = toml::to_string(self).map_err(io::Error::other)?;
        Ok(format!(
            "# The newest data of this volume are in a Nitro cache. Do not use the volume without it: serve it with\n\
             # that cache, which removes this file once everything is written back.\n{fields}"
        ))
    }
}

/// A moment as ISO 8601 has it (civil_from_days of Howard Hinnant's chrono algorithms).
fn utc(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute) = (second / 3600, second / 60 % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{:02}Z", second % 60)
}

/// Where the mark of an origin is: where it is made, and where else one may be found.
#[derive(Debug, Clone)]
pub(crate) struct Fence {
    origin: PathBuf,
    places: Vec<PathBuf>,
}

impl Fence {
    /// Whatever links lead to the origin, its mark is in one place.
    pub(super) fn of(origin: &Path) -> io::Result<Self> {
        let real = fs::canonicalize(origin)?;
        let places = match fs::metadata(&real)?.file_type().is_block_device() {
            true => block_names(&real).into_iter().map(|name| state_folder().join(name)).collect(),
            false => vec![real.clone()],
        };
        let mark = |place: PathBuf| PathBuf::from(OsString::from_iter([place.as_os_str(), MARK_SUFFIX.as_ref()]));
        Ok(Self { origin: origin.to_owned(), places: places.into_iter().map(mark).collect() })
    }

    /// Of an object of a store: the mark is at `place`.
    pub(super) fn at(origin: &Path, place: &Path) -> Self {
        let mark = PathBuf::from(OsString::from_iter([place.as_os_str(), MARK_SUFFIX.as_ref()]));
        Self { origin: origin.to_owned(), places: vec![mark] }
    }

    /// The mark, if there is one, and where.
    pub(super) fn find(&self) -> Result<Option<(PathBuf, Mark)>, Error> {
        for place in &self.places {
            let unreadable = |why: &dyn fmt::Display| {
                let what = format!("origin {}", self.origin.display());
                let why = format!("it bears a mark of unwritten data that cannot be read, {}: {why}", place.display());
                Error::new(what, why).or("serve it with the cache that has its newest data, or --force-discard-dirty")
            };
            match fs::metadata(place) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(unreadable(&e)),
                Ok(found) if found.len() > MARK_BYTES_MAX => return Err(unreadable(&"it is too long")),
                Ok(_) => {
                    let text = fs::read_to_string(place).map_err(|e| unreadable(&e))?;
                    let mark = toml::from_str(&text).map_err(|e| unreadable(&e.message()))?;
                    return Ok(Some((place.clone(), mark)));
                }
            }
        }
        Ok(None)
    }

    /// Makes the mark, durably.
    fn raise(&self, mark: &Mark) -> Result<(), Error> {
        let Some(place) = self.places.first() else { return Ok(()) };
        let raised = match self.find() {
            // Not written anew: there may be no room for a second one while the first stands.
            Ok(Some((place, found))) if found.is_same(mark) => make_durable(&place),
            _ => write_durably(place, mark),
        };
        raised.map_err(|e| {
            let what = format!("mark {}", place.display());
            let way_out = match e.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free some space there",
                _ => "make its folder writable for this user",
            };
            Error::new(what, format_args!("write-back needs it to protect the origin: {e}"))
                .or(format_args!("{way_out}, or use write-through"))
        })
    }

    /// Removes the mark, wherever it is.
    pub(super) fn lower(&self) -> Result<(), Error> {
        for place in &self.places {
            let removed = match fs::remove_file(place) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
                Ok(()) => sync_folder(place),
                failed => failed,
            };
            removed.map_err(|e| Error::new(format_args!("mark {}", place.display()), e).or("remove it by hand"))?;
        }
        Ok(())
    }
}

fn write_durably(place: &Path, mark: &Mark) -> io::Result<()> {
    if let Some(folder) = place.parent() {
        fs::create_dir_all(folder)?;
    }
    let draft = PathBuf::from(OsString::from_iter([place.as_os_str(), ".new".as_ref()]));
    let mut file = File::create(&draft)?;
    file.write_all(mark.text()?.as_bytes())?;
    file.sync_all()?;
    fs::rename(&draft, place)?;
    sync_folder(place)
}

/// Makes a mark durable that may be as young as the last crash.
fn make_durable(place: &Path) -> io::Result<()> {
    File::open(place)?.sync_all()?;
    sync_folder(place)
}

fn sync_folder(file: &Path) -> io::Result<()> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}

/// The names by which a block device may be known: first one that is the same after the next boot.
fn block_names(device: &Path) -> Vec<String> {
    let entries = fs::read_dir(STABLE_NAMES).map(|entries| entries.flatten().collect::<Vec<_>>()).unwrap_or_default();
    let same = |entry: &fs::DirEntry| fs::canonicalize(entry.path()).is_ok_and(|real| real == device);
    let mut names: Vec<String> =
        entries.iter().filter(|e| same(e)).map(|e| e.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names.push(device.to_string_lossy().trim_start_matches('/').replace('/', "-"));
    names
}

/// Where the server keeps what must survive: `$STATE_DIRECTORY` (systemd.exec(5)), else `/var/lib/nitro` or the user's.
pub(super) fn state_folder() -> PathBuf {
    let variable = |name: &str| std::env::var_os(name).filter(|value| Path::new(value).is_absolute());
    if let Some(folders) = variable("STATE_DIRECTORY") {
        let folders = folders.to_string_lossy().into_owned();
        return PathBuf::from(folders.split(':').next().unwrap_or_default());
    }
    if rustix::process::getuid().is_root() {
        return PathBuf::from("/var/lib/nitro");
    }
    match (variable("XDG_STATE_HOME"), variable("HOME")) {
        (Some(folder), _) => Path::new(&folder).join("nitro"),
        (None, Some(home)) => Path::new(&home).join(".local/state/nitro"),
        (None, None) => PathBuf::from(format!("/var/tmp/nitro-{}", rustix::process::getuid().as_raw())),
    }
}

/// A volume's mark while it is served.
#[derive(Debug)]
pub(crate) struct Guard {
    fence: Fence,
    mark: Mark,
    /// The volume is, or is about to be, in write-back.
    wanted: Mutex<bool>,
}

impl Guard {
    pub(super) fn new(fence: Fence, mark: Mark) -> Self {
        Self { fence, mark, wanted: Mutex::new(false) }
    }

    /// Before the volume goes to write-back.
    pub(super) fn raise(&self) -> Result<(), Error> {
        let mut wanted = self.wanted.lock();
        if !*wanted {
            self.fence.raise(&self.mark)?;
            *wanted = true;
        }
        Ok(())
    }

    /// The volume leaves write-back; the mark stays as long as anything is dirty.
    pub(super) fn release(&self) {
        *self.wanted.lock() = false;
    }

    /// Removes the mark if the volume is not in write-back and has nothing dirty.
    pub(crate) fn lower_if(&self, is_clean: impl FnOnce() -> bool) -> Result<(), Error> {
        let wanted = self.wanted.lock();
        if !*wanted && is_clean() { self.fence.lower() } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_732_142_742, "2024-11-20T22:45:42Z"),
        ] {
            assert_eq!(utc(seconds), text);
        }
    }

    #[test]
    fn a_mark_comes_back_and_goes() {
        let folder = tempfile::tempdir().unwrap();
        let origin = folder.path().join("vm.img");
        fs::write(&origin, "x").unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&origin, &link).unwrap();
        let mark = Mark::new(Uuid(*b"0123456789abcdef"), Path::new("/fast/\"cache\".img"), "vm");
        assert_eq!(mark.cache_uuid, "30313233-3435-3637-3839-616263646566");
        let guard = Guard::new(Fence::of(&link).unwrap(), mark.clone());
        guard.raise().unwrap();
        let (place, found) = Fence::of(&origin).unwrap().find().unwrap().unwrap();
        assert_eq!((place.file_name().unwrap().to_str().unwrap(), found), ("vm.img.nitro-dirty", mark));
        guard.lower_if(|| true).unwrap();
        assert!(place.exists());
        guard.release();
        guard.lower_if(|| false).unwrap();
        assert!(place.exists());
        guard.lower_if(|| true).unwrap();
        assert!(!place.exists());
        fs::write(&place, "nonsense").unwrap();
        assert!(Fence::of(&origin).unwrap().find().is_err());
    }

    #[test]
    fn a_mark_that_stands_is_not_written_anew() {
        let folder = tempfile::tempdir().unwrap();
        let origin = folder.path().join("vm.img");
        fs::write(&origin, "x").unwrap();
        let mark = Mark::new(Uuid([7; 16]), Path::new("/fast/cache.img"), "vm");
        Guard::new(Fence::of(&origin).unwrap(), mark.clone()).raise().unwrap();
        // As where there is no room: no further file can be written.
        fs::create_dir(folder.path().join("vm.img.nitro-dirty.new")).unwrap();
        let since = "2001-01-01T00:00:00Z".to_owned();
        Guard::new(Fence::of(&origin).unwrap(), Mark { since, ..mark.clone() }).raise().unwrap();
        assert_eq!(Fence::of(&origin).unwrap().find().unwrap().unwrap().1, mark);
        let other = Mark { volume: "db".to_owned(), ..mark };
        assert!(Guard::new(Fence::of(&origin).unwrap(), other).raise().is_err());
    }
}
