//! `[volume.NAME]`

use super::iscsi::allow_list;
use super::settings::settings;
use super::{Address, Cap, Mode, Span};
use nitro_cache::admission::WritePolicy;
use nitro_console::error::Error;
use nitro_console::size::Size;
use nitro_cos::Settings;
use nitro_device::hdd::HddModel;
use nitro_engine::{DedupDomain, DirtyShare, PointSettings};
use nitro_frontend::limits::Rates;
use nitro_iscsi::AllowList;
use nitro_nbd::FINGERPRINT_PREFIX;
use nitro_shares::Terms;
use nitro_units::ClassId;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

/// The scheme of origins that are directory trees: `files:DIR`.
pub const FILES_SCHEME: &str = "files";

settings! {
    /// A volume: an origin behind a cache, exported under the volume's name.
    #[derive(Eq, Serialize)]
    Volume: VolumeConfig {
        /// The slow storage: a file or block device, cos:STORE#OBJECT, an NBD server's nbd://HOST/EXPORT, a Ceph cluster's
        /// rbd:POOL/IMAGE, s3://BUCKET/PREFIX, or a directory, files:DIR; use file:PATH if a path contains a colon
        #[arg(skip)]
        origin: PathBuf = Path, Restart;
        /// Name of the volume's cache; required if there are several caches [default: the only one]
        #[arg(skip)]
        cache: Option<String> = Text, Restart;
        /// When a write is acknowledged: when it is in the origin (write-through) or in the cache (write-back)
        /// [default: as the cache says]
        #[arg(skip)]
        mode: Option<Mode> = Text, Live;
        /// Refuse writes
        #[arg(long, requires = "origin")]
        #[serde(default)]
        read_only: bool = Switch, Restart;
        /// Serve it while etcd says that it is this host's, and only then: other hosts take it over; requires --etcd
        #[arg(long, requires = "origin")]
        #[serde(default)]
        cluster: bool = Switch, Restart;
        /// Description shown to clients that list the exports [default: none]
        #[arg(skip)]
        #[serde(default)]
        description: String = Text, Restart;
        /// Class, 1 to 31, of requests without one; clients select a class with the export name NAME?class=N [default: not
        /// classified]
        #[arg(long, value_name = "N", requires = "origin")]
        class: Option<u8> = Number, Live, "0".."31";
        /// Share cached contents only with volumes of the same domain [default: shared with all volumes without a domain]
        #[arg(long, value_name = "NAME", requires = "origin")]
        dedup_domain: Option<String> = Text, Restart;
        /// Make the origin as slow as a hard disk of 7200 or 15000 rpm, or as several in RAID-0
        #[arg(long, value_name = "RPM[:SPINDLES]", requires = "origin")]
        emulate_disk: Option<Emulation> = Text, Restart;
        /// Bytes of a logical block, in which clients count: 512 or 4096, not less than those of the origin, of which the
        /// volume's size is a multiple [default: those of a block device that is the origin, otherwise 512]
        #[arg(long, value_name = "SIZE", requires = "origin")]
        block_size: Option<Size> = Size, Restart, "512".."4K";
        /// Write-back: percentage of the cache's room for dirty data that is reserved for this volume [default: half of the
        /// room, divided equally among the volumes]
        #[arg(long, value_name = "PCT", requires = "origin")]
        dirty_share_min: Option<u8> = Percent, Live, "0".."100";
        /// Write-back: percentage of the cache's room for dirty data that this volume may use [default: 100]
        #[arg(long, value_name = "PCT", requires = "origin")]
        dirty_share_max: Option<u8> = Percent, Live, "1".."100";
        /// Write-back: bring the origin from one consistent point, the state at a FLUSH, to the next, so that it is whole, if older,
        /// where the host is lost with its cache; nitro takeover gives up what is newer
        #[arg(long, requires = "origin")]
        #[serde(default)]
        points: bool = Switch, Restart;
        /// points: age of the last point from which on writes are slowed [default: 30s]
        #[arg(long, value_name = "TIME", requires = "origin")]
        max_age: Option<Span> = Time, Live, "1s".."168h";
        /// points: bytes of dirty data from which on writes are slowed [default: 1G]
        #[arg(long, value_name = "SIZE", requires = "origin")]
        max_bytes: Option<Size> = Size, Live, "1M".."";
        /// Requests a second that may begin, of all clients of the volume together: reads, writes, trims, zeroes and prefetches, but
        /// not flushes; others wait. none: any number [default: none]
        #[arg(long, value_name = "N", requires = "origin")]
        iops: Option<Cap<u32>> = Number, Live, "1".."";
        /// Bytes a second that may be read, written, made zeroes and prefetched, by all clients of the volume together; other requests
        /// wait. none: any number [default: none]
        #[arg(long, value_name = "SIZE", requires = "origin")]
        bandwidth: Option<Cap<Size>> = Size, Live, "64K".."";
        /// How long requests that iops and bandwidth allow, and that did not come, may come later in addition [default: 1s]
        #[arg(long, value_name = "TIME", requires = "origin")]
        burst: Option<Span> = Time, Live, "0".."1h";
        /// Origin cos:STORE#OBJECT: how much of the time of the store's disk the volume gets while other volumes of the store wait for it,
        /// in proportion to their weights [default: 100]
        #[arg(long, value_name = "N", requires = "origin")]
        weight: Option<u32> = Number, Live, "1".."10000";
        /// Origin cos:STORE#OBJECT: percentage of the time of the store's disk that the volume gets whatever else waits for it; 90 in
        /// total for the volumes of a store [default: 0]
        #[arg(long, value_name = "PCT", requires = "origin")]
        reservation: Option<u8> = Percent, Live, "0".."90";
        /// Write-through: which written content is cached: allocate (all), update (only extents that are cached already),
        /// invalidate (none) [default: allocate]
        #[arg(long, value_name = "POLICY", requires = "origin")]
        write_policy: Option<WritePolicy> = Text, Live;
        /// Read the metadata of the volume's file systems at the start, so that the sizes of all files are known before the
        /// files are used; at most RATE bytes a second, during at most half of the time [default: off; without RATE 64M]
        #[arg(long, value_name = "RATE", num_args = 0..=1, require_equals = true, default_missing_value = "64M", requires = "origin")]
        detect_scan: Option<Size> = Size, Restart, "64K".."";
        /// SSD of the volume's store, for an origin cos:STORE#OBJECT: a file or a block device, which may be lost at
        /// any time [default: none]
        #[arg(skip)]
        ssd: Option<PathBuf> = Path, Restart;
        /// Bytes of the store's SSD that are used; required if it is a new file [default: all]
        #[arg(skip)]
        ssd_size: Option<Size> = Size, Restart;
        /// Keep chunks that are read at random on the store's SSD, too, although the volume's cache keeps them already
        /// [default: false]
        #[arg(skip)]
        #[serde(default)]
        ssd_data: bool = Switch, Restart;
        /// Switches of the volume's store: no-patterns (small requests count as random, others as sequential),
        /// no-nsio-dedup (small random writes look for duplicates in RAM only), nsio-metadata (a duplicate that is
        /// found for one loads its container's fingerprints), no-readahead, compare (duplicates are compared),
        /// no-auto-gc (only `nitro cos gc` frees space) [default: none]
        #[arg(skip)]
        #[serde(default)]
        store_options: Vec<StoreOption> = List, Restart;
        /// Names of iSCSI initiators that may log in to the volume, of those that [server.iscsi] allows;
        /// a * at the end matches any rest. A change applies to new sessions [default: all that the server allows]
        #[arg(skip)]
        #[serde(default)]
        iscsi_initiators: Vec<String> = List, Live;
        /// Addresses and networks, such as 10.0.0.0/8, from which iSCSI initiators may log in to the volume,
        /// of those that [server.iscsi] allows. A change applies to new sessions [default: all that the server allows]
        #[arg(skip)]
        #[serde(default)]
        iscsi_addresses: Vec<String> = List, Live;
        /// Names of CHAP accounts, of the file that [server.iscsi] names, that may log in to the volume over iSCSI.
        /// A change applies to new sessions [default: all]
        #[arg(skip)]
        #[serde(default)]
        iscsi_accounts: Vec<String> = List, Live;
        /// Name of the volume's iSCSI target [default: iqn.2026-11.nitro:NAME.SERIAL, in lower case]
        #[arg(skip)]
        iscsi_name: Option<String> = Text, Restart;
        /// Serial number of the volume for iSCSI initiators and virtual machines: 1 to 36 letters, digits, '-', '.' and
        /// '_'. Units with the same one are the same disk for initiators [default: for initiators by the volume's UUID,
        /// or, if an earlier program served it, by the machine and its name; for virtual machines the name, or a hash
        /// of it if it is longer than 20 bytes]
        #[arg(skip)]
        serial: Option<String> = Text, Restart;
        /// Certificates with which NBD clients may use the volume: common names, DNS names (in lower case) or URIs of
        /// the certificate's subject, or sha256: and the certificate's fingerprint; requires tls_client_ca. A change
        /// applies to new clients [default: all clients]
        #[arg(skip)]
        #[serde(default)]
        nbd_clients: Vec<Certified> = List, Live;
        /// Addresses of listen in [server] on which the volume is offered, as they are written there. A change applies to
        /// new clients [default: all]
        #[arg(skip)]
        #[serde(default)]
        sockets: Vec<Address> = List, Live;
    }
}

