//! The configuration in force, and its source.

use super::settings::{Values, is_same, value_in};
use nitro_config::{Config, ConfigError, KeyPath, Scope, Setting, VolumeConfig, edited};
use nitro_console::error::Error;
use parking_lot::Mutex;
use serde_json::json;
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use toml::{Table, Value};

/// The source of a server's configuration.
pub struct Source {
    /// The file.
    pub file: PathBuf,
    /// Parses the text of the file and applies the options of the command line.
    #[expect(clippy::type_complexity, reason = "a function that is kept")]
    pub parse: Box<dyn Fn(&str) -> Result<Config, ConfigError> + Send + Sync>,
}

impl Source {
    pub(super) fn read(&self) -> Result<String, Error> {
        fs::read_to_string(&self.file).map_err(|e| Error::new(self.file.display(), e).or("nothing was changed"))
    }

    fn config(&self, text: &str) -> Result<Config, Error> {
        (self.parse)(text).map_err(|e| e.in_file(&self.file))
    }
}

/// The configuration in force, by section.
pub struct InForce {
    /// The source; `None`: the command line.
    pub source: Option<Source>,
    pub(super) table: Mutex<Table>,
    /// What options of the command line set.
    pub(super) given: Values,
    /// What commands have set since the start.
    pub(super) run_time: Mutex<Values>,
    /// Volumes that commands have added: what the file and the options say of their names is not in force.
    pub(super) added: Mutex<BTreeSet<String>>,
    /// Held during a change: only one runs at a time.
    pub(super) turn: futures_util::lock::Mutex<()>,
}

/// The differences between two configurations.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Differences {
    /// Volumes that were removed.
    pub(super) volumes_gone: Vec<String>,
    /// Volumes that were added.
    pub(super) volumes_new: Vec<String>,
    /// Caches that were added or removed.
    pub(super) caches: Vec<String>,
    /// Keys with a new value, in sections that are in both.
    pub(super) keys: Vec<KeyPath>,
}

impl InForce {
    /// The configuration in force from the source; empty without a file.
    pub(super) fn new(source: Option<Source>, given: Values) -> Result<Self, Error> {
        let table = match &source {
            Some(source) => table_of(&source.read()?)?,
            None => Table::new(),
        };
        let (table, run_time, added) = (Mutex::new(table), Mutex::default(), Mutex::default());
        Ok(Self { source, table, given, run_time, added, turn: futures_util::lock::Mutex::new(()) })
    }

    /// Reads the file again.
    ///
    /// # Errors
    /// There is no file, or it is invalid.
    pub(super) fn read_again(&self) -> Result<(Table, Config), Error> {
        let source = self.source.as_ref().ok_or_else(|| {
            Error::new("configuration", "the server was started without a configuration file")
                .or("change it with nitro set, nitro volume and nitro cache")
        })?;
        let text = source.read()?;
        Ok((table_of(&text)?, source.config(&text)?))
    }

    /// The configuration in force, with what commands have set, and with one changed key; `volumes` and `caches` are the served ones, for a server
    /// without a file.
    pub(super) fn with(
        &self,
        path: &KeyPath,
        value: &str,
        served: impl FnOnce() -> Table,
    ) -> Result<(Table, Config), Error> {
        let mut table = match &self.source {
            Some(_) => self.table.lock().clone(),
            None => served(),
        };
        // Options override a file when it is parsed.
        let given = self.given.iter().filter(|_| self.source.is_none()).map(|(key, value)| (key, value, false));
        let run_time = self.run_time.lock();
        for (key, value, is_newer) in given.chain(run_time.iter().map(|(key, value)| (key, value, true))) {
            let (Ok(path), Ok(value)) = (key.parse::<KeyPath>(), Value::try_from(value)) else { continue };
            if let Some(section) = section_mut(&mut table, path.scope, &path.name)
                && (is_newer || !section.contains_key(path.setting.key))
            {
                section.insert(path.setting.key.to_owned(), value);
            }
        }
        drop(run_time);
        let text = toml::to_string(&table).map_err(|e| Error::new("configuration", e))?;
        let text = edited(&text, path, value)?;
        let config = match &self.source {
            Some(source) => (source.parse)(&text),
            None => Config::parse(&text),
        };
        let config = config.map_err(|e| Error::new(path, ConfigError { line: None, ..e }))?;
        Ok((table_of(&text)?, config))
    }

