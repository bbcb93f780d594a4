//! Marks on origins whose newest data may be in a cache: such an origin must not be used without that cache.
//!
//! A file has two marks: a visible file beside it, and an extended attribute, which stays with the file when it is
//! renamed or reached by a hard link. An origin counts as marked if either mark exists or cannot be read. The mark of a
//! block device, or of an export of an NBD server, is in the server's state folder; other origins keep it themselves.

use super::aside::aside;
use super::mark::Mark;
use super::notes::{Note, Notes};
use nitro_console::error::Error;
use nitro_files::{self as files, Links};
use nitro_port::{Sameness, StorageId};
use parking_lot::Mutex;
use rustix::fs::{XattrFlags, fgetxattr, fremovexattr, fsetxattr};
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// The suffix of a mark's name.
pub const MARK_SUFFIX: &str = ".nitro-dirty";
/// The suffix of a redo file's name.
pub const REDO_SUFFIX: &str = ".nitro-redo";
/// The extended attribute that marks a file. It is in the `user` namespace, which needs no privilege: every user who
/// may change it may also change the origin.
pub const MARK_ATTRIBUTE: &str = "user.nitro.dirty";
/// The folder with udev's persistent names of devices.
const STABLE_NAMES: &str = "/dev/disk/by-id";
/// Longer files and attributes are not marks (xattr(7): an attribute has at most 64 KiB).
const MARK_BYTES_MAX: u64 = 64 << 10;

/// A mark that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) mark: Mark,
    /// Its location, in words.
    pub(crate) place: String,
    /// It was made on another file: this file is a copy, or was moved to another file system.
    pub(crate) is_of_another_file: bool,
}

/// The locations of an origin's marks: where they are made, and where they may also be found.
#[derive(Debug, Clone)]
pub struct Fence {
    origin: PathBuf,
    /// What the origin is recognised by.
    id: StorageId,
    /// Paths of mark files; marks are made at the first one.
    places: Vec<PathBuf>,
    /// Whether folders on those paths may be links.
    links: Links,
    /// A file that can have an extended attribute.
    inode: Option<Arc<File>>,
    /// The origin keeps the mark itself.
    notes: Option<Arc<dyn Notes>>,
}

impl Fence {
    /// The fence of an open file or block device with this identity, which was opened at a path. Its location does not depend on the
    /// links in the path. May block.
    ///
    /// # Errors
    /// The file cannot be found or examined.
    pub fn of(origin: &Path, file: &File, id: &StorageId) -> io::Result<Self> {
        let real = fs::canonicalize(origin)?;
        if file.metadata()?.file_type().is_block_device() {
            // The first one is persistent over reboots, and the same whatever the device is called.
            let names: Vec<_> = id.names().map(|name| format!("origin-{name}")).chain(block_names(&real)).collect();
            let folders = fence_folders();
            let places =
                folders.iter().flat_map(|folder| names.iter().map(|name| marked(&folder.join(name)))).collect();
            return Ok(Self { places, ..Self::without_mark(origin, id) });
        }
        let (inode, places) = (Some(Arc::new(file.try_clone()?)), vec![marked(&real)]);
        Ok(Self { places, links: Links::Refused, inode, ..Self::without_mark(origin, id) })
    }

    /// The fence of an origin that is not a file: the mark is at `place`.
    #[must_use]
    pub fn at(origin: &Path, place: &Path) -> Self {
        Self { places: vec![marked(place)], ..Self::without_mark(origin, &StorageId::default()) }
    }

    /// The fence of an origin with this identity that keeps the mark itself.
    #[must_use]
    pub fn noted(origin: &Path, id: &StorageId, notes: Arc<dyn Notes>) -> Self {
        Self { notes: Some(notes), ..Self::without_mark(origin, id) }
    }

    /// The fence of an origin that never changes, and of which no cache has newer data.
    #[must_use]
    pub fn without_mark(origin: &Path, id: &StorageId) -> Self {
        let (origin, id) = (origin.to_owned(), id.clone());
        Self { origin, id, places: Vec::new(), links: Links::Followed, inode: None, notes: None }
    }

    /// The fence of an origin that is not of this machine: the mark is in a folder, under this name. In the state folder, it tells
    /// other machines nothing.
    #[must_use]
    pub fn named(origin: &Path, name: &str) -> Self {
        let places = fence_folders().iter().map(|folder| marked(&folder.join(format!("origin-{name}")))).collect();
        Self { places, ..Self::without_mark(origin, &StorageId::default()) }
    }

