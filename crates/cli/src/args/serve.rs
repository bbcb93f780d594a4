//! `nitro serve`

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, ValueEnum};
use nitro_cache::admission::{AdmissionKind, WritePolicy};
use nitro_cache::destage::DestageKind;
use nitro_cache::eviction::EvictionKind;
use nitro_config::{
    Address, CacheConfig, CompressionName, Config, ConfigError, DriveEndurance, Emulation, FingerprintIndexName,
    FingerprintName, HttpAddress, KeyPath, Kind, Mode, OtlpUrl, SETTINGS, Scope, ServerConfig, Setting, SocketMode,
    Span, TlsMode, VolumeConfig,
};
use nitro_console::error::Error;
use nitro_console::size::Size;
use nitro_server::origins::origin_of;
use nitro_server::serve::{Source, Values};
use serde_json::Value;
use std::fs;
use std::num::NonZeroU32;
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

/// The heading of the options that most servers need.
const FIRST: &str = "First of all";

#[derive(Debug, Clone, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct ServeArgs {
    /// TOML file with [server], [cache.NAME] and [volume.NAME]; server options on the command line override it; options
    /// of volumes and caches cannot be used together with it
    #[arg(help_heading = FIRST, long, value_name = "FILE", conflicts_with_all = ["VolumeArgs", "CacheArgs"])]
    config: Option<PathBuf>,

    #[command(flatten)]
    volume: VolumeArgs,
    #[command(flatten)]
    cache: CacheArgs,
    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Volume")]
