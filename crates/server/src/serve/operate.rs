//! Commands that change volumes and caches while they are served.

use super::Served;
use super::connections::{DRAIN_MAX, Drain, sleep};
use super::judge::{self, Allowed};
use super::ublk::own;
use super::volumes;
use crate::control::protocol::{AddVolume, Outcome};
use crate::cos::CosAction;
use crate::export::VolumeExport;
use crate::origins::{self, BucketAction, CosOrigin, origin_of};
use nitro_cache::admission::WritePolicy;
use nitro_config::{CacheStore, Config, Mode, VolumeConfig, check_scan, check_share};
use nitro_console::error::Error;
use nitro_console::size::Size;
use nitro_device::spawn_local;
use nitro_engine::{DirtyShare, Health, WriteMode};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The right to change how a volume is served; only one command has it at a time.
pub(super) struct Turn(Arc<VolumeExport>);

impl Turn {
    pub(super) fn take(export: &Arc<VolumeExport>) -> Result<Self, Error> {
        if export.busy.swap(true, Ordering::SeqCst) {
            let what = format!("volume {}", export.name);
            return Err(Error::new(what, "another command is changing it").or("wait for its end, and try again"));
        }
        Ok(Self(Arc::clone(export)))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.busy.store(false, Ordering::SeqCst);
    }
}

fn failed(export: &VolumeExport, error: &nitro_engine::Error) -> Error {
    Error::with_sources(format_args!("volume {}", export.name), error).or("see the server's log and nitro status")
}

fn outcome(export: &VolumeExport, message: impl Display) -> Outcome {
    Outcome { message: message.to_string(), dirty_bytes: export.dirty_bytes(), ..Outcome::default() }
}

impl Served {
    /// The served volume of that name.
    ///
    /// # Errors
    /// There is none; the error lists the served volumes.
    pub fn named(&self, name: &str) -> Result<Arc<VolumeExport>, Error> {
        self.volume(name).ok_or_else(|| {
            let names: Vec<_> = self.all().iter().map(|export| export.name.clone()).collect();
            Error::new(format_args!("volume {name}"), "it is not served here").or(match names.is_empty() {
                true => "no volume is".to_owned(),
                false => format!("those that are: {}", names.join(", ")),
            })
        })
    }

    /// As [`named`](Self::named), for a volume that is served through a cache.
    pub(super) fn cached(&self, name: &str) -> Result<Arc<VolumeExport>, Error> {
        let export = self.named(name)?;
        if export.entry.path.is_none() {
            let what = format_args!("volume {name}");
            return Err(Error::new(what, "it is served without a cache").or("serve it with one"));
        }
        Ok(export)
    }

    /// Brings an origin up to date: only begins, or waits for the end.
    pub async fn flush(self: &Arc<Self>, name: &str, wait: bool) -> Result<Outcome, Error> {
        let export = self.named(name)?;
        let dirty = Size(export.dirty_bytes());
        if wait {
            export.destage_all().await.map_err(|e| export.left_behind(&e))?;
            return Ok(outcome(&export, format_args!("volume {name}: its origin is up to date; {dirty} were dirty")));
        }
        let begun = Arc::clone(&export);
        nitro_device::spawn_local(async move {
            if let Err(error) = begun.destage_all().await {
                tracing::error!("{}", begun.left_behind(&error));
            }
        });
        Ok(outcome(&export, format_args!("volume {name}: {dirty} are dirty and being written back")))
    }

