//! A table of classes in TOML.

use super::{ClassTable, preset, priorities};
use crate::ConfigError;
use nitro_cache::admission::Source;
use nitro_cache::builtin;
use nitro_cache::class::{Allocation, Band, ClassPolicy, Comparison, Condition, Join, Rule};
use nitro_console::error::Error;
use nitro_console::size::Size;
use nitro_units::ClassId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A table.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileText {
    /// The preset on which the table is based.
    #[serde(skip_serializing_if = "Option::is_none")]
    preset: Option<String>,
    /// `[class.NAME]`
    #[serde(default, rename = "class", skip_serializing_if = "BTreeMap::is_empty")]
    classes: BTreeMap<String, Change>,
    /// `[[rule]]`; the first rule that applies is used.
    #[serde(default, rename = "rule", skip_serializing_if = "Vec::is_empty")]
    rules: Vec<RuleText>,
}

/// `[class.NAME]`: the given settings of a class.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// In a file, the number of the class, 1 to 31; required for names that are not built in.
    #[arg(skip)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<u8>,
    /// Priority of the class: low (evicted first), normal, high, highest (evicted last), or a number from 0 to 15 (the words are 3, 7, 11 and 15).
    #[arg(long, value_name = "PRIORITY")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<String>,
    /// When new content is cached: always, while-clean, second-access, never.
    #[arg(long, value_name = "WHEN")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocation: Option<String>,
    /// Cache the data of read misses.
    #[arg(long, value_name = "BOOL")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_allocate: Option<bool>,
    /// Cache written data.
    #[arg(long, value_name = "BOOL")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_allocate: Option<bool>,
    /// Percentage of the cache that is reserved for the class: below it, the class is evicted last.
    #[arg(long, value_name = "PERCENT")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<u8>,
    /// Percentage of the cache above which the class's own units are evicted first.
    #[arg(long, value_name = "PERCENT")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<u8>,
}

impl Change {
    pub(super) fn apply(&self, policy: &mut ClassPolicy) -> Result<(), Error> {
        if let Some(name) = &self.priority {
            policy.priority = Band::named(name).ok_or_else(|| {
                Error::new(format_args!("priority = {name:?}"), "there is no such priority").or(priorities())
            })?;
        }
        if let Some(name) = &self.allocation {
            let named = Allocation::ALL.into_iter().find(|allocation| allocation.name() == name);
            policy.allocation = named.ok_or_else(|| {
                Error::new(format_args!("allocation = {name:?}"), "there is no such allocation")
                    .or(Allocation::ALL.map(Allocation::name).join(", "))
            })?;
        }
        policy.on_read = self.read_allocate.unwrap_or(policy.on_read);
        policy.on_write = self.write_allocate.unwrap_or(policy.on_write);
        policy.min_percent = self.min.unwrap_or(policy.min_percent);
        policy.max_percent = self.max.unwrap_or(policy.max_percent);
        Ok(())
    }

    fn of(policy: &ClassPolicy) -> Self {
        let usual = ClassPolicy::default();
        Self {
            id: None,
            priority: (policy.priority != usual.priority).then(|| policy.priority.name().to_owned()),
            allocation: (policy.allocation != usual.allocation).then(|| policy.allocation.name().to_owned()),
            read_allocate: (policy.on_read != usual.on_read).then_some(policy.on_read),
            write_allocate: (policy.on_write != usual.on_write).then_some(policy.on_write),
            min: (policy.min_percent != usual.min_percent).then_some(policy.min_percent),
            max: (policy.max_percent != usual.max_percent).then_some(policy.max_percent),
        }
    }
}

/// `[[rule]]`: all given conditions must hold.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleText {
    /// The class's name or number.
    class: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    offset_from: Option<Size>,
    #[serde(skip_serializing_if = "Option::is_none")]
    offset_to: Option<Size>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_size_min: Option<Size>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_size_max: Option<Size>,
    #[serde(skip_serializing_if = "Option::is_none")]
    direction: Option<Direction>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    metadata: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    file_size_min: Option<Size>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file_size_max: Option<Size>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Direction {
    Read,
    Write,
}

impl RuleText {
    fn conditions(&self) -> Vec<(Join, Condition)> {
        let offset = |comparison, size: Option<Size>| size.map(|size| Condition::Offset(comparison, size.0));
        let request = |comparison, size: Option<Size>| size.map(|size| Condition::RequestBytes(comparison, size.0));
        let file = |comparison, size: Option<Size>| size.map(|size| Condition::FileBytes(comparison, size.0));
        let direction = self.direction.map(|direction| match direction {
            Direction::Read => Source::Read,
            Direction::Write => Source::Write,
        });
        let all = [
            offset(Comparison::Ge, self.offset_from),
            offset(Comparison::Lt, self.offset_to),
            request(Comparison::Ge, self.request_size_min),
            request(Comparison::Le, self.request_size_max),
            direction.map(Condition::Direction),
            self.metadata.then_some(Condition::Metadata),
            file(Comparison::Ge, self.file_size_min),
            file(Comparison::Le, self.file_size_max),
        ];
        all.into_iter().flatten().map(|condition| (Join::And, condition)).collect()
    }