    /// Where a redo file of the origin is, so that whoever opens the origin next finds it: beside a file, and otherwise in the folder
    /// that hosts share. `None`: there is no such place.
    pub(crate) fn redo_place(&self) -> Option<PathBuf> {
        let mark = self.places.first()?;
        let is_shared = || shared_folder().is_some_and(|folder| mark.starts_with(folder));
        let stem = mark.to_str()?.strip_suffix(MARK_SUFFIX)?;
        (self.inode.is_some() || is_shared()).then(|| PathBuf::from(format!("{stem}{REDO_SUFFIX}")))
    }

    /// The existing marks.
    pub(crate) fn find(&self) -> Result<Vec<Found>, Error> {
        let unreadable = |place: &str, why: &io::Error| {
            let what = format!("origin {}", self.origin.display());
            let why = format!("its mark of unwritten data cannot be read, {place}: {why}");
            Error::new(what, why).or("serve it with the cache that has its newest data, or --force-discard-dirty")
        };
        let of_files = self
            .places
            .iter()
            .map(|path| (path.display().to_string(), files::read_text(path, self.links, MARK_BYTES_MAX)));
        let of_notes = self.notes.iter().map(|notes| (notes.place(Note::Dirty), notes.read(Note::Dirty)));
        let mut marks = Vec::new();
        for (place, read) in of_files.chain(of_notes) {
            if let Some(text) = read.map_err(|e| unreadable(&place, &e))? {
                let mark = Mark::parse(&text).map_err(|e| unreadable(&place, &e))?;
                let is_of_another_file = mark.origin_id().is_some_and(|id| id.compare(&self.id) == Sameness::Other);
                marks.push(Found { mark, place, is_of_another_file });
            }
        }
        if let Some(inode) = &self.inode {
            let place = self.attribute_place();
            let read = read_attribute(inode).map_err(|e| unreadable(&place, &e))?;
            if let Some(mark) = read {
                let is_of_another_file = match mark.origin_id().map_or(Sameness::Unknown, |id| id.compare(&self.id)) {
                    Sameness::Same => false,
                    Sameness::Other => true,
                    Sameness::Unknown => mark.file != Some(name_of(inode).map_err(|e| unreadable(&place, &e))?),
                };
                marks.push(Found { mark, place, is_of_another_file });
            }
        }
        Ok(marks)
    }

    fn attribute_place(&self) -> String {
        format!("the extended attribute {MARK_ATTRIBUTE} of {}", self.origin.display())
    }

    /// Makes the marks, durably. Existing marks are kept: there may be no room for new ones.
    fn raise(&self, mark: &Mark) -> Result<(), Error> {
        if let Some(notes) = &self.notes {
            return raise_note(&**notes, mark);
        }
        let Some(place) = self.places.first() else { return Ok(()) };
        self.raise_file(place, mark).map_err(|e| {
            let what = format!("mark {}", place.display());
            let way_out = match e.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free some space there",
                _ => "make its folder writable for this user",
            };
            Error::new(what, format_args!("write-back needs it to protect the origin: {e}"))
                .or(format_args!("{way_out}, or use write-through"))
        })?;
        let Some(inode) = &self.inode else { return Ok(()) };
        if let Err(error) = raise_attribute(inode, mark) {
            let place = self.attribute_place();
            match error.raw_os_error().map(Errno::from_raw_os_error) {
                Some(Errno::NOTSUP) => tracing::info!(
                    "{place}: the file system has none: a renamed origin, or a hard link to it, is not recognised as marked"
                ),
                _ => tracing::warn!(
                    "{place}: {error}: a renamed origin, or a hard link to it, is not recognised as marked"
                ),
            }
        }
        Ok(())
    }

    fn raise_file(&self, place: &Path, mark: &Mark) -> io::Result<()> {
        let there = files::read_text(place, self.links, MARK_BYTES_MAX).ok().flatten();
        if there.and_then(|text| Mark::parse(&text).ok()).is_some_and(|found| found.is_same(mark)) {
            return files::make_durable(place, self.links);
        }
        if let (Links::Followed, Some(folder)) = (self.links, place.parent().filter(|f| *f == state_folder())) {
            files::own_folder(folder)?;
        }
        files::write_durably(place, self.links, mark.text()?.as_bytes())
    }

    /// Removes all marks; the extended attribute first, since it is not visible.
    pub(crate) fn lower(&self) -> Result<(), Error> {
        self.lower_where(|_| true)
    }

    /// Removes all marks but those of other caches: the origin may be served by one of them by now.
    fn lower_own(&self, own: &Mark) -> Result<(), Error> {
        self.lower_where(|found| found.is_none_or(|found| found.cache_uuid == own.cache_uuid))
    }

    /// Removes the marks of which `is_wanted` returns `true`, which is asked with `None` for one that cannot be read.
    fn lower_where(&self, is_wanted: impl Fn(Option<&Mark>) -> bool) -> Result<(), Error> {
        if let Some(inode) = &self.inode
            && is_wanted(read_attribute(inode).ok().flatten().as_ref())
        {
            let by_hand = || format!("remove it by hand: setfattr -x {MARK_ATTRIBUTE} {}", self.origin.display());
            lower_attribute(inode).map_err(|e| Error::new(self.attribute_place(), e).or(by_hand()))?;
        }
        if let Some(notes) = &self.notes
            && is_wanted(notes.read(Note::Dirty).ok().flatten().and_then(|text| Mark::parse(&text).ok()).as_ref())
        {
            notes.remove(Note::Dirty).map_err(|e| {
                Error::new(format_args!("mark {}", notes.place(Note::Dirty)), e)
                    .or(format_args!("remove it by hand: {}", notes.removal(Note::Dirty)))
            })?;
        }
        let mark_at = |place: &Path| {
            let text = files::read_text(place, self.links, MARK_BYTES_MAX).ok().flatten();
            text.and_then(|text| Mark::parse(&text).ok())
        };
        for place in self.places.iter().filter(|place| is_wanted(mark_at(place).as_ref())) {
            files::remove_durably(place, self.links)
                .map_err(|e| Error::new(format_args!("mark {}", place.display()), e).or("remove it by hand"))?;
        }
        Ok(())
    }
}

