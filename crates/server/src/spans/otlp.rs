//! The body of a request to a collector: `ExportTraceServiceRequest` in the JSON encoding of OTLP 1.x. 64-bit numbers
//! are strings of digits, and IDs are hexadecimal digits.

use super::sample::random;
use super::{Outcome, Span};
use nitro_frontend::DiskError;
use serde::Serialize;

/// `SPAN_KIND_SERVER`
const KIND_SERVER: u8 = 2;
/// `STATUS_CODE_ERROR`
const STATUS_ERROR: u8 = 2;
/// The name of the program that the spans come from, and of the part of it that makes them.
const SERVICE: &str = "nitro";
const SCOPE: &str = "nitro.requests";
const VERSION: &str = env!("CARGO_PKG_VERSION");

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Request<'a> {
    resource_spans: [ResourceSpans<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceSpans<'a> {
    resource: Resource<'a>,
    scope_spans: [ScopeSpans<'a>; 1],
}

#[derive(Serialize)]
struct Resource<'a> {
    attributes: [Attribute<'a>; 3],
}

#[derive(Serialize)]
struct ScopeSpans<'a> {
    scope: Scope,
    spans: Vec<SpanBody<'a>>,
}

#[derive(Serialize)]
struct Scope {
    name: &'static str,
    version: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SpanBody<'a> {
    trace_id: String,
    span_id: String,
    name: &'static str,
    kind: u8,
    start_time_unix_nano: String,
    end_time_unix_nano: String,
    attributes: [Attribute<'a>; 5],
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Status>,
}

#[derive(Serialize)]
struct Status {
    code: u8,
    message: String,
}

#[derive(Serialize)]
struct Attribute<'a> {
    key: &'static str,
    value: AnyValue<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum AnyValue<'a> {
    StringValue(&'a str),
    IntValue(String),
}

fn text<'a>(key: &'static str, value: &'a str) -> Attribute<'a> {
    Attribute { key, value: AnyValue::StringValue(value) }
}

fn number(key: &'static str, value: u64) -> Attribute<'static> {
    Attribute { key, value: AnyValue::IntValue(value.to_string()) }
}

/// The body for some spans.
pub(super) fn body(spans: &[Span]) -> serde_json::Result<Vec<u8>> {
    let attributes = [
        text("service.name", SERVICE),
        text("service.version", VERSION),
        number("process.pid", std::process::id().into()),
    ];
    let scope_spans =
        ScopeSpans { scope: Scope { name: SCOPE, version: VERSION }, spans: spans.iter().map(span_body).collect() };
    let resource_spans = ResourceSpans { resource: Resource { attributes }, scope_spans: [scope_spans] };
    serde_json::to_vec(&Request { resource_spans: [resource_spans] })
}

fn span_body(span: &Span) -> SpanBody<'_> {
    let asked = &span.asked;
    SpanBody {
        trace_id: format!("{:016x}{:016x}", id(), id()),
        span_id: format!("{:016x}", id()),
        name: asked.operation,
        kind: KIND_SERVER,
        start_time_unix_nano: span.begun_ns.to_string(),
        end_time_unix_nano: span.ended_ns.to_string(),
        attributes: [
            text("nitro.volume", &span.volume),
            number("nitro.class", asked.class.number().into()),
            number("nitro.offset", asked.offset),
            number("nitro.length", asked.len),
            text("nitro.outcome", outcome(span.outcome)),
        ],
        status: span.outcome.err().map(|error| Status { code: STATUS_ERROR, message: error.to_string() }),
    }
}

fn outcome(outcome: Result<Outcome, DiskError>) -> &'static str {
    match outcome {
        Ok(Outcome::Hit) => "hit",
        Ok(Outcome::Miss) => "miss",
        Ok(Outcome::Done) => "done",
        Err(_) => "error",
    }
}

/// A random part of an ID, which must not be all zeroes.
fn id() -> u64 {
    random().max(1)
}

#[cfg(test)]
mod tests {
    use super::super::Asked;
    use super::*;
    use nitro_units::ClassId;
    use serde_json::{Value, json};

    #[test]
    fn the_body_is_as_the_protocol_says() {
        let asked = Asked { operation: "write", class: ClassId::default(), offset: 1 << 40, len: 4096 };
        let span = Span { volume: "a\"b".into(), asked, begun_ns: 7, ended_ns: 9, outcome: Err(DiskError::NoSpace) };
        let told: Value = serde_json::from_slice(&body(&[span]).unwrap()).unwrap();
        let first = &told["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
        let digits = |key: &str| {
            let text = first[key].as_str().unwrap();
            assert!(text.bytes().all(|b| b.is_ascii_hexdigit()), "{text}");
            text.len()
        };
        assert_eq!((digits("traceId"), digits("spanId")), (32, 16));
        assert_eq!((&first["name"], &first["kind"]), (&json!("write"), &json!(2)));
        assert_eq!((&first["startTimeUnixNano"], &first["endTimeUnixNano"]), (&json!("7"), &json!("9")));
        assert_eq!(first["attributes"][0], json!({"key": "nitro.volume", "value": {"stringValue": "a\"b"}}));
        assert_eq!(first["attributes"][2], json!({"key": "nitro.offset", "value": {"intValue": "1099511627776"}}));
        assert_eq!(first["attributes"][4], json!({"key": "nitro.outcome", "value": {"stringValue": "error"}}));
        assert_eq!(first["status"], json!({"code": 2, "message": "no space left"}));
    }
}
