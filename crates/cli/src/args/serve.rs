//! `nitro serve`

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, FromArgMatches};
use nitro_config::{
    CacheConfig, Config, ConfigError, FIRST, KeyPath, Kind, Scope, ServerConfig, Setting, VolumeConfig, help,
};
use nitro_console::error::Error;
use nitro_server::origins::origin_of;
use nitro_server::serve::{Source, Values};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  Put 4 GiB of SSD in front of a VM image; the socket's NBD URI is printed:
    nitro serve --origin vm.img --cache /fast/cache.img --cache-size 4G
  Listen on the standard NBD port, with a RAM cache of 1 GiB:
    nitro serve --origin /dev/sdb --cache /dev/nvme0n1p3 --listen tcp:0.0.0.0:10809 --ram 1G
  Serve an object of a deduplicating store that `nitro cos` created:
    nitro serve --origin cos:/srv/store#vm1 --cache /fast/cache.img --cache-size 4G
  Serve the origin without a cache, as slow as a 7200 rpm disk, for comparison:
    nitro serve --origin vm.img --cache none --emulate-disk 7200
  Serve an image only while a command runs, here one that shows information about it:
    nitro serve --origin vm.img --cache none --run 'nbdinfo \"$NITRO_URI\"'
  Several caches and volumes:
    nitro serve --config /etc/nitro.toml
  where that file contains, for instance:
    [server]
    listen = [\"unix:/run/nitro/nbd.sock\", \"tcp:127.0.0.1:10809\"]
    control = \"/run/nitro/control.sock\"
    [cache.fast]
    path = \"/fast/cache.img\"
    size = \"4G\"
    compression = \"zstd\"
    [volume.vm]
    origin = \"/slow/vm.img\"
    mode = \"write-back\"
    [volume.db]
    origin = \"/dev/sdb\"
    cache = \"fast\"
    read_only = true

The keys are the names of the options, with underscores. When clients can connect, the server prints a line on standard
output that begins with \"ready\" and lists the URIs, and notifies the service manager. SIGTERM and SIGINT shut the server down in
order, as does SIGHUP without a configuration file or on a terminal; otherwise SIGHUP reloads the configuration file, as nitro reload
does. A second SIGTERM or SIGINT leaves dirty data in the cache, a third ends the server at once.
nitro.toml(5) describes all keys; nitro check FILE checks a file.
Sizes are bytes, or a number with K, M, G, T or P (powers of 1024).";

/// The heading of options of the server.
const SERVER: &str = "Server";

#[derive(Debug, Clone, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct ServeArgs {
    /// TOML file with [server], [cache.NAME] and [volume.NAME]; server options on the command line override it; options
    /// of volumes and caches cannot be used together with it
    #[arg(help_heading = FIRST, long, value_name = "FILE", conflicts_with_all = ["origin", "name", "path", "VolumeConfig", "CacheConfig"])]
    config: Option<PathBuf>,

    #[arg(help_heading = FIRST, long, value_name = "PATH", requires = "path", required_unless_present = "config", help = help(Scope::Volume, "origin"))]
    origin: Option<PathBuf>,
    /// Name of the volume and its export; by default the origin's file name without its extension
    #[arg(help_heading = FIRST, long, requires = "origin")]
    name: Option<String>,
    #[command(flatten, next_help_heading = "Volume")]
    volume: VolumeConfig,

    #[arg(help_heading = FIRST, long = "cache", value_name = "PATH", requires = "origin", help = help(Scope::Cache, "path"))]
    path: Vec<PathBuf>,
    #[command(flatten, next_help_heading = "Cache")]
    cache: CacheConfig,

    #[command(flatten, next_help_heading = SERVER)]
    server: ServerConfig,
    /// Serve while this command runs, then end with its exit code; in its environment, NITRO_URI is the first volume's
    /// URI, and NITRO_URIS has all of them
    #[arg(help_heading = SERVER, long, value_name = "COMMAND")]
    run: Option<String>,
    /// Discard dirty data that prevent the start: those of an origin that another program changed, or that is marked as
    /// belonging to another cache; those in a cache that is to be formatted; and those in a missing write log
    #[arg(help_heading = SERVER, long)]
    force_discard_dirty: bool,
    /// Accept the origin of this volume although its cache does not recognise it (it was moved to another disk, or restored): the
    /// cache's dirty data are written to it, and clean data are dropped. May be repeated
    #[arg(help_heading = SERVER, long, value_name = "VOLUME")]
    accept_origin: Vec<String>,

    /// The arguments of the process.
    #[arg(skip)]
    pub(super) matches: ArgMatches,
}

