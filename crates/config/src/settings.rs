//! What a setting is, and the macro that declares the settings of a section: docs/adding-a-setting.md.

use crate::{CacheConfig, ServerConfig, SocketMode, Span, VolumeConfig};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use nitro_console::error::Error;
use nitro_console::size::Size;
use serde::Serialize;
use std::fmt;
use std::num::NonZeroU32;

/// The heading of the options that most servers need, in the help of `nitro serve`.
pub const FIRST: &str = "First of all";

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

    /// Its settings.
    #[must_use]
    pub fn settings(self) -> &'static [Setting] {
        match self {
            Self::Server => ServerConfig::SETTINGS,
            Self::Cache => CacheConfig::SETTINGS,
            Self::Volume => VolumeConfig::SETTINGS,
        }
    }

    /// The options of the command line that set them.
    #[must_use]
    pub fn options(self) -> clap::Command {
        let command = clap::Command::new(self.as_str());
        match self {
            Self::Server => ServerConfig::augment_args(command),
            Self::Cache => CacheConfig::augment_args(command),
            Self::Volume => VolumeConfig::augment_args(command),
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

/// A setting: a key of a configuration file, and mostly an option of the command line.
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
    /// What it means, and its default in brackets at the end.
    pub help: &'static str,
}

/// Declares the settings of a section. A row is the help text with the default in brackets at the end, `#[arg(…)]` as
/// clap has it (`skip`: the setting is no option of the command line), the name, the type, the [`Kind`], the
/// [`Effect`], and the bounds, if there are any.
macro_rules! settings {
    (
        $(#[$meta:meta])*
        $scope:ident: $name:ident {
            $(
                $(#[doc = $help:literal])+
                #[arg($($arg:tt)*)]
                $(#[serde($($serde:tt)*)])?
                $key:ident: $type:ty = $kind:ident, $effect:ident $(, $min:literal..$max:literal)?;
            )+
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Default, PartialEq, serde::Deserialize, clap::Args)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $(
                $(#[doc = $help])+
                #[arg($($arg)*)]
                $(#[serde($($serde)*)])?
                pub $key: $type,
            )+
        }

        impl $name {
            /// All its settings.
            pub const SETTINGS: &'static [$crate::Setting] = &[$($crate::Setting {
                scope: $crate::Scope::$scope,
                key: stringify!($key),
                kind: $crate::Kind::$kind,
                bounds: $crate::settings::settings!(@bounds $($min, $max)?),
                effect: $crate::Effect::$effect,
                help: concat!($($help),+),
            }),+];

            /// Takes the value of one setting over from another section.
            pub fn take(&mut self, key: &str, from: &Self) {
                match key {
                    $(stringify!($key) => self.$key.clone_from(&from.$key),)+
                    _ => {}
                }
            }

            /// Checks the bounds of all values.
            pub(crate) fn check_bounds(&self) -> Result<(), nitro_console::error::Error> {
                $($({
                    let setting = $crate::Setting::find($crate::Scope::$scope, stringify!($key));
                    $crate::settings::check(setting, ($min, $max), &self.$key)?;
                })?)+
                Ok(())
            }
        }
    };
    (@bounds) => { ("", "") };
    (@bounds $min:literal, $max:literal) => { ($min, $max) };
}
pub(crate) use settings;

/// A value that may have bounds.
pub(crate) trait Bounded {
    /// What is compared with the bounds, and the value for people; `None`: there is no value, or its type has the bounds.
    fn amount(&self) -> Option<(u64, String)>;
}

impl<T: Bounded> Bounded for Option<T> {
    fn amount(&self) -> Option<(u64, String)> {
        self.as_ref()?.amount()
    }
}

impl Bounded for Size {
    fn amount(&self) -> Option<(u64, String)> {
        Some((self.0, self.to_string()))
    }
}

impl Bounded for Span {
    fn amount(&self) -> Option<(u64, String)> {
        Some((self.0.as_secs(), self.0.as_secs().to_string()))
    }
}

impl Bounded for SocketMode {
    fn amount(&self) -> Option<(u64, String)> {
        None
    }
}

macro_rules! bounded_numbers {
    ($($type:ty)+) => {
        $(impl Bounded for $type {
            fn amount(&self) -> Option<(u64, String)> {
                Some((*self as u64, self.to_string()))
            }
        })+
    };
}
bounded_numbers!(u8 u32 usize);

impl Bounded for NonZeroU32 {
    fn amount(&self) -> Option<(u64, String)> {
        self.get().amount()
    }
}

/// Checks that a value is within the bounds of its setting.
pub(crate) fn check(setting: Option<&Setting>, (min, max): (&str, &str), value: &impl Bounded) -> Result<(), Error> {
    let (Some(setting), Some((amount, shown))) = (setting, value.amount()) else { return Ok(()) };
    if setting.number(min).is_none_or(|min| amount >= min) && setting.number(max).is_none_or(|max| amount <= max) {
        return Ok(());
    }
    let unit = if setting.kind == Kind::Percent { " percent" } else { "" };
    let range = if max.is_empty() { format!("{min} or more") } else { format!("{min} to {max}{unit}") };
    let error = Error::new(format_args!("{} = {shown}", setting.key), format_args!("must be {range}"));
    Err(match setting.meaning_and_default() {
        (_, Some(default)) => error.or(format_args!("leave it out: {default}")),
        (_, None) => error,
    })
}

impl Setting {
    /// The key of that name in a section.
    #[must_use]
    pub fn find(scope: Scope, key: &str) -> Option<&'static Self> {
        scope.settings().iter().find(|setting| setting.key == key)
    }

    /// The meaning, and the default in words, if the help text ends with one.
    #[must_use]
    pub fn meaning_and_default(&self) -> (&'static str, Option<&'static str>) {
        let help = self.help.trim_start();
        match help.split_once(" [default: ") {
            Some((meaning, default)) => (meaning, Some(default.trim_end_matches(']'))),
            None => (help, None),
        }
    }

    /// One of its bounds as a number.
    fn number(&self, bound: &str) -> Option<u64> {
        match self.kind {
            Kind::Size => bound.parse::<Size>().ok().map(|size| size.0),
            Kind::Time => bound.parse::<Span>().ok().map(|span| span.0.as_secs()),
            _ => bound.parse().ok(),
        }
    }
}

/// The help text of a setting, for an option that differs from that of `nitro serve` in other respects.
#[must_use]
pub fn help(scope: Scope, key: &str) -> &'static str {
    Setting::find(scope, key).map_or("", |setting| setting.help.trim_start())
}

/// Parses `on` or `off`, for options that are `true` or `false` in a file.
#[must_use]
pub fn on_off() -> impl TypedValueParser<Value = bool> {
    PossibleValuesParser::new(["on", "off"]).map(|text| text == "on")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

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
        let limit = if setting.key == "burst" { "iops = 100\n" } else { "" };
        let points =
            if ["max_age", "max_bytes"].contains(&setting.key) { "mode = \"write-back\"\npoints = true\n" } else { "" };
        let (etcd, cluster) = match setting.key {
            "lease" => ("etcd = [\"http://e:2379\"]\ntakeover = \"/m\"\n", "cluster = true\n"),
            _ => ("", ""),
        };
        let origin = if ["weight", "reservation"].contains(&setting.key) { "cos:s#o" } else { "v" };
        let text = format!(
            "[server]\n{collector}{etcd}{}[cache.c]\npath = \"c\"\n{room}{start}{}[volume.v]\norigin = \"{origin}\"\n{limit}{points}{cluster}{}",
            with(Scope::Server),
            with(Scope::Cache),
            with(Scope::Volume)
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
        for setting in Scope::ALL.into_iter().flat_map(Scope::settings) {
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
