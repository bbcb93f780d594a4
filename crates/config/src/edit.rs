//! Changes one key of a configuration and keeps everything else: comments, order, blanks.

use super::settings::{Scope, Setting};
use super::text::nearest;
use nitro_console::error::Error;
use std::fmt;
use std::str::FromStr;
use toml_edit::{DocumentMut, Item, Table, Value};

/// A key of one section: `server.KEY`, `cache.NAME.KEY` or `volume.NAME.KEY`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyPath {
    /// The kind of section.
    pub scope: Scope,
    /// The cache's or volume's name; empty for the server.
    pub name: String,
    /// The declaration of the key.
    pub setting: &'static Setting,
}

impl fmt::Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.scope {
            Scope::Server => write!(f, "server.{}", self.setting.key),
            scope => write!(f, "{scope}.{}.{}", self.name, self.setting.key),
        }
    }
}

impl FromStr for KeyPath {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let refuse = |why: &str| Error::new(format_args!("key {text:?}"), why);
        let form = "write server.KEY, cache.NAME.KEY or volume.NAME.KEY, such as cache.fast.dirty_max";
        let (section, rest) = text.split_once('.').ok_or_else(|| refuse("it names no section").or(form))?;
        let scope = Scope::ALL.into_iter().find(|scope| scope.as_str() == section);
        let scope = scope.ok_or_else(|| refuse("there is no such section").or(form))?;
        // A name may have dots itself.
        let (name, key) = match scope {
            Scope::Server => ("", rest),
            _ => rest.rsplit_once('.').ok_or_else(|| refuse("it names no key of its section").or(form))?,
        };
        let setting = Setting::find(scope, key).ok_or_else(|| {
            let known = scope.settings().iter().map(|setting| setting.key);
            let hint = match nearest(key, known) {
                Some(near) => format!("did you mean {near:?}?"),
                None => "nitro set --list shows all keys".to_owned(),
            };
            refuse("there is no such key").or(hint)
        })?;
        Ok(Self { scope, name: name.to_owned(), setting })
    }
}

/// A value as given on the command line: a number, `true` or `false`, a list in brackets, otherwise a text.
fn value_of(text: &str) -> Value {
    let typed = text.parse::<Value>().ok();
    let typed = typed.filter(|value| value.is_integer() || value.is_bool() || value.is_array() || value.is_str());
    let mut value = typed.unwrap_or_else(|| Value::from(text));
    value.decor_mut().clear();
    value
}

/// A configuration file's text with one key changed or added.
///
/// # Errors
/// The text is not TOML, or it has no such section.
pub fn edited(text: &str, path: &KeyPath, value: &str) -> Result<String, Error> {
    let mut document: DocumentMut =
        text.parse().map_err(|e: toml_edit::TomlError| Error::new("configuration", e.message()))?;
    let missing = || {
        Error::new(path, format_args!("there is no section [{}.{}]", path.scope, path.name))
            .or("name a section of the configuration file")
    };
    let section = match path.scope {
        Scope::Server => document.entry("server").or_insert(Item::Table(Table::new())),
        scope => document.get_mut(scope.as_str()).and_then(|all| all.get_mut(&path.name)).ok_or_else(missing)?,
    };
    let table = section.as_table_like_mut().ok_or_else(missing)?;
    let mut value = value_of(value);
    match table.get_mut(path.setting.key).and_then(Item::as_value_mut) {
        Some(old) => {
            *value.decor_mut() = old.decor().clone();
            *old = value;
        }
        None => drop(table.insert(path.setting.key, Item::Value(value))),
    }
    Ok(document.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# mine\n[server]\n[cache.fast] # the NVMe\npath = \"c\"  # here\ndirty_max = 40 # percent\n[volume.vm]\norigin = \"o\"\n";

    fn set(key: &str, value: &str) -> String {
        edited(TEXT, &key.parse().unwrap(), value).unwrap()
    }

    #[test]
    fn one_key_changes_and_comments_stay() {
        assert_eq!(set("cache.fast.dirty_max", "60"), TEXT.replace("= 40 #", "= 60 #"));
        assert_eq!(
            set("volume.vm.mode", "write-back"),
            TEXT.replace("origin = \"o\"\n", "origin = \"o\"\nmode = \"write-back\"\n")
        );
        assert_eq!(set("server.threads", "2"), TEXT.replace("[server]\n", "[server]\nthreads = 2\n"));
        let listen = set("server.listen", "[\"unix:/a\", \"unix:/b\"]");
        assert!(listen.contains("listen = [\"unix:/a\", \"unix:/b\"]\n"), "{listen}");
        assert!(set("cache.fast.size", "4G").contains("size = \"4G\"\n"));
        assert!(set("server.socket_mode", "0660").contains("socket_mode = \"0660\"\n"));
        assert!(
            set("server.tcp_keepalive", "1979-05-27").contains("tcp_keepalive = \"1979-05-27\"\n"),
            "a text, for the check to refuse"
        );
    }

    #[test]
    fn what_is_no_key_is_refused_with_the_nearest() {
        let refused = |key: &str| key.parse::<KeyPath>().unwrap_err().to_string();
        assert!(refused("cache.fast.dirty_maxx").contains("did you mean \"dirty_max\"?"));
        for text in ["dirty_max", "caches.a.size", "cache.size", ""] {
            assert!(refused(text).contains("cache.fast.dirty_max"), "{text}");
        }
        let path: KeyPath = "volume.a.b.mode".parse().unwrap();
        assert_eq!((path.name.as_str(), path.to_string().as_str()), ("a.b", "volume.a.b.mode"));
        assert!(edited(TEXT, &path, "write-back").unwrap_err().to_string().contains("[volume.a.b]"));
        let path: KeyPath = "cache.fast.path".parse().unwrap();
        assert!(edited("[[", &path, "x").is_err());
    }
}