/// The value of an option in the form of a configuration file.
fn value_of(kind: Kind, mut texts: Vec<String>) -> Value {
    match (kind, texts.pop()) {
        (Kind::Switch, text) => Value::from(text.is_none_or(|text| text != "off" && text != "false")),
        (Kind::List, last) => texts.into_iter().chain(last).collect(),
        (_, Some(last)) if !texts.is_empty() => texts.into_iter().chain([last]).collect(),
        (Kind::Percent | Kind::Number, Some(text)) => text.parse::<u64>().map_or(Value::from(text), Value::from),
        (_, text) => Value::from(text),
    }
}

/// What options of a command line set, by the keys of a configuration file. `volume`: the name of the volume.
pub(super) fn values(matches: &ArgMatches, volume: &str) -> Values {
    let sections = [(Scope::Server, ""), (Scope::Cache, CACHE_NAME), (Scope::Volume, volume)];
    let settings =
        sections.into_iter().flat_map(|(scope, name)| scope.settings().iter().map(move |setting| (name, setting)));
    let of = |(name, setting): (&str, &'static Setting)| {
        let id = setting.key;
        let is_option = matches!(matches.try_contains_id(id), Ok(true));
        (is_option && matches.value_source(id) == Some(ValueSource::CommandLine)).then_some(())?;
        let texts = matches.get_raw(id).into_iter().flatten().map(|text| text.to_string_lossy().into_owned());
        let path = KeyPath { scope: setting.scope, name: name.to_owned(), setting };
        Some((path.to_string(), value_of(setting.kind, texts.collect())))
    };
    // --mode is the cache's.
    settings.filter(|(_, setting)| (setting.scope, setting.key) != (Scope::Volume, "mode")).filter_map(of).collect()
}

/// The name of the cache, if it is configured by options.
pub(super) const CACHE_NAME: &str = "cache";

impl ServeArgs {
    /// The configuration from the file and the options.
    pub(crate) fn config(&self) -> Result<Config, Error> {
        match &self.config {
            Some(path) => {
                let text = fs::read_to_string(path)
                    .map_err(|e| Error::new(path.display(), e).or("check the path given with --config"))?;
                self.of_file(&text).map_err(|e| e.in_file(path))
            }
            None => self.with_options(self.options_config()?),
        }
    }

    /// The command of `--run`, for whose duration the server runs.
    pub(crate) fn command(&self) -> Option<&str> {
        self.run.as_deref()
    }

    /// The configuration file and how to parse it again; `None` without one.
    pub(crate) fn source(&self) -> Result<Option<Source>, Error> {
        let Some(path) = &self.config else { return Ok(None) };
        let file = std::path::absolute(path).map_err(|e| Error::new(path.display(), e))?;
        let args = self.clone();
        Ok(Some(Source { file, parse: Box::new(move |text| args.of_file(text)) }))
    }

    /// What options of the command line set, by the keys of a configuration file.
    pub(crate) fn given(&self) -> Values {
        let volume = self.config.is_none().then(|| self.options_config().ok()).flatten();
        let volume = volume.and_then(|config| config.volumes.into_keys().next()).unwrap_or_default();
        values(&self.matches, &volume)
    }

    /// The configuration from the text of a file and the options.
    fn of_file(&self, text: &str) -> Result<Config, ConfigError> {
        let config = Config::parse(text)?;
        self.with_options(config).map_err(|error| {
            let (problem, way_out) = error.into_parts();
            ConfigError { line: None, problem, way_out }
        })
    }

    fn with_options(&self, mut config: Config) -> Result<Config, Error> {
        config.server.update_from_arg_matches(&self.matches).map_err(|e| Error::new("options", e))?;
        config.force_discard_dirty = self.force_discard_dirty;
        config.accept_origins.clone_from(&self.accept_origin);
        config.check()?;
        if let Some(name) = config.accept_origins.iter().find(|name| !config.volumes.contains_key(*name)) {
            return Err(
                Error::new("--accept-origin", format_args!("there is no volume {name:?}")).or("give a volume's name")
            );
        }
        Ok(config)
    }

    fn options_config(&self) -> Result<Config, Error> {
        let (Some(origin), Some(_)) = (&self.origin, self.path.first()) else {
            return Err(Error::new("serve", "there is nothing to serve").or("give --origin and --cache, or --config"));
        };
        let name = match &self.name {
            Some(name) => name.clone(),
            None => origin_of(origin)?.volume_name(),
        };
        let cache = CacheConfig { path: self.path.clone().into(), ..self.cache.clone() };
        let volume = VolumeConfig {
            origin: origin.clone(),
            cache: Some(CACHE_NAME.to_owned()),
            mode: cache.mode,
            ..self.volume.clone()
        };
        let (caches, volumes) = ([(CACHE_NAME.to_owned(), cache)].into(), [(name, volume)].into());
        Ok(Config { caches, volumes, ..Config::default() })
    }
}
