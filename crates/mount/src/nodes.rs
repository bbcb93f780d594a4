//! The inodes that the kernel knows. Each has a descriptor that names it without opening it (`O_PATH`), so that names may change.
//! The number of descriptors is limited: beyond it, the kernel is asked to forget the names that it has known for longest.

use crate::file::CachedFile;
use parking_lot::Mutex;
use rustix::fd::OwnedFd;
use rustix::fs::Stat;
use rustix::io::Errno;
use std::collections::{HashMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::io;
use std::sync::{Arc, OnceLock};

/// The number of the root.
pub(crate) const ROOT: u64 = 1;
/// Numbers from here on are not those of the file system: of inodes of other file systems below the tree.
const FOREIGN: u64 = 1 << 63;

/// A name of an inode: the one by which it was found last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) parent: u64,
    pub(crate) name: OsString,
}

/// An inode.
#[derive(Debug)]
pub(crate) struct Node {
    /// Its number for the kernel.
    pub(crate) number: u64,
    pub(crate) fd: OwnedFd,
    key: (u64, u64),
    place: Mutex<Place>,
    /// Its data, once they were asked for. Kept as long as the kernel may have pages of them.
    pub(crate) file: OnceLock<Arc<CachedFile>>,
}

impl Node {
    /// The name by which it was found last.
    pub(crate) fn place(&self) -> Place {
        self.place.lock().clone()
    }

    /// Whether these are the attributes of this inode.
    pub(crate) fn is(&self, stat: &Stat) -> bool {
        self.key == key_of(stat)
    }

    /// Whether it is a file that someone has open.
    pub(crate) fn is_open(&self) -> bool {
        self.file.get().is_some_and(|file| file.is_open())
    }

    /// A path that leads to the inode, whatever its names are.
    pub(crate) fn path(&self) -> String {
        use rustix::fd::AsRawFd;
        format!("/proc/self/fd/{}", self.fd.as_raw_fd())
    }
}