/// What a client's certificate has to say: a common name, a DNS name (in lower case) or URI of its subject, or `sha256:` and
/// its fingerprint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct Certified(String);

impl Certified {
    /// Whether it is among what an authority has certified of a client.
    #[must_use]
    pub fn is_one_of(&self, identities: &[String]) -> bool {
        identities.contains(&self.0)
    }
}

impl fmt::Display for Certified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for Certified {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let Some(digits) = text.strip_prefix(FINGERPRINT_PREFIX) else {
            let is_valid = !text.is_empty() && text.trim() == text && !text.contains(char::is_control);
            return if is_valid { Ok(Self(text)) } else { Err(format!("{text:?} is not a name of a certificate")) };
        };
        // openssl x509 -fingerprint writes colons.
        let digits = digits.replace(':', "").to_ascii_lowercase();
        if digits.len() == FINGERPRINT_DIGITS && digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            Ok(Self(format!("{FINGERPRINT_PREFIX}{digits}")))
        } else {
            Err(format!(
                "{text:?} is not a fingerprint: after {FINGERPRINT_PREFIX} follow {FINGERPRINT_DIGITS} hexadecimal digits"
            ))
        }
    }
}

/// Hexadecimal digits of SHA-256.
const FINGERPRINT_DIGITS: usize = 64;

