//! All keys of a configuration file: the kind of value, its bounds, and whether it can change while the server runs. The meaning and
//! the default of a key are those of the option of `nitro serve` with the same name; keys without such an option have them here.

use serde::Serialize;
use std::fmt;

/// The section that a key belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// `[server]`
    Server,
    /// `[cache.NAME]`
    Cache,
    /// `[volume.NAME]`
    Volume,
}

impl Scope {
    /// All sections, in the order of a file.
    pub const ALL: [Self; 3] = [Self::Server, Self::Cache, Self::Volume];

    /// Its name in a file.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Cache => "cache",
            Self::Volume => "volume",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// When a change of a setting takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// At once: `nitro reload`, `nitro set`.
    Live,
    /// At the next start.
    Restart,
    /// When the cache is created; an existing cache keeps its value.
    Made,
}

impl Effect {
    /// The text for people.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Live => "at once",
            Self::Restart => "restart",
            Self::Made => "when the cache is created",
        }
    }
}

/// A kind of value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Bytes, or a text such as `"4G"`.
    Size,
    /// Seconds, or a text such as `"30s"`.
    Time,
    /// A whole number of percent.
    Percent,
    /// A whole number.
    Number,
    /// `true` or `false`.
    Switch,
    /// A path, as a text.
    Path,
    /// A path, or a list of paths.
    Paths,
    /// A text.
    Text,
    /// A list of texts.
    List,
    /// A section with keys of its own.
    Section,
}

impl Kind {
    /// The text for people.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Size => "size",
            Self::Time => "time",
            Self::Percent => "percent",
            Self::Number => "number",
            Self::Switch => "true or false",
            Self::Path => "path",
            Self::Paths => "path, or list of paths",
            Self::Text => "text",
            Self::List => "list of texts",
            Self::Section => "section",
        }
    }
}

/// A key of a configuration file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// The section.
    pub scope: Scope,
    /// The name of the key.
    pub key: &'static str,
    /// The kind of the value.
    pub kind: Kind,
    /// The minimum and the maximum, as they are written; an empty text: there is no such bound.
    pub bounds: (&'static str, &'static str),
    /// When a change takes effect.
    pub effect: Effect,
    /// The option of `nitro serve` whose help describes the key, without dashes; empty: `meaning` describes it.
    pub option: &'static str,
    /// The description of a key without an option, with its default in the form of an option's help.
    pub meaning: &'static str,
}

const fn of(
    scope: Scope,
    key: &'static str,
    kind: Kind,
    bounds: (&'static str, &'static str),
    effect: Effect,
) -> Setting {
    Setting { scope, key, kind, bounds, effect, option: "", meaning: "" }
}

const fn told(setting: Setting, meaning: &'static str) -> Setting {
    Setting { meaning, ..setting }
}

const fn as_option(setting: Setting, option: &'static str) -> Setting {
    Setting { option, ..setting }
}

use Effect::{Live, Made, Restart};
use Kind::{List, Number, Path, Paths, Percent, Section, Size, Switch, Text, Time};
use Scope::{Cache, Server, Volume};

const FREE: (&str, &str) = ("", "");

