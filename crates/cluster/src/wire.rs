//! The messages of etcd's JSON gateway (`/v3/…`, etcd 3.4 and later). Numbers of 64 bits are texts, keys and values are in base64, and
//! what is zero, false or empty is left out.

use crate::machine::{Fence, Key, LeaseId};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use std::collections::HashSet;

/// The form of the keys and values under the prefix, which is the value of the key `format`. A program that knows another one claims
/// nothing.
pub const FORMAT: &str = "nitro-cluster 1";

/// `codes.NotFound` of gRPC: there is no such lease.
pub(crate) const NOT_FOUND: i64 = 5;
/// `codes.Unauthenticated`: the token has expired.
pub(crate) const UNAUTHENTICATED: i64 = 16;
/// `codes.InvalidArgument` (no user although etcd wants one) and `codes.PermissionDenied`.
pub(crate) const REFUSED: [i64; 2] = [3, 7];

/// An answer, whatever was asked.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Message {
    /// Who answers.
    pub header: Header,
    /// What a stream consists of.
    pub result: Option<Box<Message>>,
    /// A lease.
    #[serde(rename = "ID", deserialize_with = "number")]
    pub id: i64,
    /// How long it lasts, in seconds.
    #[serde(rename = "TTL", deserialize_with = "number")]
    pub ttl: i64,
    /// The conditions of a transaction held.
    pub succeeded: bool,
    /// The answers to the parts of a transaction.
    pub responses: Vec<Part>,
    /// What has happened to keys that are watched.
    pub events: Vec<Event>,
    /// The token of a user.
    pub token: String,
    /// Why nothing was done.
    pub error: Option<Reason>,
    /// The kind of the error.
    #[serde(deserialize_with = "number")]
    pub code: i64,
}

/// Who answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Header {
    /// The etcd cluster.
    #[serde(deserialize_with = "unsigned")]
    pub cluster_id: u64,
    /// How often anything was changed; of a transaction that changes something, its own number.
    #[serde(deserialize_with = "unsigned")]
    pub revision: u64,
    /// How often there was an election.
    #[serde(deserialize_with = "unsigned")]
    pub raft_term: u64,
}

/// An error: a text, or of a stream an object with one.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Reason {
    /// The text.
    Text(String),
    /// An object with the text.
    Object {
        /// The text.
        #[serde(default)]
        message: String,
    },
}

/// The answer to a part of a transaction.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Part {
    /// Of a range.
    pub response_range: Range,
}

/// What has happened to a key.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Event {
    /// The key.
    pub kv: KeyValue,
}

/// Keys with their values.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Range {
    /// The keys.
    pub kvs: Vec<KeyValue>,
}

/// A key with its value.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct KeyValue {
    /// In base64.
    pub key: String,
    /// In base64.
    pub value: String,
    /// The revision at which it was created.
    #[serde(deserialize_with = "unsigned")]
    pub create_revision: u64,
    /// The lease to which it is attached.
    #[serde(deserialize_with = "number")]
    pub lease: i64,
}

/// A number, or a text with one.
#[derive(Deserialize)]
#[serde(untagged)]
enum Number {
    Signed(i64),
    Unsigned(u64),
    Text(String),
}

fn number<'de, D: Deserializer<'de>>(from: D) -> Result<i64, D::Error> {
    let of = |text: &str| text.parse().map_err(serde::de::Error::custom);
    match Number::deserialize(from)? {
        Number::Signed(number) => Ok(number),
        Number::Unsigned(number) => i64::try_from(number).map_err(serde::de::Error::custom),
        Number::Text(text) => of(&text),
    }
}

fn unsigned<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    match Number::deserialize(from)? {
        Number::Signed(number) => u64::try_from(number).map_err(serde::de::Error::custom),
        Number::Unsigned(number) => Ok(number),
        Number::Text(text) => text.parse().map_err(serde::de::Error::custom),
    }
}

/// Parses an answer. Of a stream, the first message counts.
///
/// # Errors
/// It is no answer of etcd; the error says what is wrong.
pub fn parse_answer(bytes: &[u8]) -> Result<Message, String> {
    // serde would take an array for an object's fields in order.
    if !bytes.trim_ascii_start().starts_with(b"{") {
        return Err("the answer is no JSON object".to_owned());
    }
    let mut messages = serde_json::Deserializer::from_slice(bytes).into_iter::<Message>();
    let first = messages.next().ok_or("the answer is no JSON object")?.map_err(|error| error.to_string())?;
    match first.result {
        Some(result) => Ok(*result),
        None => Ok(first),
    }
}

