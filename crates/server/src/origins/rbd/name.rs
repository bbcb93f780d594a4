//! The names of images: `POOL/IMAGE`, `POOL/NAMESPACE/IMAGE`, with `@SNAPSHOT`, as Ceph's own programs write them, and how they are reached.

use crate::origins::percent::{decoded, encoded};
use nitro_console::error::Error;
use std::fmt;
use std::path::PathBuf;

/// The form for error messages.
pub(super) const FORM: &str = "rbd:POOL/IMAGE[@SNAPSHOT]";

/// An image of a cluster, or a snapshot of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ImageName {
    pub(super) pool: String,
    pub(super) namespace: Option<String>,
    pub(super) image: String,
    pub(super) snapshot: Option<String>,
    /// The configuration file of the cluster (`conf`).
    pub(super) conf: Option<PathBuf>,
    /// The user without `client.` (`id`).
    pub(super) id: Option<String>,
    /// The lock is taken from whoever has it (`lock=break`).
    pub(super) breaks_lock: bool,
}

fn wrong(why: impl fmt::Display) -> Error {
    Error::new("rbd:", why).or(format_args!("write {FORM} or rbd:POOL/NAMESPACE/IMAGE; ?conf=PATH&id=USER may follow"))
}

/// A name in percent-encoding.
fn part(text: &str, what: &str) -> Result<String, Error> {
    match decoded(text) {
        Ok(text) if text.is_empty() => Err(wrong(format_args!("it names no {what}"))),
        Ok(text) => Ok(text),
        Err(why) => Err(wrong(why)),
    }
}

impl ImageName {
    /// Parses what follows the scheme and its colon.
    pub(super) fn parse(rest: &str) -> Result<Self, Error> {
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (place, snapshot) = place.split_once('@').map_or((place, None), |(place, name)| (place, Some(name)));
        let parts: Vec<&str> = place.split('/').collect();
        let (pool, namespace, image) = match parts[..] {
            [pool, image] => (pool, None, image),
            [pool, namespace, image] => (pool, Some(namespace), image),
            [_] => return Err(wrong("it names no pool and image")),
            _ => return Err(wrong("it has more than a pool, a namespace and an image")),
        };
        let mut name = Self {
            pool: part(pool, "pool")?,
            namespace: namespace.map(|name| part(name, "namespace")).transpose()?,
            image: part(image, "image")?,
            snapshot: snapshot.map(|name| part(name, "snapshot")).transpose()?,
            conf: None,
            id: None,
            breaks_lock: false,
        };
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = part(value, "value of a parameter")?;
            match (key, value.as_str()) {
                ("conf", _) => name.conf = Some(value.into()),
                ("id", _) if value.starts_with("client.") => {
                    return Err(wrong("the user is named without client.: ?id=USER"));
                }
                ("id", _) => name.id = Some(value),
                ("lock", "break") if name.snapshot.is_none() => name.breaks_lock = true,
                ("lock", "break") => return Err(wrong("a snapshot has no lock")),
                _ => return Err(wrong(format_args!("there is no parameter {pair:?}: conf=PATH, id=USER, lock=break"))),
            }
        }
        Ok(name)
    }

    /// The name for Ceph's own programs.
    pub(super) fn spec(&self) -> String {
        let namespace = self.namespace.as_ref().map(|name| format!("{name}/")).unwrap_or_default();
        let snapshot = self.snapshot.as_ref().map(|name| format!("@{name}")).unwrap_or_default();
        format!("{}/{namespace}{}{snapshot}", self.pool, self.image)
    }

    /// The pool, or its namespace, for Ceph's own programs.
    pub(super) fn pool_spec(&self) -> String {
        self.namespace.as_ref().map_or_else(|| self.pool.clone(), |name| format!("{}/{name}", self.pool))
    }

    /// The user.
    pub(super) fn user(&self) -> String {
        format!("client.{}", self.id.as_deref().unwrap_or("admin"))
    }
}

/// The whole text in one form.
impl fmt::Display for ImageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A name may have a slash or an @ only if that is encoded.
        let name = |text: &str| encoded(text).replace('/', "%2F");
        write!(f, "rbd:{}/", name(&self.pool))?;
        if let Some(namespace) = &self.namespace {
            write!(f, "{}/", name(namespace))?;
        }
        f.write_str(&name(&self.image))?;
        if let Some(snapshot) = &self.snapshot {
            write!(f, "@{}", name(snapshot))?;
        }
        let conf = self.conf.as_ref().map(|path| encoded(&path.to_string_lossy()));
        let id = self.id.as_deref().map(encoded);
        let lock = self.breaks_lock.then(|| "break".to_owned());
        let mut separator = '?';
        for (key, value) in [("conf", conf), ("id", id), ("lock", lock)] {
            if let Some(value) = value {
                write!(f, "{separator}{key}={value}")?;
                separator = '&';
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back_in_one_form() {
        for (text, form, spec) in [
            ("pool/vm", "rbd:pool/vm", "pool/vm"),
            ("pool/vm@monday", "rbd:pool/vm@monday", "pool/vm@monday"),
            ("pool/team/vm@a%40b", "rbd:pool/team/vm@a%40b", "pool/team/vm@a@b"),
            ("p/v%3F?id=nitro&conf=/etc/ceph/a b.conf", "rbd:p/v%3F?conf=/etc/ceph/a%20b.conf&id=nitro", "p/v?"),
            ("p/v?lock=break&&", "rbd:p/v?lock=break", "p/v"),
            ("p/a%2Fb", "rbd:p/a%2Fb", "p/a/b"),
        ] {
            let name = ImageName::parse(text).unwrap();
            assert_eq!((name.to_string().as_str(), name.spec().as_str()), (form, spec));
            assert_eq!(ImageName::parse(form.strip_prefix("rbd:").unwrap()).unwrap(), name);
        }
    }

    #[test]
    fn what_names_none_is_refused() {
        for text in [
            "",
            "vm",
            "/vm",
            "pool/",
            "pool//vm",
            "pool/vm@",
            "//pool/vm",
            "a/b/c/d",
            "pool/vm?id=",
            "pool/vm?id=client.x",
            "pool/vm?lock=take",
            "pool/vm@s?lock=break",
            "pool/vm?cluster=x",
            "pool/v%00m",
            "pool/v%ffm",
            "pool/v%m",
        ] {
            let error = ImageName::parse(text).unwrap_err().to_string();
            assert!(error.contains(FORM), "{text:?}: {error}");
        }
    }
}
