//! Applies changes of the configuration at run time.

use super::Served;
use super::caches::CacheEntry;
use super::in_force::{Differences, InForce};
use super::judge::{self, Allowed};
use super::volumes;
use crate::control::protocol::{Changed, Done, Outcome};
use crate::origins::{self, origin_of};
use nitro_config::classes::ClassTable;
use nitro_config::{CacheConfig, CacheStore, Config, Effect, KeyPath, Scope, accounts};
use nitro_console::error::Error;
use nitro_console::logging::EACH;
use nitro_console::size::Size;
use nitro_engine::{LiveSettings, WriteMode};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use toml::{Table, Value};

/// Why a key of the file is not in force.
const OVERRIDDEN: &str = "an option of the server's command line sets it, and overrides the configuration file";
/// Why a volume of the file is not served.
const REMOVED: &str = "it was removed by nitro volume remove, and the configuration file still lists it; remove it from \
                       the file, or serve it before the next start with nitro volume add";

fn added_name(volume: &str) -> String {
    format!("volume.{volume}: added")
}

/// The result of a change, for the answer to the command.
fn changed(what: impl ToString, done: Result<(), Error>) -> Changed {
    match done {
        Ok(()) => Changed { what: what.to_string(), done: Done::Applied, message: String::new() },
        Err(error) => Changed { what: what.to_string(), done: Done::Failed, message: error.to_string() },
    }
}

fn needs_restart(what: impl ToString, why: &str) -> Changed {
    Changed { what: what.to_string(), done: Done::Restart, message: why.to_owned() }
}

/// The results of all changes, on one line.
fn summary(changes: Vec<Changed>) -> Outcome {
    let count = |done| changes.iter().filter(|change| change.done == done).count();
    let message = match (count(Done::Applied), count(Done::Restart), count(Done::Failed)) {
        (0, 0, 0) => "configuration: nothing has changed".to_owned(),
        (applied, restart, failed) => {
            let mut parts = vec![format!("{applied} applied")];
            parts.extend((restart > 0).then(|| format!("{restart} need a restart")));
            parts.extend((failed > 0).then(|| format!("{failed} failed")));
            format!("configuration: {}", parts.join(", "))
        }
    };
    Outcome { message, changes, ..Outcome::default() }
}

impl Served {
    /// Reads the configuration file again and applies its changes.
    ///
    /// # Errors
    /// There is no file, or it is invalid: then nothing has changed.
    pub async fn reload(self: &Arc<Self>) -> Result<Outcome, Error> {
        let _turn = self.in_force.turn.lock().await;
        let (table, config) = self.in_force.read_again()?;
        let mut changes = Box::pin(self.take_over(&table, &config)).await;
        changes.extend(self.reload_classes(&config));
        let outcome = summary(changes);
        tracing::info!("{}", outcome.message);
        for change in &outcome.changes {
            match change.done {
                Done::Applied => tracing::info!(target: EACH, "{}: in force", change.what),
                Done::Restart => {
                    tracing::warn!(target: EACH, "{}: from the next start on: {}", change.what, change.message)
                }
                Done::Failed => tracing::error!(target: EACH, "{}: {}", change.what, change.message),
            }
        }
        Ok(outcome)
    }

