use super::*;
use crate::origins::{Uuid, VolumeMark};
use nitro_device::Reactor;
use nitro_port::{Means, StorageId};

const OURS: u64 = 1;

/// A file with the mark of a token, and its marks; `None`: its file system has no attributes.
fn marked(token: u64) -> Option<(tempfile::TempDir, impl Fn(u64), VolumeMarks)> {
    // Not in /tmp, whose file system may have no attributes.
    let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let path = folder.path().join("vm.img");
    let file = std::fs::File::create_new(&path).unwrap();
    let mut id = StorageId::default();
    id.add(Means::Serial, &[b"a"]);
    let marks = VolumeMarks::of_file(&path, &file, &id).unwrap();
    rustix::fs::fsetxattr(&file, "user.nitro.test", b"x", rustix::fs::XattrFlags::empty()).ok()?;
    let (to, of) = (marks.clone(), id);
    let set = move |token| {
        assert!(to.set(&VolumeMark::new(Uuid([2; 16]), Uuid([3; 16]), (token, token), &of)).unwrap());
    };
    set(token);
    Some((folder, set, marks))
}

#[test]
fn a_reading_counts_for_a_second_from_its_begin() {
    let Some((_folder, set, marks)) = marked(OURS) else { return };
    let reactor = Reactor::new().unwrap();
    let second = ns(VALID);
    let seen = |ago: u64| Arc::new(Owner::with("vm", &marks, OURS, now_ns().saturating_sub(ago)));
    let passes = |owner: &Arc<Owner>| reactor.block_on(owner.check()).is_ok();
    assert!(!seen(0).is_due() && seen(second).is_due());
    set(2);
    // What was seen in time counts, though another has the origin by now; after a longer pause, nothing passes.
    assert!(passes(&seen(0)));
    let owner = seen(second);
    assert!(!passes(&owner) && !passes(&owner));
    assert!(owner.is_due() && owner.lost().is_some_and(|why| why.starts_with("taken over")));
    // For good: the other one may have gone, but has changed the origin.
    set(OURS);
    assert!(!passes(&owner));
    assert!(passes(&seen(second)));
}

#[test]
fn a_mark_that_cannot_be_read_now_may_be_read_later() {
    let Some((folder, set, marks)) = marked(OURS) else { return };
    let reactor = Reactor::new().unwrap();
    let path = folder.path().join("vm.img");
    let owner = Arc::new(Owner::with("vm", &marks, OURS, 0));
    rustix::fs::removexattr(&path, "user.nitro.volume").unwrap();
    assert!(reactor.block_on(owner.check()).is_err() && owner.lost().is_none());
    set(OURS);
    assert!(reactor.block_on(owner.check()).is_ok() && !owner.is_due());
}