    /// Changes how a volume is served: its share of the room for dirty data, in percent (minimum, maximum), and its
    /// mode.
    pub async fn set(
        &self,
        name: &str,
        mode: Option<WriteMode>,
        (min, max): (Option<u8>, Option<u8>),
        write_policy: Option<WritePolicy>,
    ) -> Result<Outcome, Error> {
        let export = self.named(name)?;
        let before = export.volume.dirty_share();
        let share =
            DirtyShare { min_percent: min.or(before.min_percent), max_percent: max.unwrap_or(before.max_percent) };
        if share != before {
            check_share(share).map_err(|e| e.within(format_args!("volume {name}")))?;
            let others =
                self.all().into_iter().filter(|other| other.entry.name == export.entry.name && other.name != name);
            let kept: u32 = others.filter_map(|other| other.volume.dirty_share().min_percent).map(u32::from).sum();
            if kept + u32::from(share.min_percent.unwrap_or(0)) > 100 {
                let why = format!("{kept} percent of the room are reserved for other volumes of the cache");
                return Err(Error::new(format_args!("volume {name}: dirty_share_min"), why).or("reserve less"));
            }
            export.volume.set_dirty_share(share);
        }
        if let Some(policy) = write_policy {
            export.volume.set_write_policy(policy);
        }
        match mode {
            Some(mode) => self.set_mode(name, mode).await,
            None if min.or(max).is_none() => {
                let policy = export.volume.write_policy();
                Ok(outcome(&export, format_args!("volume {name}: write policy {policy}, until the server ends")))
            }
            None => {
                let DirtyShare { min_percent, max_percent } = share;
                let min =
                    min_percent.map_or_else(|| "an equal part of half".to_owned(), |percent| format!("{percent} %"));
                let what = format!(
                    "volume {name}: {min} of the room for dirty data is kept for it, {max_percent} % it may take"
                );
                Ok(outcome(&export, format_args!("{what}, until the server ends")))
            }
        }
    }

    /// Pauses or resumes the caching of a volume's read misses.
    pub fn pause_fill(&self, name: &str, paused: bool) -> Result<Outcome, Error> {
        let export = self.named(name)?;
        export.volume.set_fill_paused(paused);
        let what = if paused {
            "are not cached, until this is switched on again or the server ends"
        } else {
            "are cached again"
        };
        tracing::info!("volume {name}: data of read misses {what}");
        Ok(outcome(&export, format_args!("volume {name}: data of read misses {what}")))
    }

    /// Changes the mode of a volume; a change to write-through ends when its origin is up to date.
    pub(super) async fn set_mode(&self, name: &str, mode: WriteMode) -> Result<Outcome, Error> {
        let export = self.named(name)?;
        let _turn = Turn::take(&export)?;
        let what = format!("volume {name}");
        let Some(guard) = &export.guard else {
            return Err(Error::new(what, "it is served without a cache").or("serve it with one"));
        };
        if export.volume.read_only() && mode == WriteMode::WriteBack {
            return Err(Error::new(what, "it is read-only and cannot be in write-back").or("serve it for writing"));
        }
        if mode == WriteMode::WriteBack && export.entry.cache.status().health != Health::Caching {
            return Err(Error::new(what, "its cache's device failed").or("replace the device, and restart the server"));
        }
        if !export.volume.is_attached() && mode == WriteMode::WriteBack {
            return Err(Error::new(what, "it is detached from its cache").or("attach it first: nitro cache attach"));
        }
        if mode == WriteMode::WriteBack && !export.volume.origin().is_owned().await {
            // The mark would take the place of the next owner's.
            return Err(Error::new(what, "its origin is not this server's any more").or("see nitro status"));
        }
        let needed = origin_of(&export.origin)?.needs_write_back();
        if let Some(why) = needed.filter(|_| mode == WriteMode::WriteThrough) {
            return Err(Error::new(what, why).or("leave it in write-back"));
        }
        if mode == WriteMode::WriteThrough {
            export.was_write_back.store(false, Ordering::SeqCst);
        }
        match mode {
            WriteMode::WriteBack => guard.raise().await?,
            WriteMode::WriteThrough => guard.release(),
        }
        if let Some(lease) = export.volume.origin().lease() {
            lease.set_mode(mode);
        }
        export.set_mode(mode).await.map_err(|e| export.left_behind(&e))?;
        export.unmark().await?;
        tracing::info!("volume {name}: {mode} from now on");
        Ok(outcome(&export, format_args!("volume {name}: {mode} from now on, until the server ends")))
    }

