//! The exclusive lock of an image: whether it is free, may be taken from its owner, or has to be left alone.
//!
//! A client that dies keeps its lock until somebody breaks it. The cluster is then told to refuse that client, so that writes
//! of it that are still on their way, or come when a stopped machine goes on, change nothing.

use super::raw::RawImage;
use std::io;
use std::time::Duration;

/// For how long the cluster refuses a client whose lock was broken: longer than a machine is stopped. Ceph's own time is an hour.
const REFUSED_FOR: Duration = Duration::from_secs(365 * 24 * 3600);

/// What may be done to get the lock.
#[derive(Debug, Clone, Default)]
pub struct Claim {
    /// Breaks the lock of whoever has it, be that client alive or not.
    pub breaks: bool,
    /// The address of a client that is known to have ended: its lock is broken at once.
    pub ended: Option<String>,
}

/// The lock that was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    /// The address under which this client has it.
    pub address: String,
    /// The client whose lock was broken for that.
    pub broken: Option<String>,
    /// Why the cluster refuses that client for an hour only.
    pub is_brief: Option<String>,
}

/// Why the lock cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another client has it, and was heard of lately.
    #[error("the client at {0} has its exclusive lock")]
    Held(String),
    /// The image has no such lock.
    #[error("the image does not have the feature exclusive-lock")]
    Unsupported,
    /// The cluster says so.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// The calls of an image that its lock needs.
pub(super) trait Locking {
    fn owner(&self) -> io::Result<Option<String>>;
    fn watchers(&self) -> io::Result<Vec<String>>;
    fn acquire(&self) -> io::Result<()>;
    fn break_lock(&self, owner: &str) -> io::Result<()>;
    fn blocklist(&self, client: &str, time: Duration) -> io::Result<()>;
}

impl Locking for RawImage {
    fn owner(&self) -> io::Result<Option<String>> {
        Self::owner(self)
    }

    fn watchers(&self) -> io::Result<Vec<String>> {
        Self::watchers(self)
    }

    fn acquire(&self) -> io::Result<()> {
        Self::acquire(self)
    }

    fn break_lock(&self, owner: &str) -> io::Result<()> {
        Self::break_lock(self, owner)
    }

    fn blocklist(&self, client: &str, time: Duration) -> io::Result<()> {
        Self::blocklist(self, client, time)
    }
}

/// The client that has the lock, and was heard of lately.
pub(super) fn living_owner(image: &impl Locking) -> Result<Option<String>, LockError> {
    let Some(owner) = image.owner()? else { return Ok(None) };
    Ok(image.watchers()?.contains(&owner).then_some(owner))
}

/// Takes the lock, if the claim allows it.
pub(super) fn take(image: &impl Locking, claim: &Claim) -> Result<Taken, LockError> {
    let (mut broken, mut is_brief) = (None, None);
    if let Some(owner) = image.owner()? {
        let may_break = claim.breaks || claim.ended.as_ref() == Some(&owner) || !image.watchers()?.contains(&owner);
        if !may_break {
            return Err(LockError::Held(owner));
        }
        // First this: a monitor that refuses a client already does not change until when. To break the lock is to refuse the client
        // for an hour, whatever becomes of this.
        is_brief = image.blocklist(&owner, REFUSED_FOR).err().map(|error| error.to_string());
        match image.break_lock(&owner) {
            Ok(()) => broken = Some(owner),
            // It has been released meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            // Another one has it by now.
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => return Err(held_by_now(image, owner)),
            Err(error) => return Err(error.into()),
        }
    }
    match image.acquire() {
        Ok(()) => {}
        Err(error) => {
            return Err(match error.raw_os_error() {
                Some(libc::EINVAL) => LockError::Unsupported,
                Some(libc::EROFS | libc::EBUSY) => held_by_now(image, "another address".to_owned()),
                _ => error.into(),
            });
        }
    }
    let address = image.owner()?.unwrap_or_default();
    Ok(Taken { address, broken, is_brief })
}

