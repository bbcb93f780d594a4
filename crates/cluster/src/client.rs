//! The client of etcd's JSON gateway.

use crate::error::ClusterError;
use crate::machine::{Answer, Ask, Key, LeaseId};
use crate::wire::{FORMAT, Header, Keys, Message, NOT_FOUND, REFUSED, UNAUTHENTICATED, parse_answer};
use parking_lot::Mutex;
use reqwest::{Certificate, Response};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Longer answers are none: those about [`LOOKED_AT`] volumes have some 50 KiB.
const ANSWER_BYTES_MAX: usize = 256 << 10;
/// Volumes in one transaction: etcd takes 128 operations, unless it is told otherwise (`--max-txn-ops`).
const LOOKED_AT: usize = 100;
/// Longer texts of errors are cut.
const SAID_MAX: usize = 300;

/// Where etcd is, and as whom this host takes part.
#[derive(Debug, Clone)]
pub struct Place {
    /// URLs of servers: `http://HOST:PORT` or `https://HOST:PORT`.
    pub servers: Vec<String>,
    /// What all keys begin with, without a slash at its end.
    pub prefix: String,
    /// The name of this host, which no other has.
    pub host: String,
    /// How long a lease lasts.
    pub lease: Duration,
    /// How this host and etcd know each other.
    pub identity: Identity,
}

/// How this host and etcd know each other.
#[derive(Debug, Clone, Default)]
pub struct Identity {
    /// Certificates of authorities (PEM), of which one has certified etcd; `None`: those of the system.
    pub authorities: Option<PathBuf>,
    /// This host's certificate and its key (PEM).
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// A user of etcd, and the file with its password.
    pub user: Option<(String, PathBuf)>,
}

/// A question that was not answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// There was no answer, or none of etcd; it may have been carried out.
    Silent(String),
    /// etcd says that there is no such thing.
    NotFound,
    /// It is for good.
    For(ClusterError),
}

impl From<ClusterError> for Failure {
    fn from(error: ClusterError) -> Self {
        Self::For(error)
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Silent(why) => f.write_str(why),
            Self::NotFound => f.write_str("there is no such lease"),
            Self::For(error) => error.fmt(f),
        }
    }
}

/// An error with its causes, on one line.
fn said(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        next = error.source();
    }
    printable(&text)
}

fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(SAID_MAX).collect()
}

fn silent(error: &reqwest::Error) -> Failure {
    Failure::Silent(said(error))
}

/// The client of one etcd cluster.
pub(crate) struct Client {
    http: reqwest::Client,
    servers: Vec<String>,
    /// The server that is asked.
    current: AtomicUsize,
    pub(crate) keys: Keys,
    user: Option<(String, PathBuf)>,
    token: Mutex<String>,
    /// The server that answered first, and its cluster.
    cluster: Mutex<Option<(String, u64)>>,
    /// How long one answer may take.
    patience: Duration,
    lease: Duration,
}

fn read(path: &Path) -> Result<Vec<u8>, ClusterError> {
    std::fs::read(path).map_err(|e| ClusterError::File(format!("{}: {e}", path.display())))
}

impl Client {
    /// A client. It makes no request.
    ///
    /// # Errors
    /// Certificates or keys cannot be used.
    pub(crate) fn new(place: &Place) -> Result<Self, ClusterError> {
        // The process's default for TLS; it may have been installed already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let unusable = |path: &Path, e: reqwest::Error| ClusterError::File(format!("{}: {}", path.display(), said(&e)));
        // No proxy: it would be one more that can stall.
        let mut builder =
            reqwest::Client::builder().no_proxy().http1_only().redirect(reqwest::redirect::Policy::none());
        if let Some(path) = &place.identity.authorities {
            let authorities = Certificate::from_pem_bundle(&read(path)?).map_err(|e| unusable(path, e))?;
            if authorities.is_empty() {
                return Err(ClusterError::File(format!("{}: it has no certificate", path.display())));
            }
            builder = builder.tls_certs_only(authorities);
        }
        if let Some((certificate, key)) = &place.identity.certificate {
            let mut pem = read(certificate)?;
            pem.push(b'\n');
            pem.extend(read(key)?);
            builder = builder.identity(reqwest::Identity::from_pem(&pem).map_err(|e| unusable(certificate, e))?);
        }
        let http = builder.build().map_err(|e| ClusterError::File(said(&e)))?;
        Ok(Self {
            http,
            servers: place.servers.iter().map(|url| url.trim_end_matches('/').to_owned()).collect(),
            current: AtomicUsize::new(0),
            keys: Keys { prefix: place.prefix.clone(), host: place.host.clone() },
            user: place.identity.user.clone(),
            token: Mutex::default(),
            cluster: Mutex::default(),
            patience: place.lease / 5,
            lease: place.lease,
        })
    }

    fn server(&self) -> &str {
        let at = self.current.load(Ordering::Relaxed);
        self.servers.get(at % self.servers.len().max(1)).map_or("", String::as_str)
    }

