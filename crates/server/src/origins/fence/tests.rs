use super::super::mark::Uuid;
use super::*;

fn origin() -> (tempfile::TempDir, PathBuf) {
    // Not in /tmp, whose file system may have no attributes.
    let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let origin = folder.path().join("vm.img");
    fs::write(&origin, "x").unwrap();
    (folder, origin)
}

fn fence_of(path: &Path) -> Fence {
    let file = File::open(path).unwrap();
    Fence::of(path, &file, &nitro_device::identify(&file).unwrap()).unwrap()
}

fn mark(volume: &str) -> Mark {
    Mark::new(Uuid(*b"0123456789abcdef"), Path::new("/fast/\"cache\".img"), volume, &StorageId::default())
}

#[test]
fn a_mark_comes_back_and_goes() {
    let (folder, origin) = origin();
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&origin, &link).unwrap();
    let mark = mark("vm");
    assert_eq!(mark.cache_uuid, "30313233-3435-3637-3839-616263646566");
    fence_of(&link).raise(&mark).unwrap();
    let fence = fence_of(&origin);
    let found = fence.find().unwrap();
    let place = folder.path().join("vm.img.nitro-dirty");
    assert!(found[0].place.ends_with("/vm.img.nitro-dirty") && found[0].mark == mark, "{found:?}");
    assert!(found.iter().skip(1).all(|found| !found.is_of_another_file), "{found:?}");
    fence.lower().unwrap();
    assert!(!place.exists() && fence.find().unwrap().is_empty());
    fence.lower().unwrap();
    fs::write(&place, "nonsense").unwrap();
    assert!(fence.find().is_err());
    fence.raise(&self::mark("other")).unwrap();
    assert_eq!(fence.find().unwrap()[0].mark.volume, "other");
}

#[test]
fn a_mark_that_stands_is_not_written_anew() {
    let (folder, origin) = origin();
    let fence = fence_of(&origin);
    fence.raise(&mark("vm")).unwrap();
    let (marks, inode) = (fence.find().unwrap(), fs::metadata(folder.path().join("vm.img.nitro-dirty")).unwrap().ino());
    // There may be no room for another while the first stands.
    let since = "2001-01-01T00:00:00Z".to_owned();
    fence.raise(&Mark { since, ..mark("vm") }).unwrap();
    assert_eq!(fs::metadata(folder.path().join("vm.img.nitro-dirty")).unwrap().ino(), inode);
    assert_eq!(fence.find().unwrap(), marks);
    fence.raise(&mark("db")).unwrap();
    assert!(fence.find().unwrap().iter().all(|found| found.mark.volume == "db"));
}

#[test]
fn a_mark_goes_when_it_is_not_wanted_and_nothing_is_dirty() {
    let (folder, origin) = origin();
    let place = folder.path().join("vm.img.nitro-dirty");
    let reactor = nitro_device::Reactor::new().unwrap();
    let guard = Guard::new(fence_of(&origin), mark("vm"));
    reactor.block_on(async {
        guard.raise().await.unwrap();
        guard.lower_if(|| true).await.unwrap();
        assert!(place.exists());
        guard.release();
        guard.lower_if(|| false).await.unwrap();
        assert!(place.exists());
        guard.lower_if(|| true).await.unwrap();
        assert!(!place.exists());
    });
}

#[test]
fn a_mark_of_another_cache_stays() {
    let (_folder, origin) = origin();
    let reactor = nitro_device::Reactor::new().unwrap();
    let guard = Guard::new(fence_of(&origin), mark("vm"));
    let other = Mark::new(Uuid(*b"fedcba9876543210"), Path::new("/other.img"), "vm", &StorageId::default());
    fence_of(&origin).raise(&other).unwrap();
    reactor.block_on(guard.lower_if(|| true)).unwrap();
    let found = fence_of(&origin).find().unwrap();
    assert!(!found.is_empty() && found.iter().all(|found| found.mark.cache_uuid == other.cache_uuid), "{found:?}");
}