    /// A volume of a given cache.
    fn behind(&self, cache: &str, volume: &str) -> Result<Arc<VolumeExport>, Error> {
        let (entry, export) = (self.cache(cache)?, self.named(volume)?);
        let what = format!("volume {volume}");
        if export.entry.name != entry.name {
            return Err(Error::new(what, format_args!("it does not use cache {cache}"))
                .or(format_args!("it uses cache {}", export.entry.name)));
        }
        if export.guard.is_none() {
            return Err(Error::new(what, "it is served without a cache").or("serve it with one"));
        }
        Ok(export)
    }

    /// Serves a volume without its cache, after its origin is up to date.
    pub async fn detach(&self, cache: &str, volume: &str) -> Result<Outcome, Error> {
        let export = self.behind(cache, volume)?;
        let _turn = Turn::take(&export)?;
        if export.volume.is_attached() {
            export.was_write_back.store(export.volume.mode() == WriteMode::WriteBack, Ordering::SeqCst);
        }
        if let Some(guard) = &export.guard {
            guard.release();
        }
        if let Some(lease) = export.volume.origin().lease() {
            lease.set_mode(WriteMode::WriteThrough);
        }
        // The long part first, which may be given up.
        export.set_mode(WriteMode::WriteThrough).await.map_err(|e| export.left_behind(&e))?;
        export.volume.detach().await.map_err(|e| export.left_behind(&e))?;
        export.unmark().await?;
        tracing::info!("volume {volume}: detached from cache {cache}");
        Ok(outcome(
            &export,
            format_args!("volume {volume}: its origin is up to date; all requests go to it from now on"),
        ))
    }

    /// Serves a detached volume through its cache again, in its former mode.
    pub async fn attach(&self, cache: &str, volume: &str) -> Result<Outcome, Error> {
        let export = self.behind(cache, volume)?;
        let turn = Turn::take(&export)?;
        if export.volume.is_attached() {
            return Ok(outcome(&export, format_args!("volume {volume}: it is attached already")));
        }
        export.check_name().await?;
        export.volume.attach();
        tracing::info!("volume {volume}: attached to cache {cache}");
        drop(turn);
        if export.was_write_back.swap(false, Ordering::SeqCst) {
            self.set_mode(volume, WriteMode::WriteBack).await?;
        }
        let mode = export.volume.mode();
        Ok(outcome(&export, format_args!("volume {volume}: uses cache {cache} again, in {mode}")))
    }

    /// Gives the caches the configured sizes, if they were opened with others, while they are served.
    pub(super) fn apply_sizes(self: &Arc<Self>) {
        for (name, entry) in &self.caches {
            let Some(size_bytes) = entry.other_size else { continue };
            let (served, name) = (Arc::clone(self), name.clone());
            spawn_local(async move {
                if let Err(error) = served.resize(&name, size_bytes).await {
                    tracing::error!("{error}; the cache keeps the size that it has");
                }
            });
        }
    }

    /// Changes a cache's size.
    pub async fn resize(&self, cache: &str, size_bytes: u64) -> Result<Outcome, Error> {
        let entry = self.cache(cache)?;
        if entry.resizing.swap(true, Ordering::SeqCst) {
            let what = format!("cache {cache}");
            return Err(Error::new(what, "another command is resizing it").or("wait for its end, and try again"));
        }
        let resized = entry.resize(size_bytes).await;
        entry.resizing.store(false, Ordering::SeqCst);
        resized?;
        let capacity = Size(entry.cache.status().manager.weus * u64::from(entry.cache.settings().manager.weu_bytes));
        tracing::info!("cache {cache}: {} in total from now on", Size(size_bytes));
        let message = format!("cache {cache}: {} in total from now on, {capacity} of them for data", Size(size_bytes));
        let outlasts = self.in_force.source.as_ref().map(|source| source.file.clone());
        Ok(Outcome { message, config_file: outlasts, ..Outcome::default() })
    }

