//! Requests and their answers.

use super::action::Actions;
use super::history::History;
use super::kept::Kept;
use super::snapshot::{Snapshots, json};
use super::units::Maps;
use crate::control::faults::faults;
use crate::control::health::{Health, State};
use crate::metrics::TextFormat;
use crate::serve::Served;
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use hyper::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use nitro_console::text::escaped;
use nitro_device::net::Peer;
use std::borrow::Cow;
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
/// The path of actions.
const ACTION: &str = "/action";
const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";

/// The served content.
pub(super) struct Site {
    snapshots: Snapshots,
    history: RefCell<History>,
    maps: Maps,
    stopping: Arc<AtomicBool>,
    /// The changes that the holder of the token can make.
    actions: Option<Actions>,
    /// Requests may have any `Host`: they may come from other machines, or through a proxy.
    any_host: bool,
}

/// An answer, before its headers.
pub(super) enum Answer {
    Found(&'static str, Bytes),
    Text(StatusCode, Cow<'static, str>),
}

impl Answer {
    /// An answer in words.
    pub(super) fn text(status: StatusCode, what: impl Into<Cow<'static, str>>) -> Self {
        Self::Text(status, what.into())
    }

    fn into_parts(self) -> (StatusCode, &'static str, Bytes) {
        match self {
            Self::Found(media_type, body) => (StatusCode::OK, media_type, body),
            Self::Text(status, what) => (status, TEXT, Bytes::from(what.into_owned())),
        }
    }
}

impl Site {
    pub(super) fn new(
        served: Arc<Served>,
        stopping: Arc<AtomicBool>,
        any_host: bool,
        actions: Option<Actions>,
        history: History,
    ) -> Self {
        let (history, maps) = (RefCell::new(history), Maps::default());
        Self { snapshots: Snapshots::new(served), history, maps, stopping, actions, any_host }
    }

    /// Adds the present state to the history.
    pub(super) fn sample(&self) {
        self.snapshots.served().all().iter().for_each(|export| export.sample_dirty_age());
        self.history.borrow_mut().add(&self.snapshots.get().status);
    }

    /// The history as it is kept on the disk.
    pub(super) fn history_to_keep(&self) -> Option<Vec<u8>> {
        Kept::content(&self.history.borrow())
    }

    /// The answer to a request.
    pub(super) async fn answer(&self, request: Request<Incoming>, peer: Peer) -> Response<Full<Bytes>> {
        let answer = match request.method() {
            &Method::GET | &Method::HEAD => self.find(request.uri(), request.headers()),
            &Method::POST => self.act(request, peer).await,
            _ => self.no_such_method(),
        };
        self.respond(answer)
    }

    fn respond(&self, answer: Answer) -> Response<Full<Bytes>> {
        let (status, media_type, body) = answer.into_parts();
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
            let allowed = if self.actions.is_some() { "GET, HEAD, POST" } else { "GET, HEAD" };
            headers.insert(header::ALLOW, HeaderValue::from_static(allowed));
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }

    fn no_such_method(&self) -> Answer {
        let why = match self.actions {
            Some(_) => "only GET, HEAD and, for /action, POST are allowed\n",
            None => "only GET and HEAD are allowed: without http_token_file, HTTP cannot change anything\n",
        };
        Answer::text(StatusCode::METHOD_NOT_ALLOWED, why)
    }

    /// Refuses a `Host` that can only be that of another site. A page of another site whose name was made to mean this
    /// machine could read everything (DNS rebinding).
    fn check_host(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Answer> {
        if self.any_host || names_loopback(uri, headers) {
            return Ok(());
        }
        Err(Answer::text(StatusCode::MISDIRECTED_REQUEST, "the Host header names another machine\n"))
    }

    /// Carries out an action.
    async fn act(&self, request: Request<Incoming>, peer: Peer) -> Answer {
        let Some(actions) = self.actions.as_ref().filter(|_| request.uri().path() == ACTION) else {
            return self.no_such_method();
        };
        if let Err(refused) = self.check_host(request.uri(), request.headers()) {
            return refused;
        }
        if !is_same_origin(request.headers()) {
            return Answer::text(StatusCode::FORBIDDEN, "the Origin header names another site than the Host header\n");
        }
        let answer = actions.answer(request, peer).await;
        if matches!(answer, Answer::Text(StatusCode::OK, _)) {
            self.snapshots.outdate();
        }
        answer
    }

    /// Finds what is to be read.
    fn find(&self, uri: &Uri, headers: &HeaderMap) -> Answer {
        if let Err(refused) = self.check_host(uri, headers) {
            return refused;
        }
        match uri.path() {
            "/" => Answer::Found("text/html; charset=utf-8", Bytes::from_static(PAGE.as_bytes())),
            "/metrics" => {
                let format = format(headers);
                Answer::Found(format.media_type(), self.snapshots.get().metrics(format))
            }
            "/healthz" => Answer::Found(TEXT, Bytes::from_static(b"ok\n")),
            "/readyz" if self.stopping.load(Ordering::SeqCst) => {
                Answer::text(StatusCode::SERVICE_UNAVAILABLE, "the server is stopping\n")
            }
            "/readyz" => Answer::Found(TEXT, Bytes::from_static(b"ready\n")),
            "/health" => health(&Health::of(&self.snapshots.get().status)),
            "/status.json" => Answer::Found(JSON, self.snapshots.get().json()),
            "/rates.json" => Answer::Found(JSON, self.snapshots.get().rates()),
            "/faults.json" => Answer::Found(JSON, json(&faults(&self.snapshots.get().status))),
            "/history.json" => Answer::Found(JSON, json(&self.history.borrow().tell(span_seconds(uri)))),
            "/units.json" => Answer::Found(JSON, self.maps.get(self.snapshots.served())),
            ACTION => Answer::Found(JSON, json(&serde_json::json!({ "allowed": self.actions.is_some() }))),
            _ => Answer::text(
                StatusCode::NOT_FOUND,
                "there are: / /metrics /healthz /readyz /health /status.json /rates.json /faults.json /history.json /units.json /action\n",
            ),
        }
    }
}

/// A state and the faults, line by line; 503 if one is critical.
fn health(health: &Health) -> Answer {
    let faults = health
        .faults
        .iter()
        .map(|fault| format!("{}: {}: {}\n", fault.severity, escaped(&fault.subject), escaped(&fault.what)));
    let text = format!("{}\n{}", health.state.as_str(), faults.collect::<String>());
    match health.state {
        State::Critical | State::Unknown => Answer::text(StatusCode::SERVICE_UNAVAILABLE, text),
        State::Ok | State::Warning => Answer::Found(TEXT, text.into()),
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

/// Whether a request comes from a page of this server, or from a program, which names no origin.
fn is_same_origin(headers: &HeaderMap) -> bool {
    if headers.get("sec-fetch-site").is_some_and(|site| site != "same-origin" && site != "none") {
        return false;
    }
    let mut origins = headers.get_all(header::ORIGIN).iter();
    match (origins.next(), origins.next()) {
        (None, _) => true,
        (Some(origin), None) => headers.get(header::HOST).is_some_and(|host| is_origin_of(origin, host)),
        _ => false,
    }
}

/// Whether an origin is a site's, over HTTP or, by a proxy, HTTPS.
fn is_origin_of(origin: &HeaderValue, host: &HeaderValue) -> bool {
    let (Ok(origin), Ok(host)) = (origin.to_str(), host.to_str()) else { return false };
    let named = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    named.is_some_and(|named| named.eq_ignore_ascii_case(host))
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
    fn a_foreign_origin_is_recognized() {
        let same = |given: &[(&'static str, &'static str)]| {
            let mut headers = headers(header::HOST, "localhost:9470");
            for (name, value) in given {
                headers.append(*name, HeaderValue::from_static(value));
            }
            is_same_origin(&headers)
        };
        let own = ("origin", "http://localhost:9470");
        for good in
            [&[][..], &[own], &[("origin", "https://LOCALHOST:9470")], &[own, ("sec-fetch-site", "same-origin")]]
        {
            assert!(same(good), "{good:?}");
        }
        for bad in [
            &[("origin", "http://evil.example")][..],
            &[("origin", "null")],
            &[("origin", "http://localhost")],
            &[("origin", "ftp://localhost:9470")],
            &[("origin", "http://localhost:9470.evil.example")],
            &[own, own],
            &[("sec-fetch-site", "cross-site")],
            &[own, ("sec-fetch-site", "same-site")],
        ] {
            assert!(!same(bad), "{bad:?}");
        }
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
