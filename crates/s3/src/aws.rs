//! The store behind a volume: a bucket of an S3 server, by `object_store`.

use crate::credentials::CredentialsFile;
use crate::error::{S3Error, StoreError};
use crate::store::{Put, Store};
use bytes::{Bytes, BytesMut};
use futures_util::stream::{self, StreamExt as _};
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path;
use object_store::{
    ClientOptions, Error, GetOptions, GetRange, ObjectStore, ObjectStoreExt as _, PutMode, PutOptions, RetryConfig,
};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Names of a page of a list.
const PAGE: usize = 1000;
const CONNECT: Duration = Duration::from_secs(5);

/// Where a volume is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The bucket.
    pub bucket: String,
    /// What all keys begin with, without the slash behind it; it may be empty.
    pub prefix: String,
    /// The URL of the server; `None`: `AWS_ENDPOINT_URL`, or AWS.
    pub endpoint: Option<String>,
    /// The region; `None`: `AWS_REGION`, or `AWS_DEFAULT_REGION`.
    pub region: Option<String>,
    /// The snapshot of the volume that is meant; `None`: the volume.
    pub snapshot: Option<String>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s3://{}/{}", self.bucket, self.prefix)
    }
}

/// A prefix of a bucket.
pub struct Bucket {
    store: AmazonS3,
    prefix: Path,
}

impl Bucket {
    /// A client. It makes no request.
    ///
    /// # Errors
    /// The place, or what the environment says, is no bucket.
    pub fn new(place: &Place) -> Result<Self, S3Error> {
        let options = ClientOptions::new().with_timeout_disabled().with_connect_timeout(CONNECT).with_http1_only();
        // Retries are our own.
        let retry = RetryConfig { max_retries: 0, ..RetryConfig::default() };
        let mut builder = AmazonS3Builder::from_env().with_client_options(options).with_retry(retry);
        builder = builder.with_bucket_name(&place.bucket);
        if let Some(endpoint) = &place.endpoint {
            builder = builder.with_endpoint(endpoint);
        }
        let of_environment = std::env::var("AWS_ENDPOINT_URL_S3").or_else(|_| std::env::var("AWS_ENDPOINT_URL"));
        let endpoint = place.endpoint.clone().or(of_environment.ok());
        // Who names a server without TLS wants it so.
        builder = builder.with_allow_http(endpoint.is_some_and(|url| url.starts_with("http://")));
        if let Some(region) = &place.region {
            builder = builder.with_region(region);
        }
        if let Some(file) = CredentialsFile::of_environment() {
            builder = builder.with_credentials(Arc::new(file));
        }
        let store = builder.build().map_err(|e| StoreError::Refused(said(&e)))?;
        Ok(Self { store, prefix: Path::from(place.prefix.as_str()) })
    }

    fn key(&self, name: &str) -> Path {
        name.split('/').fold(self.prefix.clone(), |key, part| key.join(part))
    }

    /// The name of a key; `None`: it is not below the prefix.
    fn name(&self, key: &Path) -> Option<String> {
        let parts: Vec<_> = key.prefix_match(&self.prefix)?.collect();
        Some(parts.iter().map(AsRef::as_ref).collect::<Vec<&str>>().join("/"))
    }
}

/// An error with its causes, on one line.
fn said(error: &dyn std::error::Error) -> String {
    let mut text = String::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let more = error.to_string();
        if !text.contains(&more) {
            text = if text.is_empty() { more } else { format!("{text}: {more}") };
        }
        next = error.source();
    }
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(600).collect()
}

/// Whether the store refuses a request for good. Everything else is tried again.
fn judged(error: &Error) -> StoreError {
    let text = said(error);
    if text.contains("NoSuchBucket") {
        return StoreError::Refused(format!("there is no such bucket ({text})"));
    }
    let is_refused = match error {
        // Clocks that differ and credentials that have expired are among them.
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } | Error::NotSupported { .. } => true,
        Error::NotImplemented { .. } | Error::InvalidPath { .. } | Error::UnknownConfigurationKey { .. } => true,
        // "Server returned non-2xx status code: 4xx", but 408 (slow) and 429 (too many).
        _ => {
            text.contains("status code: 4") && !text.contains("status code: 408") && !text.contains("status code: 429")
        }
    };
    if is_refused { StoreError::Refused(text) } else { StoreError::Unsure(text) }
}

impl Store for Bucket {
    async fn put_new(&self, name: &str, data: Bytes) -> Result<Put, StoreError> {
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        match self.store.put_opts(&self.key(name), data.into(), options).await {
            Ok(_) => Ok(Put::Created),
            Err(Error::AlreadyExists { .. } | Error::Precondition { .. } | Error::NotModified { .. }) => {
                Ok(Put::Exists)
            }
            Err(error) => Err(judged(&error)),
        }
    }

    async fn put(&self, name: &str, data: Bytes) -> Result<(), StoreError> {
        self.store.put(&self.key(name), data.into()).await.map(drop).map_err(|e| judged(&e))
    }

    async fn get(&self, name: &str, part: Range<u64>) -> Result<Option<Bytes>, StoreError> {
        let len = (part.end - part.start) as usize;
        let options = GetOptions { range: Some(GetRange::Bounded(part)), ..GetOptions::default() };
        let got = match self.store.get_opts(&self.key(name), options).await {
            Ok(got) => got,
            Err(error @ Error::NotFound { .. }) => {
                return match judged(&error) {
                    StoreError::Refused(why) if why.contains("NoSuchBucket") => Err(StoreError::Refused(why)),
                    _ => Ok(None),
                };
            }
            Err(error) => return Err(judged(&error)),
        };
        let mut body = got.into_stream();
        let mut whole = BytesMut::new();
        while let Some(piece) = body.next().await {
            let piece = piece.map_err(|e| StoreError::Unsure(said(&e)))?;
            if whole.len() + piece.len() > len {
                return Err(StoreError::Refused(format!("object {name}: more was sent than was asked for")));
            }
            if whole.is_empty() && piece.len() == len {
                return Ok(Some(piece));
            }
            whole.extend_from_slice(&piece);
        }
        Ok(Some(whole.freeze()))
    }

    async fn list(&self, folder: &str, after: Option<&str>) -> Result<Vec<String>, StoreError> {
        let folder = self.key(folder);
        let mut found = match after {
            Some(after) => self.store.list_with_offset(Some(&folder), &self.key(after)),
            None => self.store.list(Some(&folder)),
        };
        let mut names = Vec::new();
        while names.len() < PAGE
            && let Some(object) = found.next().await
        {
            let object = object.map_err(|e| judged(&e))?;
            names.extend(self.name(&object.location));
        }
        Ok(names)
    }

    async fn delete(&self, names: &[String]) -> Result<(), StoreError> {
        let keys = stream::iter(names.iter().map(|name| Ok(self.key(name))).collect::<Vec<_>>()).boxed();
        let mut deleted = self.store.delete_stream(keys);
        while let Some(one) = deleted.next().await {
            match one {
                Ok(_) | Err(Error::NotFound { .. }) => {}
                Err(error) => return Err(judged(&error)),
            }
        }
        Ok(())
    }
}
