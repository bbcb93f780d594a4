//! The settings in force, with the source of each value, and their differences from the configuration file.

use super::Served;
use super::in_force::{InForce, section, table_of};
use crate::control::protocol::{SettingInForce, SettingSource, Settings};
use nitro_config::secret::{redact, redact_urls};
use nitro_config::{KeyPath, Kind, Scope, Setting, Span};
use nitro_console::size::Size;
use nitro_port::Device;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use toml::Table;

/// Values by key, in the form of a configuration file.
pub type Values = BTreeMap<String, Value>;

/// A value that a command may have changed without naming the key.
struct Live {
    value: Value,
    /// It is what follows if no value is set.
    is_default: bool,
}

impl Served {
    /// The settings in force, without secrets.
    #[must_use]
    pub fn settings(&self) -> Settings {
        let file = self.in_force.source.as_ref().map(|source| source.file.clone());
        let read = self.in_force.source.as_ref().map(|source| source.read().and_then(|text| table_of(&text)));
        let (now, file_error) = match read {
            Some(Ok(table)) => (Some(table), None),
            Some(Err(error)) => (None, Some(error.to_string())),
            None => (None, None),
        };
        let volumes: Vec<_> = self.all().iter().map(|export| export.name.clone()).collect();
        let caches: Vec<_> = self.caches.keys().cloned().collect();
        let mut settings = Settings { file, file_error, ..Settings::default() };
        if let Some(table) = &now {
            for (scope, here) in [(Scope::Cache, &caches), (Scope::Volume, &volumes)] {
                let here: BTreeSet<_> = here.iter().cloned().collect();
                let there = names(table, scope);
                settings.only_in_file.extend(there.difference(&here).map(|name| format!("{scope}.{name}")));
                settings.not_in_file.extend(here.difference(&there).map(|name| format!("{scope}.{name}")));
            }
        }
        let sections = [(Scope::Server, String::new())].into_iter();
        let sections = sections.chain(caches.into_iter().map(|name| (Scope::Cache, name)));
        for (scope, name) in sections.chain(volumes.into_iter().map(|name| (Scope::Volume, name))) {
            let paths = scope.settings().iter().map(|setting| KeyPath { scope, name: name.clone(), setting });
            settings.settings.extend(paths.map(|path| self.setting(&path, now.as_ref())));
        }
        settings
    }

    fn setting(&self, path: &KeyPath, file: Option<&Table>) -> SettingInForce {
        let kind = path.setting.kind;
        let in_file = file.and_then(|table| value_in(table, path));
        let (mut value, mut source) = self.in_force.configured(path);
        if let Some(live) = self.live(path) {
            match &value {
                Some(configured) if is_same(kind, configured, &live.value) => {}
                None if live.is_default => value = Some(live.value),
                _ => (value, source) = (Some(live.value), SettingSource::RunTime),
            }
        }
        let as_in_file = match (&value, &in_file) {
            (Some(value), Some(in_file)) => is_same(kind, value, in_file),
            (_, in_file) => in_file.is_none() && source == SettingSource::Default,
        };
        if as_in_file && source == SettingSource::RunTime {
            source = SettingSource::File;
        }
        SettingInForce {
            key: path.to_string(),
            value: value.map(|value| shown(path.setting, value)),
            source,
            file: in_file.map(|value| shown(path.setting, value)),
            differs: file.is_some() && !as_in_file,
        }
    }