/// All keys, by section.
pub const SETTINGS: &[Setting] = &[
    of(Server, "listen", List, FREE, Restart),
    of(Server, "control", Path, FREE, Restart),
    of(Server, "socket_mode", Text, ("0600", "0777"), Restart),
    of(Server, "socket_group", Text, FREE, Restart),
    of(Server, "control_mode", Text, ("0600", "0777"), Restart),
    of(Server, "control_group", Text, FREE, Restart),
    of(Server, "http", Text, FREE, Restart),
    of(Server, "http_mode", Text, ("0600", "0777"), Restart),
    of(Server, "http_group", Text, FREE, Restart),
    of(Server, "http_token_file", Path, FREE, Restart),
    of(Server, "otlp", Text, FREE, Restart),
    of(Server, "otlp_sample", Number, ("1", "1000000"), Restart),
    of(Server, "threads", Number, ("1", "256"), Restart),
    of(Server, "max_connections", Number, ("1", "65536"), Live),
    of(Server, "max_connections_per_peer", Number, ("1", "65536"), Live),
    of(Server, "request_memory", Size, ("64M", ""), Restart),
    of(Server, "handshake_timeout", Time, ("1s", "168h"), Live),
    of(Server, "tcp_keepalive", Time, ("0", "168h"), Restart),
    of(Server, "tcp_user_timeout", Time, ("0", "168h"), Restart),
    of(Server, "vhost_busy_poll_us", Number, ("0", "10000"), Restart),
    told(
        of(Server, "iscsi", Section, FREE, Restart),
        "Section [server.iscsi] with initiators, addresses, chap, mutual_chap, state, groups and markup; docs/guide/iscsi.md describes them [default: any initiator]",
    ),
    told(
        of(Server, "destage_on_exit", Switch, FREE, Live),
        "Bring the origins up to date before the server ends; otherwise dirty data stay in the cache, where they are safe [default: true]",
    ),
    of(Server, "record", Path, FREE, Restart),
    of(Server, "tls", Text, FREE, Restart),
    of(Server, "tls_cert", Path, FREE, Restart),
    of(Server, "tls_key", Path, FREE, Restart),
    of(Server, "tls_client_ca", Path, FREE, Restart),
    as_option(of(Cache, "path", Paths, FREE, Restart), "cache"),
    as_option(of(Cache, "size", Size, FREE, Live), "cache-size"),
    of(Cache, "write_log", Path, FREE, Restart),
    of(Cache, "write_log_size", Size, FREE, Made),
    told(
        of(Cache, "mode", Text, FREE, Live),
        "When a write is acknowledged: when it is in the origin (write-through) or in the cache (write-back); for volumes that set no mode \
         [default: write-through]",
    ),
    of(Cache, "ram", Size, FREE, Restart),
    of(Cache, "extent_size", Size, ("4K", "128K"), Made),
    of(Cache, "weu_size", Size, ("512K", "8M"), Made),
    of(Cache, "dedup", Switch, FREE, Made),
    of(Cache, "compression", Text, FREE, Live),
    of(Cache, "fingerprint", Text, FREE, Made),
    of(Cache, "verify_duplicates", Switch, FREE, Restart),
    of(Cache, "fingerprint_index_ratio", Percent, ("0", "100"), Restart),
    of(Cache, "fingerprint_index", Text, FREE, Made),
    of(Cache, "fingerprint_index_ram", Size, FREE, Restart),
    of(Cache, "staging", Size, FREE, Restart),
    of(Cache, "endurance", Text, FREE, Live),
    of(Cache, "drive_size", Size, FREE, Live),
    of(Cache, "admission", Text, FREE, Restart),
    of(Cache, "destage", Text, FREE, Restart),
    of(Cache, "eviction", Text, FREE, Restart),
    of(Cache, "classes", Path, FREE, Live),
    of(Cache, "detect", Switch, FREE, Restart),
    of(Cache, "patterns", Switch, FREE, Restart),
    of(Cache, "sequential_threshold", Size, FREE, Restart),
    of(Cache, "dirty_start", Percent, ("0", "90"), Live),
    of(Cache, "dirty_max", Percent, ("1", "90"), Live),
    of(Cache, "dirty_age", Time, ("0", "168h"), Live),
    of(Cache, "dirty_wait", Time, ("0", "168h"), Live),
    of(Cache, "origin_timeout", Time, ("0", "168h"), Live),
    of(Cache, "format", Switch, FREE, Restart),
    of(Volume, "origin", Path, FREE, Restart),
    told(
        of(Volume, "cache", Text, FREE, Restart),
        "Name of the volume's cache; required if there are several caches [default: the only one]",
    ),
    told(
        of(Volume, "mode", Text, FREE, Live),
        "When a write is acknowledged: when it is in the origin (write-through) or in the cache (write-back) [default: as the cache says]",
    ),
    of(Volume, "read_only", Switch, FREE, Restart),
    told(
        of(Volume, "description", Text, FREE, Restart),
        "Description shown to clients that list the exports [default: none]",
    ),
    of(Volume, "dedup_domain", Text, FREE, Restart),
    of(Volume, "class", Number, ("0", "31"), Live),
    of(Volume, "write_policy", Text, FREE, Live),
    told(
        of(Volume, "ssd", Path, FREE, Restart),
        "SSD of the volume's store, for an origin cos:STORE#OBJECT: a file or a block device, which may be lost at any time [default: none]",
    ),
    told(
        of(Volume, "ssd_size", Size, FREE, Restart),
        "Bytes of the store's SSD that are used; required if it is a new file [default: all]",
    ),
    told(
        of(Volume, "ssd_data", Switch, FREE, Restart),
        "Keep chunks that are read at random on the store's SSD, too, although the volume's cache keeps them already [default: false]",
    ),
    told(
        of(Volume, "store_options", List, FREE, Restart),
        "Switches of the volume's store: no-patterns (small requests count as random, others as sequential), no-nsio-dedup \
         (small random writes look for duplicates in RAM only), nsio-metadata (a duplicate that is found for one loads its \
         container's fingerprints), no-readahead, compare (duplicates are compared), no-auto-gc (only `nitro cos gc` frees \
         space) [default: none]",
    ),
    of(Volume, "emulate_disk", Text, FREE, Restart),
    of(Volume, "dirty_share_min", Percent, ("0", "100"), Live),
    of(Volume, "dirty_share_max", Percent, ("1", "100"), Live),
    of(Volume, "detect_scan", Size, ("64K", ""), Restart),
    told(
        of(Volume, "iscsi_initiators", List, FREE, Live),
        "Names of iSCSI initiators that may log in to the volume, of those that [server.iscsi] allows; \
         a * at the end matches any rest. A change applies to new sessions [default: all that the server allows]",
    ),
    told(
        of(Volume, "iscsi_addresses", List, FREE, Live),
        "Addresses and networks, such as 10.0.0.0/8, from which iSCSI initiators may log in to the volume, \
         of those that [server.iscsi] allows. A change applies to new sessions [default: all that the server allows]",
    ),
    told(
        of(Volume, "iscsi_accounts", List, FREE, Live),
        "Names of CHAP accounts, of the file that [server.iscsi] names, that may log in to the volume over iSCSI. \
         A change applies to new sessions [default: all]",
    ),
    told(
        of(Volume, "iscsi_name", Text, FREE, Restart),
        "Name of the volume's iSCSI target [default: iqn.2026-11.nitro:NAME.SERIAL, in lower case]",
    ),
    told(
        of(Volume, "serial", Text, FREE, Restart),
        "Serial number of the volume for iSCSI initiators and virtual machines: 1 to 36 letters, digits, '-', '.' and '_'. \
         Units with the same one are the same disk for initiators [default: for initiators by the volume's UUID, or, if \
         an earlier program served it, by the machine and its name; for virtual machines the name, or a hash of it if it is \
         longer than 20 bytes]",
    ),
    told(
        of(Volume, "nbd_clients", List, FREE, Live),
        "Certificates with which NBD clients may use the volume: common names, DNS names (in lower case) or URIs of the \
         certificate's subject, or sha256: and the certificate's fingerprint; requires tls_client_ca. A change applies to new clients [default: all \
         clients]",
    ),
    told(
        of(Volume, "sockets", List, FREE, Live),
        "Addresses of listen in [server] on which the volume is offered, as they are written there. A change applies to \
         new clients [default: all]",
    ),
];

