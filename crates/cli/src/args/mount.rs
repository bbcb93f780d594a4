//! `nitro mount`

use super::serve::{CACHE_NAME, values};
use clap::{ArgMatches, Args};
use nitro_config::{
    Address, CacheConfig, Config, FILES_SCHEME, FIRST, HttpAddress, Scope, ServerConfig, VolumeConfig, help,
};
use nitro_console::error::Error;
use nitro_server::origins::origin_of;
use nitro_server::serve::Values;
use std::ffi::OsString;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  Put 4 GiB of SSD in front of a directory on a hard disk:
    nitro mount /slow/photos /mnt/photos --cache /fast/photos.cache --cache-size 4G
  For all users of the machine, by root:
    nitro mount /slow/home /mnt/home --cache /dev/nvme0n1p3 --allow-other
  Look on:
    nitro status
  End it:
    fusermount3 -u /mnt/photos

When the directory is mounted, the command prints a line on standard output that begins with \"ready\"; it ends when the directory is
unmounted, or with SIGTERM or SIGINT, which unmount it. If it was killed, the mountpoint answers \"Transport endpoint is not connected\"
until fusermount3 -u MOUNTPOINT; what was cached is used by the next nitro mount.
Writes go to the directory before they are acknowledged. Programs that use the directory itself at the same time see them at once; what
these programs change is seen through the mount when a file is opened the next time. docs/guide/files.md describes this.";

#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct MountArgs {
    /// The directory whose files are cached
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Where it is mounted: an existing directory outside of DIR
    mountpoint: PathBuf,
    #[arg(help_heading = FIRST, long = "cache", value_name = "PATH", required = true, help = help(Scope::Cache, "path"))]
    path: Vec<PathBuf>,
    /// Name of the volume, for nitro status and the other commands; by default the directory's name
    #[arg(help_heading = FIRST, long)]
    name: Option<String>,
    /// Refuse all changes
    #[arg(help_heading = FIRST, long = "read-only")]
    read_only: bool,
    #[arg(help_heading = FIRST, long, help = help(Scope::Server, "allow_other"))]
    allow_other: bool,
    #[arg(help_heading = FIRST, long, value_name = "PATH", help = help(Scope::Server, "control"))]
    control: Option<PathBuf>,
    #[arg(help_heading = FIRST, long, value_name = "ADDRESS", help = help(Scope::Server, "http"))]
    http: Option<HttpAddress>,
    #[command(flatten, next_help_heading = "Cache")]
    cache: CacheConfig,

    /// The arguments of the process.
    #[arg(skip)]
    pub(super) matches: ArgMatches,
}

impl MountArgs {
    /// The configuration of the server that mounts the directory.
    pub(crate) fn config(&self) -> Result<Config, Error> {
        let mut origin = OsString::from(format!("{FILES_SCHEME}:"));
        origin.push(&self.folder);
        let name = match &self.name {
            Some(name) => name.clone(),
            None => origin_of(origin.as_ref())?.volume_name(),
        };
        let cache = CacheConfig { path: self.path.clone().into(), ..self.cache.clone() };
        let volume = VolumeConfig {
            origin: origin.into(),
            cache: Some(CACHE_NAME.to_owned()),
            mode: cache.mode,
            read_only: self.read_only,
            ..VolumeConfig::default()
        };
        let server = ServerConfig {
            listen: vec![Address::Fuse(self.mountpoint.clone())],
            allow_other: self.allow_other,
            control: self.control.clone(),
            http: self.http.clone(),
            ..ServerConfig::default()
        };
        let (caches, volumes) = ([(CACHE_NAME.to_owned(), cache)].into(), [(name, volume)].into());
        let config = Config { server, caches, volumes, ..Config::default() };
        config.check()?;
        Ok(config)
    }

    /// What options set, by the keys of a configuration file.
    pub(crate) fn given(&self) -> Values {
        let volume = self.config().ok().and_then(|config| config.volumes.into_keys().next()).unwrap_or_default();
        values(&self.matches, &volume)
    }
}
