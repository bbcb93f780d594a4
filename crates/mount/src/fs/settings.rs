//! Attributes that are set: modes, owners, times, extended attributes.

use super::Files;
use crate::nodes::Node;
use fuser::{FileAttr, TimeOrNow};
use nitro_frontend::Disk;
use rustix::fs::{
    AtFlags, Gid, Mode, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, Uid, XattrFlags, chmod, chownat, getxattr,
    listxattr, removexattr, setxattr, utimensat,
};
use std::ffi::OsStr;
use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

/// Longest value or list of extended attributes (xattr(7)).
const VALUE_MAX: usize = 64 << 10;

/// What setattr changes; the rest stays.
#[derive(Debug, Default)]
pub(super) struct Change {
    pub(super) mode: Option<u32>,
    pub(super) uid: Option<u32>,
    pub(super) gid: Option<u32>,
    pub(super) size: Option<u64>,
    pub(super) atime: Option<TimeOrNow>,
    pub(super) mtime: Option<TimeOrNow>,
}

fn timespec(time: Option<TimeOrNow>) -> Timespec {
    match time {
        None => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        Some(TimeOrNow::Now) => Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
        Some(TimeOrNow::SpecificTime(time)) => of_time(time),
    }
}

fn of_time(time: SystemTime) -> Timespec {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => Timespec { tv_sec: after.as_secs() as i64, tv_nsec: after.subsec_nanos().into() },
        Err(before) => {
            let before = before.duration();
            let borrowed = i64::from(before.subsec_nanos() > 0);
            let nanoseconds = (1_000_000_000 - i64::from(before.subsec_nanos())) % 1_000_000_000;
            Timespec { tv_sec: -(before.as_secs() as i64) - borrowed, tv_nsec: nanoseconds }
        }
    }
}

impl<D: Disk + Send + Sync + 'static> Files<D> {
    /// Changes attributes; `by_root`: the user may change files that run with their owners' rights without clearing that.
    pub(super) fn set(&self, node: &Node, handle: Option<u64>, change: Change, by_root: bool) -> io::Result<FileAttr> {
        if let Some(size) = change.size {
            self.truncate(node, handle, size, self.is_root && !by_root)?;
        }
        let Change { mode, uid, gid, atime, mtime, .. } = change;
        if mode.is_some() || uid.is_some() || gid.is_some() || atime.is_some() || mtime.is_some() {
            self.change_attributes(node, || {
                if uid.is_some() || gid.is_some() {
                    chownat(&node.fd, "", uid.map(Uid::from_raw), gid.map(Gid::from_raw), AtFlags::EMPTY_PATH)?;
                }
                if let Some(mode) = mode {
                    chmod(node.path(), Mode::from_raw_mode(mode & 0o7777))?;
                }
                if atime.is_some() || mtime.is_some() {
                    let times = Timestamps { last_access: timespec(atime), last_modification: timespec(mtime) };
                    utimensat(&node.fd, "", &times, AtFlags::EMPTY_PATH)?;
                }
                Ok(())
            })?;
        }
        Self::attributes(node)
    }

    pub(super) fn set_extended(&self, node: &Node, name: &OsStr, value: &[u8], flags: i32) -> io::Result<()> {
        let flags = XattrFlags::from_bits_retain(flags as u32);
        self.change_attributes(node, || Ok(setxattr(node.path(), name, value, flags)?))
    }

    pub(super) fn extended(node: &Node, name: &OsStr) -> io::Result<Vec<u8>> {
        let mut value = vec![0; VALUE_MAX];
        let len = getxattr(node.path(), name, &mut value[..])?;
        value.truncate(len);
        Ok(value)
    }

    pub(super) fn all_extended(node: &Node) -> io::Result<Vec<u8>> {
        let mut list = vec![0; VALUE_MAX];
        let len = listxattr(node.path(), &mut list[..])?;
        list.truncate(len);
        Ok(list)
    }

    pub(super) fn remove_extended(&self, node: &Node, name: &OsStr) -> io::Result<()> {
        self.change_attributes(node, || Ok(removexattr(node.path(), name)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn times_before_1970_have_nanoseconds_from_the_second_before() {
        let of = |time: SystemTime| {
            let Timespec { tv_sec, tv_nsec } = of_time(time);
            (tv_sec, tv_nsec)
        };
        assert_eq!(of(UNIX_EPOCH + Duration::new(3, 4)), (3, 4));
        assert_eq!(of(UNIX_EPOCH - Duration::from_millis(1500)), (-2, 500_000_000));
        assert_eq!(of(UNIX_EPOCH - Duration::from_secs(2)), (-2, 0));
    }
}