    async fn take_over(self: &Arc<Self>, table: &Table, config: &Config) -> Vec<Changed> {
        let Differences { volumes_gone, volumes_new, caches, keys } = self.in_force.differences(table);
        let mut changes: Vec<_> = caches
            .into_iter()
            .map(|name| needs_restart(format_args!("cache.{name}"), "caches are opened when the server starts"))
            .collect();
        for name in volumes_gone {
            let removed = match self.volume(&name) {
                Some(_) => self.remove(&name, false).await.map(drop),
                None => Ok(()),
            };
            if removed.is_ok() {
                self.in_force.adopt_volume(table, &name);
            }
            changes.push(changed(format_args!("volume.{name}: removed"), removed));
        }
        for name in volumes_new {
            let added = self.add_configured(&name, config).await;
            if added.is_ok() {
                self.in_force.adopt_volume(table, &name);
            }
            changes.push(changed(added_name(&name), added));
        }
        let is_elsewhere = |name: &String| self.check_alone(name, config.volumes.get(name)).is_err();
        let is_removed =
            |name: &String| InForce::lists(table, name) && self.volume(name).is_none() && !is_elsewhere(name);
        for path in keys.iter().filter(|path| path.scope != Scope::Volume || !is_removed(&path.name)) {
            if self.in_force.is_overridden(path) {
                changes.push(needs_restart(path, OVERRIDDEN));
                continue;
            }
            let change = self.take_over_key(path, config).await;
            if change.done == Done::Applied {
                self.in_force.adopt_key(table, path);
                // `nitro set --persist` has told of it.
                let is_known = self.in_force.has_set(path, table);
                self.in_force.note_reloaded(path);
                if is_known {
                    continue;
                }
            }
            changes.push(change);
        }
        let failed: Vec<_> = changes.iter().map(|change| change.what.clone()).collect();
        for name in config.volumes.keys().filter(|name| is_removed(name)) {
            let what = format!("volume.{name}");
            if !failed.contains(&added_name(name)) {
                changes.push(needs_restart(what, REMOVED));
            }
        }
        for export in self.all() {
            if let Err(error) = export.check_name().await {
                changes.push(needs_restart(format_args!("volume.{}.origin", export.name), &error.to_string()));
            }
        }
        changes
    }

    async fn take_over_key(self: &Arc<Self>, path: &KeyPath, config: &Config) -> Changed {
        match path.setting.effect {
            Effect::Live => {}
            Effect::Restart => return needs_restart(path, "it is read when the server starts"),
            Effect::Made => return needs_restart(path, "a cache keeps the value with which it was formatted"),
        }
        match Box::pin(self.apply(path, config)).await {
            Ok(()) => changed(path, Ok(())),
            Err(Refused::Restart(why)) => needs_restart(path, why),
            Err(Refused::Failed(error)) => changed(path, Err(error)),
        }
    }

    /// Changes one setting until the server ends.
    ///
    /// # Errors
    /// There is no such section, or no such value.
    pub async fn set_key(self: &Arc<Self>, path: &KeyPath, value: &str) -> Result<Outcome, Error> {
        let _turn = self.in_force.turn.lock().await;
        if self.in_force.is_overridden(path) {
            return Err(Error::new(path, OVERRIDDEN).or("start the server without that option"));
        }
        let (table, config) = self.in_force.with(path, value, || self.as_table())?;
        let change = self.take_over_key(path, &config).await;
        if change.done == Done::Failed {
            return Err(Error::told(&change.message));
        }
        if change.done == Done::Applied {
            self.in_force.note_set(&table, path);
        }
        let message = match change.done {
            Done::Applied => format!("{path} = {value}, until the server ends"),
            _ => format!("{path}: {}", change.message),
        };
        tracing::info!("{message}");
        Ok(Outcome { message, changes: vec![change], ..Outcome::default() })
    }

