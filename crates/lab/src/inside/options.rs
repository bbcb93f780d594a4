//! The options of commands as settings by name, for other programs.

use super::Reading;
use crate::args::{SimArgs, SizeArgs};
use clap::builder::{Arg, ArgAction};
use clap::{Args, Command, FromArgMatches};
use nitro_commands::failure;
use nitro_console::error::Error;
use std::ffi::OsString;
use std::path::PathBuf;

/// Options that say where results go, and how they look.
const RESULTS: [&str; 2] = ["output", "parquet"];

/// The value of a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// As on a command line.
    Text(String),
    /// `on` or `off`; an option that takes no value is given or not.
    Switch(bool),
    /// The values of an option that may be given several times.
    Texts(Vec<String>),
}

/// A setting: an option of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// The name of the option, with underscores.
    pub name: String,
    /// The help text of the option, mostly with the default in brackets at its end.
    pub help: String,
    /// The possible values, if there are few.
    pub values: Vec<String>,
}

/// The calls that take settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// [`open`](super::open) and [`misses`](super::misses)
    Reading,
    /// [`simulate`](super::simulate)
    Simulation,
    /// [`curve`](super::curve) and [`lru_curve`](super::lru_curve)
    Curve,
    /// [`answer`](super::answer)
    Size,
}

impl Call {
    /// Its settings, in the order of the command's help.
    #[must_use]
    pub fn settings(self) -> Vec<Setting> {
        let command = self.command();
        let taken = command.get_arguments().filter(|option| self.takes(option) && !option.is_hide_set());
        let setting = |option: &Arg| Setting {
            name: long(option).replace('-', "_"),
            help: option.get_help().map(ToString::to_string).unwrap_or_default(),
            values: option.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect(),
        };
        taken.map(setting).collect()
    }

    fn command(self) -> Command {
        let command = Command::new("nitro-lab").no_binary_name(true).disable_help_flag(true);
        match self {
            Self::Reading => Reading::augment_args(command),
            Self::Simulation => SimArgs::augment_args(command),
            Self::Curve | Self::Size => SizeArgs::augment_args(command),
        }
    }

    fn takes(self, option: &Arg) -> bool {
        let (long, heading) = (long(option), option.get_help_heading().unwrap_or_default());
        if long.is_empty() || RESULTS.contains(&long) {
            return false;
        }
        match self {
            Self::Reading => true,
            Self::Simulation => ["Cache", "Time", "Reading"].contains(&heading),
            // The sizes are not one setting.
            Self::Curve => ["Cache", "Reading"].contains(&heading) && long != "cache-size" || long == "threads",
            Self::Size => true,
        }
    }

    /// The arguments for `traces` and the settings that are `given`.
    pub(super) fn parsed<T: FromArgMatches>(self, given: &[(String, Value)], traces: &[PathBuf]) -> Result<T, Error> {
        let command = self.command();
        let mut words: Vec<OsString> = Vec::with_capacity(given.len() + traces.len() + 1);
        for (name, value) in given {
            let option = command.get_arguments().find(|option| long(option).replace('-', "_") == *name);
            let Some(option) = option.filter(|option| self.takes(option)) else { return Err(self.unknown(name)) };
            let word = |text: &str| OsString::from(format!("--{}={text}", long(option)));
            match (value, option.get_action()) {
                (Value::Switch(true), ArgAction::SetTrue) => words.push(format!("--{}", long(option)).into()),
                (Value::Switch(false), ArgAction::SetTrue) => {}
                (Value::Switch(on), _) => words.push(word(if *on { "on" } else { "off" })),
                (Value::Text(text), _) => words.push(word(text)),
                (Value::Texts(texts), _) => words.extend(texts.iter().map(|text| word(text))),
            }
        }
        if !traces.is_empty() {
            words.push("--".into());
            words.extend(traces.iter().map(|path| path.clone().into_os_string()));
        }
        let parsed = command.try_get_matches_from(words).and_then(|matches| T::from_arg_matches(&matches));
        parsed.map_err(|error| Error::told(&failure::problem(&error)))
    }

    fn unknown(self, name: &str) -> Error {
        let names: Vec<_> = self.settings().into_iter().map(|setting| setting.name).collect();
        Error::new(name, "there is no such setting").or(format_args!("there are {}", names.join(", ")))
    }
}

fn long(option: &Arg) -> &str {
    option.get_long().unwrap_or_default()
}