    /// The changes if `next` were in force.
    pub(super) fn differences(&self, next: &Table) -> Differences {
        let now = self.table.lock();
        let mut found = Differences::default();
        let names = |table: &Table, scope: Scope| -> BTreeSet<String> {
            table
                .get(scope.as_str())
                .and_then(Value::as_table)
                .into_iter()
                .flat_map(|all| all.keys().cloned())
                .collect()
        };
        let (volumes, next_volumes) = (names(&now, Scope::Volume), names(next, Scope::Volume));
        found.volumes_gone = volumes.difference(&next_volumes).cloned().collect();
        found.volumes_new = next_volumes.difference(&volumes).cloned().collect();
        let (caches, next_caches) = (names(&now, Scope::Cache), names(next, Scope::Cache));
        found.caches = caches.symmetric_difference(&next_caches).cloned().collect();
        let sections = [(Scope::Server, vec![String::new()])].into_iter().chain([
            (Scope::Cache, caches.intersection(&next_caches).cloned().collect()),
            (Scope::Volume, volumes.intersection(&next_volumes).cloned().collect::<Vec<_>>()),
        ]);
        for (scope, names) in sections {
            for name in names {
                let (before, after) = (section(&now, scope, &name), section(next, scope, &name));
                let keys: BTreeSet<_> = before.into_iter().chain(after).flat_map(Table::keys).collect();
                let differs = |key: &&String| before.and_then(|t| t.get(*key)) != after.and_then(|t| t.get(*key));
                let paths = keys.into_iter().filter(differs).filter_map(|key| {
                    let setting = nitro_config::Setting::find(scope, key)?;
                    Some(KeyPath { scope, name: name.clone(), setting })
                });
                found.keys.extend(paths);
            }
        }
        found
    }

    /// Notes the new value of a key.
    pub(super) fn adopt_key(&self, next: &Table, path: &KeyPath) {
        let value = section(next, path.scope, &path.name).and_then(|table| table.get(path.setting.key)).cloned();
        let mut now = self.table.lock();
        let scope = now.entry(path.scope.as_str()).or_insert_with(|| Value::Table(Table::new()));
        let Value::Table(scope) = scope else { return };
        let table = match path.scope {
            Scope::Server => scope,
            _ => match scope.entry(path.name.clone()).or_insert_with(|| Value::Table(Table::new())) {
                Value::Table(table) => table,
                _ => return,
            },
        };
        match value {
            Some(value) => drop(table.insert(path.setting.key.to_owned(), value)),
            None => drop(table.remove(path.setting.key)),
        }
    }

    /// Notes that a command has set a key.
    pub(super) fn note_set(&self, next: &Table, path: &KeyPath) {
        if let Some(value) = value_in(next, path) {
            self.run_time.lock().insert(path.to_string(), value);
        }
    }

    /// Whether a command has set a key to the value that a file has.
    pub(super) fn has_set(&self, path: &KeyPath, file: &Table) -> bool {
        let run_time = self.run_time.lock();
        let set = run_time.get(&path.to_string()).zip(value_in(file, path));
        set.is_some_and(|(set, value)| is_same(path.setting.kind, set, &value))
    }

    /// Notes that the file has set a key.
    pub(super) fn note_reloaded(&self, path: &KeyPath) {
        self.run_time.lock().remove(&path.to_string());
    }

