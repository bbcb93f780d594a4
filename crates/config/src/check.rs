//! Checks of a configuration that need no access to devices.

use super::cache::{FingerprintIndexName, FingerprintName, SHA1_REFUSED};
use super::text::nearest;
use super::{Address, CacheConfig, CacheStore, Config, Mode, ServerConfig, TlsMode, VhostAddress, VolumeConfig};
use nitro_cache::IndexKind;
use nitro_cache::admission::AdmissionKind;
use nitro_cache::settings::{EXTENT_BYTES, FINGERPRINT_INDEX_RATIO, WEU_BYTES};
use nitro_console::error::Error;
use nitro_console::size::Size;
use nitro_engine::DirtyShare;
use std::collections::BTreeMap;

/// Longest name of an export ("Values" of names in the NBD protocol: 4096 bytes; here short enough for a file name).
const NAME_BYTES_MAX: usize = 200;

/// Percentage of the time of a store's disk that may be reserved for volumes: background work has a share, too.
const RESERVED_MAX: u32 = 90;

impl Config {
    /// Checks the configuration.
    ///
    /// # Errors
    /// The first error, with its remedy.
    pub fn check(&self) -> Result<(), Error> {
        self.errors().into_iter().next().map_or(Ok(()), Err)
    }

    /// The errors of the configuration, each with its remedy: the first of each section, and of what concerns several.
    #[must_use]
    pub fn errors(&self) -> Vec<Error> {
        if self.volumes.is_empty() {
            return vec![Error::new("volumes", "there is nothing to serve").or("add a section such as [volume.vm]")];
        }
        let caches = self.caches.iter();
        let caches = caches.map(|(name, cache)| cache.check().map_err(|e| e.within(format_args!("cache.{name}"))));
        let volumes = self.volumes.iter().map(|(name, volume)| self.check_volume(name, volume));
        let mut all = vec![self.server.check(), self.check_listen()];
        all.extend(caches.chain(volumes));
        all.extend([self.check_files(), self.check_identities(), self.check_accounts(), self.check_clients()]);
        // A volume without a cache is told of above.
        if self.volumes.keys().all(|name| self.cache_of(name).is_ok()) {
            all.push(self.check_shares());
        }
        all.extend([self.check_reservations(), self.check_cluster()]);
        all.into_iter().filter_map(Result::err).collect()
    }

    /// Checks that a socket for one volume is not to be that of several.
    fn check_listen(&self) -> Result<(), Error> {
        let is_single = |address: &Address| matches!(address.vhost(), Some(VhostAddress::Socket(_)));
        if self.volumes.len() > 1
            && let Some(VhostAddress::Socket(path)) =
                self.server.listen.iter().find(|a| is_single(a)).and_then(Address::vhost)
        {
            let why = format!("vhost:{} is for one volume, and there are {}", path.display(), self.volumes.len());
            return Err(Error::new("listen", why).or("give vhost:FOLDER/, where each volume has a socket of its own"));
        }
        Ok(())
    }

    /// Checks that a tree of files is mounted, alone, and that nothing else is mounted.
    fn check_files(&self) -> Result<(), Error> {
        let tree = self.volumes.iter().find(|(_, volume)| volume.folder().is_some());
        let (Some((name, volume)), listen) = (tree, &self.server.listen) else {
            return match self.server.listen.iter().find(|address| address.mountpoint().is_some()) {
                Some(address) => {
                    Err(Error::new("listen", format_args!("{address} is for a tree of files, and there is none"))
                        .or("serve an origin files:DIR, or leave it out"))
                }
                None => Ok(()),
            };
        };
        let what = format!("volume.{name}");
        if self.volumes.len() > 1 || listen.len() != 1 || listen.iter().any(|address| address.mountpoint().is_none()) {
            let why =
                format!("{} is a tree of files, which is mounted by a server of its own", volume.origin.display());
            return Err(
                Error::new(what, why).or("run nitro mount, or give listen = [\"fuse:MOUNTPOINT\"] and no other volume")
            );
        }
        if self.mode_of(name) == Mode::WriteBack {
            return Err(Error::new(what, "files are served in write-through only").or("leave out mode"));
        }
        let cache = self.cache_of(name).ok().and_then(|cache| self.caches.get(cache));
        if cache.is_some_and(|cache| cache.admission == Some(AdmissionKind::TwoLevelStatic)) {
            let why = "two-level-static counts the accesses to a whole volume, and files have no fixed size";
            return Err(Error::new(what, why).or("use another policy of admission"));
        }
        Ok(())
    }

