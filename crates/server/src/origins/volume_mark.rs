//! The mark that stays on an origin: which cache served it last, and how often. It is renewed at each start that may change the
//! origin, in both modes, and stays after an orderly end; [`Mark`](super::Mark) is the one of unwritten data.
//!
//! A file has it as an extended attribute, which is found by all its names, and an image of a cluster in its metadata. Other origins,
//! and files without extended attributes, have it in a file of the state folder, named by what the origin is recognised by. Where
//! other hosts serve the origin, too, all but images have it in the folder that these hosts share.

use super::claim::Claim;
use super::fence::{block_names, shared_folder, state_folder, state_folders};
use super::mark::Uuid;
use super::notes::{Note, Notes};
use nitro_files::{self as files, Links};
use nitro_port::{Sameness, StorageId};
use rustix::fs::{XattrFlags, fgetxattr, fsetxattr};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The extended attribute.
const ATTRIBUTE: &str = "user.nitro.volume";
/// Longer ones are not marks.
const BYTES_MAX: usize = 4096;

/// The content of a mark.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct VolumeMark {
    /// The cache that served the origin last.
    pub(crate) cache: String,
    /// The volume's UUID.
    pub(crate) unit: String,
    /// The number of the last begin or orderly end of serving the origin for writing, by any cache.
    pub(crate) count: u64,
    /// A random number of that begin or end, which has 63 bits; 0: an earlier program made the mark.
    #[serde(default)]
    pub(crate) token: u64,
    /// What the origin was recognised by, which tells it from its copies.
    origin: String,
    /// The fencing number of the owner that made it, where etcd decides who serves the origin; 0: nothing does.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) fence: u64,
    /// The etcd cluster whose number it is.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) etcd: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl VolumeMark {
    pub(crate) fn new(cache: Uuid, unit: Uuid, (count, token): (u64, u64), id: &StorageId) -> Self {
        Self {
            cache: cache.to_string(),
            unit: unit.to_string(),
            count,
            token,
            origin: id.to_string(),
            fence: 0,
            etcd: String::new(),
        }
    }

    /// A random number for a new mark, never 0. TOML has integers of 63 bits.
    pub(crate) fn new_token() -> u64 {
        (crate::spans::random() >> 1).max(1)
    }

    /// Whether the mark was made on this storage, and did not come with a copy.
    fn is_of(&self, id: &StorageId) -> bool {
        StorageId::parse(&self.origin).is_some_and(|made_on| made_on.compare(id) != Sameness::Other)
    }
}

/// Where an origin's mark is made, and where it is found.
#[derive(Debug, Clone, Default)]
pub struct VolumeMarks {
    id: StorageId,
    /// A file that can have an extended attribute.
    file: Option<Arc<File>>,
    /// Names of the files that hold the mark otherwise; it is made under the first one.
    names: Vec<String>,
    /// The origin keeps the mark itself.
    notes: Option<Arc<dyn Notes>>,
    /// As whose owner the marks are made, where etcd decides who that is.
    claim: Option<Claim>,
}

impl VolumeMarks {
    /// The same marks, made as an owner.
    #[must_use]
    pub(crate) fn owned(self, claim: Claim) -> Self {
        Self { claim: Some(claim), ..self }
    }

    /// As whose owner the marks are made.
    pub(crate) fn claim(&self) -> Option<&Claim> {
        self.claim.as_ref()
    }

    /// The marks of an origin with this identity. One that nothing lasting recognises can have none: it would not be found.
    #[must_use]
    pub fn of(id: &StorageId) -> Self {
        let names = if id.is_lasting() { id.names().collect() } else { Vec::new() };
        Self { id: id.clone(), names, ..Self::default() }
    }