/// The error of a lock that another client was faster to get.
fn held_by_now(image: &impl Locking, otherwise: String) -> LockError {
    match image.owner() {
        Ok(owner) => LockError::Held(owner.unwrap_or(otherwise)),
        Err(error) => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    /// A lock as the cluster has it, for a client at `me`.
    #[derive(Default)]
    struct Model {
        owner: RefCell<Option<String>>,
        watchers: Vec<String>,
        refused: RefCell<Vec<String>>,
        /// What happens before the lock is broken or acquired: another client's doing.
        meanwhile: RefCell<Option<Option<String>>>,
        has_no_lock: bool,
        blocklists_not: bool,
    }

    fn errno(number: i32) -> io::Error {
        io::Error::from_raw_os_error(number)
    }

    impl Model {
        fn held(by: &str, is_alive: bool) -> Self {
            let watchers = if is_alive { vec![by.to_owned(), "me".into()] } else { vec!["me".into()] };
            Self { owner: RefCell::new(Some(by.into())), watchers, ..Self::default() }
        }

        fn pass_time(&self) {
            if let Some(owner) = self.meanwhile.take() {
                *self.owner.borrow_mut() = owner;
            }
        }
    }

    impl Locking for Model {
        fn owner(&self) -> io::Result<Option<String>> {
            Ok(self.owner.borrow().clone())
        }

        fn watchers(&self) -> io::Result<Vec<String>> {
            Ok(self.watchers.clone())
        }

        fn acquire(&self) -> io::Result<()> {
            self.pass_time();
            if self.has_no_lock {
                return Err(errno(libc::EINVAL));
            }
            let mut owner = self.owner.borrow_mut();
            if owner.as_ref().is_some_and(|owner| owner != "me") {
                return Err(errno(libc::EROFS));
            }
            *owner = Some("me".into());
            Ok(())
        }

        fn break_lock(&self, owner: &str) -> io::Result<()> {
            self.pass_time();
            let mut held = self.owner.borrow_mut();
            match held.as_deref() {
                None => Err(errno(libc::ENOENT)),
                Some(held) if held != owner => Err(errno(libc::EBUSY)),
                Some(_) => {
                    *held = None;
                    Ok(())
                }
            }
        }

        fn blocklist(&self, client: &str, _: Duration) -> io::Result<()> {
            // Before the lock is broken: later, it would change nothing.
            assert_eq!(self.owner.borrow().as_deref(), Some(client));
            if self.blocklists_not {
                return Err(errno(libc::EACCES));
            }
            self.refused.borrow_mut().push(client.into());
            Ok(())
        }
    }

    fn broken(taken: Taken) -> Option<String> {
        assert_eq!(taken.address, "me");
        taken.broken
    }

    #[test]
    fn a_free_lock_is_taken_and_one_of_a_living_client_is_left() {
        assert_eq!(broken(take(&Model::default(), &Claim::default()).unwrap()), None);
        let model = Model::held("a", true);
        let claim = Claim { ended: Some("b".into()), ..Claim::default() };
        assert!(matches!(take(&model, &claim), Err(LockError::Held(owner)) if owner == "a"));
        assert!(model.refused.borrow().is_empty() && model.owner.borrow().as_deref() == Some("a"));
        assert_eq!(living_owner(&model).unwrap().as_deref(), Some("a"));
        assert_eq!(living_owner(&Model::held("a", false)).unwrap(), None);
        let without = Model { has_no_lock: true, ..Model::default() };
        assert!(matches!(take(&without, &Claim::default()), Err(LockError::Unsupported)));
    }

    #[test]
    fn whoever_loses_its_lock_is_refused_from_then_on() {
        for (is_alive, claim) in [
            (false, Claim::default()),
            (true, Claim { breaks: true, ended: None }),
            (true, Claim { breaks: false, ended: Some("a".into()) }),
        ] {
            let model = Model { blocklists_not: is_alive, ..Model::held("a", is_alive) };
            let taken = take(&model, &claim).unwrap();
            assert_eq!(taken.is_brief.is_some(), is_alive);
            assert_eq!(broken(taken).as_deref(), Some("a"));
            let refused = model.refused.borrow().len();
            assert_eq!(refused, usize::from(!is_alive));
        }
    }

    #[test]
    fn what_others_do_meanwhile_breaks_no_lock_that_was_not_meant() {
        let breaks = Claim { breaks: true, ended: None };
        let released = Model { meanwhile: RefCell::new(Some(None)), ..Model::held("a", true) };
        assert_eq!(broken(take(&released, &breaks).unwrap()), None);
        for (model, claim) in [(Model::held("a", true), &breaks), (Model::default(), &Claim::default())] {
            let model = Model { meanwhile: RefCell::new(Some(Some("b".into()))), ..model };
            assert!(matches!(take(&model, claim), Err(LockError::Held(owner)) if owner == "b"));
            assert!(model.refused.borrow().iter().all(|refused| refused == "a"));
        }
    }
}