struct VolumeArgs {
    /// The slow storage: a file or block device, or cos:STORE#OBJECT; use file:PATH if a path contains a colon
    #[arg(help_heading = FIRST, long, value_name = "PATH", requires = "cache", required_unless_present = "config")]
    origin: Option<PathBuf>,
    /// Name of the volume and its export; by default the origin's file name without its extension
    #[arg(help_heading = FIRST, long, requires = "origin")]
    name: Option<String>,
    /// Refuse writes
    #[arg(long, requires = "origin")]
    read_only: bool,
    /// Class, 1 to 31, of requests without one; clients select a class with the export name NAME?class=N [default: not
    /// classified]
    #[arg(long, value_name = "N", requires = "origin")]
    class: Option<u8>,
    /// Share cached contents only with volumes of the same domain [default: shared with all volumes without a domain]
    #[arg(long, value_name = "NAME", requires = "origin")]
    dedup_domain: Option<String>,
    /// Make the origin as slow as a hard disk of 7200 or 15000 rpm, or as several in RAID-0
    #[arg(long, value_name = "RPM[:SPINDLES]", requires = "origin")]
    emulate_disk: Option<Emulation>,
    /// Write-back: percentage of the cache's room for dirty data that is reserved for this volume [default: half of the
    /// room, divided equally among the volumes]
    #[arg(long, value_name = "PCT", requires = "origin")]
    dirty_share_min: Option<u8>,
    /// Write-back: percentage of the cache's room for dirty data that this volume may use [default: 100]
    #[arg(long, value_name = "PCT", requires = "origin")]
    dirty_share_max: Option<u8>,
    /// Write-through: which written content is cached: allocate (all), update (only extents that are cached already),
    /// invalidate (none) [default: allocate]
    #[arg(long, value_name = "POLICY", requires = "origin")]
    write_policy: Option<WritePolicy>,
    /// Read the metadata of the volume's file systems at the start, so that the sizes of all files are known before the
    /// files are used; at most RATE bytes a second, during at most half of the time [default: off; without RATE 64M]
    #[arg(long, value_name = "RATE", num_args = 0..=1, require_equals = true, default_missing_value = "64M", requires = "origin")]
    detect_scan: Option<Size>,
}

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Cache")]
struct CacheArgs {
    /// The cache: a file (created if missing) or block device; given several times, a cache on all of them; or "none"
    #[arg(help_heading = FIRST, long, value_name = "PATH", requires = "origin")]
    cache: Vec<PathBuf>,
    /// Size of the cache; required to create a file, otherwise the size of the file or device
    #[arg(help_heading = FIRST, long, value_name = "SIZE", requires = "cache")]
    cache_size: Option<Size>,
    /// Write log: a fast file (created if it does not exist) or block device; with it, writes in write-back are durable
    /// when they are acknowledged
    #[arg(long, value_name = "PATH", requires = "cache")]
    write_log: Option<PathBuf>,
    /// How much of the write log's file or device to use; required to create a file [default: all]
    #[arg(long, value_name = "SIZE", requires = "write_log")]
    write_log_size: Option<Size>,
    /// When a write is acknowledged: when it is in the origin (write-through) or in the cache (write-back) [default:
    /// write-through]
    #[arg(help_heading = FIRST, long, value_enum, requires = "cache", hide_possible_values = true, value_name = "write-through|write-back")]
    mode: Option<Mode>,
    /// Size of the RAM cache in front of the SSD, which holds whole extents [default: 64M]
    #[arg(help_heading = FIRST, long, value_name = "SIZE", requires = "cache")]
    ram: Option<Size>,
    /// Unit of caching, 4K to 128K; smaller extents find more duplicates and take more RAM [default: 8K]
    #[arg(long, value_name = "SIZE", requires = "cache")]
    extent_size: Option<Size>,
    /// Unit of writing to the SSD and of eviction, 512K to 8M [default: 2M, less for a cache below 96M]
    #[arg(long, value_name = "SIZE", requires = "cache")]
    weu_size: Option<Size>,
    /// Store equal extents once [default: on]
    #[arg(long, value_enum, requires = "cache", hide_possible_values = true, value_name = "on|off")]
    dedup: Option<Switch>,
    /// Compression of extents [default: lz4]
    #[arg(long, value_enum, requires = "cache")]
    compression: Option<CompressionName>,
    /// Percentage of the cached extents whose fingerprints are kept in RAM [default: 100; 10 with an index on the SSD]
    #[arg(long, value_name = "PCT", requires = "cache")]
    fingerprint_index_ratio: Option<u8>,
    /// Where fingerprints are indexed: in RAM only (ram), or also in an index on a part of the SSD (bufferhash, silt)
    /// [default: as when the existing cache was created, otherwise ram]
    #[arg(long, value_enum, value_name = "INDEX", requires = "cache")]
    fingerprint_index: Option<FingerprintIndexName>,
    /// RAM of the fingerprint index on the SSD [default: 4M, and for each entry 4 bytes with bufferhash, at most 1 byte
    /// with silt]
    #[arg(long, value_name = "SIZE", requires = "cache")]
    fingerprint_index_ram: Option<Size>,
    /// Hash function of the fingerprints; sha1 is not safe, and is refused [default: blake3]
    #[arg(long, value_enum, requires = "cache")]
    fingerprint: Option<FingerprintName>,
    /// Treat an extent as a duplicate only after comparing its bytes with the cached ones
    #[arg(long, requires = "cache")]
    verify_duplicates: bool,
    /// RAM in which clean data wait before they are written to the SSD, so that data that are soon overwritten are
    /// never written there; 0: none [default: 6 % of the cache, at most 64M]
    #[arg(long, value_name = "SIZE", requires = "cache")]
    staging: Option<Size>,
    /// Limit of the bytes written to the SSD, as in its data sheet: 0.5dwpd (drive writes per day) or 600TBW (terabytes
    /// written in five years). Close to the limit, less new content is admitted and copied forward [default: no limit]
    #[arg(long, value_name = "RATING", requires = "cache")]
    endurance: Option<DriveEndurance>,
    /// Size of the SSD to which --endurance applies [default: that of the cache]
    #[arg(long, value_name = "SIZE", requires = "endurance")]
    drive_size: Option<Size>,
    /// Which new content is admitted: probation (all, in separate write-evict units until it is used again), all,
    /// second-miss (extents at their second miss), by-source (all, with written content in separate write-evict units),
    /// two-level (metadata of file systems, and data that is accessed more often than the extents that would be evicted
    /// for it), two-level-static (the same with a counter of accesses for each extent of the origin, a byte each)
    /// [default: probation]
    #[arg(long, value_name = "POLICY", requires = "cache")]
    admission: Option<AdmissionKind>,
    /// Which write-evict unit is evicted next: heat (extents that were used again are copied forward), lru, fifo
    /// [default: heat]
    #[arg(long, value_name = "POLICY", requires = "cache")]
    eviction: Option<EvictionKind>,
    /// How the cache treats each class of I/O: one of the presets file-server, database and hypervisor, or a file in
    /// TOML or Open-CAS's CSV; the help of nitro class load has an example [default: all classes alike]
    #[arg(long, value_name = "FILE|PRESET", help_heading = "Cache")]
    classes: Option<PathBuf>,
    /// Classify the volume's blocks by parsing ext2 to ext4, XFS, btrfs and NTFS: metadata, directories, journal, and
    /// files by size [default: on]
    #[arg(long, value_name = "on|off", requires = "cache", help_heading = "Cache")]
    detect: Option<Switch>,
    /// Classify what has no other class by the pattern of the requests: scan (sequential runs), read-once, random (used
    /// outside of runs: written, or read again) [default: off]
    #[arg(long, value_name = "on|off", requires = "cache", help_heading = "Cache")]
    patterns: Option<Switch>,
    /// Write-back: which dirty data is destaged next: elevator (by offset) or oldest (by age) [default: elevator]
    #[arg(long, value_name = "POLICY", requires = "cache")]
    destage: Option<DestageKind>,
    /// Number of consecutive bytes after which a stream of reads is sequential and bypasses the SSD; 0: never [default:
    /// 1M]
    #[arg(long, value_name = "SIZE", requires = "cache")]
    sequential_threshold: Option<Size>,
    /// Write-back: percentage of the cache that may be dirty before destage starts regardless of the age of the data
    /// [default: 20]
    #[arg(long, value_name = "PCT", requires = "cache")]
    dirty_start: Option<u8>,
    /// Write-back: percentage of the cache that may be dirty before writes wait for destage [default: 60]
    #[arg(long, value_name = "PCT", requires = "cache")]
    dirty_max: Option<u8>,
    /// Write-back: age at which dirty data are destaged [default: 30s]
    #[arg(long, value_name = "TIME", requires = "cache")]
    dirty_age: Option<Span>,
    /// Write-back: when destage of a volume fails, how long writes wait for room in the cache, from the first failure
    /// on, before they fail with the origin's error [default: 10s]
    #[arg(long, value_name = "TIME", requires = "cache")]
    dirty_wait: Option<Span>,
    /// How long a request waits for an origin that does not answer, before the request fails; 0: without limit
    /// [default: 0]
    #[arg(long, value_name = "TIME", requires = "cache")]
    origin_timeout: Option<Span>,
    /// Format the cache even if its file or device holds a cache or other data; these are lost
    #[arg(long, requires = "cache")]
    format: bool,
}

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Server")]
struct ServerArgs {
    /// Address for clients: unix:PATH or tcp:HOST:PORT for NBD; iscsi:HOST:PORT for iSCSI; vhost:PATH, or vhost:FOLDER/
    /// with a socket NAME.sock for each volume, for virtual machines (vhost-user-blk); repeatable [default: a socket
    /// under $XDG_RUNTIME_DIR or /tmp]
    #[arg(help_heading = FIRST, long, value_name = "ADDRESS")]
    listen: Vec<Address>,
    /// The control socket for commands such as nitro status [default: in the folder of the NBD socket]
    #[arg(help_heading = FIRST, long, value_name = "PATH")]
    control: Option<PathBuf>,
    /// Permissions of the unix sockets for NBD clients, in octal digits [default: 0600, with --socket-group 0660]
    #[arg(long, value_name = "MODE")]
    socket_mode: Option<SocketMode>,
    /// Group of the unix sockets for NBD clients, by name or number, such as libvirt-qemu [default: the server's]
    #[arg(long, value_name = "GROUP")]
    socket_group: Option<String>,
    /// Permissions of the control socket, in octal digits; its users may run all commands [default: 0600, with
    /// --control-group 0660]
    #[arg(long, value_name = "MODE")]
    control_mode: Option<SocketMode>,
    /// Group of the control socket, by name or number [default: the server's]
    #[arg(long, value_name = "GROUP")]
    control_group: Option<String>,
    /// Serve while this command runs, then end with its exit code; in its environment, NITRO_URI is the first volume's
    /// URI, and NITRO_URIS has all of them
    #[arg(long, value_name = "COMMAND")]
    run: Option<String>,
    /// Serve metrics for Prometheus, and a web page, over HTTP: HOST:PORT, such as 127.0.0.1:9470, or unix:PATH.
    /// Everyone who can reach the address can read names, sizes and counters, but cannot change anything without the
    /// token of --http-token-file [default: not served]
    #[arg(help_heading = FIRST, long, value_name = "ADDRESS")]
    http: Option<HttpAddress>,
    /// Permissions of the unix socket for HTTP [default: 0600, with --http-group 0660]
    #[arg(long, value_name = "MODE")]
    http_mode: Option<SocketMode>,
    /// Group of the unix socket for HTTP, by name or number [default: the server's]
    #[arg(long, value_name = "GROUP")]
    http_group: Option<String>,
    /// File with the token that allows actions over HTTP: flush a volume, switch its mode, pause filling. One line of at
    /// least 16 characters; only its owner may have access to the file [default: HTTP cannot change anything]
    #[arg(long, value_name = "FILE")]
    http_token_file: Option<PathBuf>,
    /// Send spans of clients' requests to an OpenTelemetry collector by OTLP over HTTP: http://HOST:PORT, such as
    /// http://127.0.0.1:4318. They name volumes, offsets and lengths, have no data, and are not encrypted [default: not
    /// sent]
    #[arg(long, value_name = "URL")]
    otlp: Option<OtlpUrl>,
    /// One of this number of requests, at random, becomes a span; requires --otlp [default: 1000]
    #[arg(long, value_name = "N")]
    otlp_sample: Option<NonZeroU32>,
    /// Record the requests of clients in a new Parquet file: times, addresses and fingerprints of contents, but no data
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Threads that serve clients [default: the machine's cores, at most 4]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// End without destage: dirty data stay in the cache, where they are safe, and the server ends sooner
    #[arg(long)]
    no_destage_on_exit: bool,
    /// Discard dirty data that prevent the start: those of an origin that another program changed, or that is marked as
    /// belonging to another cache; those in a cache that is to be formatted; and those in a missing write log
    #[arg(long)]
    force_discard_dirty: bool,
    /// Accept the origin of this volume although its cache does not recognise it (it was moved to another disk, or restored): the
    /// cache's dirty data are written to it, and clean data are dropped. May be repeated
    #[arg(long, value_name = "VOLUME")]
    accept_origin: Vec<String>,
    /// Maximum number of clients at a time [default: 256]
    #[arg(long, value_name = "N")]
    max_connections: Option<usize>,
    /// Maximum number of clients of one process or remote host at a time [default: seven eighths of --max-connections]
    #[arg(long, value_name = "N")]
    max_connections_per_peer: Option<usize>,
    /// RAM for the data of all clients' requests; requests beyond it wait [default: 256M]
    #[arg(long, value_name = "SIZE")]
    request_memory: Option<Size>,
    /// How long a client may take to choose an export [default: 30s]
    #[arg(long, value_name = "TIME")]
    handshake_timeout: Option<Span>,
    /// Idle time after which a TCP client is probed; 0: the system's default [default: 60s]
    #[arg(long, value_name = "TIME")]
    tcp_keepalive: Option<Span>,
    /// How long data sent to a TCP client may stay unacknowledged; 0: the system's default [default: 2m]
    #[arg(long, value_name = "TIME")]
    tcp_user_timeout: Option<Span>,
    /// Maximum time in microseconds for which an idle queue of a virtual machine is polled before the server waits for
    /// a notification by the guest: lower latency, but the processor is never idle; 0: no polling [default: 0]
    #[arg(long, value_name = "MICROSECONDS")]
    vhost_busy_poll_us: Option<u32>,
    /// Whether clients may or must use TLS [default: off]
    #[arg(long, value_enum)]
    tls: Option<TlsMode>,
    /// The server's certificate chain (PEM)
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// The certificate's key (PEM)
    #[arg(long, value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// Serve only clients with a certificate of these authorities (PEM)
    #[arg(long, value_name = "FILE")]
    tls_client_ca: Option<PathBuf>,
}

/// On or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Switch {
    On,
    Off,
}