    /// The marks of an origin that is recognised by nothing, and has this name on this machine.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self { names: vec![name.to_owned()], ..Self::default() }
    }

    /// The mark of an origin with this identity that keeps it itself.
    #[must_use]
    pub fn noted(id: &StorageId, notes: Arc<dyn Notes>) -> Self {
        Self { id: id.clone(), notes: Some(notes), ..Self::default() }
    }

    /// The marks of an open file or block device, which was opened at a path. May block.
    ///
    /// # Errors
    /// It cannot be examined.
    pub fn of_file(path: &Path, file: &File, id: &StorageId) -> io::Result<Self> {
        let is_file = file.metadata()?.is_file();
        let attribute = if is_file { Some(Arc::new(file.try_clone()?)) } else { None };
        if id.is_lasting() || (is_file && shared_folder().is_none()) {
            return Ok(Self { file: attribute, ..Self::of(id) });
        }
        // A device that nothing else recognises after the next boot has its name, as has a file that nothing recognises on
        // other hosts.
        Ok(Self { file: attribute, names: block_names(&fs::canonicalize(path)?), ..Self::of(id) })
    }

    /// The mark; of several, the newest. A mark that cannot be read, and one that came with a copy, counts as none. May block.
    pub(crate) fn find(&self) -> Option<VolumeMark> {
        let parse = |text: String| toml::from_str::<VolumeMark>(&text).ok();
        let attribute = self.file.as_ref().and_then(|file| read_attribute(file).ok().flatten()).and_then(parse);
        // Another host that recognises the same file by something else has no other place to say that it served it.
        if shared_folder().is_some() && attribute.as_ref().is_some_and(|mark| !mark.is_of(&self.id)) {
            return None;
        }
        let folders = mark_folders();
        let places = folders.iter().flat_map(|folder| self.names.iter().map(move |name| place(folder, name)));
        let texts =
            places.filter_map(|place| files::read_text(&place, Links::Followed, BYTES_MAX as u64).ok().flatten());
        let noted = self.notes.as_ref().and_then(|notes| notes.read(Note::Volume).ok().flatten());
        let marks = attribute.into_iter().chain(noted.into_iter().chain(texts).filter_map(parse));
        marks.filter(|mark| mark.is_of(&self.id)).max_by_key(|mark| mark.count)
    }

    /// Makes the mark, durably. Returns whether the origin can have one. May block.
    ///
    /// # Errors
    /// It cannot be made although the origin can have one, or there is that of a later owner.
    pub(crate) fn set(&self, mark: &VolumeMark) -> io::Result<bool> {
        let Some(claim) = &self.claim else { return self.put(mark) };
        if let Some(why) = self.find().and_then(|found| claim.is_after(&found)) {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        // Last: nothing may come between this and the change.
        claim.check()?;
        self.put(&VolumeMark { fence: claim.number, etcd: claim.etcd.clone(), ..mark.clone() })
    }

    fn put(&self, mark: &VolumeMark) -> io::Result<bool> {
        let text = toml::to_string(mark).map_err(io::Error::other)?;
        if let Some(notes) = &self.notes {
            return notes.write(Note::Volume, text).map(|()| true);
        }
        if let Some(file) = &self.file {
            match fsetxattr(file, ATTRIBUTE, text.as_bytes(), XattrFlags::empty()) {
                Ok(()) => {
                    file.sync_all()?;
                    if shared_folder().is_none() {
                        return Ok(true);
                    }
                }
                // The file system has no attributes, or no room for them.
                Err(Errno::NOTSUP | Errno::NOSYS | Errno::NOSPC | Errno::DQUOT | Errno::TOOBIG) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let Some(name) = self.names.first() else { return Ok(false) };
        let folder = match shared_folder() {
            Some(folder) => folder.to_owned(),
            None => {
                files::own_folder(&state_folder())?;
                state_folder()
            }
        };
        files::write_durably(&place(&folder, name), Links::Followed, text.as_bytes()).map(|()| true)
    }
}

/// The folders in which marks are looked for. What this host alone reads does not count where others serve the origin, too.
fn mark_folders() -> Vec<PathBuf> {
    shared_folder().map_or_else(state_folders, |folder| vec![folder.to_owned()])
}

fn place(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("origin-{name}.nitro-volume"))
}

fn read_attribute(file: &File) -> io::Result<Option<String>> {
    let mut value = vec![0; BYTES_MAX];
    match fgetxattr(file, ATTRIBUTE, &mut value[..]) {
        Ok(len) => {
            value.truncate(len);
            String::from_utf8(value).map(Some).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))
        }
        Err(Errno::NODATA | Errno::NOTSUP | Errno::NOSYS) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(path: &Path) -> VolumeMarks {
        let file = File::open(path).unwrap();
        let id = nitro_device::identify(&file).unwrap();
        VolumeMarks::of_file(path, &file, &id).unwrap()
    }

    #[test]
    fn an_owner_makes_no_mark_over_that_of_a_later_one_and_none_after_its_lease() {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = folder.path().join("a");
        fs::write(&path, "x").unwrap();
        let mark = |count| VolumeMark::new(Uuid([1; 16]), Uuid([2; 16]), (count, 1), &marks(&path).id);
        let test = |file| fsetxattr(&file, "user.nitro.test", b"x", XattrFlags::empty());
        if marks(&path).file.is_none_or(|file| test(file).is_err()) {
            return eprintln!("skipped: the file system has no extended attributes");
        }
        let of = |etcd: u64, number| marks(&path).owned(Claim::for_ever(etcd, number));
        assert!(of(7, 40).set(&mark(1)).unwrap());
        assert_eq!(marks(&path).find().map(|mark| (mark.fence, mark.etcd)), Some((40, "7".to_owned())));
        assert!(of(7, 40).set(&mark(2)).unwrap());
        assert!(of(7, 41).set(&mark(3)).unwrap());
        let refused = of(7, 40).set(&mark(4)).unwrap_err().to_string();
        assert!(refused.contains("41") && refused.contains("40"), "{refused}");
        let over = marks(&path).owned(Claim::over(7, 50));
        assert_eq!(over.set(&mark(5)).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        assert_eq!(marks(&path).find().map(|mark| (mark.count, mark.fence)), Some((3, 41)));
    }

    #[test]
    fn a_mark_is_found_under_all_names_and_not_on_a_copy() {
        // Not in /tmp, whose file system may have no attributes.
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let [a, b, link] = ["a", "b", "link"].map(|name| folder.path().join(name));
        fs::write(&a, "x").unwrap();
        let file = File::open(&a).unwrap();
        if fsetxattr(&file, "user.nitro.test", b"x", XattrFlags::empty()).is_err() {
            return;
        }
        assert_eq!(marks(&a).find(), None);
        let mark = |count| VolumeMark::new(Uuid([1; 16]), Uuid([2; 16]), (count, 1), &marks(&a).id);
        assert!(marks(&a).set(&mark(7)).unwrap());
        assert!(marks(&a).set(&mark(8)).unwrap());
        fs::hard_link(&a, &link).unwrap();
        assert_eq!(marks(&link).find(), Some(mark(8)));
        fs::write(&b, "x").unwrap();
        let text = read_attribute(&file).unwrap().unwrap();
        fsetxattr(File::open(&b).unwrap(), ATTRIBUTE, text.as_bytes(), XattrFlags::empty()).unwrap();
        assert_eq!(marks(&b).find(), None);
    }
}