    /// Notes that a command has added a volume.
    pub(super) fn note_added(&self, name: &str, config: &VolumeConfig) {
        self.added.lock().insert(name.to_owned());
        let serde_json::Value::Object(fields) = json!(config) else { return };
        let is_set =
            |value: &serde_json::Value| !value.is_null() && ![json!(""), json!(false), json!([])].contains(value);
        for (key, value) in fields.into_iter().filter(|(_, value)| is_set(value)) {
            if let Some(setting) = Setting::find(Scope::Volume, &key) {
                let path = KeyPath { scope: Scope::Volume, name: name.to_owned(), setting };
                self.run_time.lock().insert(path.to_string(), value);
            }
        }
    }

    /// Notes that a volume is not what commands have set any more.
    pub(super) fn note_gone(&self, name: &str) {
        self.added.lock().remove(name);
        let paths = Scope::Volume.settings().iter().map(|setting| KeyPath {
            scope: Scope::Volume,
            name: name.to_owned(),
            setting,
        });
        paths.for_each(|path| self.note_reloaded(&path));
    }

    /// Whether a configuration lists a volume.
    pub(super) fn lists(table: &Table, name: &str) -> bool {
        section(table, Scope::Volume, name).is_some()
    }

    /// Whether an option of the command line overrides a key of the file.
    pub(super) fn is_overridden(&self, path: &KeyPath) -> bool {
        self.source.is_some() && self.given.contains_key(&path.to_string())
    }

    /// Notes an added or removed volume.
    pub(super) fn adopt_volume(&self, next: &Table, name: &str) {
        let volume = section(next, Scope::Volume, name).cloned();
        let mut now = self.table.lock();
        let all = now.entry(Scope::Volume.as_str()).or_insert_with(|| Value::Table(Table::new()));
        let Value::Table(all) = all else { return };
        match volume {
            Some(volume) => drop(all.insert(name.to_owned(), Value::Table(volume))),
            None => drop(all.remove(name)),
        }
    }
}

pub(super) fn table_of(text: &str) -> Result<Table, Error> {
    text.parse().map_err(|e: toml::de::Error| Error::new("configuration", e.message()))
}

pub(super) fn section<'a>(table: &'a Table, scope: Scope, name: &str) -> Option<&'a Table> {
    let all = table.get(scope.as_str())?.as_table()?;
    if scope == Scope::Server { Some(all) } else { all.get(name)?.as_table() }
}

fn section_mut<'a>(table: &'a mut Table, scope: Scope, name: &str) -> Option<&'a mut Table> {
    if scope == Scope::Server {
        let section = table.entry(scope.as_str()).or_insert_with(|| Value::Table(Table::new()));
        return section.as_table_mut();
    }
    table.get_mut(scope.as_str())?.get_mut(name)?.as_table_mut()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_force(text: &str) -> InForce {
        InForce { table: Mutex::new(table_of(text).unwrap()), ..InForce::new(None, Values::new()).unwrap() }
    }

    #[test]
    fn what_changes_is_told_by_section_and_key_until_it_is_taken_over() {
        let now =
            in_force("[cache.a]\npath = \"a\"\nram = 1\n[volume.v]\norigin = \"v\"\n[volume.w]\norigin = \"w\"\n");
        let next = table_of(
            "[server]\nthreads = 1\n[cache.a]\npath = \"a\"\ndirty_max = 50\n[cache.b]\npath = \"b\"\n[volume.v]\norigin = \"v\"\n\
             mode = \"write-back\"\n[volume.x]\norigin = \"x\"\n",
        )
        .unwrap();
        let found = now.differences(&next);
        let keys: Vec<_> = found.keys.iter().map(KeyPath::to_string).collect();
        assert_eq!(keys, ["server.threads", "cache.a.dirty_max", "cache.a.ram", "volume.v.mode"]);
        assert_eq!(
            (found.volumes_gone, found.volumes_new, found.caches),
            (vec!["w".into()], vec!["x".into()], vec!["b".into()])
        );
        found.keys.iter().for_each(|path| now.adopt_key(&next, path));
        ["w", "x"].into_iter().for_each(|name| now.adopt_volume(&next, name));
        assert_eq!(now.differences(&next), Differences { caches: vec!["b".into()], ..Differences::default() });
    }
}
