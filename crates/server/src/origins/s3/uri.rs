//! `s3://BUCKET/PREFIX[@SNAPSHOT][?endpoint=URL&region=NAME]`.

use crate::origins::percent::{decoded, encoded};
use nitro_console::error::Error;
use nitro_s3::{Place, Snapshot};
use std::fmt;

/// The longest prefix, in bytes: a key has at most 1024.
const PREFIX_BYTES_MAX: usize = 900;

fn wrong(why: impl fmt::Display) -> Error {
    Error::new("URI", why).or("write s3://BUCKET/PREFIX, with ?endpoint=URL for a server that is not AWS's")
}

/// A place in one form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Uri(pub(super) Place);

impl Uri {
    /// Parses what follows the scheme and its colon.
    pub(super) fn parse(rest: &str) -> Result<Self, Error> {
        let rest = rest.strip_prefix("//").ok_or_else(|| wrong("two slashes follow the colon"))?;
        if rest.contains('#') {
            return Err(wrong("it has a fragment: write %23 for # in a name"));
        }
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (bucket, prefix) = place.split_once('/').unwrap_or((place, ""));
        // https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html, and what others allow.
        let is_name = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        if !(3..=255).contains(&bucket.len()) || !bucket.chars().all(is_name) {
            return Err(wrong(format_args!("{bucket:?} is no name of a bucket")));
        }
        let (prefix, snapshot) = match prefix.split_once('@') {
            Some((_, name)) if !Snapshot::is_name(name) => {
                return Err(wrong(format_args!("{name:?} is no name of a snapshot: write %40 for @ in a prefix")));
            }
            Some((prefix, name)) => (prefix, Some(name.to_owned())),
            None => (prefix, None),
        };
        let prefix = decoded(prefix).map_err(wrong)?.trim_end_matches('/').to_owned();
        let is_part = |part: &str| !part.is_empty() && part != "." && part != ".." && !part.contains(char::is_control);
        if prefix.is_empty() || prefix.len() > PREFIX_BYTES_MAX || !prefix.split('/').all(is_part) {
            return Err(wrong("a prefix follows the bucket, the name of the volume: s3://BUCKET/PREFIX"));
        }
        let (mut endpoint, mut region) = (None, None);
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = decoded(value).map_err(wrong)?;
            match key {
                "endpoint" if value.starts_with("http://") || value.starts_with("https://") => {
                    endpoint = Some(value.trim_end_matches('/').to_owned());
                }
                "endpoint" => return Err(wrong("endpoint is a URL: http://HOST:PORT or https://HOST")),
                "region" if !value.is_empty() => region = Some(value),
                _ => return Err(wrong(format_args!("the parameter {key:?} is not supported here"))),
            }
        }
        Ok(Self(Place { bucket: bucket.to_owned(), prefix, endpoint, region, snapshot }))
    }

    /// The volume, without a snapshot.
    pub(super) fn volume(&self) -> Self {
        Self(Place { snapshot: None, ..self.0.clone() })
    }

    /// A snapshot of the volume.
    pub(super) fn of_snapshot(&self, name: &str) -> Self {
        Self(Place { snapshot: Some(name.to_owned()), ..self.0.clone() })
    }
}

impl fmt::Display for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place { bucket, prefix, endpoint, region, snapshot } = &self.0;
        write!(f, "s3://{bucket}/{}", encoded(prefix))?;
        if let Some(name) = snapshot {
            write!(f, "@{name}")?;
        }
        let mut separator = '?';
        for (key, value) in [("endpoint", endpoint), ("region", region)] {
            if let Some(value) = value {
                write!(f, "{separator}{key}=")?;
                // A colon is allowed there, and makes a URL readable.
                f.write_str(&encoded(value).replace("%3A", ":"))?;
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
    fn a_uri_names_a_bucket_and_a_prefix_in_one_form() {
        for (text, form) in [
            ("//bucket/vm", "s3://bucket/vm"),
            ("//bucket/a/b%20c/", "s3://bucket/a/b%20c"),
            ("//bucket/a%40b@2026-11-29T03:00:00Z?region=x", "s3://bucket/a%40b@2026-11-29T03:00:00Z?region=x"),
            (
                "//bucket/vm?endpoint=http://127.0.0.1:9000/&region=x",
                "s3://bucket/vm?endpoint=http://127.0.0.1:9000&region=x",
            ),
        ] {
            let uri = Uri::parse(text).unwrap();
            assert_eq!(uri.to_string(), form);
            assert_eq!(Uri::parse(form.strip_prefix("s3:").unwrap()).unwrap(), uri);
        }
        for text in [
            "bucket/vm",
            "//b/vm",
            "//bucket",
            "//bucket/",
            "//bucket//a",
            "//bucket/../a",
            "//bucket/a@",
            "//bucket/a@b/c",
            "//bucket/a#b",
            "//bucket/a?endpoint=host",
            "//bucket/a?size=1G",
            "//bu%20cket/a",
            "//bucket/%zz",
        ] {
            assert!(Uri::parse(text).is_err(), "{text}");
        }
    }
}
