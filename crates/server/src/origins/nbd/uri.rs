//! The names of exports: the URIs of the NBD project ([doc/uri.md][uri]), with libnbd's parameters for TLS.
//!
//! [uri]: https://github.com/NetworkBlockDevice/nbd/blob/master/doc/uri.md

use crate::origins::percent::{self, encoded};
use nitro_console::error::Error;
use std::fmt;
use std::path::PathBuf;

/// The port of NBD.
const PORT: u16 = 10809;
/// The longest name of an export ("String values" in proto.md), in bytes.
const EXPORT_BYTES_MAX: usize = 4096;

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    Tcp { host: String, port: u16 },
    Unix(PathBuf),
}

/// What a URI says about TLS.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Tls {
    /// The folder with the certificates (`tls-certificates`).
    pub(super) folder: Option<PathBuf>,
    /// The name in the server's certificate, if it is not the host's (`tls-hostname`).
    pub(super) host: Option<String>,
}

/// An export of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Uri {
    pub(super) target: Target,
    pub(super) export: String,
    /// `None`: plaintext.
    pub(super) tls: Option<Tls>,
}

fn wrong(why: impl fmt::Display) -> Error {
    Error::new("URI", why).or("write nbd://HOST[:PORT]/EXPORT or nbd+unix:///EXPORT?socket=PATH; with TLS, nbds")
}

impl Uri {
    /// Parses what follows the scheme and its colon.
    pub(super) fn parse(is_unix: bool, is_tls: bool, rest: &str) -> Result<Self, Error> {
        let rest = rest.strip_prefix("//").ok_or_else(|| wrong("two slashes follow the colon"))?;
        if rest.contains('#') {
            return Err(wrong("it has a fragment: write %23 for # in a name"));
        }
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, export) = place.split_once('/').unwrap_or((place, ""));
        let export = decoded(export)?;
        if export.len() > EXPORT_BYTES_MAX {
            return Err(wrong("the name of the export is longer than 4096 bytes"));
        }
        let (mut socket, mut tls) = (None, is_tls.then(Tls::default));
        for pair in query.split(['&', ';']).filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = decoded(value)?;
            match (key, &mut tls) {
                ("socket", _) if is_unix && !value.is_empty() => socket = Some(PathBuf::from(value)),
                ("tls-certificates", Some(tls)) => tls.folder = Some(value.into()),
                ("tls-hostname", Some(tls)) => tls.host = Some(value),
                _ => return Err(wrong(format_args!("the parameter {key:?} is not supported here"))),
            }
        }
        let target = match (is_unix, socket) {
            (true, Some(path)) if authority.is_empty() => Target::Unix(path),
            (true, Some(_)) => {
                return Err(wrong("with a unix socket there is no host: three slashes follow the colon"));
            }
            (true, None) => return Err(wrong("it names no socket: ?socket=PATH")),
            (false, _) => tcp(authority)?,
        };
        Ok(Self { target, export, tls })
    }

    /// The same server and export in one form, whatever the URI says about TLS.
    pub(super) fn place(&self) -> String {
        match &self.target {
            Target::Tcp { host, port } if host.contains(':') => {
                format!("nbd://[{host}]:{port}/{}", encoded(&self.export))
            }
            Target::Tcp { host, port } => format!("nbd://{host}:{port}/{}", encoded(&self.export)),
            Target::Unix(path) => {
                format!("nbd+unix:///{}?socket={}", encoded(&self.export), encoded(&path.to_string_lossy()))
            }
        }
    }
}

/// The whole URI in one form.
impl fmt::Display for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = self.place();
        let Some(tls) = &self.tls else { return f.write_str(&place) };
        f.write_str(&place.replacen("nbd", "nbds", 1))?;
        let mut separator = if place.contains('?') { '&' } else { '?' };
        let folder = tls.folder.as_ref().map(|folder| folder.to_string_lossy().into_owned());
        for (key, value) in [("tls-certificates", folder), ("tls-hostname", tls.host.clone())] {
            if let Some(value) = value {
                write!(f, "{separator}{key}={}", encoded(&value))?;
                separator = '&';
            }
        }
        Ok(())
    }
}

/// `HOST`, `HOST:PORT`, `[IPV6]` or `[IPV6]:PORT`.
fn tcp(authority: &str) -> Result<Target, Error> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or_else(|| wrong("a bracket is not closed"))?;
            (host, port.strip_prefix(':'))
        }
        None => authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port))),
    };
    if host.is_empty() {
        return Err(wrong("it names no host"));
    }
    if host.contains('@') {
        return Err(wrong("NBD has no users: leave out what is before the @"));
    }
    let port = match port {
        None | Some("") => PORT,
        Some(port) => {
            port.parse().ok().filter(|port| *port > 0).ok_or_else(|| wrong(format_args!("{port:?} is no port")))?
        }
    };
    Ok(Target::Tcp { host: decoded(host)?.to_ascii_lowercase(), port })
}

/// A part of a URI without its percent-encoding.
fn decoded(part: &str) -> Result<String, Error> {
    percent::decoded(part).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Uri, Error> {
        let (scheme, rest) = text.split_once(':').unwrap();
        Uri::parse(scheme.ends_with("+unix"), scheme.starts_with("nbds"), rest)
    }

    #[test]
    fn uris_name_a_server_and_an_export_in_one_form() {
        for (text, form) in [
            ("nbd://host/vm", "nbd://host:10809/vm"),
            ("nbd://Host:1/", "nbd://host:1/"),
            ("nbd://host", "nbd://host:10809/"),
            ("nbd://[::1]:7/a/b", "nbd://[::1]:7/a/b"),
            ("nbd://[::1]/a%20b", "nbd://[::1]:10809/a%20b"),
            ("nbd+unix:///vm?socket=/run/a b.sock", "nbd+unix:///vm?socket=/run/a%20b.sock"),
            ("nbd+unix://?socket=s", "nbd+unix:///?socket=s"),
            ("nbds://host/vm?tls-certificates=/etc/x", "nbds://host:10809/vm?tls-certificates=/etc/x"),
            ("nbds+unix:///vm?socket=/s&tls-hostname=a", "nbds+unix:///vm?socket=/s&tls-hostname=a"),
        ] {
            let uri = parse(text).unwrap();
            assert_eq!(uri.to_string(), form);
            assert_eq!(parse(form).unwrap(), uri);
        }
        assert_eq!(parse("nbds://h/e").unwrap().place(), parse("nbd://H:10809/e").unwrap().place());
    }

    #[test]
    fn what_names_none_is_refused() {
        for text in [
            "nbd:host/vm",
            "nbd:///vm",
            "nbd://host:0/vm",
            "nbd://host:x/vm",
            "nbd://me@host/vm",
            "nbd://host/vm?socket=/s",
            "nbd://host/vm?tls-hostname=a",
            "nbd://[::1/vm",
            "nbd://host/vm#1",
            "nbd://host/%zz",
            "nbd://host/%00",
            "nbd://host/%ff",
            "nbd+unix:///vm",
            "nbd+unix:///vm?socket=",
            "nbd+unix://host/vm?socket=/s",
            "nbds://host/vm?tls-psk-file=/x",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(parse(&format!("nbd://host/{}", "x".repeat(4097))).is_err());
    }
}
