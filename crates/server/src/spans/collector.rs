//! Requests to a collector.

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper::header::{CONTENT_TYPE, HOST, USER_AGENT};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use nitro_config::OtlpUrl;
use nitro_device::Blocking;
use serde_json::Value;
use std::error::Error;
use std::io;
use std::net::ToSocketAddrs;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::runtime::{self, Runtime};
use tokio::task::JoinSet;

/// Time limit of a request, including the connection.
const TIME_MAX: Duration = Duration::from_secs(3);
/// Maximum bytes of an answer.
pub(super) const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Why spans were not accepted.
pub(super) enum Failure {
    /// The collector could not be reached, or asks to be tried again later.
    Away(String),
    /// The collector refuses these spans.
    Refused(String),
}

/// A collector. Each request has its own connection.
pub(super) struct Collector {
    pub(super) url: OtlpUrl,
    runtime: Runtime,
    /// Looks names up. The runtime would start a thread when it needs one, and panic if it gets none.
    resolver: Blocking,
}

impl Collector {
    pub(super) fn new(url: OtlpUrl) -> io::Result<Self> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Self { url, runtime, resolver: Blocking::new(1)? })
    }

    /// Sends a body, and waits for the answer. Returns the number of spans in it that were refused.
    pub(super) fn post(&self, body: Vec<u8>) -> Result<u64, Failure> {
        let posted = async { tokio::time::timeout(TIME_MAX, self.exchange(body)).await };
        match self.runtime.block_on(posted) {
            Ok(Ok((status, answer))) => judge(status, &answer),
            Ok(Err(error)) => Err(Failure::Away(error.to_string())),
            Err(_) => Err(Failure::Away(format!("no answer within {} s", TIME_MAX.as_secs()))),
        }
    }

    /// Ends the runtime without waiting for a look-up of a name.
    pub(super) fn close(self) {
        self.runtime.shutdown_background();
    }

    async fn exchange(&self, body: Vec<u8>) -> Result<(StatusCode, Bytes), Box<dyn Error + Send + Sync>> {
        let name = (self.url.host.clone(), self.url.port);
        let addresses = self.resolver.run(move || name.to_socket_addrs().map(Iterator::collect::<Vec<_>>)).await??;
        let stream = TcpStream::connect(addresses.as_slice()).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        // The connection ends with this set.
        let mut driver = JoinSet::new();
        driver.spawn(connection);
        let request = Request::post(&self.url.path)
            .header(HOST, self.url.authority())
            .header(USER_AGENT, concat!("nitro/", env!("CARGO_PKG_VERSION")))
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body)))?;
        let answer = sender.send_request(request).await?;
        let status = answer.status();
        let read = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await?.to_bytes();
        Ok((status, read))
    }
}

/// What an answer means (OTLP 1.x, "OTLP/HTTP Response").
fn judge(status: StatusCode, answer: &[u8]) -> Result<u64, Failure> {
    let later = [
        StatusCode::TOO_MANY_REQUESTS,
        StatusCode::BAD_GATEWAY,
        StatusCode::SERVICE_UNAVAILABLE,
        StatusCode::GATEWAY_TIMEOUT,
    ];
    match status {
        status if status.is_success() => Ok(rejected(answer)),
        status if later.contains(&status) => Err(Failure::Away(format!("it answers {status}"))),
        status => Err(Failure::Refused(format!("it answers {status}"))),
    }
}

/// The number of spans that a successful answer says were refused. It is a string or a number.
fn rejected(answer: &[u8]) -> u64 {
    let Ok(told) = serde_json::from_slice::<Value>(answer) else { return 0 };
    let count = &told["partialSuccess"]["rejectedSpans"];
    count.as_u64().or_else(|| count.as_str()?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_mean_what_the_protocol_says() {
        assert!(matches!(judge(StatusCode::OK, b""), Ok(0)));
        assert!(matches!(judge(StatusCode::OK, br#"{"partialSuccess":{"rejectedSpans":"5"}}"#), Ok(5)));
        assert!(matches!(judge(StatusCode::OK, br#"{"partialSuccess":{"rejectedSpans":5}}"#), Ok(5)));
        assert!(matches!(judge(StatusCode::SERVICE_UNAVAILABLE, b""), Err(Failure::Away(_))));
        assert!(matches!(judge(StatusCode::NOT_FOUND, b""), Err(Failure::Refused(_))));
    }
}