    /// Carries out an operation on a store whose objects are served.
    pub async fn act_on_store(self: &Arc<Self>, path: &Path, action: &CosAction) -> Result<Outcome, Error> {
        let store = origins::find(path).await.ok_or_else(|| origins::not_open(path))?;
        match action {
            // What the caches have and the object has not is to be in it.
            CosAction::Snapshot { name: source } | CosAction::Clone { source, .. } => {
                let object = source.split('@').next().unwrap_or_default();
                for export in
                    self.of_store(path).filter(|(_, origin)| origin.object == object).map(|(export, _)| export)
                {
                    self.flush(&export.name, true).await?;
                }
            }
            CosAction::Delete { names } => {
                self.check_unserved(path, |object| names.iter().any(|name| name == object))?
            }
            CosAction::Rename { old, .. } => {
                let is_snapshot = |object: &str| object.strip_prefix(old).is_some_and(|rest| rest.starts_with('@'));
                self.check_unserved(path, |object| object == old || is_snapshot(object))?;
            }
            _ => {}
        }
        let served: Vec<String> = self.of_store(path).map(|(_, origin)| origin.object).collect();
        let message = Box::pin(action.act(&store, path, &served)).await?;
        Ok(Outcome { message, ..Outcome::default() })
    }

    /// Changes a volume in a bucket that is served. A snapshot has what clients had written when it was asked for.
    ///
    /// # Errors
    /// It is not served here, or is open for reading only, or its data cannot be written back, or the store refuses.
    pub async fn act_on_bucket(self: &Arc<Self>, uri: &str, action: &BucketAction) -> Result<Outcome, Error> {
        let is_meant = |export: &&Arc<VolumeExport>| {
            origins::s3_volume_of(&export.origin).is_some_and(|(volume, snapshot)| volume == uri && snapshot.is_none())
        };
        let all = self.all();
        let export = all.iter().find(is_meant).ok_or_else(|| Error::new(uri, "it is not served here"))?;
        if matches!(action, BucketAction::Snapshot { .. }) {
            self.flush(&export.name, true).await?;
        }
        let Some(disk) = export.volume.origin().bucket() else { return Err(Error::new(uri, "it is in no bucket")) };
        let message = action.carry_out(uri, disk).await?;
        tracing::info!("{message}");
        match action {
            BucketAction::Grow { .. } => self.grow(&export.name).await,
            _ => Ok(outcome(export, message)),
        }
    }

    /// Checks that no object of a store is served that is meant.
    fn check_unserved(&self, path: &Path, is_meant: impl Fn(&str) -> bool) -> Result<(), Error> {
        let Some((export, _)) = self.of_store(path).find(|(_, origin)| is_meant(&origin.object)) else { return Ok(()) };
        let what = format_args!("store {}", path.display()).to_string();
        Err(Error::new(what, format_args!("volume {} is served from it", export.name))
            .or(format_args!("remove the volume first: nitro volume remove {}", export.name)))
    }

    /// Volumes that are objects of a store.
    pub(super) fn of_store(&self, path: &Path) -> impl Iterator<Item = (Arc<VolumeExport>, CosOrigin)> {
        let is_same = origins::same_store(path);
        self.all().into_iter().filter_map(move |export| {
            let origin = CosOrigin::of(&export.origin).ok().flatten()?;
            is_same(&origin).then_some((export, origin))
        })
    }