    fn check_volume(&self, name: &str, volume: &VolumeConfig) -> Result<(), Error> {
        check_name(name)?;
        let cache = self.caches.get(self.cache_of(name)?);
        volume.check(name)?;
        volume.check_points(self.mode_of(name)).map_err(|e| e.within(format_args!("volume.{name}")))?;
        let detects = cache.is_some_and(CacheConfig::detects);
        check_scan(volume.detect_scan, detects).map_err(|e| e.within(format_args!("volume.{name}")))
    }

    /// Checks that what restricts NBD clients exists.
    fn check_clients(&self) -> Result<(), Error> {
        let server = &self.server;
        for (name, volume) in &self.volumes {
            if !volume.nbd_clients.is_empty() && server.tls_client_ca.is_none() {
                let why = "without tls_client_ca, no client has a certificate";
                return Err(Error::new(format_args!("volume.{name}.nbd_clients"), why)
                    .or("set tls_client_ca in [server], or leave it out"));
            }
            let is_unknown = |socket: &&Address| !server.listen.is_empty() && !server.listen.contains(socket);
            if let Some(unknown) = volume.sockets.iter().find(is_unknown) {
                let what = format!("volume.{name}.sockets = \"{unknown}\"");
                return Err(Error::new(what, "the server does not listen there")
                    .or("name addresses as they are in listen of [server]"));
            }
        }
        Ok(())
    }

    /// Checks that the shares reserved for the volumes of a cache do not exceed the cache's room.
    fn check_shares(&self) -> Result<(), Error> {
        let mut kept = BTreeMap::<&str, u32>::new();
        for (name, volume) in &self.volumes {
            *kept.entry(self.cache_of(name)?).or_default() += u32::from(volume.dirty_share_min.unwrap_or(0));
        }
        match kept.into_iter().find(|(_, percent)| *percent > 100) {
            Some((cache, percent)) => {
                let why = format!("the volumes of cache {cache} reserve {percent} percent of its room for dirty data");
                Err(Error::new("dirty_share_min", why).or("reserve at most 100 percent in total"))
            }
            None => Ok(()),
        }
    }

    /// Checks that no more of a store's disk is reserved than there is.
    fn check_reservations(&self) -> Result<(), Error> {
        let mut reserved = BTreeMap::<&str, u32>::new();
        for volume in self.volumes.values() {
            if let (Some(store), Some(percent)) = (volume.store(), volume.reservation) {
                *reserved.entry(store).or_default() += u32::from(percent);
            }
        }
        match reserved.into_iter().find(|(_, percent)| *percent > RESERVED_MAX) {
            Some((store, percent)) => {
                let why = format!("{percent} percent of the disk of store {store} are reserved for volumes");
                Err(Error::new("reservation", why).or(format_args!("reserve at most {RESERVED_MAX} percent in total")))
            }
            None => Ok(()),
        }
    }

    /// The mode of a volume: its own setting, or that of its cache.
    #[must_use]
    pub fn mode_of(&self, volume: &str) -> Mode {
        let Some(config) = self.volumes.get(volume) else { return Mode::WriteThrough };
        let cache = self.cache_of(volume).ok().and_then(|cache| self.caches.get(cache));
        match (config.mode, cache) {
            _ if config.read_only => Mode::WriteThrough,
            (_, Some(cache)) if cache.path == CacheStore::None => Mode::WriteThrough,
            (Some(mode), _) => mode,
            (None, cache) => cache.and_then(|cache| cache.mode).unwrap_or_default(),
        }
    }

    /// The name of a volume's cache.
    ///
    /// # Errors
    /// The volume names a cache that does not exist, or names none although there are several.
    pub fn cache_of(&self, volume: &str) -> Result<&str, Error> {
        let what = format!("volume.{volume}.cache");
        match self.volumes.get(volume).and_then(|v| v.cache.as_deref()) {
            Some(cache) => match self.caches.get_key_value(cache) {
                Some((name, _)) => Ok(name),
                None => Err(Error::new(what, format_args!("there is no cache {cache:?}")).or(
                    match nearest(cache, self.caches.keys().map(String::as_str)) {
                        Some(near) => format!("did you mean {near:?}?"),
                        None => format!("add a section [cache.{cache}]"),
                    },
                )),
            },
            None => match self.caches.keys().next() {
                Some(only) if self.caches.len() == 1 => Ok(only),
                Some(_) => Err(Error::new(what, "there are several caches").or("name the one to use")),
                None => Err(Error::new(what, "there is no cache")
                    .or("add a section such as [cache.fast], with path = \"none\" to go without")),
            },
        }
    }
}

fn check_name(name: &str) -> Result<(), Error> {
    let fine = !name.is_empty() && name.len() <= NAME_BYTES_MAX && !name.contains(|c: char| c.is_control() || c == '/');
    if fine {
        return Ok(());
    }
    let rule = format!("use 1 to {NAME_BYTES_MAX} characters, without slashes");
    Err(Error::new(format_args!("volume {name:?}"), "the name cannot be used").or(rule))
}