    /// The served volumes and caches, for a server without a configuration file.
    fn as_table(&self) -> Table {
        let text = |path: &PathBuf| Value::from(path.display().to_string());
        let caches = self.caches.iter().map(|(name, entry)| {
            let table = Table::from_iter([("path".to_owned(), entry.path.as_ref().map_or(Value::from("none"), text))]);
            (name.clone(), Value::Table(table))
        });
        let volumes = self.all().into_iter().map(|export| {
            let share = export.volume.dirty_share();
            let mut table = Table::from_iter([
                ("origin".to_owned(), text(&export.origin)),
                ("cache".to_owned(), Value::from(export.entry.name.clone())),
                ("dirty_share_max".to_owned(), Value::from(i64::from(share.max_percent))),
            ]);
            if let Some(min) = share.min_percent {
                table.insert("dirty_share_min".to_owned(), Value::from(i64::from(min)));
            }
            if let Some(points) = export.volume.point_status() {
                let age = Value::from(points.settings.max_age.as_secs() as i64);
                table.extend([
                    ("mode".to_owned(), Value::from("write-back")),
                    ("points".to_owned(), Value::from(true)),
                    ("max_age".to_owned(), age),
                    ("max_bytes".to_owned(), Value::from(Size(points.settings.max_bytes).exact())),
                ]);
            }
            let (weight, reservation) = export.shares();
            table.extend(weight.map(|weight| ("weight".to_owned(), Value::from(i64::from(weight)))));
            table.extend(reservation.map(|percent| ("reservation".to_owned(), Value::from(i64::from(percent)))));
            let rates = export.throttle.rates();
            if let Some(iops) = rates.requests {
                table.insert("iops".to_owned(), Value::from(iops.get() as i64));
            }
            if let Some(bandwidth) = rates.bytes {
                table.insert("bandwidth".to_owned(), Value::from(Size(bandwidth.get()).exact()));
            }
            if rates.is_limit() {
                table.insert("burst".to_owned(), Value::from(rates.burst.as_secs() as i64));
            }
            (export.name.clone(), Value::Table(table))
        });
        Table::from_iter([
            ("cache".to_owned(), Value::Table(Table::from_iter(caches))),
            ("volume".to_owned(), Value::Table(Table::from_iter(volumes))),
        ])
    }

    /// Serves a volume that was added to the configuration.
    async fn add_configured(self: &Arc<Self>, name: &str, config: &Config) -> Result<(), Error> {
        if self.volume(name).is_some() {
            return Ok(());
        }
        let entry = self.cache(config.cache_of(name)?)?;
        let Some(volume) = config.volumes.get(name) else { return Ok(()) };
        self.check_alone(name, Some(volume))?;
        let mode = config.mode_of(name);
        self.check_unit(&volume.identity(name, None)?)?;
        let origin = origin_of(&volume.origin)?;
        judge::check_mode(origin.as_ref(), volume, mode)?;
        let origin = origin.open(name, volume).await?;
        let verdict = judge::judge(&entry, name, volume, (&origin, mode), Allowed::default()).await?;
        let export = volumes::admit(&entry, name, volume, mode, origin, verdict).await?;
        self.take(Arc::new(export));
        Ok(())
    }

    async fn apply(self: &Arc<Self>, path: &KeyPath, config: &Config) -> Result<(), Refused> {
        match path.scope {
            Scope::Server => self.apply_server(path.setting.key, config).await,
            Scope::Cache => self.apply_cache(&path.name, path.setting.key, config).await,
            Scope::Volume => self.apply_volume(&path.name, path.setting.key, config).await,
        }
    }

    async fn apply_server(&self, key: &str, config: &Config) -> Result<(), Refused> {
        let server = &config.server;
        match key {
            "destage_on_exit" => {
                self.destage_on_exit.store(server.destage_on_exit.unwrap_or(true), Ordering::SeqCst);
                Ok(())
            }
            "random_share" | "background_share" => {
                origins::share(server.shares()).await;
                Ok(())
            }
            // RAM for more was not set aside.
            "max_connections" if server.connections_max() > self.limits.connections => {
                Err(Refused::Restart("RAM for the maximum number of clients is reserved when the server starts"))
            }
            _ => {
                self.connections.set_limits(server);
                Ok(())
            }
        }
    }

    async fn apply_cache(self: &Arc<Self>, name: &str, key: &str, config: &Config) -> Result<(), Refused> {
        let entry = self.cache(name)?;
        let Some(wanted) = config.caches.get(name) else { return Ok(()) };
        match key {
            "mode" => {
                for export in self.all().iter().filter(|export| export.entry.name == name) {
                    let own = config.volumes.get(&export.name).is_none_or(|volume| volume.mode.is_some());
                    if !own {
                        self.go_to(&export.name, config).await?;
                    }
                }
                Ok(())
            }
            "size" => match wanted.size {
                Some(size) => Ok(self.resize(name, size.0).await.map(drop)?),
                None => Ok(()),
            },
            "classes" => Ok(entry.open_classes(wanted)?),
            _ => Ok(entry.set_live(key, wanted)?),
        }
    }