    /// Serves another origin.
    pub async fn add(&self, wanted: AddVolume) -> Result<Outcome, Error> {
        let name = wanted.volume.clone();
        if self.volume(&name).is_some() {
            let what = format!("volume {name}");
            return Err(Error::new(what, "a volume with that name exists already").or("choose another name"));
        }
        self.check_alone(&name, Some(&wanted.config))?;
        let entry = self.cache_of(&wanted)?;
        let config = VolumeConfig { cache: Some(entry.name.clone()), ..wanted.config };
        check_scan(config.detect_scan, entry.detects()).map_err(|e| e.within(format_args!("volume {name}")))?;
        let mode = check(&name, &config, entry.path.is_some())?;
        self.check_unit(&config.identity(&name, None)?)?;
        if config.folder().is_some() {
            let why = "a tree of files is mounted when a server starts";
            return Err(Error::new(format_args!("volume {name}"), why).or("run nitro mount"));
        }
        let origin = origin_of(&config.origin)?;
        if let Some(path) = origin.host_path() {
            own::refuse(path)?;
        }
        judge::check_mode(origin.as_ref(), &config, mode)?;
        let origin = origin.open(&name, &config).await?;
        let allowed = Allowed { discard_dirty: wanted.force_discard_dirty, accept_origin: wanted.accept_origin };
        let verdict = judge::judge(&entry, &name, &config, (&origin, mode), allowed).await?;
        let export = Arc::new(volumes::admit(&entry, &name, &config, mode, origin, verdict).await?);
        self.take(Arc::clone(&export));
        self.in_force.note_added(&name, &config);
        let uris = self.uris_of(&export);
        tracing::info!("volume {name}: served from now on");
        Ok(Outcome { uris, ..outcome(&export, format_args!("volume {name}: served from now on")) })
    }

    fn cache_of(&self, wanted: &AddVolume) -> Result<Arc<super::CacheEntry>, Error> {
        self.the_cache(wanted.config.cache.as_deref()).map_err(|e| e.within(format_args!("volume {}", wanted.volume)))
    }

    /// A cache by its name, which is optional if there is only one.
    pub(super) fn the_cache(&self, name: Option<&str>) -> Result<Arc<super::CacheEntry>, Error> {
        if let Some(name) = name {
            return self.cache(name);
        }
        let names = || self.caches.keys().cloned().collect::<Vec<_>>().join(", ");
        match self.caches.values().next() {
            Some(only) if self.caches.len() == 1 => Ok(Arc::clone(only)),
            Some(_) => Err(Error::new("cache", "there are several").or(format!("name one with --cache: {}", names()))),
            None => Err(Error::new("cache", "there is none")),
        }
    }

    /// A cache by its name.
    pub fn cache(&self, name: &str) -> Result<Arc<super::CacheEntry>, Error> {
        self.caches.get(name).cloned().ok_or_else(|| {
            let names = self.caches.keys().cloned().collect::<Vec<_>>().join(", ");
            Error::new(format_args!("cache {name}"), "there is no cache with that name")
                .or(format!("there is: {names}"))
        })
    }

    /// Stops serving a volume: its clients are disconnected, its origin is brought up to date, and the cache removes
    /// it. A volume that is not served is only removed from the cache.
    pub async fn remove(&self, name: &str, discard_dirty: bool) -> Result<Outcome, Error> {
        self.check_alone(name, None)?;
        let Some(export) = self.volume(name) else { return self.forget(name, discard_dirty).await };
        let _turn = Turn::take(&export)?;
        if !export.volume.read_only() {
            // Most of it while it is still served.
            destage(&export, discard_dirty).await?;
        }
        self.volumes.write().retain(|other| other.name != name);
        export.gone.set();
        export.throttle.set_over(true);
        if export.clients.drain(sleep(DRAIN_MAX), &export.cut).await == Drain::Cut {
            tracing::warn!(
                "volume {name}: some clients did not disconnect within {} s; their connections were closed",
                DRAIN_MAX.as_secs()
            );
        }
        let discarded = match self.take_leave(&export, discard_dirty).await {
            Ok(discarded) => discarded,
            Err(error) => {
                // As it was, but for its clients.
                export.gone.clear();
                export.throttle.set_over(false);
                export.cut.clear();
                self.volumes.write().push(Arc::clone(&export));
                return Err(error);
            }
        };
        export.volume.classify_by(None);
        export.set_shares(&VolumeConfig::default());
        export.ended.set();
        self.in_force.note_gone(name);
        tracing::info!("volume {name}: removed");
        let message = match discarded.0 {
            0 => format!("volume {name}: removed; its origin is up to date"),
            _ => format!("volume {name}: removed; {discarded} of dirty data are discarded"),
        };
        Ok(outcome(&export, message))
    }