impl Message {
    /// Whether a message of a [watch](Keys::watch) tells of one of these keys. Messages that tell of no key may.
    pub(crate) fn concerns(&self, keys: &HashSet<String>) -> bool {
        self.events.is_empty() || self.events.iter().any(|event| keys.contains(&event.kv.key))
    }

    /// Why nothing was done, in words.
    pub(crate) fn reason(&self) -> Option<&str> {
        self.error.as_ref().map(|reason| match reason {
            Reason::Text(text) | Reason::Object { message: text } => text.as_str(),
        })
    }

    /// The keys in one of the answers to the parts of a transaction.
    fn part(&self, at: usize) -> &[KeyValue] {
        self.responses.get(at).map(|part| part.response_range.kvs.as_slice()).unwrap_or_default()
    }

    /// The first key in one of the answers to the parts.
    pub(crate) fn first(&self, at: usize) -> Option<&KeyValue> {
        self.part(at).first()
    }
}

impl KeyValue {
    /// The value as text; empty if it is none.
    pub(crate) fn text(&self) -> String {
        STANDARD.decode(&self.value).ok().and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default()
    }

    /// It as the ownership key of a volume.
    pub(crate) fn of_volume(&self, volume: &str) -> Key {
        let host = serde_json::from_str::<Value>(&self.text()).ok();
        let host = host.as_ref().and_then(|value| value["host"].as_str()).unwrap_or("?").to_owned();
        Key { volume: volume.to_owned(), fence: Fence(self.create_revision), lease: self.lease, host }
    }
}

fn base64(text: &str) -> String {
    STANDARD.encode(text)
}

/// The keys under a prefix, and the requests about them.
#[derive(Debug, Clone)]
pub(crate) struct Keys {
    pub(crate) prefix: String,
    pub(crate) host: String,
}

impl Keys {
    fn format(&self) -> String {
        base64(&format!("{}/format", self.prefix))
    }

    fn host(&self) -> String {
        base64(&format!("{}/host/{}", self.prefix, self.host))
    }

    fn volume(&self, name: &str) -> String {
        base64(&format!("{}/volume/{name}", self.prefix))
    }

    /// What this host writes.
    fn value(&self) -> String {
        base64(&json!({ "host": self.host, "version": env!("CARGO_PKG_VERSION") }).to_string())
    }

    /// Declares the format, if none is; the answer has it otherwise.
    pub(crate) fn declare(&self) -> Value {
        let key = self.format();
        json!({
            "compare": [absent(&key)],
            "success": [put(&key, &base64(FORMAT), 0)],
            "failure": [range(&key)],
        })
    }

    fn is_our_format(&self) -> Value {
        json!({ "key": self.format(), "target": "VALUE", "result": "EQUAL", "value": base64(FORMAT) })
    }

    /// Takes the host's name; the answer has who has it otherwise.
    pub(crate) fn register(&self, lease: LeaseId) -> Value {
        let key = self.host();
        json!({
            "compare": [absent(&key), self.is_our_format()],
            "success": [put(&key, &self.value(), lease)],
            "failure": [range(&key), range(&self.format())],
        })
    }

    /// Creates the ownership key of a volume.
    pub(crate) fn claim(&self, volume: &str, lease: LeaseId) -> Value {
        let key = self.volume(volume);
        json!({
            "compare": [absent(&key), self.is_our_format()],
            "success": [put(&key, &self.value(), lease)],
            "failure": [range(&key), range(&self.format())],
        })
    }

    /// Deletes the ownership key of a volume, if it has this number.
    pub(crate) fn release(&self, volume: &str, fence: Fence) -> Value {
        let key = self.volume(volume);
        json!({
            "compare": [{ "key": key, "target": "CREATE", "result": "EQUAL", "create_revision": fence.to_string() }],
            "success": [{ "request_delete_range": { "key": key } }],
        })
    }

    /// Reads the ownership keys of volumes, one part for each. It changes nothing, and a server answers only once a majority has
    /// confirmed that it is up to date.
    pub(crate) fn look(&self, volumes: &[String]) -> Value {
        json!({ "success": volumes.iter().map(|volume| range(&self.volume(volume))).collect::<Vec<_>>() })
    }

    /// The ownership keys of volumes, as they are in messages.
    pub(crate) fn of_volumes(&self, names: &[String]) -> HashSet<String> {
        names.iter().map(|name| self.volume(name)).collect()
    }

    /// Follows the ends of ownership keys.
    pub(crate) fn watch(&self) -> Value {
        let (first, end) = (format!("{}/volume/", self.prefix), format!("{}/volume0", self.prefix));
        json!({ "create_request": { "key": base64(&first), "range_end": base64(&end), "filters": ["NOPUT"] } })
    }
}