impl Switch {
    pub(crate) fn is_on(self) -> bool {
        self == Self::On
    }
}

/// The value of an option in the form of a configuration file.
fn value_of(kind: Kind, mut texts: Vec<String>, is_no: bool) -> Value {
    match (kind, texts.pop()) {
        (Kind::Switch, text) => Value::from(!is_no && text.is_none_or(|text| text != "off" && text != "false")),
        (Kind::List, last) => texts.into_iter().chain(last).collect(),
        (_, Some(last)) if !texts.is_empty() => texts.into_iter().chain([last]).collect(),
        (Kind::Percent | Kind::Number, Some(text)) => text.parse::<u64>().map_or(Value::from(text), Value::from),
        (_, text) => Value::from(text),
    }
}

/// The name of the cache, if it is configured by options.
const CACHE_NAME: &str = "cache";

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
        self.server.run.as_deref()
    }

    /// The configuration file and how to parse it again; `None` without one.
    pub(crate) fn source(&self) -> Result<Option<Source>, Error> {
        let Some(path) = &self.config else { return Ok(None) };
        let file = std::path::absolute(path).map_err(|e| Error::new(path.display(), e))?;
        let args = self.clone();
        Ok(Some(Source { file, parse: Box::new(move |text| args.of_file(text)) }))
    }

    /// What options of the command line set, by the keys of a configuration file.
    pub(crate) fn given(&self, matches: &ArgMatches) -> Values {
        let volume = self.config.is_none().then(|| self.options_config().ok()).flatten();
        let volume = volume.and_then(|config| config.volumes.into_keys().next()).unwrap_or_default();
        let command = Self::augment_args(clap::Command::new("serve"));
        let of = |setting: &'static Setting| {
            let (name, group) = match setting.scope {
                Scope::Server => ("", "ServerArgs"),
                Scope::Cache => (CACHE_NAME, "CacheArgs"),
                Scope::Volume => (volume.as_str(), "VolumeArgs"),
            };
            let group = command.get_groups().find(|held| held.get_id() == group)?;
            let long = setting.option().unwrap_or_else(|| setting.key.replace('_', "-"));
            let is_no = |arg: &clap::Arg| arg.get_long().and_then(|name| name.strip_prefix("no-")) == Some(&long);
            let is_of = |arg: &&clap::Arg| arg.get_long() == Some(&long) || is_no(arg);
            let is_in_group = |arg: &&clap::Arg| group.get_args().any(|id| id == arg.get_id());
            let arg = command.get_arguments().filter(is_in_group).find(is_of)?;
            let id = arg.get_id().as_str();
            (matches.value_source(id) == Some(ValueSource::CommandLine)).then_some(())?;
            let texts = matches.get_raw(id).into_iter().flatten().map(|text| text.to_string_lossy().into_owned());
            let path = KeyPath { scope: setting.scope, name: name.to_owned(), setting };
            Some((path.to_string(), value_of(setting.kind, texts.collect(), is_no(arg))))
        };
        SETTINGS.iter().filter_map(of).collect()
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
        self.server.apply(&mut config.server);
        config.force_discard_dirty = self.server.force_discard_dirty;
        config.accept_origins.clone_from(&self.server.accept_origin);
        config.check()?;
        if let Some(name) = config.accept_origins.iter().find(|name| !config.volumes.contains_key(*name)) {
            return Err(
                Error::new("--accept-origin", format_args!("there is no volume {name:?}")).or("give a volume's name")
            );
        }
        Ok(config)
    }

    fn options_config(&self) -> Result<Config, Error> {
        let (Some(origin), Some(_)) = (&self.volume.origin, self.cache.cache.first()) else {
            return Err(Error::new("serve", "there is nothing to serve").or("give --origin and --cache, or --config"));
        };
        let name = match &self.volume.name {
            Some(name) => name.clone(),
            None => origin_of(origin)?.volume_name(),
        };
        let volume = VolumeConfig {
            origin: origin.clone(),
            cache: Some(CACHE_NAME.to_owned()),
            mode: self.cache.mode,
            read_only: self.volume.read_only,
            description: String::new(),
            dedup_domain: self.volume.dedup_domain.clone(),
            class: self.volume.class,
            emulate_disk: self.volume.emulate_disk,
            ssd: None,
            ssd_size: None,
            ssd_data: false,
            store_options: Vec::new(),
            dirty_share_min: self.volume.dirty_share_min,
            dirty_share_max: self.volume.dirty_share_max,
            write_policy: self.volume.write_policy,
            detect_scan: self.volume.detect_scan,
            iscsi_initiators: Vec::new(),
            iscsi_addresses: Vec::new(),
            iscsi_accounts: Vec::new(),
            iscsi_name: None,
            serial: None,
            nbd_clients: Vec::new(),
            sockets: Vec::new(),
        };
        Ok(Config {
            server: ServerConfig::default(),
            caches: [(CACHE_NAME.to_owned(), self.cache.config())].into(),
            volumes: [(name, volume)].into(),
            force_discard_dirty: false,
            accept_origins: Vec::new(),
        })
    }
}