    /// Returns the amount of discarded data.
    async fn take_leave(&self, export: &VolumeExport, discard_dirty: bool) -> Result<Size, Error> {
        let volume = &export.volume;
        if !volume.read_only() {
            destage(export, discard_dirty).await?;
            volume.flush().await.map_err(|e| failed(export, &e))?;
            volume.close_regions(true).await.map_err(|e| failed(export, &e))?;
        }
        let mut discarded = Size(0);
        if volume.dirty_extents() > 0 && discard_dirty {
            discarded = Size(export.dirty_bytes());
            tracing::warn!("volume {}: {discarded} of dirty data are discarded", export.name);
            volume.discard_dirty().await.map_err(|e| failed(export, &e))?;
        }
        if volume.dirty_extents() > 0 {
            let why =
                format!("{} of its dirty data cannot be read from the cache any more", Size(export.dirty_bytes()));
            return Err(Error::new(format_args!("volume {}", export.name), why)
                .or("overwrite those ranges (nitro status lists them), or give --force-discard-dirty"));
        }
        if let Some(lease) = volume.origin().lease() {
            lease.pause();
        }
        if export.entry.known(&export.name).is_some() {
            volume.remove().await.map_err(|e| failed(export, &e))?;
        }
        if let Some(guard) = &export.guard {
            guard.release();
        }
        export.unmark().await?;
        Ok(discarded)
    }

    /// Removes a volume that is not served from all caches.
    async fn forget(&self, name: &str, discard_dirty: bool) -> Result<Outcome, Error> {
        let what = format!("volume {name}");
        let found = self.caches.values().find_map(|entry| Some((entry, entry.known(name)?)));
        let Some((entry, (object, known))) = found else {
            return Err(Error::new(what, "it is not served here, and no cache knows it").or("see nitro volume list"));
        };
        let dirty_bytes = entry.dirty_bytes(object, &known);
        if dirty_bytes > 0 && !discard_dirty {
            let why = format!("cache {} holds {} of dirty data of it", entry.name, Size(dirty_bytes));
            return Err(Error::new(what, why).or(
                "add it, so that its origin is brought up to date, or give --force-discard-dirty to lose those data",
            ));
        }
        entry.discard(object, &known).await?;
        let message = match dirty_bytes {
            0 => format!("volume {name}: cache {} has forgotten it", entry.name),
            _ => format!("volume {name}: cache {} has forgotten it; {} are discarded", entry.name, Size(dirty_bytes)),
        };
        tracing::info!("{message}");
        Ok(Outcome { message, ..Outcome::default() })
    }
}

/// Brings an origin up to date; if `discard_dirty` is set, an error is only logged.
async fn destage(export: &VolumeExport, discard_dirty: bool) -> Result<(), Error> {
    match export.destage_all().await {
        Err(error) if discard_dirty => {
            tracing::warn!("{}", export.left_behind(&error));
            Ok(())
        }
        destaged => destaged.map_err(|e| export.left_behind(&e)),
    }
}

/// Checks a volume to be added like one in a configuration file; returns its mode.
fn check(name: &str, config: &VolumeConfig, has_cache: bool) -> Result<Mode, Error> {
    let cache = config.cache.clone().unwrap_or_default();
    let path = if has_cache { CacheStore::Paths(vec![cache.clone().into()]) } else { CacheStore::None };
    let whole = Config {
        caches: BTreeMap::from([(cache, nitro_config::CacheConfig::new(path))]),
        volumes: BTreeMap::from([(name.to_owned(), config.clone())]),
        ..Config::default()
    };
    whole.check()?;
    Ok(whole.mode_of(name))
}
