//! The address of a collector of spans.

use super::url::{Server, UrlError};
use serde::{Deserialize, Deserializer, de};
use std::fmt;
use std::str::FromStr;

/// The path for spans below a collector's address (OTLP 1.x, "OTLP/HTTP Request").
const TRACES_PATH: &str = "/v1/traces";
/// The port of a URL that names none.
const HTTP_PORT: u16 = 80;

const SERVER: Server = Server { of: "a collector", write: "http://HOST:PORT, such as http://127.0.0.1:4318" };

/// Where spans are sent: `http://HOST:PORT`, with a path if the collector has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtlpUrl {
    /// A name or an address, IPv6 without brackets.
    pub host: String,
    /// The TCP port.
    pub port: u16,
    /// The whole path of a request.
    pub path: String,
}

impl OtlpUrl {
    /// The host and the port as in a URL.
    #[must_use]
    pub fn authority(&self) -> String {
        let Self { host, port, .. } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }
}

impl fmt::Display for OtlpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}{}", self.authority(), self.path)
    }
}

impl FromStr for OtlpUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        let uri = SERVER.parse(text)?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => {
                return Err(SERVER.refuse(text, "TLS is not supported; send to a collector on this machine"));
            }
            _ => return Err(SERVER.refuse(text, "it does not begin with http://")),
        }
        let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
        let base = uri.path().trim_end_matches('/');
        let path = if base.ends_with(TRACES_PATH) { base.to_owned() } else { format!("{base}{TRACES_PATH}") };
        Ok(Self { host: host.to_owned(), port: uri.port_u16().unwrap_or(HTTP_PORT), path })
    }
}

impl<'de> Deserialize<'de> for OtlpUrl {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_urls_of_http() {
        for (text, whole) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
            ("http://[::1]:4318/", "http://[::1]:4318/v1/traces"),
            ("http://collector/base", "http://collector:80/base/v1/traces"),
            ("http://collector:4318/v1/traces", "http://collector:4318/v1/traces"),
        ] {
            assert_eq!(text.parse::<OtlpUrl>().unwrap().to_string(), whole);
        }
        for text in ["", "127.0.0.1:4318", "https://collector:4318", "http://", "http://u:p@host:1", "http://host:1/?q"]
        {
            assert!(text.parse::<OtlpUrl>().is_err(), "{text}");
        }
    }
}