impl CacheArgs {
    fn config(&self) -> CacheConfig {
        CacheConfig {
            path: self.cache.clone().into(),
            size: self.cache_size,
            write_log: self.write_log.clone(),
            write_log_size: self.write_log_size,
            mode: self.mode.unwrap_or_default(),
            ram: self.ram,
            extent_size: self.extent_size,
            weu_size: self.weu_size,
            dedup: self.dedup.map(Switch::is_on),
            compression: self.compression.unwrap_or_default(),
            fingerprint: self.fingerprint,
            verify_duplicates: self.verify_duplicates,
            fingerprint_index_ratio: self.fingerprint_index_ratio,
            fingerprint_index: self.fingerprint_index,
            fingerprint_index_ram: self.fingerprint_index_ram,
            staging: self.staging,
            endurance: self.endurance,
            drive_size: self.drive_size,
            admission: self.admission,
            destage: self.destage,
            eviction: self.eviction,
            classes: self.classes.clone(),
            detect: self.detect.is_none_or(Switch::is_on),
            patterns: self.patterns.is_some_and(Switch::is_on),
            sequential_threshold: self.sequential_threshold,
            dirty_start: self.dirty_start,
            dirty_max: self.dirty_max,
            dirty_age: self.dirty_age,
            dirty_wait: self.dirty_wait,
            origin_timeout: self.origin_timeout,
            format: self.format,
        }
    }
}

