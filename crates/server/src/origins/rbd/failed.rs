//! Why an image cannot be opened or locked, and what helps.

use super::name::ImageName;
use nitro_console::error::Error;
use nitro_device::rbd::{LockError, OpenError};
use std::io;

/// What is wrong with the way to the cluster.
#[derive(Clone, Copy)]
enum Fault {
    Missing,
    Refused,
    Late,
    Other,
}

fn fault(error: &io::Error) -> Fault {
    match error.kind() {
        io::ErrorKind::NotFound => Fault::Missing,
        io::ErrorKind::PermissionDenied => Fault::Refused,
        io::ErrorKind::TimedOut => Fault::Late,
        _ => Fault::Other,
    }
}

impl ImageName {
    /// Why it is not open, and what helps.
    pub(super) fn failed(&self, what: &str, error: &OpenError) -> Error {
        let way_out = match error {
            OpenError::Library(_) => {
                "install Ceph's libraries (package librbd1, Ceph 15 or later: apt install librbd1, dnf install librbd1)"
                    .to_owned()
            }
            OpenError::Thread(_) => "raise the limit of threads (ulimit -u, TasksMax=)".to_owned(),
            OpenError::Configuration(_) => match &self.conf {
                Some(path) => format!("check that this user can read {}", path.display()),
                None => "make /etc/ceph/ceph.conf readable for this user, or name the file: ?conf=PATH, or CEPH_CONF"
                    .to_owned(),
            },
            OpenError::Connect(error) => self.no_connection(fault(error)),
            OpenError::Pool(_, error) => match fault(error) {
                Fault::Missing => "list the pools: ceph osd pool ls".to_owned(),
                _ => self.rights(),
            },
            OpenError::Image(_, error) => match fault(error) {
                Fault::Missing => format!("list the images: rbd ls {}", self.pool_spec()),
                Fault::Refused => format!("{}, or serve it read-only", self.rights()),
                Fault::Late | Fault::Other => "check the cluster: ceph -s".to_owned(),
            },
            OpenError::NoSnapshot(_) => {
                format!("list the snapshots: rbd snap ls {}/{}", self.pool_spec(), self.image)
            }
            OpenError::Examine(_) => "check the cluster: ceph -s".to_owned(),
        };
        Error::with_sources(what, error).or(way_out)
    }

    fn no_connection(&self, fault: Fault) -> String {
        let user = self.user();
        match fault {
            Fault::Missing => format!(
                "put the key of {user} into /etc/ceph/ceph.{user}.keyring, readable for this user, or name another user: ?id=USER"
            ),
            Fault::Refused => format!("check the key of {user}: ceph auth get {user}"),
            Fault::Late => {
                "check that a monitor answers at the addresses in its configuration (mon_host): ceph -s".to_owned()
            }
            Fault::Other => "check mon_host and the other keys of its configuration: ceph -s".to_owned(),
        }
    }

    fn rights(&self) -> String {
        let (user, pool) = (self.user(), &self.pool);
        format!("give {user} its rights: ceph auth caps {user} mon 'profile rbd' osd 'profile rbd pool={pool}'")
    }

    /// Why it does not have the lock, and what helps.
    pub(super) fn not_locked(&self, what: &str, error: &LockError) -> Error {
        let spec = self.spec();
        let way_out = match error {
            LockError::Held(_) => {
                "stop what uses it there; or, if it must not go on there, take the lock from it: ?lock=break, \
                                   which makes the cluster refuse its writes; or serve a snapshot: @SNAPSHOT"
                    .to_owned()
            }
            LockError::Unsupported => {
                format!("rbd feature enable {spec} exclusive-lock, or serve it read-only")
            }
            LockError::Io(error) => match fault(error) {
                Fault::Refused => self.rights(),
                _ => "check the cluster: ceph -s".to_owned(),
            },
        };
        Error::with_sources(what, error).or(way_out)
    }
}