impl CacheConfig {
    /// Checks the list of devices.
    fn check_paths(&self) -> Result<(), Error> {
        let CacheStore::Paths(paths) = &self.path else { return Ok(()) };
        let most = nitro_engine::format::superblock::DEVICES_MAX as usize;
        if paths.is_empty() || paths.len() > most {
            return Err(Error::new("path", format_args!("{} devices are listed", paths.len()))
                .or(format_args!("list 1 to {most}, or none to serve without a cache")));
        }
        if let Some(path) = paths.iter().find(|path| path.as_os_str().is_empty()) {
            return Err(Error::new("path", format_args!("{path:?} is no path")).or("name a file or block device"));
        }
        if paths.len() > 1 && paths.iter().any(|path| path.as_os_str() == "none") {
            return Err(Error::new("path", "none is no device").or("list devices only, or none alone"));
        }
        let twice = paths.iter().enumerate().find(|(at, path)| paths[..*at].contains(path));
        match twice {
            Some((_, path)) => Err(Error::new("path", format_args!("{} is listed twice", path.display()))
                .or("list each device of the cache once")),
            None => Ok(()),
        }
    }

    fn check(&self) -> Result<(), Error> {
        if self.path == CacheStore::None && self.mode == Some(Mode::WriteBack) {
            return Err(Error::new("mode", "write-back requires a cache").or("name a cache"));
        }
        self.check_paths()?;
        self.check_fingerprint()?;
        if self.path == CacheStore::None && self.write_log.is_some() {
            return Err(Error::new("write_log", "a write log requires a cache").or("leave it out, or name a path"));
        }
        if self.write_log.is_none() && self.write_log_size.is_some() {
            return Err(Error::new("write_log_size", "it requires a write log").or("name its device: write_log"));
        }
        if self.endurance.is_none() && self.drive_size.is_some() {
            return Err(Error::new("drive_size", "it has no effect without an endurance").or("set endurance"));
        }
        if self.path == CacheStore::None && self.classes.is_some() {
            return Err(Error::new("classes", "classes require a cache").or("leave it out, or name a path"));
        }
        if self.path == CacheStore::None && self.size.is_some_and(|size| size.0 > 0) {
            return Err(Error::new("size", "a size requires a cache").or("leave it out, or name a path"));
        }
        let refuse = |error: nitro_cache::SettingError| {
            let (what, value, nearest) = (error.name, error.value, error.nearest);
            Error::new(format_args!("{what} = {value}"), error.reason)
                .or(format_args!("the nearest valid value is {nearest}"))
        };
        for (setting, value) in [
            (EXTENT_BYTES, self.extent_size.map(|size| size.0)),
            (WEU_BYTES, self.weu_size.map(|size| size.0)),
            (FINGERPRINT_INDEX_RATIO, self.fingerprint_index_ratio.map(u64::from)),
        ] {
            value.map_or(Ok(0), |value| setting.check(value)).map_err(refuse)?;
        }
        self.check_bounds()?;
        self.check_index()?;
        self.check_dirty()
    }
}

impl CacheConfig {
    /// Refuses a hash that is not safe.
    pub fn check_fingerprint(&self) -> Result<(), Error> {
        match self.fingerprint {
            Some(FingerprintName::Sha1) => Err(Error::new("fingerprint = sha1", SHA1_REFUSED)
                .or("leave it out: blake3 is the default (nitro-lab sim and nitro-lab reproduce follow the paper without it)")),
            Some(FingerprintName::Blake3) | None => Ok(()),
        }
    }

    /// Refuses a second place for the fingerprints of a lean index.
    fn check_index(&self) -> Result<(), Error> {
        let is_on_flash = self.fingerprint_index.is_some_and(FingerprintIndexName::is_on_flash);
        let is_partial = self.fingerprint_index_ratio.is_some_and(|percent| percent < 100);
        if self.index == Some(IndexKind::Lean) && (is_on_flash || is_partial) {
            return Err(Error::new("index = lean", "it has tags of all fingerprints, and those are in RAM")
                .or("leave fingerprint_index and fingerprint_index_ratio out"));
        }
        Ok(())
    }

    fn check_dirty(&self) -> Result<(), Error> {
        let defaults = self.engine_settings(0);
        let (start, max) = (defaults.dirty_start_percent, defaults.dirty_max_percent);
        if start > max {
            let why = format!("is above dirty_max = {max}");
            return Err(
                Error::new(format_args!("dirty_start = {start}"), why).or("destage must begin before writers wait")
            );
        }
        Ok(())
    }
}