impl Setting {
    /// The key of that name in a section.
    #[must_use]
    pub fn find(scope: Scope, key: &str) -> Option<&'static Self> {
        SETTINGS.iter().find(|setting| setting.scope == scope && setting.key == key)
    }

    /// The option of `nitro serve` whose help describes the key; `None`: [`meaning`](Self::meaning) describes it.
    #[must_use]
    pub fn option(&self) -> Option<String> {
        match (self.option, self.meaning) {
            ("", "") => Some(self.key.replace('_', "-")),
            ("", _) => None,
            (option, _) => Some(option.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;
    use std::collections::BTreeSet;

    /// The keys that a section takes, as the error says that follows one that it does not.
    fn taken(section: &str) -> BTreeSet<String> {
        let text = format!("{section}\nno_such_key_at_all = 1\n");
        let said = Config::parse(&text).unwrap_err().to_string();
        let valid = said.split_once("valid here: ").expect("a list").1;
        valid.split(", ").map(str::to_owned).collect()
    }

    #[test]
    fn each_key_is_declared_once() {
        for (scope, section) in [(Server, "[server]"), (Cache, "[cache.a]"), (Volume, "[volume.a]")] {
            let declared: Vec<_> = SETTINGS.iter().filter(|s| s.scope == scope).map(|s| s.key.to_owned()).collect();
            let as_set: BTreeSet<_> = declared.iter().cloned().collect();
            assert_eq!(declared.len(), as_set.len(), "{section}: a key is declared twice");
            assert_eq!(as_set, taken(section), "{section}: declare each key in config/settings.rs");
        }
    }

    /// Whether a configuration is taken in which a key has that value.
    fn accepts(setting: &Setting, value: &str) -> bool {
        let value = if value.bytes().all(|b| b.is_ascii_digit()) && !value.starts_with("07") && !value.starts_with("06")
        {
            value.to_owned()
        } else {
            format!("{value:?}")
        };
        let with =
            |scope: Scope| if setting.scope == scope { format!("{} = {value}\n", setting.key) } else { String::new() };
        // A start above the most is refused for itself.
        let room = if setting.key == "dirty_start" { "dirty_max = 90\n" } else { "" };
        let start = if setting.key == "dirty_max" { "dirty_start = 0\n" } else { "" };
        let collector = if setting.key == "otlp_sample" { "otlp = \"http://localhost:4318\"\n" } else { "" };
        let text = format!(
            "[server]\n{collector}{}[cache.c]\npath = \"c\"\n{room}{start}{}[volume.v]\norigin = \"v\"\n{}",
            with(Server),
            with(Cache),
            with(Volume)
        );
        Config::parse(&text).is_ok()
    }

    fn beside(value: &str, step: i64) -> Option<String> {
        let digits = value.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let (number, unit) = (digits.parse::<i64>().ok()?, &value[digits.len()..]);
        let next = number + step;
        (next >= 0).then(|| match value.starts_with('0') && value.len() == 4 {
            true => format!("{:04o}", i64::from_str_radix(value, 8).unwrap_or(0) + step),
            false => format!("{next}{unit}"),
        })
    }

    #[test]
    fn bounds_are_those_that_are_checked() {
        for setting in SETTINGS {
            for (bound, step) in
                [(setting.bounds.0, -1), (setting.bounds.1, 1)].into_iter().filter(|(b, _)| !b.is_empty())
            {
                assert!(accepts(setting, bound), "{} = {bound}", setting.key);
                if let Some(out) = beside(bound, step) {
                    assert!(!accepts(setting, &out), "{} = {out}", setting.key);
                }
            }
        }
    }
}
