//! Deletion of snapshots that a retention does not keep.

use super::look::text;
use super::retention::Keep;
use super::{CosStore, failed};
use nitro_console::date::utc;
use nitro_console::error::Error;
use nitro_console::output::{Format, Table};
use nitro_cos::ObjectInfo;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// A retention, and what it is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forget {
    /// The objects whose snapshots are considered; none: all objects.
    pub objects: Vec<String>,
    /// How many are kept of each object.
    pub keep: Keep,
    /// Only snapshots that are named after a time are considered, see [`is_timed`].
    pub timed: bool,
    /// Nothing is deleted.
    pub dry_run: bool,
    /// How the answer is printed.
    pub format: Format,
}

/// What becomes of a snapshot.
#[derive(Debug, Serialize)]
struct Fate {
    name: String,
    /// Seconds since 1970.
    created: u64,
    /// Why it is kept; none: it is deleted.
    kept: Vec<&'static str>,
}

/// The name of a snapshot of an object that was made at a time, in seconds since 1970.
#[must_use]
pub fn timed_name(object: &str, seconds: u64) -> String {
    format!("{object}@{}", utc(seconds))
}

/// Whether a snapshot is named as by [`timed_name`].
fn is_timed(name: &str) -> bool {
    let shape = |c: char| if c.is_ascii_digit() { '0' } else { c };
    name.split_once('@').is_some_and(|(_, time)| time.chars().map(shape).eq("0000-00-00T00:00:00Z".chars()))
}

impl Forget {
    /// Deletes the snapshots that are not kept, but none of `served`. Returns the text to print.
    ///
    /// # Errors
    /// Everything would be deleted, an object does not exist, or the store fails; then some are deleted.
    pub(super) async fn act(&self, store: &CosStore, path: &Path, served: &[String]) -> Result<String, Error> {
        if self.keep.is_nothing() {
            let way_out = "keep some, as --keep-last 1 does, or name those to delete: nitro cos delete";
            return Err(Error::new("retention", "it would delete all snapshots").or(way_out));
        }
        let all = store.list().await.map_err(|e| failed(path, &e))?;
        let fates = self.fates(&all, served)?;
        for fate in fates.iter().filter(|fate| fate.kept.is_empty() && !self.dry_run) {
            match store.delete(&fate.name).await {
                // By someone else, meanwhile.
                Err(nitro_cos::Error::NoObject(_)) => {}
                deleted => deleted.map_err(|e| failed(path, &e))?,
            }
        }
        let mut table = Table::new(["snapshot", "created", "fate"]);
        let gone = if self.dry_run { "would be deleted" } else { "deleted" };
        for Fate { name, created, kept } in &fates {
            let fate = if kept.is_empty() { gone.to_owned() } else { format!("kept: {}", kept.join(", ")) };
            table.row(vec![name.clone(), utc(*created), fate]);
        }
        text(self.format, &table, &fates)
    }

    fn fates(&self, all: &[ObjectInfo], served: &[String]) -> Result<Vec<Fate>, Error> {
        let object_of = |info: &ObjectInfo| info.name.split_once('@').map(|(object, _)| object.to_owned());
        let is_snapshot = |info: &&ObjectInfo| info.name.contains('@') && (!self.timed || is_timed(&info.name));
        for wanted in &self.objects {
            if !all.iter().any(|info| info.name == *wanted || object_of(info).as_ref() == Some(wanted)) {
                return Err(Error::new(wanted, "there is no such object").or("nitro cos list shows all"));
            }
        }
        let mut snapshots: Vec<&ObjectInfo> = all.iter().filter(is_snapshot).collect();
        snapshots.retain(|info| self.objects.is_empty() || object_of(info).is_some_and(|o| self.objects.contains(&o)));
        // By object, the newest first.
        snapshots.sort_by_key(|info| (object_of(info), std::cmp::Reverse((info.created, info.name.clone()))));
        let mut fates = Vec::new();
        for of_one in snapshots.chunk_by(|a, b| object_of(a) == object_of(b)) {
            let created: Vec<u64> = of_one.iter().map(|info| info.created).collect();
            for (info, mut kept) in of_one.iter().zip(self.keep.reasons(&created)) {
                if served.contains(&info.name) {
                    kept.push("served");
                }
                fates.push(Fate { name: info.name.clone(), created: info.created, kept });
            }
        }
        Ok(fates)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nitro_cos::Kind;

    fn fates(forget: &Forget, names: &[(&str, u64)], served: &[String]) -> Vec<(String, bool)> {
        let info = |(name, created): &(&str, u64)| ObjectInfo {
            name: (*name).to_owned(),
            kind: Kind::Volume,
            size_bytes: 1,
            chunk_bytes: 1,
            read_only: true,
            incomplete_at: None,
            created: *created,
        };
        let all: Vec<ObjectInfo> = names.iter().map(info).collect();
        let fates = forget.fates(&all, served).unwrap();
        fates.into_iter().map(|fate| (fate.name, !fate.kept.is_empty())).collect()
    }

    #[test]
    fn each_object_has_its_own_retention_and_what_is_served_or_named_by_hand_stays() {
        let day = |n: u64| n * 86_400;
        let timed = timed_name("b", day(9));
        let names = [
            ("a", 1),
            ("a@old", day(1)),
            ("a@new", day(2)),
            ("b@hand", day(1)),
            (timed.as_str(), day(9)),
            ("c@x", day(3)),
        ];
        let forget = |objects: &[&str], timed| Forget {
            objects: objects.iter().map(|&o| o.to_owned()).collect(),
            keep: Keep { last: 1, ..Keep::default() },
            timed,
            dry_run: true,
            format: Format::Table,
        };
        let told = |all: Vec<(String, bool)>| {
            all.into_iter().map(|(name, kept)| format!("{}{name}", if kept { "+" } else { "-" })).collect::<Vec<_>>()
        };
        let all = told(fates(&forget(&[], false), &names, &[]));
        assert_eq!(all, ["+a@new", "-a@old", &format!("+{timed}"), "-b@hand", "+c@x"]);
        assert_eq!(told(fates(&forget(&["a"], false), &names, &["a@old".to_owned()])), ["+a@new", "+a@old"]);
        assert_eq!(told(fates(&forget(&["b"], true), &names, &[])), [format!("+{timed}")]);
        assert!(is_timed(&timed) && !is_timed("b@2026-11-28") && !is_timed("2026-11-28T15:03:07Z"));
    }
}