/// A switch of a store, so that the effect of its parts can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StoreOption {
    /// Small requests count as random, and larger ones as sequential.
    NoPatterns,
    /// Small random writes look for duplicates in RAM only.
    NoNsioDedup,
    /// A duplicate that is found for a small random write loads the fingerprints of its container.
    NsioMetadata,
    /// Sequential readers of hard disks are not read ahead.
    NoReadahead,
    /// Duplicates are accepted only after their bytes were compared.
    Compare,
    /// No collection begins by itself.
    NoAutoGc,
}

impl VolumeConfig {
    /// The settings of its store.
    #[must_use]
    pub fn store_settings(&self) -> Settings {
        let mut settings = Settings::default();
        for option in &self.store_options {
            match option {
                StoreOption::NoPatterns => settings.patterns = false,
                StoreOption::NoNsioDedup => settings.nsio_dedup = false,
                StoreOption::NsioMetadata => settings.nsio_metadata = true,
                StoreOption::NoReadahead => settings.readahead_bytes = 0,
                StoreOption::Compare => settings.compare_duplicates = true,
                StoreOption::NoAutoGc => settings.auto_collect = false,
            }
        }
        settings
    }
}

impl VolumeConfig {
    /// Its share of the cache's room for dirty data.
    #[must_use]
    pub fn dirty_share(&self) -> DirtyShare {
        let usual = DirtyShare::default();
        DirtyShare { min_percent: self.dirty_share_min, max_percent: self.dirty_share_max.unwrap_or(usual.max_percent) }
    }
}

/// Default of [`max_age`](VolumeConfig::max_age).
const MAX_AGE: Duration = Duration::from_secs(30);
/// Default of [`max_bytes`](VolumeConfig::max_bytes).
const MAX_BYTES: u64 = 1 << 30;

impl VolumeConfig {
    /// How far its origin may be behind, if it reaches points.
    #[must_use]
    pub fn point_settings(&self) -> PointSettings {
        PointSettings {
            max_age: self.max_age.map_or(MAX_AGE, |span| span.0),
            max_bytes: self.max_bytes.map_or(MAX_BYTES, |size| size.0),
        }
    }
}

/// Default of [`burst`](VolumeConfig::burst): a client that reads and writes in bursts is not slowed while it keeps to its limits in
/// the mean of a second.
const BURST: Duration = Duration::from_secs(1);