    /// The etcd cluster.
    pub(crate) fn cluster_id(&self) -> u64 {
        self.cluster.lock().as_ref().map_or(0, |(_, id)| *id)
    }

    /// Finds out whether the servers are etcd, and of one cluster, and of the format of this program.
    ///
    /// # Errors
    /// No server is, or one belongs to another cluster, or the format is another one.
    pub(crate) async fn meet(&self) -> Result<(), ClusterError> {
        let mut failures = Vec::new();
        for server in &self.servers {
            match self.post_to(server, "maintenance/status", &json!({})).await {
                Ok(_) => {}
                Err(Failure::For(error)) => return Err(error),
                Err(failure) => failures.push(format!("{server}: {failure}")),
            }
        }
        if failures.len() == self.servers.len() {
            return Err(ClusterError::Unreachable(failures.join("; ")));
        }
        failures.iter().for_each(|failure| tracing::warn!("etcd: {failure}"));
        for _ in &self.servers {
            match self.post("kv/txn", &self.keys.declare()).await {
                Ok(answer) if answer.succeeded => return Ok(()),
                Ok(answer) => return self.check_format(answer.first(0).map(|key| key.text())),
                Err(Failure::For(error)) => return Err(error),
                Err(failure) => failures.push(failure.to_string()),
            }
        }
        Err(ClusterError::Unreachable(failures.join("; ")))
    }

    fn check_format(&self, found: Option<String>) -> Result<(), ClusterError> {
        match found {
            Some(found) if found == FORMAT => Ok(()),
            found => {
                let found = printable(&found.unwrap_or_default());
                Err(ClusterError::Format { prefix: self.keys.prefix.clone(), found, known: FORMAT })
            }
        }
    }

    /// Asks the current server; if it does not answer, the next question goes to the next one.
    async fn post(&self, method: &str, body: &Value) -> Result<Message, Failure> {
        let server = self.server().to_owned();
        let answer = self.post_to(&server, method, body).await;
        if matches!(answer, Err(Failure::Silent(_))) {
            self.current.fetch_add(1, Ordering::Relaxed);
        }
        answer
    }

    /// Asks a server, as the user, if there is one.
    async fn post_to(&self, server: &str, method: &str, body: &Value) -> Result<Message, Failure> {
        if self.user.is_some() && self.token.lock().is_empty() {
            self.log_in(server).await?;
        }
        let answer = self.exchange(server, method, body).await?;
        if answer.code == UNAUTHENTICATED && self.user.is_some() {
            self.log_in(server).await?;
            return judged(self.exchange(server, method, body).await?);
        }
        judged(answer)
    }

    async fn log_in(&self, server: &str) -> Result<(), Failure> {
        let Some((name, file)) = &self.user else { return Ok(()) };
        let password = String::from_utf8(read(file)?).unwrap_or_default();
        let body = json!({ "name": name, "password": password.trim_end_matches(['\r', '\n']) });
        let answer = judged(self.exchange(server, "auth/authenticate", &body).await?)?;
        *self.token.lock() = answer.token;
        Ok(())
    }

    async fn send(&self, server: &str, method: &str, body: &Value) -> Result<Response, Failure> {
        let request = self.http.post(format!("{server}/v3/{method}")).body(body.to_string());
        let token = self.token.lock().clone();
        let request = if token.is_empty() { request } else { request.header("Authorization", token) };
        request.send().await.map_err(|e| silent(&e))
    }

    async fn exchange(&self, server: &str, method: &str, body: &Value) -> Result<Message, Failure> {
        let late = || Failure::Silent(format!("there was no answer within {} ms", self.patience.as_millis()));
        let asking = async {
            let mut response = self.send(server, method, body).await?;
            let mut text = Vec::new();
            while let Some(piece) = response.chunk().await.map_err(|e| silent(&e))? {
                if text.len() + piece.len() > ANSWER_BYTES_MAX {
                    return Err(Failure::Silent("the answer is too long for etcd".to_owned()));
                }
                text.extend_from_slice(&piece);
            }
            let status = response.status();
            parse_answer(&text).map_err(|why| Failure::Silent(format!("HTTP {status}, and no answer of etcd: {why}")))
        };
        let message = crate::thread::within(self.patience, asking).await.unwrap_or_else(|| Err(late()))?;
        self.check_cluster(server, message.header)?;
        Ok(message)
    }

    /// Checks that an answer is of the cluster that answered first.
    fn check_cluster(&self, server: &str, Header { cluster_id, .. }: Header) -> Result<(), ClusterError> {
        // Errors have no header.
        if cluster_id == 0 {
            return Ok(());
        }
        let mut known = self.cluster.lock();
        let (one, one_id) = known.get_or_insert_with(|| (server.to_owned(), cluster_id));
        if *one_id == cluster_id {
            return Ok(());
        }
        Err(ClusterError::Clusters {
            one: one.clone(),
            one_id: *one_id,
            other: server.to_owned(),
            other_id: cluster_id,
        })
    }

