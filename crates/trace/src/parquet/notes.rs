//! The names of objects in a file's metadata.

use crate::ObjectName;
use ::parquet::file::metadata::KeyValue;
use hashbrown::HashMap;

const PREFIX: &str = "object.";
const IDENTITY_SUFFIX: &str = ".id";

/// Whether a note is about an object.
#[must_use]
pub fn is_of_object(key: &str) -> bool {
    object(key).is_some()
}

/// The object that a note is about, and whether the note is its global name.
fn object(key: &str) -> Option<(u32, bool)> {
    let number = key.strip_prefix(PREFIX)?;
    match number.strip_suffix(IDENTITY_SUFFIX) {
        Some(number) => Some((number.parse().ok()?, true)),
        None => Some((number.parse().ok()?, false)),
    }
}

/// The notes, as keys and values, for what an object is called.
pub(super) fn of_object(object: u32, name: &ObjectName) -> Vec<(String, String)> {
    let short = name.short().map(|short| (format!("{PREFIX}{object}"), short.to_owned()));
    let global = match name {
        ObjectName::Global(name) => Some((format!("{PREFIX}{object}{IDENTITY_SUFFIX}"), name.clone())),
        ObjectName::Number | ObjectName::Local(_) => None,
    };
    short.into_iter().chain(global).collect()
}

/// The names of all objects that notes name.
pub(super) fn names(notes: Option<&Vec<KeyValue>>) -> HashMap<u32, ObjectName> {
    let mut names = HashMap::new();
    for note in notes.into_iter().flatten() {
        let (Some((object, is_global)), Some(value)) = (object(&note.key), &note.value) else { continue };
        let name = names.entry(object).or_default();
        match (is_global, &name) {
            (true, _) => *name = ObjectName::Global(value.clone()),
            (false, ObjectName::Global(_)) => {}
            (false, _) => *name = ObjectName::Local(value.clone()),
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_were_written() {
        let all = [
            (3, ObjectName::Local("device:8:0".into())),
            (4, ObjectName::Number),
            (u32::MAX, ObjectName::Global("msr:hm,0".into())),
        ];
        let notes = all.iter().flat_map(|(object, name)| of_object(*object, name));
        let notes: Vec<_> = notes.map(|(key, value)| KeyValue::new(key, value)).collect();
        assert!(
            notes.iter().all(|note| is_of_object(&note.key)) && !is_of_object("object.x") && !is_of_object("source")
        );
        let names = names(Some(&notes));
        assert_eq!(names.len(), 2);
        assert_eq!(names.get(&3), Some(&all[0].1));
        assert_eq!(names.get(&u32::MAX), Some(&all[2].1));
    }
}