    /// The rule as text; `None`: TOML cannot express it.
    fn of(rule: &Rule, class: String) -> Option<Self> {
        let mut text = Self { class, ..Self::default() };
        for (number, (join, condition)) in rule.conditions.iter().enumerate() {
            if number > 0 && *join == Join::Or {
                return None;
            }
            let place = match condition {
                Condition::Offset(Comparison::Ge, bytes) => (&mut text.offset_from, *bytes),
                Condition::Offset(Comparison::Lt, bytes) => (&mut text.offset_to, *bytes),
                Condition::RequestBytes(Comparison::Ge, bytes) => (&mut text.request_size_min, *bytes),
                Condition::RequestBytes(Comparison::Le, bytes) => (&mut text.request_size_max, *bytes),
                Condition::RequestBytes(Comparison::Gt, bytes) => (&mut text.request_size_min, bytes.checked_add(1)?),
                Condition::RequestBytes(Comparison::Lt, bytes) => (&mut text.request_size_max, bytes.checked_sub(1)?),
                Condition::FileBytes(Comparison::Ge, bytes) => (&mut text.file_size_min, *bytes),
                Condition::FileBytes(Comparison::Le, bytes) => (&mut text.file_size_max, *bytes),
                Condition::FileBytes(Comparison::Gt, bytes) => (&mut text.file_size_min, bytes.checked_add(1)?),
                Condition::FileBytes(Comparison::Lt, bytes) => (&mut text.file_size_max, bytes.checked_sub(1)?),
                Condition::Metadata => {
                    text.metadata = true;
                    continue;
                }
                Condition::Direction(source) => {
                    text.direction = Some(if *source == Source::Read { Direction::Read } else { Direction::Write });
                    continue;
                }
                Condition::Offset(..) | Condition::RequestBytes(..) | Condition::FileBytes(..) => return None,
            };
            if place.0.replace(Size(place.1)).is_some() {
                return None;
            }
        }
        Some(text)
    }
}

/// Reads a table.
pub(super) fn parse(text: &str) -> Result<ClassTable, ConfigError> {
    let file: FileText = toml::from_str(text).map_err(|error| ConfigError::from_toml(text, &error))?;
    read(&file).map_err(|error| {
        let (problem, way_out) = error.into_parts();
        ConfigError::of(problem, &way_out)
    })
}

fn read(file: &FileText) -> Result<ClassTable, Error> {
    let mut table = match &file.preset {
        None => ClassTable::default(),
        Some(name) => preset::named(name).ok_or_else(|| {
            Error::new(format_args!("preset = {name:?}"), "there is no such preset").or(preset::PRESETS.join(", "))
        })?,
    };
    for (name, said) in &file.classes {
        let class = number(&table, name, said.id)?;
        if builtin::name(class).is_none() {
            table.names.insert(class, name.clone());
        }
        table.change(class, said).map_err(|error| error.within(format_args!("class.{name}")))?;
    }
    for rule in &file.rules {
        let class = table.named(&rule.class)?;
        table.rules.0.push(Rule { class, conditions: rule.conditions() });
    }
    Ok(table)
}

/// The number of `[class.NAME]`.
fn number(table: &ClassTable, name: &str, id: Option<u8>) -> Result<ClassId, Error> {
    let what = format!("class.{name}");
    match (builtin::named(name), id) {
        (Some(class), None) => Ok(class),
        (Some(class), Some(id)) if class.number() == id => Ok(class),
        (Some(class), Some(id)) => {
            Err(Error::new(format_args!("{what}.id = {id}"), format_args!("{name:?} is class {class}"))
                .or("leave the id out, or choose another name"))
        }
        (None, None) => Err(Error::new(what, "it is not a built-in class and has no id").or("give an id of 15 to 28")),
        (None, Some(id)) => {
            let class = ClassId::new(id).filter(|class| class.is_classified()).ok_or_else(|| {
                Error::new(format_args!("{what}.id = {id}"), "classes are 1 to 31").or("choose one that is free")
            })?;
            if builtin::name(class).is_some() || table.names.contains_key(&class) {
                let why = format!("that is class {:?}", table.name(class));
                return Err(Error::new(format_args!("{what}.id = {id}"), why).or("choose another, 15 to 28"));
            }
            Ok(class)
        }
    }
}

/// Writes a table.
pub(super) fn to_toml(table: &ClassTable) -> Result<String, Error> {
    let mut file = FileText::default();
    for class in ClassId::all().filter(|class| table.knows(*class)) {
        let id = builtin::name(class).is_none().then(|| class.number());
        let name = table.name(class);
        file.classes.insert(name, Change { id, ..Change::of(table.classes.of(class)) });
    }
    for rule in &table.rules.0 {
        let text = RuleText::of(rule, table.name(rule.class)).ok_or_else(|| {
            Error::new(format_args!("a rule of class {}", table.name(rule.class)), "it cannot be expressed in TOML")
                .or("keep the CSV file, and set classes to its path in the configuration")
        })?;
        file.rules.push(text);
    }
    toml::to_string(&file).map_err(|error| Error::new("classes", error))
}
