//! Requests and their answers.

use super::history::History;
use super::snapshot::{Snapshots, json};
use super::units::Maps;
use crate::control::faults::faults;
use crate::metrics::TextFormat;
use crate::serve::Served;
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use hyper::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use std::cell::RefCell;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The page: one file, with all that it needs.
const PAGE: &str = include_str!("page.html");
/// The Content-Security-Policy of the page: only its own content, and requests to this server.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; \
                      img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/// The default span of the history, in seconds.
const SPAN_DEFAULT_SECONDS: u64 = 3600;

/// The served content.
pub(super) struct Site {
    snapshots: Snapshots,
    history: RefCell<History>,
    maps: Maps,
    stopping: Arc<AtomicBool>,
    /// Requests may have any `Host`: they may come from other machines, or through a proxy.
    any_host: bool,
}

/// An answer, before its headers.
enum Answer {
    Found(&'static str, Bytes),
    Refused(StatusCode, &'static str),
}

impl Site {
    pub(super) fn new(served: Arc<Served>, stopping: Arc<AtomicBool>, any_host: bool) -> Self {
        let (history, maps) = Default::default();
        Self { snapshots: Snapshots::new(served), history, maps, stopping, any_host }
    }

    /// Adds the present state to the history.
    pub(super) fn sample(&self) {
        self.snapshots.served().all().iter().for_each(|export| export.sample_dirty_age());
        self.history.borrow_mut().add(&self.snapshots.get().status);
    }

    /// The answer to a request.
    pub(super) fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        let answer = self.decide(request.method(), request.uri(), request.headers());
        let (status, media_type, body) = match answer {
            Answer::Found(media_type, body) => (StatusCode::OK, media_type, body),
            Answer::Refused(status, why) => (status, "text/plain; charset=utf-8", Bytes::from_static(why.as_bytes())),
        };
        let mut response = Response::new(Full::new(body));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        for (name, value) in [
            (header::CONTENT_TYPE, media_type),
            (header::CACHE_CONTROL, "no-store"),
            (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (header::REFERRER_POLICY, "no-referrer"),
            (header::CONTENT_SECURITY_POLICY, POLICY),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
        if status == StatusCode::METHOD_NOT_ALLOWED {
            headers.insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
        }
        response
    }

    fn decide(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Answer {
        if method != Method::GET && method != Method::HEAD {
            return Answer::Refused(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are allowed\n");
        }
        // A page of another site whose name was made to mean this machine could read all this (DNS rebinding).
        if !self.any_host && !names_loopback(uri, headers) {
            return Answer::Refused(StatusCode::MISDIRECTED_REQUEST, "the Host header names another machine\n");
        }
        const JSON: &str = "application/json";
        const TEXT: &str = "text/plain; charset=utf-8";
        match uri.path() {
            "/" => Answer::Found("text/html; charset=utf-8", Bytes::from_static(PAGE.as_bytes())),
            "/metrics" => {
                let format = format(headers);
                Answer::Found(format.media_type(), self.snapshots.get().metrics(format))
            }
            "/healthz" => Answer::Found(TEXT, Bytes::from_static(b"ok\n")),
            "/readyz" if self.stopping.load(Ordering::SeqCst) => {
                Answer::Refused(StatusCode::SERVICE_UNAVAILABLE, "the server is stopping\n")
            }
            "/readyz" => Answer::Found(TEXT, Bytes::from_static(b"ready\n")),
            "/status.json" => Answer::Found(JSON, self.snapshots.get().json()),
            "/faults.json" => Answer::Found(JSON, json(&faults(&self.snapshots.get().status))),
            "/history.json" => Answer::Found(JSON, json(&self.history.borrow().tell(span_seconds(uri)))),
            "/units.json" => Answer::Found(JSON, self.maps.get(self.snapshots.served())),
            _ => Answer::Refused(
                StatusCode::NOT_FOUND,
                "there are: / /metrics /healthz /readyz /status.json /faults.json /history.json /units.json\n",
            ),
        }
    }
}

/// The format of metrics that a client accepts.
fn format(headers: &HeaderMap) -> TextFormat {
    let mut accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    match accepted.any(|value| value.contains("application/openmetrics-text")) {
        true => TextFormat::OpenMetrics,
        false => TextFormat::Prometheus,
    }
}

/// The requested span, `?seconds=N`.
fn span_seconds(uri: &Uri) -> u64 {
    let mut pairs = uri.query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
    let given = pairs.find(|(name, _)| *name == "seconds").and_then(|(_, value)| value.parse().ok());
    given.unwrap_or(SPAN_DEFAULT_SECONDS)
}

/// Whether the host in a request can only mean this machine.
fn names_loopback(uri: &Uri, headers: &HeaderMap) -> bool {
    let given =
        headers.get(header::HOST).and_then(|host| host.to_str().ok()).or_else(|| Some(uri.authority()?.as_str()));
    // HTTP/1.0 names none.
    let Some(given) = given else { return true };
    let host = match given.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => host,
        _ => given,
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: header::HeaderName, value: &'static str) -> HeaderMap {
        [(name, HeaderValue::from_static(value))].into_iter().collect()
    }

    #[test]
    fn a_name_that_can_mean_anything_is_refused() {
        let names = |host| names_loopback(&Uri::from_static("/"), &headers(header::HOST, host));
        for good in ["localhost", "LOCALHOST:9470", "127.0.0.1:9470", "[::1]:9470", "[::1]", "10.0.0.1"] {
            assert!(names(good), "{good}");
        }
        for bad in ["evil.example", "evil.example:9470", "localhost.evil.example:9470", "127.0.0.1.evil.example"] {
            assert!(!names(bad), "{bad}");
        }
        assert!(names_loopback(&Uri::from_static("/"), &HeaderMap::new()));
    }

    #[test]
    fn who_asks_for_open_metrics_gets_it() {
        let prometheus = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        assert_eq!(format(&headers(header::ACCEPT, prometheus)), TextFormat::OpenMetrics);
        assert_eq!(format(&headers(header::ACCEPT, "*/*")), TextFormat::Prometheus);
        assert_eq!(format(&HeaderMap::new()), TextFormat::Prometheus);
    }

    #[test]
    fn a_span_has_a_default() {
        let span = |uri| span_seconds(&Uri::from_static(uri));
        assert_eq!(
            [span("/h"), span("/h?seconds=60"), span("/h?a=1&seconds=7"), span("/h?seconds=-1")],
            [3600, 60, 7, 3600]
        );
    }
}
