//! The classes of a cache, their policies, and the rules that assign them: from a file, or from a preset.

mod csv;
mod file;
mod preset;

pub use file::Change;
pub use preset::PRESETS;

use crate::ConfigError;
use nitro_cache::builtin;
use nitro_cache::class::{Band, ClassPolicy, Classes, Rules};
use nitro_console::error::Error;
use nitro_detect::Found;
use nitro_files::{self as files, Links};
use nitro_units::ClassId;
use std::collections::BTreeMap;
use std::path::Path;

/// The built-in class of a block that detection recognised.
#[must_use]
pub const fn of_block(found: Found) -> ClassId {
    match found {
        Found::Metadata => builtin::METADATA,
        Found::Directory => builtin::DIRECTORY,
        Found::Journal => builtin::JOURNAL,
        Found::File(bytes) => builtin::of_file(bytes),
    }
}

/// The longest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The classes of a cache.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClassTable {
    /// The policies of the classes.
    pub classes: Classes,
    /// The rules that assign classes.
    pub rules: Rules,
    /// Names of classes that are not built in.
    names: BTreeMap<ClassId, String>,
}

impl ClassTable {
    /// Opens the table that `classes` in a configuration names: a preset, or a file.
    ///
    /// # Errors
    /// There is no such preset or file, or it is invalid; the error names the line.
    pub fn open(named: &Path) -> Result<Self, Error> {
        if let Some(preset) = named.to_str().and_then(preset::named) {
            return Ok(preset);
        }
        let way_out = || format!("name a file, or one of {}", PRESETS.join(", "));
        let text = files::read_text(named, Links::Followed, FILE_BYTES_MAX)
            .map_err(|error| Error::new(named.display(), error).or(way_out()))?
            .ok_or_else(|| Error::new(named.display(), "there is no such file").or(way_out()))?;
        Self::parse(&text).map_err(|error| error.in_file(named))
    }

    /// Reads a table: TOML as [`to_toml`](Self::to_toml) writes it, or Open-CAS's CSV, which begins with the names of its columns.
    ///
    /// # Errors
    /// [`ConfigError`] with the line.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let table = if csv::is_csv(text) { csv::parse(text)? } else { file::parse(text)? };
        table.check_rules()?;
        Ok(table)
    }

    /// Refuses rules that never apply.
    fn check_rules(&self) -> Result<(), ConfigError> {
        for (number, rule) in self.rules.0.iter().enumerate() {
            if let Some(before) = self.rules.0[..number].iter().position(|before| rule.is_covered_by(before)) {
                let (first, second) = (self.name(self.rules.0[before].class), self.name(rule.class));
                let problem =
                    format!("a rule for class {second} never applies: an earlier one for class {first} covers it");
                return Err(ConfigError::of(problem, "put the narrower rule first, or remove one"));
            }
        }
        Ok(())
    }

    /// Checks that rules need only requests: a trace has their offsets, lengths and directions, but no data of file systems.
    ///
    /// # Errors
    /// The first rule with another condition.
    pub fn check_for_trace(&self) -> Result<(), Error> {
        for (number, rule) in self.rules.0.iter().enumerate() {
            if let Some((_, condition)) = rule.conditions.iter().find(|(_, condition)| condition.is_of_content()) {
                let what = format!("rule {}, for class {}", number + 1, self.name(rule.class));
                let why = format!("a trace does not contain {}", condition.name());
                let way_out = "remove the rule, or classify by place, request_size or direction";
                return Err(Error::new(what, why).or(way_out));
            }
        }
        Ok(())
    }

    /// A class's name, or its number if it has no name.
    #[must_use]
    pub fn name(&self, class: ClassId) -> String {
        let own = self.names.get(&class).map(String::as_str);
        own.or_else(|| builtin::name(class)).map_or_else(|| class.to_string(), str::to_owned)
    }

    /// The class of a name or number.
    ///
    /// # Errors
    /// There is no such class.
    pub fn named(&self, name: &str) -> Result<ClassId, Error> {
        let own = self.names.iter().find(|(_, known)| *known == name).map(|(class, _)| *class);
        let by_number = || name.parse().ok().and_then(ClassId::new);
        own.or_else(|| builtin::named(name)).or_else(by_number).ok_or_else(|| {
            let known = ClassId::all().filter_map(builtin::name).map(str::to_owned).chain(self.names.values().cloned());
            let known = known.collect::<Vec<_>>().join(", ");
            Error::new(format_args!("class {name}"), "there is no such class")
                .or(format_args!("there are {known}; numbers are 0 to 31"))
        })
    }

    /// Whether a class has a name or a policy.
    #[must_use]
    pub fn knows(&self, class: ClassId) -> bool {
        self.names.contains_key(&class) || *self.classes.of(class) != ClassPolicy::default()
    }

    /// Changes the policy of a class.
    ///
    /// # Errors
    /// A value is invalid.
    pub fn change(&mut self, class: ClassId, change: &Change) -> Result<(), Error> {
        let mut policy = *self.classes.of(class);
        change.apply(&mut policy)?;
        self.classes.set(class, policy);
        Ok(())
    }

    /// The table as a file.
    ///
    /// # Errors
    /// The table has rules from Open-CAS's CSV that TOML cannot express.
    pub fn to_toml(&self) -> Result<String, Error> {
        file::to_toml(self)
    }
}

/// Bands by their names, for messages.
fn priorities() -> String {
    format!("{}, and 0 to {}", Band::ALL.map(Band::name).join(", "), Band::STEPS - 1)
}

#[cfg(test)]
mod tests;