    async fn apply_volume(self: &Arc<Self>, name: &str, key: &str, config: &Config) -> Result<(), Refused> {
        let export = self.named(name)?;
        let Some(wanted) = config.volumes.get(name) else { return Ok(()) };
        match key {
            "mode" => return Ok(self.go_to(name, config).await?),
            "class" => export.volume.set_class(wanted.class()),
            "weight" | "reservation" => export.set_shares(wanted),
            "iops" | "bandwidth" | "burst" => export.throttle.set(wanted.rates()),
            "max_age" | "max_bytes" => export.volume.set_points(wanted.point_settings()),
            "write_policy" => export.volume.set_write_policy(wanted.write_policy.unwrap_or_default()),
            "iscsi_initiators" | "iscsi_addresses" => *export.iscsi_allowed.write() = wanted.iscsi_allowed()?,
            "iscsi_accounts" if !self.authentication.needs_chap && !wanted.iscsi_accounts.is_empty() => {
                return Err(Refused::Restart("the accounts of initiators are read when the server starts"));
            }
            "iscsi_accounts" => {
                if let Some(chap) = &config.server.iscsi.chap {
                    config.check_against(&accounts::read(chap)?)?;
                }
                *export.iscsi_allowed.write() = wanted.iscsi_allowed()?;
            }
            "nbd_clients" if !self.authentication.has_certificates && !wanted.nbd_clients.is_empty() => {
                return Err(Refused::Restart("tls_client_ca is read when the server starts"));
            }
            "nbd_clients" => export.nbd_clients.write().clone_from(&wanted.nbd_clients),
            "sockets" if self.has_vhost() || self.is_on_ublk => {
                return Err(Refused::Restart(
                    "the sockets of virtual machines and the block devices are made when the server starts",
                ));
            }
            "sockets" => export.sockets.write().clone_from(&wanted.sockets),
            _ => export.volume.set_dirty_share(wanted.dirty_share()),
        }
        Ok(())
    }

    /// Sets a volume to the mode of the configuration.
    async fn go_to(&self, name: &str, config: &Config) -> Result<(), Error> {
        let mode = WriteMode::from(config.mode_of(name));
        match self.named(name)?.volume.mode() == mode {
            true => Ok(()),
            false => self.set_mode(name, mode).await.map(drop),
        }
    }

    /// Applies the changes in the files of classes.
    fn reload_classes(&self, config: &Config) -> Vec<Changed> {
        let named = self.caches.values().filter_map(|entry| Some((entry, config.caches.get(&entry.name)?)));
        let reloaded = named.filter(|(_, wanted)| wanted.classes.is_some()).filter_map(|(entry, wanted)| {
            let what = format!("cache.{}.classes", entry.name);
            match ClassTable::open(wanted.classes.as_deref()?) {
                Ok(table) if table == entry.classes.table() => None,
                Ok(_) => Some(changed(what, entry.open_classes(wanted))),
                Err(error) => Some(changed(what, Err(error))),
            }
        });
        reloaded.collect()
    }
}

/// Why a setting is not changed.
enum Refused {
    Restart(&'static str),
    Failed(Error),
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl CacheEntry {
    /// Changes one of the settings of the cache that can change at run time.
    fn set_live(&self, key: &str, wanted: &CacheConfig) -> Result<(), Error> {
        let mut config = self.config.lock();
        let mut next = config.clone();
        next.take(key, wanted);
        let settings = self.cache.settings();
        let live = LiveSettings::of(&next.engine_settings(settings.manager.cache_bytes));
        let classes = self.classes.table().classes;
        let checked = settings.manager.check_classes(&classes, live.dirty_max_percent, 0);
        checked.map_err(|error| Error::new(format_args!("cache {}", self.name), error))?;
        if wanted.path != CacheStore::None {
            self.cache.set_live(&live);
        }
        *config = next;
        Ok(())
    }
}