impl ServerArgs {
    fn apply(&self, server: &mut ServerConfig) {
        if !self.listen.is_empty() {
            server.listen.clone_from(&self.listen);
        }
        let paths = [
            (&self.control, &mut server.control),
            (&self.record, &mut server.record),
            (&self.http_token_file, &mut server.http_token_file),
            (&self.tls_cert, &mut server.tls_cert),
            (&self.tls_key, &mut server.tls_key),
            (&self.tls_client_ca, &mut server.tls_client_ca),
        ];
        for (given, target) in paths {
            if given.is_some() {
                target.clone_from(given);
            }
        }
        for (given, target) in [
            (&self.socket_group, &mut server.socket_group),
            (&self.control_group, &mut server.control_group),
            (&self.http_group, &mut server.http_group),
        ] {
            if given.is_some() {
                target.clone_from(given);
            }
        }
        server.socket_mode = self.socket_mode.or(server.socket_mode);
        server.control_mode = self.control_mode.or(server.control_mode);
        server.http = self.http.clone().or_else(|| server.http.take());
        server.otlp = self.otlp.clone().or_else(|| server.otlp.take());
        server.otlp_sample = self.otlp_sample.or(server.otlp_sample);
        server.http_mode = self.http_mode.or(server.http_mode);
        server.threads = self.threads.or(server.threads);
        server.max_connections = self.max_connections.or(server.max_connections);
        server.max_connections_per_peer = self.max_connections_per_peer.or(server.max_connections_per_peer);
        server.request_memory = self.request_memory.or(server.request_memory);
        server.handshake_timeout = self.handshake_timeout.or(server.handshake_timeout);
        server.tcp_keepalive = self.tcp_keepalive.or(server.tcp_keepalive);
        server.tcp_user_timeout = self.tcp_user_timeout.or(server.tcp_user_timeout);
        server.vhost_busy_poll_us = self.vhost_busy_poll_us.or(server.vhost_busy_poll_us);
        server.tls = self.tls.unwrap_or(server.tls);
        if self.no_destage_on_exit {
            server.destage_on_exit = Some(false);
        }
    }
}