    /// The value in force of a setting that commands other than `nitro set` change, too.
    fn live(&self, path: &KeyPath) -> Option<Live> {
        let (name, key) = (path.name.as_str(), path.setting.key);
        if path.scope == Scope::Cache {
            let entry = self.caches.get(name).filter(|entry| key == "size" && entry.path.is_some())?;
            let size = Size(entry.cache.devices().geometry().size_bytes);
            return Some(Live { value: size.exact().into(), is_default: true });
        }
        let export = self.volume(name).filter(|_| path.scope == Scope::Volume)?;
        let (share, class) = (export.volume.dirty_share(), export.volume.class().number());
        let live = |value: Value, default: Value| Live { is_default: value == default, value };
        Some(match key {
            "mode" => live(export.volume.mode().to_string().into(), self.mode_of_cache(&export.entry.name)),
            "write_policy" => {
                let (now, default) = (export.volume.write_policy(), nitro_cache::admission::WritePolicy::default());
                live(now.to_string().into(), default.to_string().into())
            }
            "dirty_share_min" => live(share.min_percent?.into(), Value::Null),
            "dirty_share_max" => live(share.max_percent.into(), 100.into()),
            "class" => live(class.into(), 0.into()),
            _ => return None,
        })
    }

    /// The mode of a cache's volumes that set none.
    fn mode_of_cache(&self, cache: &str) -> Value {
        let setting = Setting::find(Scope::Cache, "mode");
        let path = setting.map(|setting| KeyPath { scope: Scope::Cache, name: cache.to_owned(), setting });
        let configured = path.and_then(|path| self.in_force.configured(&path).0);
        configured.unwrap_or_else(|| nitro_engine::WriteMode::WriteThrough.to_string().into())
    }
}

impl InForce {
    /// The configured value of a key, and its source.
    fn configured(&self, path: &KeyPath) -> (Option<Value>, SettingSource) {
        let key = path.to_string();
        if let Some(value) = self.run_time.lock().get(&key) {
            return (Some(value.clone()), SettingSource::RunTime);
        }
        if path.scope == Scope::Volume && self.added.lock().contains(&path.name) {
            return (None, SettingSource::Default);
        }
        if let Some(value) = self.given.get(&key) {
            return (Some(value.clone()), SettingSource::CommandLine);
        }
        match value_in(&self.table.lock(), path) {
            Some(value) => (Some(value), SettingSource::File),
            None => (None, SettingSource::Default),
        }
    }
}

fn names(table: &Table, scope: Scope) -> BTreeSet<String> {
    let all = table.get(scope.as_str()).and_then(toml::Value::as_table);
    all.into_iter().flat_map(|all| all.keys().cloned()).collect()
}

/// The value of a key in a table of a configuration file.
pub(super) fn value_in(table: &Table, path: &KeyPath) -> Option<Value> {
    section(table, path.scope, &path.name)?.get(path.setting.key).map(|value| json!(value))
}

/// The value without secrets. The path of a file with secrets is none.
fn shown(setting: &Setting, value: Value) -> Value {
    let mut one = json!({ setting.key: value });
    match setting.kind {
        Kind::Path | Kind::Paths => redact_urls(&mut one),
        _ => redact(&mut one),
    }
    one[setting.key].take()
}

/// Whether two spellings of a value mean the same.
pub(super) fn is_same(kind: Kind, one: &Value, other: &Value) -> bool {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let (a, b) = (text(one), text(other));
    a == b
        || match kind {
            Kind::Size => a.parse::<Size>().is_ok_and(|a| b.parse() == Ok(a)),
            Kind::Time => a.parse::<Span>().is_ok_and(|a| b.parse() == Ok(a)),
            Kind::Paths | Kind::List => *one == json!([other]) || json!([one]) == *other,
            _ => false,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_value_are_the_same() {
        for (kind, one, other) in [
            (Kind::Size, json!("64M"), json!(64 << 20)),
            (Kind::Time, json!("1h"), json!(3600)),
            (Kind::Paths, json!("a"), json!(["a"])),
            (Kind::Number, json!("7"), json!(7)),
        ] {
            assert!(is_same(kind, &one, &other) && is_same(kind, &other, &one), "{one} {other}");
        }
        for (kind, one, other) in [
            (Kind::Size, json!("64M"), json!("64G")),
            (Kind::Size, json!("x"), json!("y")),
            (Kind::Text, json!("1h"), json!("3600")),
        ] {
            assert!(!is_same(kind, &one, &other), "{one} {other}");
        }
    }
}