/// The condition that there is no such key.
fn absent(key: &str) -> Value {
    json!({ "key": key, "target": "CREATE", "result": "EQUAL", "create_revision": "0" })
}

fn put(key: &str, value: &str, lease: LeaseId) -> Value {
    json!({ "request_put": { "key": key, "value": value, "lease": lease.to_string() } })
}

fn range(key: &str) -> Value {
    json!({ "request_range": { "key": key } })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As etcd 3.4.23 answers.
    const HEADER: &str = r#""header":{"cluster_id":"1123921947047504391","member_id":"17926851863925239235","revision":"7","raft_term":"2"}"#;

    #[test]
    fn answers_are_understood() {
        let granted = parse_answer(format!(r#"{{{HEADER},"ID":"3297657633231496966","TTL":"5"}}"#).as_bytes()).unwrap();
        assert_eq!((granted.id, granted.ttl, granted.header.raft_term), (3_297_657_633_231_496_966, 5, 2));
        let alive =
            parse_answer(format!("{{\"result\":{{{HEADER},\"ID\":\"9\",\"TTL\":\"5\"}}}}\n").as_bytes()).unwrap();
        assert_eq!((alive.id, alive.ttl, alive.header.cluster_id), (9, 5, 1_123_921_947_047_504_391));
        let gone = parse_answer(format!(r#"{{"result":{{{HEADER},"ID":"123"}}}}"#).as_bytes()).unwrap();
        assert_eq!((gone.id, gone.ttl), (123, 0));
        let error = br#"{"error":"etcdserver: requested lease not found","message":"etcdserver: requested lease not found","code":5}"#;
        let error = parse_answer(error).unwrap();
        assert_eq!((error.code, error.reason()), (NOT_FOUND, Some("etcdserver: requested lease not found")));
        let owner = base64(r#"{"host":"b"}"#);
        let lost = format!(
            r#"{{{HEADER},"responses":[{{"response_range":{{"header":{{"revision":"7"}},"kvs":[{{"key":"Zm9v","create_revision":"5","mod_revision":"5","version":"1","value":"{owner}","lease":"77"}}],"count":"1"}}}},{{"response_range":{{"header":{{"revision":"7"}}}}}}]}}"#
        );
        let lost = parse_answer(lost.as_bytes()).unwrap();
        let key = lost.first(0).unwrap().of_volume("vm");
        assert_eq!((lost.succeeded, key.fence, key.lease, key.host.as_str()), (false, Fence(5), 77, "b"));
        assert!(lost.first(1).is_none() && lost.first(2).is_none());
    }

    #[test]
    fn what_etcd_does_not_say_is_refused() {
        for wrong in [
            "",
            "<html>",
            "[]",
            "7",
            r#"{"ID":"x"}"#,
            r#"{"header":{"cluster_id":"-1"}}"#,
            r#"{"ID":18446744073709551615}"#,
            "{",
        ] {
            assert!(parse_answer(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_end_of_a_key_concerns_who_may_serve_its_volume() {
        let keys = Keys { prefix: "/nitro".to_owned(), host: "a".to_owned() };
        let key = base64("/nitro/volume/vm");
        let told = format!(
            r#"{{"result":{{{HEADER},"events":[{{"type":"DELETE","kv":{{"key":"{key}","mod_revision":"9"}}}}]}}}}"#
        );
        let ended = parse_answer(told.as_bytes()).unwrap();
        let (both, other) = (keys.of_volumes(&["other".into(), "vm".into()]), keys.of_volumes(&["other".into()]));
        assert!(ended.concerns(&both) && !ended.concerns(&other));
        let created = parse_answer(format!(r#"{{"result":{{{HEADER},"created":true}}}}"#).as_bytes()).unwrap();
        assert!(created.concerns(&other), "what ended before is not told");
    }

    #[test]
    fn a_claim_has_its_conditions() {
        let keys = Keys { prefix: "/nitro".to_owned(), host: "a".to_owned() };
        let claim = keys.claim("vm", 7);
        assert_eq!(claim["compare"][0]["key"], base64("/nitro/volume/vm"));
        assert_eq!(claim["compare"][0]["create_revision"], "0");
        assert_eq!(claim["compare"][1]["value"], base64(FORMAT));
        assert_eq!(claim["success"][0]["request_put"]["lease"], "7");
        let release = keys.release("vm", Fence(9));
        assert_eq!(release["compare"][0]["create_revision"], "9");
        assert_eq!(keys.look(&["a".into(), "b".into()])["success"].as_array().map(Vec::len), Some(2));
    }
}