fn key_of(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

#[derive(Debug)]
struct Known {
    node: Arc<Node>,
    /// How often the kernel was told its number.
    lookups: u64,
}

#[derive(Debug)]
struct Inner {
    nodes: HashMap<u64, Known>,
    numbers: HashMap<(u64, u64), u64>,
    /// In the order in which they came; some are gone.
    order: VecDeque<u64>,
    next_foreign: u64,
}

/// All inodes that the kernel knows.
#[derive(Debug)]
pub(crate) struct Nodes {
    device: u64,
    max: usize,
    inner: Mutex<Inner>,
}

impl Nodes {
    /// With the root; at most about `max` are to be known.
    pub(crate) fn new(root: OwnedFd, stat: &Stat, max: usize) -> Self {
        let place = Mutex::new(Place { parent: ROOT, name: OsString::new() });
        let node = Arc::new(Node { number: ROOT, fd: root, key: key_of(stat), place, file: OnceLock::new() });
        let numbers = [(node.key, ROOT)].into();
        let nodes = [(ROOT, Known { node, lookups: 1 })].into();
        let inner = Inner { nodes, numbers, order: VecDeque::new(), next_foreign: FOREIGN };
        Self { device: stat.st_dev, max, inner: Mutex::new(inner) }
    }

    pub(crate) fn get(&self, number: u64) -> io::Result<Arc<Node>> {
        self.inner.lock().nodes.get(&number).map(|known| Arc::clone(&known.node)).ok_or_else(|| Errno::STALE.into())
    }

    /// Notes that the kernel is told the number of an inode, which was found under a name.
    pub(crate) fn enter(&self, parent: u64, name: &OsStr, fd: OwnedFd, stat: &Stat) -> Arc<Node> {
        let (key, place) = (key_of(stat), Place { parent, name: name.to_owned() });
        let mut inner = self.inner.lock();
        let number = inner.numbers.get(&key).copied();
        if let Some(known) = number.and_then(|number| inner.nodes.get_mut(&number)) {
            known.lookups += 1;
            if known.node.number != ROOT {
                *known.node.place.lock() = place;
            }
            return Arc::clone(&known.node);
        }
        let is_plain = stat.st_dev == self.device && stat.st_ino > ROOT && stat.st_ino < FOREIGN;
        let number = if is_plain {
            stat.st_ino
        } else {
            inner.next_foreign += 1;
            inner.next_foreign
        };
        let node = Arc::new(Node { number, fd, key, place: Mutex::new(place), file: OnceLock::new() });
        inner.numbers.insert(key, number);
        inner.nodes.insert(number, Known { node: Arc::clone(&node), lookups: 1 });
        inner.order.push_back(number);
        node
    }

    /// Notes that the kernel has forgotten a number that it was told `count` times.
    pub(crate) fn forget(&self, number: u64, count: u64) {
        let mut inner = self.inner.lock();
        let Some(known) = inner.nodes.get_mut(&number).filter(|_| number != ROOT) else { return };
        known.lookups = known.lookups.saturating_sub(count);
        if known.lookups > 0 {
            return;
        }
        let gone = inner.nodes.remove(&number);
        if let Some(gone) = &gone {
            inner.numbers.remove(&gone.node.key);
        }
        if inner.order.len() > 2 * inner.nodes.len() + 1024 {
            let Inner { nodes, order, .. } = &mut *inner;
            order.retain(|number| nodes.contains_key(number));
        }
        drop(inner);
        // Closing a descriptor may take a while.
        drop(gone);
    }

    /// Notes that the inode with these attributes has another name.
    pub(crate) fn moved(&self, stat: &Stat, to: Place) {
        let inner = self.inner.lock();
        let number = inner.numbers.get(&key_of(stat));
        if let Some(known) = number.and_then(|number| inner.nodes.get(number)) {
            *known.node.place.lock() = to;
        }
    }

    /// Names that the kernel should forget, so that there are not too many inodes.
    pub(crate) fn surplus(&self) -> Vec<Place> {
        let mut inner = self.inner.lock();
        let surplus = inner.nodes.len().saturating_sub(self.max);
        let mut places = Vec::new();
        for _ in 0..surplus {
            let Some(number) = inner.order.pop_front() else { break };
            if let Some(known) = inner.nodes.get(&number) {
                places.push(known.node.place());
                inner.order.push_back(number);
            }
        }
        places
    }

    /// The number that the kernel would be told of an inode of the tree's own file system.
    pub(crate) fn number_of(&self, inode: u64) -> u64 {
        let inner = self.inner.lock();
        inner.numbers.get(&(self.device, inode)).copied().unwrap_or(inode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{AtFlags, CWD, Mode, OFlags, fstat, open, statat};
    use std::fs::write;

    fn found(path: &std::path::Path) -> (OwnedFd, Stat) {
        let fd = open(path, OFlags::PATH | OFlags::NOFOLLOW, Mode::empty()).unwrap();
        let stat = fstat(&fd).unwrap();
        (fd, stat)
    }

    #[test]
    fn an_inode_is_known_as_long_as_the_kernel_has_one_of_its_numbers() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        write(at("a"), "x").unwrap();
        std::fs::hard_link(at("a"), at("b")).unwrap();
        let (root, stat) = found(folder.path());
        let nodes = Nodes::new(root, &stat, 1);
        let enter = |name: &str| {
            let (fd, stat) = found(&at(name));
            nodes.enter(ROOT, OsStr::new(name), fd, &stat)
        };
        let [a, b] = ["a", "b"].map(enter);
        assert_eq!((a.number, b.place().name), (b.number, "b".into()));
        assert_eq!(nodes.surplus(), [Place { parent: ROOT, name: "b".into() }]);
        nodes.forget(a.number, 1);
        assert!(nodes.get(a.number).is_ok());
        assert!(a.is(&statat(CWD, at("a"), AtFlags::empty()).unwrap()) && !a.is(&stat));
        nodes.forget(a.number, 1);
        assert!(nodes.get(a.number).is_err() && nodes.get(ROOT).is_ok());
        assert!(nodes.surplus().is_empty());
    }
}