/// Makes the mark that an origin keeps itself.
fn raise_note(notes: &dyn Notes, mark: &Mark) -> Result<(), Error> {
    let there = notes.read(Note::Dirty).ok().flatten();
    // A copy of the origin may have come with the mark of the one that it was copied from.
    let is_it = |found: Mark| found.is_same(mark) && found.origin == mark.origin;
    if there.and_then(|text| Mark::parse(&text).ok()).is_some_and(is_it) {
        return Ok(());
    }
    mark.fields().and_then(|text| notes.write(Note::Dirty, text)).map_err(|e| {
        let what = format!("mark {}", notes.place(Note::Dirty));
        Error::new(what, format_args!("write-back needs it to protect the origin: {e}"))
            .or("give this user the right to write it, or use write-through")
    })
}

/// Where the mark of a file is.
fn marked(file: &Path) -> PathBuf {
    PathBuf::from(OsString::from_iter([file.as_os_str(), MARK_SUFFIX.as_ref()]))
}

/// A name that distinguishes a file from its copies.
fn name_of(inode: &File) -> io::Result<String> {
    let found = inode.metadata()?;
    Ok(format!("{}:{}", found.dev(), found.ino()))
}

fn read_attribute(inode: &File) -> io::Result<Option<Mark>> {
    let mut value = vec![0; MARK_BYTES_MAX as usize];
    match fgetxattr(inode, MARK_ATTRIBUTE, &mut value[..]) {
        Ok(len) => {
            let text = std::str::from_utf8(&value[..len]).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))?;
            Mark::parse(text).map(Some)
        }
        Err(Errno::NODATA | Errno::NOTSUP | Errno::NOSYS) => Ok(None),
        Err(e) => Err(e.into()),
    }
}

fn raise_attribute(inode: &File, mark: &Mark) -> io::Result<()> {
    let mark = mark.on(name_of(inode)?);
    if !read_attribute(inode).is_ok_and(|found| found.is_some_and(|found| found.is_same(&mark))) {
        fsetxattr(inode, MARK_ATTRIBUTE, mark.fields()?.as_bytes(), XattrFlags::empty())?;
    }
    inode.sync_all()
}

fn lower_attribute(inode: &File) -> io::Result<()> {
    match fremovexattr(inode, MARK_ATTRIBUTE) {
        Ok(()) => inode.sync_all(),
        Err(Errno::NODATA | Errno::NOTSUP | Errno::NOSYS) => Ok(()),
        Err(e) => Err(e.into()),
    }
}