impl VolumeConfig {
    fn check(&self, name: &str) -> Result<(), Error> {
        if self.dedup_domain.as_ref().is_some_and(|domain| domain.is_empty() || domain.len() > NAME_BYTES_MAX) {
            let what = format!("volume.{name}.dedup_domain");
            return Err(Error::new(what, format_args!("a name has 1 to {NAME_BYTES_MAX} bytes"))
                .or("leave it out to share with all volumes that name none"));
        }
        self.check_bounds().map_err(|e| e.within(format_args!("volume.{name}")))?;
        if let Some(size) = self.block_size.filter(|size| !matches!(size.0, 512 | 4096)) {
            let what = format!("volume.{name}.block_size = {}", size.0);
            return Err(Error::new(what, "there are no blocks of that size").or("use 512 or 4096"));
        }
        for (key, is_set) in [("weight", self.weight.is_some()), ("reservation", self.reservation.is_some())] {
            if is_set && self.store().is_none() {
                let what = format!("volume.{name}.{key}");
                return Err(Error::new(
                    what,
                    "it has no effect: the origin is not an object of a store (cos:STORE#OBJECT)",
                )
                .or("leave it out; iops and bandwidth limit any volume"));
            }
        }
        if self.burst.is_some() && self.iops.is_none() && self.bandwidth.is_none() {
            let what = format!("volume.{name}.burst");
            return Err(
                Error::new(what, "it has no effect without a limit").or("set iops or bandwidth, or leave it out")
            );
        }
        if self.read_only && self.mode == Some(Mode::WriteBack) {
            let what = format!("volume.{name}.mode");
            return Err(Error::new(what, "a read-only volume cannot be in write-back").or("leave out one of the two"));
        }
        self.iscsi_allowed().map_err(|e| e.within(format_args!("volume.{name}")))?;
        check_share(self.dirty_share()).map_err(|e| e.within(format_args!("volume.{name}")))
    }
}

impl VolumeConfig {
    /// Checks the settings of its consistent points.
    ///
    /// # Errors
    /// A setting has no effect.
    pub fn check_points(&self, mode: Mode) -> Result<(), Error> {
        if self.points && mode != Mode::WriteBack {
            return Err(Error::new("points", "in write-through, the origin is never behind")
                .or("leave it out, or set mode = \"write-back\""));
        }
        for (key, is_set) in [("max_age", self.max_age.is_some()), ("max_bytes", self.max_bytes.is_some())] {
            if is_set && !self.points {
                return Err(Error::new(key, "it has no effect without points").or("set points = true, or leave it out"));
            }
        }
        Ok(())
    }
}

/// Checks a volume's share of its cache's room for dirty data.
///
/// # Errors
/// The share is invalid.
pub fn check_share(share: DirtyShare) -> Result<(), Error> {
    let (min, max) = (share.min_percent.unwrap_or(0), share.max_percent);
    if !(1..=100).contains(&max) {
        return Err(Error::new(format_args!("dirty_share_max = {max}"), "must be 1 to 100 percent"));
    }
    if min > max {
        let why = format!("is above dirty_share_max = {max}");
        return Err(Error::new(format_args!("dirty_share_min = {min}"), why).or("choose a smaller one"));
    }
    Ok(())
}

/// Checks a volume's scan; `detects`: whether its cache detects classes.
///
/// # Errors
/// The scan is not possible.
pub fn check_scan(rate: Option<Size>, detects: bool) -> Result<(), Error> {
    if rate.is_some() && !detects {
        let why = "the cache of this volume does not detect classes";
        return Err(Error::new("detect_scan", why).or("name a cache with detect = true, or leave it out"));
    }
    Ok(())
}

impl ServerConfig {
    fn check(&self) -> Result<(), Error> {
        self.check_bounds()?;
        self.iscsi.allowed()?;
        if self.http_token_file.is_some() && self.http.is_none() {
            return Err(Error::new("http_token_file", "HTTP is not served").or("set http, too"));
        }
        if self.otlp_sample.is_some() && self.otlp.is_none() {
            return Err(Error::new("otlp_sample", "it has no effect without a collector").or("set otlp"));
        }
        self.check_etcd()?;
        let has_files = self.tls_cert.is_some() || self.tls_key.is_some() || self.tls_client_ca.is_some();
        match self.tls.unwrap_or_default() {
            TlsMode::Off if has_files => {
                Err(Error::new("tls", "certificates are given but TLS is off").or("set tls to on or required"))
            }
            TlsMode::On | TlsMode::Required if self.tls_cert.is_none() || self.tls_key.is_none() => {
                Err(Error::new("tls", "it needs a certificate and its key").or("give tls_cert and tls_key"))
            }
            _ => Ok(()),
        }
    }
}