    /// Asks what the machine wants to know.
    pub(crate) async fn answer(&self, ask: &Ask) -> (Answer, Option<Failure>) {
        let answered = match ask {
            Ask::Grant => self.grant().await,
            Ask::Renew(lease, volumes) => self.renew(*lease, volumes).await,
            Ask::Claim(volume, lease) => self.claim(volume, *lease).await,
            Ask::Release(volume, fence) => {
                self.post("kv/txn", &self.keys.release(volume, *fence)).await.map(|_| Answer::Released)
            }
            Ask::Revoke(lease) => {
                self.post("lease/revoke", &json!({ "ID": lease.to_string() })).await.map(|_| Answer::Revoked)
            }
        };
        match answered {
            Ok(answer) => (answer, None),
            Err(failure) => {
                let answer = if failure == Failure::NotFound { Answer::Gone } else { Answer::Failed };
                (answer, Some(failure))
            }
        }
    }

    /// A lease with the host's name attached.
    async fn grant(&self) -> Result<Answer, Failure> {
        let granted = self.post("lease/grant", &json!({ "TTL": self.lease.as_secs().to_string() })).await?;
        let lasts = Duration::from_secs(granted.ttl.try_into().unwrap_or(0));
        let named = self.post("kv/txn", &self.keys.register(granted.id)).await?;
        if named.succeeded {
            return Ok(Answer::Granted(granted.id, lasts));
        }
        // It would end by itself, too.
        let _ = self.post("lease/revoke", &json!({ "ID": granted.id.to_string() })).await;
        self.check_format(named.first(1).map(|key| key.text()))?;
        let other = named.first(0).map_or(0, |key| key.lease);
        Err(ClusterError::NameTaken { host: self.keys.host.clone(), lease: other }.into())
    }

    /// Renews a lease, and looks at volumes. A leader that was replaced while it was stopped renews leases until it notices; it
    /// answers no transaction, though, since that takes a majority. So both have to be of one term.
    async fn renew(&self, lease: LeaseId, volumes: &[String]) -> Result<Answer, Failure> {
        let server = self.server().to_owned();
        let renewed = self.post("lease/keepalive", &json!({ "ID": lease.to_string() })).await?;
        if renewed.ttl <= 0 {
            return Ok(Answer::Gone);
        }
        let mut keys: Vec<Key> = Vec::new();
        for some in volumes.chunks(LOOKED_AT) {
            let found = self.post("kv/txn", &self.keys.look(some)).await?;
            if found.header.raft_term != renewed.header.raft_term || self.server() != server {
                return Err(Failure::Silent("there was an election meanwhile".to_owned()));
            }
            let found = some.iter().enumerate().filter_map(|(at, name)| Some(found.first(at)?.of_volume(name)));
            keys.extend(found);
        }
        Ok(Answer::Renewed(Duration::from_secs(renewed.ttl.unsigned_abs()), keys))
    }

    async fn claim(&self, volume: &str, lease: LeaseId) -> Result<Answer, Failure> {
        let claimed = self.post("kv/txn", &self.keys.claim(volume, lease)).await?;
        if claimed.succeeded {
            return Ok(Answer::Claimed(crate::Fence(claimed.header.revision)));
        }
        self.check_format(claimed.first(1).map(|key| key.text()))?;
        Ok(Answer::NotClaimed)
    }

    /// Follows the ends of ownership keys, until the stream ends; calls `woken` at those of these volumes. Of a cluster, all
    /// hosts are told of all keys: if each looked at each, the end of a rack would be too much for etcd.
    pub(crate) async fn watch(&self, volumes: &[String], mut woken: impl FnMut()) -> Result<(), Failure> {
        let (server, keys) = (self.server().to_owned(), self.keys.of_volumes(volumes));
        let mut stream = self.send(&server, "watch", &self.keys.watch()).await?;
        let mut text = Vec::new();
        while let Some(piece) = stream.chunk().await.map_err(|e| silent(&e))? {
            text.extend_from_slice(&piece);
            // Each message is a line.
            while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = text.drain(..=end).collect();
                if parse_answer(&line).map_or(true, |message| message.concerns(&keys)) {
                    woken();
                }
            }
            if text.len() > ANSWER_BYTES_MAX {
                return Err(Failure::Silent("a message is too long for etcd".to_owned()));
            }
        }
        Ok(())
    }
}

/// The answer, unless it is an error.
fn judged(answer: Message) -> Result<Message, Failure> {
    let Some(reason) = answer.reason() else { return Ok(answer) };
    Err(match answer.code {
        NOT_FOUND => Failure::NotFound,
        code if REFUSED.contains(&code) || code == UNAUTHENTICATED => ClusterError::Refused(printable(reason)).into(),
        _ => Failure::Silent(printable(reason)),
    })
}