/// The possible names of a block device; the first one is persistent over reboots.
pub(super) fn block_names(device: &Path) -> Vec<String> {
    let entries = fs::read_dir(STABLE_NAMES).map(|entries| entries.flatten().collect::<Vec<_>>()).unwrap_or_default();
    let same = |entry: &fs::DirEntry| fs::canonicalize(entry.path()).is_ok_and(|real| real == device);
    let mut names: Vec<String> =
        entries.iter().filter(|e| same(e)).map(|e| e.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names.push(device.to_string_lossy().trim_start_matches('/').replace('/', "-"));
    names
}

/// The folder of [`share_marks`].
static SHARED: OnceLock<PathBuf> = OnceLock::new();

/// From now on, marks that are not on the origin itself are in this folder, which other hosts read, too. To be called before
/// origins are opened. The folder is not made: below a file system that is not mounted it would tell other hosts nothing.
///
/// # Errors
/// The folder cannot be used.
pub(crate) fn share_marks(folder: &Path) -> Result<(), Error> {
    let what = format!("takeover {}", folder.display());
    files::check_own(folder).map_err(|e| {
        let way_out = match e.kind() {
            io::ErrorKind::NotFound => {
                "mount the file system that all hosts share, and create a folder in it: it is not created by itself"
            }
            _ => "let root or the server's user own it, and nobody else write to it (chmod go-w)",
        };
        Error::new(&what, e).or(way_out)
    })?;
    let folder = std::path::absolute(folder).map_err(|e| Error::new(&what, e))?;
    SHARED.get_or_init(|| folder);
    Ok(())
}

/// The folder of marks that other hosts read, too; `None`: there is none.
pub(crate) fn shared_folder() -> Option<&'static Path> {
    SHARED.get().map(PathBuf::as_path)
}

/// The folders in which marks of unwritten data are looked for; they are made in the first one.
fn fence_folders() -> Vec<PathBuf> {
    shared_folder().map(Path::to_owned).into_iter().chain(state_folders()).collect()
}

/// The folders in which marks are looked for: those of `$STATE_DIRECTORY` (systemd.exec(5)), otherwise the [one](state_folder) in
/// which they are made.
pub(crate) fn state_folders() -> Vec<PathBuf> {
    let folders = std::env::var_os("STATE_DIRECTORY").map(|folders| folders.to_string_lossy().into_owned());
    let listed = folders.iter().flat_map(|folders| folders.split(':')).map(PathBuf::from);
    let mut all: Vec<_> = listed.filter(|folder| folder.is_absolute()).collect();
    if all.is_empty() {
        all.push(state_folder());
    }
    all
}

/// The folder of the server's persistent state: the first of `$STATE_DIRECTORY` (systemd.exec(5)), otherwise `/var/lib/nitro` or
/// the user's state folder.
pub(crate) fn state_folder() -> PathBuf {
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

/// A volume's marks while it is served. Separate threads read and change them, so that a folder that does not answer
/// blocks no reactor.
#[derive(Debug)]
pub struct Guard {
    fence: Fence,
    mark: Mark,
    /// The volume is, or is about to be, in write-back.
    wanted: AtomicBool,
    /// Held by the thread that changes the marks.
    turn: Mutex<()>,
}

impl Guard {
    pub(crate) fn new(fence: Fence, mark: Mark) -> Arc<Self> {
        Arc::new(Self { fence, mark, wanted: AtomicBool::new(false), turn: Mutex::new(()) })
    }

    /// Makes the marks, before the volume changes to write-back.
    pub(crate) async fn raise(self: &Arc<Self>) -> Result<(), Error> {
        let guard = Arc::clone(self);
        aside(move || {
            let _turn = guard.turn.lock();
            if !guard.wanted.load(Ordering::SeqCst) {
                guard.fence.raise(&guard.mark)?;
                guard.wanted.store(true, Ordering::SeqCst);
            }
            Ok(())
        })
        .await?
    }

    /// Notes that the volume leaves write-back; the marks stay as long as there are dirty data.
    pub(crate) fn release(&self) {
        self.wanted.store(false, Ordering::SeqCst);
    }

    /// Removes the marks if the volume is not in write-back and has no dirty data.
    pub async fn lower_if(self: &Arc<Self>, is_clean: impl FnOnce() -> bool + Send + 'static) -> Result<(), Error> {
        let guard = Arc::clone(self);
        aside(move || {
            let _turn = guard.turn.lock();
            if guard.wanted.load(Ordering::SeqCst) || !is_clean() {
                return Ok(());
            }
            guard.fence.lower_own(&guard.mark)
        })
        .await?
    }
}

#[cfg(test)]
mod tests;