#[test]
fn an_attribute_that_cannot_be_read_counts_as_a_mark_and_a_copy_is_told_from_its_original() {
    let (folder, origin) = origin();
    let fence = fence_of(&origin);
    let inode = fence.inode.as_ref().unwrap();
    if fsetxattr(inode, MARK_ATTRIBUTE, b"?", XattrFlags::empty()) == Err(Errno::NOTSUP) {
        return;
    }
    assert!(fence.find().is_err());
    fence.raise(&mark("vm")).unwrap();
    let copy = folder.path().join("copy.img");
    fs::write(&copy, "x").unwrap();
    let copied = read_attribute(inode).unwrap().unwrap().fields().unwrap();
    let fence = fence_of(&copy);
    fsetxattr(fence.inode.as_ref().unwrap(), MARK_ATTRIBUTE, copied.as_bytes(), XattrFlags::empty()).unwrap();
    let found = fence.find().unwrap();
    assert!(found.len() == 1 && found[0].is_of_another_file, "{found:?}");
}

/// The texts of an origin that keeps them, as whoever reaches it finds them.
#[derive(Debug, Default)]
struct Kept {
    texts: Mutex<std::collections::HashMap<&'static str, String>>,
    /// The origin can only be read.
    is_read_only: AtomicBool,
}

impl Kept {
    fn change(&self, note: Note, text: Option<String>) -> io::Result<()> {
        if self.is_read_only.load(Ordering::SeqCst) {
            return Err(Errno::ROFS.into());
        }
        let mut texts = self.texts.lock();
        match text {
            Some(text) => drop(texts.insert(note.key(), text)),
            None => drop(texts.remove(note.key())),
        }
        Ok(())
    }
}

impl Notes for Kept {
    fn place(&self, note: Note) -> String {
        format!("the note {}", note.key())
    }

    fn removal(&self, note: Note) -> String {
        format!("forget {}", note.key())
    }

    fn read(&self, note: Note) -> io::Result<Option<String>> {
        Ok(self.texts.lock().get(note.key()).cloned())
    }

    fn write(&self, note: Note, text: String) -> io::Result<()> {
        self.change(note, Some(text))
    }

    fn remove(&self, note: Note) -> io::Result<()> {
        self.change(note, None)
    }
}

#[test]
fn an_origin_that_keeps_its_mark_is_marked_for_everybody() {
    let id = |name: &[u8]| {
        let mut id = StorageId::default();
        id.add(nitro_port::Means::RbdImage, &[name]);
        id
    };
    let mark = |name: &[u8]| Mark::new(Uuid([7; 16]), Path::new("/fast/cache.img"), "vm", &id(name));
    let kept = Arc::new(Kept::default());
    let fence = |name: &[u8]| Fence::noted(Path::new("rbd:pool/vm"), &id(name), Arc::clone(&kept) as Arc<dyn Notes>);
    assert!(fence(b"a").find().unwrap().is_empty());
    fence(b"a").raise(&mark(b"a")).unwrap();
    let found = fence(b"a").find().unwrap();
    assert!(found.len() == 1 && found[0].mark == mark(b"a") && !found[0].is_of_another_file, "{found:?}");
    // A copy came with it.
    assert!(fence(b"b").find().unwrap()[0].is_of_another_file);
    kept.is_read_only.store(true, Ordering::SeqCst);
    // It stands already.
    fence(b"a").raise(&mark(b"a")).unwrap();
    let error = fence(b"b").raise(&mark(b"b")).unwrap_err().to_string();
    assert!(error.contains("the note nitro.dirty") && error.contains("write-through"), "{error}");
    assert!(fence(b"a").lower().unwrap_err().to_string().contains("forget nitro.dirty"));
    kept.is_read_only.store(false, Ordering::SeqCst);
    kept.write(Note::Dirty, "?".to_owned()).unwrap();
    assert!(fence(b"a").find().is_err());
    fence(b"a").lower().unwrap();
    assert!(fence(b"a").find().unwrap().is_empty() && kept.texts.lock().is_empty());
}