impl VolumeConfig {
    /// How fast requests of its clients may come.
    #[must_use]
    pub fn rates(&self) -> Rates {
        Rates {
            requests: self.iops.and_then(Cap::limit).and_then(|iops| NonZeroU64::new(iops.into())),
            bytes: self.bandwidth.and_then(Cap::limit).and_then(|bandwidth| NonZeroU64::new(bandwidth.0)),
            burst: self.burst.map_or(BURST, |burst| burst.0),
        }
    }
}

/// Default of [`weight`](VolumeConfig::weight).
const WEIGHT: u32 = 100;

impl VolumeConfig {
    /// The store of which it is an object, if it is one.
    #[must_use]
    pub fn store(&self) -> Option<&str> {
        let store = self.origin.to_str()?.strip_prefix("cos:")?;
        Some(store.rsplit_once('#').map_or(store, |(store, _)| store))
    }

    /// The directory tree whose files it has, if its origin is one.
    #[must_use]
    pub fn folder(&self) -> Option<&Path> {
        self.origin.to_str()?.strip_prefix(FILES_SCHEME)?.strip_prefix(':').map(Path::new)
    }

    /// What it may have of its store's disk.
    #[must_use]
    pub fn terms(&self) -> Terms {
        Terms {
            reservation: f64::from(self.reservation.unwrap_or(0)) / 100.0,
            weight: f64::from(self.weight.unwrap_or(WEIGHT)) / f64::from(WEIGHT),
            ..Terms::default()
        }
    }
}

impl VolumeConfig {
    /// The iSCSI initiators that may use it.
    ///
    /// # Errors
    /// A name or an address is invalid.
    pub fn iscsi_allowed(&self) -> Result<AllowList, Error> {
        let keys = ("iscsi_initiators", "iscsi_addresses");
        let list = allow_list(&self.iscsi_initiators, &self.iscsi_addresses, keys)?;
        Ok(AllowList { accounts: self.iscsi_accounts.clone(), ..list })
    }

    /// Whether it is offered on a listening socket.
    #[must_use]
    pub fn is_offered_on(&self, socket: &Address) -> bool {
        self.sockets.is_empty() || self.sockets.contains(socket)
    }

    /// The class of requests without a class.
    #[must_use]
    pub fn class(&self) -> ClassId {
        self.class.and_then(ClassId::new).unwrap_or_default()
    }

    /// The domain within which it shares cached contents.
    #[must_use]
    pub fn domain(&self) -> DedupDomain {
        self.dedup_domain.as_deref().map_or(DedupDomain::SHARED, DedupDomain::named)
    }
}

/// Maximum number of spindles of an emulated array.
const SPINDLES_MAX: u32 = 64;
/// Stripe size of an emulated array.
const STRIPE_BYTES: u64 = 256 << 10;

/// A hard disk to emulate: `7200` or `15000` (rpm), or several in RAID-0, such as `7200:8`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Emulation {
    fast: bool,
    spindles: u32,
}

impl Emulation {
    /// The disk's mechanics.
    #[must_use]
    pub fn model(self) -> HddModel {
        let one = if self.fast { HddModel::rpm_15000() } else { HddModel::rpm_7200() };
        if self.spindles == 1 { one } else { one.with_spindles(self.spindles, STRIPE_BYTES) }
    }
}

impl fmt::Display for Emulation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", if self.fast { 15_000 } else { 7200 }, self.spindles)
    }
}

impl Serialize for Emulation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// An invalid description of a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmulationError(String);

impl fmt::Display for EmulationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is not a disk: write 7200 or 15000, or 7200:8 for eight of them (at most {SPINDLES_MAX})",
            self.0
        )
    }
}

impl std::error::Error for EmulationError {}

impl FromStr for Emulation {
    type Err = EmulationError;

    fn from_str(text: &str) -> Result<Self, EmulationError> {
        let refuse = || EmulationError(text.to_owned());
        let (rpm, spindles) = text.split_once(':').unwrap_or((text, "1"));
        let fast = match rpm {
            "7200" => false,
            "15000" => true,
            _ => return Err(refuse()),
        };
        let spindles = spindles.parse().map_err(|_| refuse())?;
        if (1..=SPINDLES_MAX).contains(&spindles) { Ok(Self { fast, spindles }) } else { Err(refuse()) }
    }
}

impl<'de> Deserialize<'de> for Emulation {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "a disk such as 7200, 15000 or \"7200:8\"")]
        enum Written {
            Number(u32),
            Text(String),
        }
        let text = match Written::deserialize(deserializer)? {
            Written::Number(rpm) => rpm.to_string(),
            Written::Text(text) => text,
        };
        text.parse().map_err(de::Error::custom)
    }
}
