//! The classes of a cache that is served: their source, and how they change at run time.

use super::caches::CacheEntry;
use super::served::Served;
use crate::control::protocol::Outcome;
use nitro_cache::class::{Allocation, Asked, CLEAN_PERCENT_MIN, Found};
use nitro_config::CacheConfig;
use nitro_config::classes::{Change, ClassTable};
use nitro_console::error::Error;
use nitro_console::size::Size;
use nitro_engine::EngineSettings;
use nitro_files::{self as files, Links};
use nitro_units::ClassId;
use parking_lot::RwLock;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

/// Names of classes in a note.
const CLASSES_NAMED: usize = 4;

/// The classes of a cache.
#[derive(Debug, Default)]
pub struct ServedClasses {
    table: RwLock<ClassTable>,
    /// Whether the table has rules: without rules, requests need not lock it.
    has_rules: AtomicBool,
    /// The file that the configuration names, to which changes are written.
    file: RwLock<Option<PathBuf>>,
}

impl ServedClasses {
    /// Opens the classes of a configuration.
    pub(super) fn open(config: &CacheConfig) -> Result<Self, Error> {
        let Some(named) = &config.classes else { return Ok(Self::default()) };
        let table = ClassTable::open(named).map_err(|error| error.within("classes"))?;
        let has_rules = AtomicBool::new(!table.rules.0.is_empty());
        let file = named.exists().then(|| named.clone());
        Ok(Self { table: RwLock::new(table), has_rules, file: RwLock::new(file) })
    }

    /// Enters them into the settings of their cache.
    pub(super) fn settle(&self, what: &str, settings: &mut EngineSettings) -> Result<(), Error> {
        settings.manager.classes = self.table.read().classes;
        let checked = settings.manager.check_classes(&settings.manager.classes, settings.dirty_max_percent, 0);
        checked.map_err(|error| Error::new(what, error))
    }

    /// What the classes say that has no effect with these settings, in sentences.
    pub(super) fn without_effect(&self, settings: &EngineSettings) -> Vec<String> {
        self.never_refused(settings).into_iter().chain(self.merged(settings)).collect()
    }

    /// The priorities that a small cache does not tell apart.
    fn merged(&self, settings: &EngineSettings) -> Option<String> {
        let units = settings.manager.weu_count();
        let (bands, used, needed) = self.table.read().classes.merged(units)?;
        let bytes = Size(u64::from(needed) * u64::from(settings.manager.weu_bytes));
        Some(format!(
            "with {units} units, the cache tells {bands} of the {used} priorities of its classes apart: make it {bytes} or more, or \
             its units smaller (weu_size)"
        ))
    }

    /// The classes whose `while-clean` never refuses anything.
    fn never_refused(&self, settings: &EngineSettings) -> Option<String> {
        let (table, dirty_max) = (self.table.read(), settings.dirty_max_percent);
        let clean = settings.manager.clean_percent_least(dirty_max);
        if clean <= u64::from(CLEAN_PERCENT_MIN) {
            return None;
        }
        let is_bound = |class: &ClassId| table.classes.of(*class).allocation == Allocation::WhileClean;
        let names: Vec<_> = ClassId::all().filter(is_bound).map(|class| table.name(class)).collect();
        let (first, more) = names.split_at(names.len().min(CLASSES_NAMED));
        let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
        (!names.is_empty()).then(|| {
            format!(
                "while-clean refuses nothing, as dirty_max = {dirty_max} keeps at least {clean} % of the cache clean, and \
                 it refuses at {CLEAN_PERCENT_MIN} %: raise dirty_max, make the cache larger, or give these classes another \
                 allocation: {}{more}",
                first.join(", ")
            )
        })
    }

    /// The class of a request by the rules.
    pub fn of_request(&self, asked: &Asked) -> Option<ClassId> {
        if !self.has_rules.load(Ordering::Relaxed) {
            return None;
        }
        self.table.read().rules.of_request(asked)
    }

    /// The class of a block by the rules.
    pub fn of_content(&self, found: Found) -> Option<ClassId> {
        if !self.has_rules.load(Ordering::Relaxed) {
            return None;
        }
        self.table.read().rules.of_content(found)
    }

    /// The present table.
    pub fn table(&self) -> ClassTable {
        self.table.read().clone()
    }

    fn set(&self, table: ClassTable) {
        let mut known = self.table.write();
        self.has_rules.store(!table.rules.0.is_empty(), Ordering::Relaxed);
        *known = table;
    }
}

impl CacheEntry {
    /// Applies another table to the cache, and writes it to the file.
    fn set_classes(&self, table: ClassTable, message: &str) -> Result<Outcome, Error> {
        let what = format!("cache {}", self.name);
        let settings = self.cache.settings();
        let pinned = self.cache.pinned_extents().0;
        let dirty_max = self.cache.live().dirty_max_percent;
        let checked = settings.manager.check_classes(&table.classes, dirty_max, pinned);
        checked.map_err(|error| Error::new(&what, error))?;
        let file = self.classes.file.read().clone();
        let kept = match &file {
            Some(file) => {
                let text = table.to_toml()?;
                files::write_durably(file, Links::Followed, text.as_bytes())
                    .map_err(|error| Error::new(file.display(), error).or("nothing was changed"))?;
                format!("; kept in {}", file.display())
            }
            None => "; until the server ends: set classes to a file in the configuration to keep it".to_owned(),
        };
        self.cache.set_classes(table.classes);
        self.classes.set(table);
        Ok(Outcome { message: format!("{what}: {message}{kept}"), ..Outcome::default() })
    }
}

impl CacheEntry {
    /// Applies the table that the configuration names.
    pub(super) fn open_classes(&self, config: &CacheConfig) -> Result<(), Error> {
        let opened = ServedClasses::open(config)?;
        let (table, settings) = (opened.table(), self.cache.settings());
        let checked = settings.manager.check_classes(&table.classes, self.cache.live().dirty_max_percent, 0);
        checked.map_err(|error| Error::new(format_args!("cache {}", self.name), error))?;
        self.cache.set_classes(table.classes);
        self.classes.set(table);
        *self.classes.file.write() = opened.file.into_inner();
        Ok(())
    }
}

impl Served {
    /// Changes the policy of a class of a cache.
    pub(crate) fn change_class(&self, cache: Option<&str>, class: &str, change: &Change) -> Result<Outcome, Error> {
        let entry = self.the_cache(cache)?;
        let mut table = entry.classes.table();
        let class = table.named(class)?;
        table.change(class, change)?;
        let message = format!("class {} is changed", table.name(class));
        entry.set_classes(table, &message)
    }

    /// Loads another table of classes for a cache.
    pub(crate) fn load_classes(&self, cache: Option<&str>, text: &str) -> Result<Outcome, Error> {
        let entry = self.the_cache(cache)?;
        let table = ClassTable::parse(text).map_err(|error| Error::new("classes", error))?;
        let count = ClassId::all().filter(|class| table.knows(*class)).count();
        let message = format!("{count} classes and {} rules are in force", table.rules.0.len());
        entry.set_classes(table, &message)
    }
}
