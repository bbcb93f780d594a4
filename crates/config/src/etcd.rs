//! The address of an etcd server, and what volumes need of etcd.

use super::url::{Server, UrlError};
use super::{Config, ServerConfig, VolumeConfig};
use nitro_console::error::Error;
use serde::{Deserialize, Deserializer, de};
use std::fmt;
use std::str::FromStr;

/// Names of hosts and prefixes of keys are not longer.
const NAME_BYTES_MAX: usize = 200;

const SERVER: Server = Server { of: "an etcd server", write: "http://HOST:PORT or https://HOST:PORT" };

/// An etcd server: `http://HOST:PORT` or `https://HOST:PORT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcdUrl(String);

impl fmt::Display for EtcdUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for EtcdUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        let uri = SERVER.parse(text)?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) {
            return Err(SERVER.refuse(text, "it begins neither with http:// nor with https://"));
        }
        if uri.port_u16().is_none() {
            return Err(SERVER.refuse(text, "it has no port; etcd's is 2379"));
        }
        if !matches!(uri.path(), "" | "/") {
            return Err(SERVER.refuse(text, "it has more than a host and a port"));
        }
        Ok(Self(text.trim_end_matches('/').to_owned()))
    }
}

impl<'de> Deserialize<'de> for EtcdUrl {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl ServerConfig {
    /// Checks what concerns etcd, apart from volumes.
    pub(super) fn check_etcd(&self) -> Result<(), Error> {
        let needy = [
            ("etcd_prefix", self.etcd_prefix.is_some()),
            ("host", self.host.is_some()),
            ("lease", self.lease.is_some()),
            ("etcd_ca", self.etcd_ca.is_some()),
            ("etcd_cert", self.etcd_cert.is_some()),
            ("etcd_user", self.etcd_user.is_some()),
        ];
        if let Some((key, _)) = needy.into_iter().find(|(_, is_set)| *is_set && self.etcd.is_empty()) {
            return Err(Error::new(key, "it has no effect without etcd").or("set etcd, or leave it out"));
        }
        let pairs = [
            ("etcd_cert", self.etcd_cert.is_some(), "etcd_key", self.etcd_key.is_some()),
            ("etcd_user", self.etcd_user.is_some(), "etcd_password_file", self.etcd_password_file.is_some()),
        ];
        if let Some((one, has_one, other, _)) = pairs.into_iter().find(|(_, one, _, other)| one != other) {
            let (there, missing) = if has_one { (one, other) } else { (other, one) };
            return Err(Error::new(there, format_args!("it needs {missing}")).or("give both, or neither"));
        }
        for (key, value) in [("etcd_prefix", &self.etcd_prefix), ("host", &self.host)] {
            let is_fine = |text: &String| {
                !text.is_empty()
                    && text.len() <= NAME_BYTES_MAX
                    && !text.contains(char::is_control)
                    && !text.ends_with('/')
            };
            if value.as_ref().is_some_and(|text| !is_fine(text)) {
                return Err(Error::new(format_args!("{key} = {value:?}"), "it cannot be used")
                    .or(format_args!("use 1 to {NAME_BYTES_MAX} characters, without a slash at the end")));
            }
        }
        Ok(())
    }
}

impl Config {
    /// Checks that volumes that etcd decides about can be taken over.
    pub(super) fn check_cluster(&self) -> Result<(), Error> {
        let mut shared = self.volumes.iter().filter(|(_, volume)| volume.cluster).peekable();
        if shared.peek().is_none() && !self.server.etcd.is_empty() {
            return Err(Error::new("etcd", "it decides about no volume")
                .or("set cluster = true for the volumes that other hosts may take over, or leave it out"));
        }
        for (name, volume) in shared {
            let what = format!("volume.{name}.cluster");
            if self.server.etcd.is_empty() {
                return Err(Error::new(what, "without etcd, nothing decides which host serves it")
                    .or("set etcd in [server] (--etcd), or leave it out"));
            }
            if volume.read_only {
                return Err(Error::new(what, "a volume that is only read needs no owner")
                    .or("leave it out: any number of hosts may read it"));
            }
            if volume.folder().is_some() || volume.store().is_some() {
                return Err(Error::new(what, "trees of files and objects of stores stay with their host")
                    .or("leave it out, or use another kind of origin"));
            }
            if volume.points {
                return Err(Error::new(what, "a host whose lease is over may still write to the redo file of points")
                    .or("use one of the two: points with a cluster manager that switches hosts off, or cluster without points"));
            }
            if self.server.takeover.is_none() && !volume.keeps_marks() {
                return Err(Error::new(what, "its origin cannot keep the mark of the host that served it last")
                    .or("name a folder that all hosts share: takeover in [server] (--takeover)"));
            }
        }
        Ok(())
    }
}

impl VolumeConfig {
    /// Whether its origin keeps the marks of those who serve it, for all hosts to see.
    fn keeps_marks(&self) -> bool {
        let origin = self.origin.to_str().unwrap_or_default();
        ["rbd:", "s3:"].iter().any(|scheme| origin.starts_with(scheme))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_host_and_a_port() {
        for text in ["http://127.0.0.1:2379", "https://etcd.example:2379/", "http://[::1]:2379"] {
            assert_eq!(text.parse::<EtcdUrl>().unwrap().to_string(), text.trim_end_matches('/'));
        }
        for text in [
            "",
            "127.0.0.1:2379",
            "http://etcd",
            "ftp://etcd:2379",
            "http://u:p@etcd:2379",
            "http://etcd:2379/v3",
            "http://:1",
        ] {
            assert!(text.parse::<EtcdUrl>().is_err(), "{text}");
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_by_name() {
        let parse = |server: &str, volume: &str| {
            let text = format!("[server]\n{server}\n[cache.c]\npath = \"c\"\n[volume.vm]\n{volume}\n");
            Config::parse(&text).map(drop).map_err(|error| error.to_string())
        };
        let etcd = "etcd = [\"http://127.0.0.1:2379\"]\n";
        let with_folder = format!("{etcd}takeover = \"/m\"\n");
        let volume = "origin = \"v.img\"\ncluster = true";
        assert_eq!(parse(&with_folder, volume), Ok(()));
        assert_eq!(parse(etcd, "origin = \"rbd:p/v\"\ncluster = true"), Ok(()));
        for (server, volume, phrase) in [
            (etcd, volume, "takeover in [server]"),
            (etcd, "origin = \"v.img\"", "cluster = true"),
            ("", volume, "without etcd"),
            ("lease = \"3s\"", "origin = \"v.img\"", "no effect without etcd"),
            (&*format!("{with_folder}etcd_user = \"u\""), volume, "needs etcd_password_file"),
            (&*format!("{with_folder}etcd_key = \"k\""), volume, "needs etcd_cert"),
            (&*format!("{with_folder}host = \"\""), volume, "cannot be used"),
            (&with_folder, "origin = \"v.img\"\ncluster = true\nread_only = true", "needs no owner"),
            (
                &with_folder,
                "origin = \"v.img\"\ncluster = true\nmode = \"write-back\"\npoints = true",
                "use one of the two",
            ),
            (&with_folder, "origin = \"cos:s#o\"\ncluster = true", "stay with their host"),
            ("etcd = [\"127.0.0.1:2379\"]", volume, "write http://HOST:PORT"),
        ] {
            let refused = parse(server, volume).unwrap_err();
            assert!(refused.contains(phrase), "{phrase} is not in {refused}");
        }
    }
}
