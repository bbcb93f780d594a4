//! `[volume.NAME]`

use super::iscsi::allow_list;
use super::{Address, Mode};
use nitro_cache::admission::WritePolicy;
use nitro_console::error::Error;
use nitro_console::size::Size;
use nitro_cos::Settings;
use nitro_device::hdd::HddModel;
use nitro_engine::{DedupDomain, DirtyShare};
use nitro_iscsi::AllowList;
use nitro_nbd::FINGERPRINT_PREFIX;
use nitro_units::ClassId;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// A volume: an origin behind a cache, exported under the volume's name.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VolumeConfig {
    /// A file or block device, or an object of a deduplicating store: `cos:STORE#OBJECT`.
    pub origin: PathBuf,
    /// The name of its cache; optional if there is only one.
    pub cache: Option<String>,
    /// When a write is acknowledged; default: the cache's mode.
    pub mode: Option<Mode>,
    /// Refuse writes.
    #[serde(default)]
    pub read_only: bool,
    /// Shown to clients that list the exports.
    #[serde(default)]
    pub description: String,
    /// Share cached contents only with volumes of the same domain; default: with all volumes without a domain.
    pub dedup_domain: Option<String>,
    /// The class, 1 to 31, of requests without a class; default: not classified.
    pub class: Option<u8>,
    /// Which written content is cached: `allocate` (all), `update` (only extents that are cached already), `invalidate`
    /// (none).
    pub write_policy: Option<WritePolicy>,
    /// Make the origin as slow as a hard disk.
    pub emulate_disk: Option<Emulation>,
    /// The SSD of the origin's store, instead of the one that was attached to the store: a file, which is created if it
    /// does not exist, or a block device. All volumes of one store use the same SSD.
    pub ssd: Option<PathBuf>,
    /// Size of that file.
    pub ssd_size: Option<Size>,
    /// Keep chunks on that SSD, too: data in the volume's cache are then on both SSDs.
    #[serde(default)]
    pub ssd_data: bool,
    /// Switches of the store. All volumes of one store must have the same.
    #[serde(default)]
    pub store_options: Vec<StoreOption>,
    /// Percentage of the cache's room for dirty data that is reserved for this volume while it is in write-back.
    pub dirty_share_min: Option<u8>,
    /// Percentage of that room that this volume may take.
    pub dirty_share_max: Option<u8>,
    /// Read the metadata of its file systems when it begins to be served, at this maximum of bytes a second; default:
    /// no.
    pub detect_scan: Option<Size>,
    /// Names of iSCSI initiators that may use the volume, of those that `[server.iscsi]` allows; a `*` at the end
    /// matches any suffix. Empty: all of those.
    #[serde(default)]
    pub iscsi_initiators: Vec<String>,
    /// Addresses and networks from which iSCSI initiators may use the volume. Empty: all that `[server.iscsi]` allows.
    #[serde(default)]
    pub iscsi_addresses: Vec<String>,
    /// CHAP accounts that may use the volume over iSCSI. Empty: all.
    #[serde(default)]
    pub iscsi_accounts: Vec<String>,
    /// The name of its iSCSI target; default: `iqn.2026-11.nitro:NAME.SERIAL`, in lower case.
    pub iscsi_name: Option<String>,
    /// The serial number for initiators and virtual machines; default: by the volume's UUID and name.
    pub serial: Option<String>,
    /// Certificates with which NBD clients may use the volume. Empty: all clients.
    #[serde(default)]
    pub nbd_clients: Vec<Certified>,
    /// The addresses of `server.listen` on which the volume is offered. Empty: all.
    #[serde(default)]
    pub sockets: Vec<Address>,
}

/// What a client's certificate has to say: a common name, a DNS name (in lower case) or URI of its subject, or `sha256:` and
/// its fingerprint.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
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
