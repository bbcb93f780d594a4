//! Renaming of objects. The object keeps its number, so that whoever knows it by that recognises it.

use crate::format::record::SNAPSHOT;
use crate::namespace::{check_name, check_snapshot_name};
use crate::object::Object;
use crate::{Error, Store};
use nitro_port::Device;
use std::sync::Arc;

/// The maximum number of objects that are renamed together.
const TOGETHER_MAX: usize = 1024;

impl<D: Device> Store<D> {
    /// Renames an object, and its snapshots with it; or a snapshot, which stays one of the same object. Durable when it
    /// returns; after a crash, all have the old names or all the new ones.
    ///
    /// # Errors
    /// [`Error::NoObject`], [`Error::Exists`], [`Error::Name`]; [`Error::WrongKind`] if its import was interrupted;
    /// [`Error::Objects`] if the journal has no room; or as [`commit`](Self::commit).
    pub async fn rename(&self, old: &str, new: &str) -> Result<(), Error> {
        self.check_poison()?;
        let names = self.names_to_change(old, new).await?;
        loop {
            // In RAM and in the journal as long as they are held.
            let mut held = Vec::with_capacity(names.len());
            for (old, _) in &names {
                let object = self.object(old).await?;
                check_complete(&object)?;
                self.begin_change(&object).await?;
                held.push(object);
            }
            let moves = self.objects.lock().moves;
            for (_, new) in &names {
                self.check_new(new).await?;
            }
            let mut objects = self.objects.lock();
            let is_same = |((old, _), object): (&(String, String), &Arc<Object>)| {
                objects.get(old).is_some_and(|now| Arc::ptr_eq(&now, object)) && object.state.lock().is_journaled()
            };
            let is_current = objects.moves == moves && names.iter().zip(&held).all(is_same);
            if let Some((_, new)) = names.iter().find(|(_, new)| objects.get(new).is_some()) {
                return Err(Error::Exists(new.clone()));
            }
            if is_current {
                objects.rename(&names)?;
                break;
            }
        }
        self.commit().await
    }

    /// The old and new names of all objects to rename.
    async fn names_to_change(&self, old: &str, new: &str) -> Result<Vec<(String, String)>, Error> {
        if let Some((object, _)) = old.split_once(SNAPSHOT) {
            check_snapshot_name(new)?;
            if new.split(SNAPSHOT).next() != Some(object) {
                return Err(Error::Name { name: new.to_owned(), why: "a snapshot stays one of its object" });
            }
            return Ok(vec![(old.to_owned(), new.to_owned())]);
        }
        check_name(new)?;
        let renamed = |name: &str| {
            let snapshot = name.strip_prefix(old)?;
            (snapshot.is_empty() || snapshot.starts_with(SNAPSHOT)).then(|| format!("{new}{snapshot}"))
        };
        let all = self.list().await?;
        let names: Vec<_> = all.into_iter().filter_map(|o| Some((renamed(&o.name)?, o.name))).collect();
        if names.iter().all(|(_, name)| name != old) {
            return Err(Error::NoObject(old.to_owned()));
        }
        if names.len() > TOGETHER_MAX {
            return Err(Error::Name {
                name: old.to_owned(),
                why: "it has more than 1023 snapshots; delete some first",
            });
        }
        for (new, _) in &names {
            check_length(new)?;
        }
        Ok(names.into_iter().map(|(new, old)| (old, new)).collect())
    }
}

fn check_length(name: &str) -> Result<(), Error> {
    match name.contains(SNAPSHOT) {
        true => check_snapshot_name(name),
        false => check_name(name),
    }
}

fn check_complete(object: &Object) -> Result<(), Error> {
    let state = object.state.lock();
    match state.record.incomplete {
        true => {
            let why = "import it to its end first";
            Err(Error::WrongKind { name: state.record.name.clone(), kind: object.kind, why })
        }
        false => Ok(()),
    }
}
