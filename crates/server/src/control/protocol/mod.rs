//! The control protocol, version 1: over a unix socket of mode 0600, the client sends one JSON object on a line, and
//! the server answers with one on a line, any number of times. Requests are at most [`REQUEST_BYTES_MAX`] long.
//!
//! ```text
//! {"version":1,"command":"status"}
//! {"version":1,"status":{"server":{…},"caches":[{…}],"volumes":[{…}]}}
//! {"version":1,"command":{"flush":{"volume":"vm","wait":true}}}
//! {"version":1,"done":{"message":"…","dirty_bytes":0,"uris":[]}}
//! {"version":1,"error":"…"}
//! ```
//! A command that takes long is answered at its end, and continues if its client disconnects; `status` on another
//! connection shows its progress. Operations on stores are [another kind of conversation](super::operate). Commands and fields may be added within a version; clients ignore those they do not
//! know. Counters start with the server.

mod cache;
mod command;
mod settings;
mod status;
mod volume;

pub use cache::{Cache, CacheDevice, ClassOfContents, Endurance, FlashIndex, KnownVolume, Log, Pin, Recovered, WhatIf};
pub use command::{AddVolume, Changed, Command, Done, Outcome, WARM_BYTES_MAX};
pub use settings::{SettingInForce, SettingSource, Settings};
pub use status::{Etcd, Latency, Ram, RamPart, ReactorLoad, Recording, Server, Spans, Status, Store, StoreSsd};
pub use volume::{ClassOfRequests, Detection, Explanation, Point, Scan, Stored, Volume};

pub use crate::export::WaitCounters;

use super::operate::News;
use crate::cos::transfer::Report;
use serde::{Deserialize, Serialize};

/// The version of the protocol.
pub const VERSION: u32 = 1;
/// Longest request in bytes, its newline included.
pub const REQUEST_BYTES_MAX: usize = 16 << 10;

/// A request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// [`VERSION`].
    pub version: u32,
    /// The command.
    pub command: Command,
}

/// An answer: exactly one of the fields behind the version is set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Response {
    /// [`VERSION`].
    pub version: u32,
    /// The answer to [`Command::Status`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// The answer to [`Command::Explain`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explained: Option<Explanation>,
    /// The answer to [`Command::Settings`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<Settings>,
    /// The answer to all other commands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done: Option<Outcome>,
    /// What happens during a [`Command::Operate`]; further answers follow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub news: Option<News>,
    /// The answer to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<Report>,
    /// Why the command failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl Response {
    /// An answer without any field.
    #[must_use]
    pub const fn empty() -> Self {
        Self {
            version: VERSION,
            status: None,
            explained: None,
            settings: None,
            done: None,
            news: None,
            report: None,
            error: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_what_the_documentation_says() {
        let request = Request { version: VERSION, command: Command::Status };
        assert_eq!(serde_json::to_string(&request).unwrap(), r#"{"version":1,"command":"status"}"#);
        let flush = Command::Flush { volume: "vm".into(), wait: true };
        let request = Request { version: VERSION, command: flush };
        let text = r#"{"version":1,"command":{"flush":{"volume":"vm","wait":true}}}"#;
        assert_eq!(serde_json::to_string(&request).unwrap(), text);
        let response = Response { error: Some("no".into()), ..Response::empty() };
        assert_eq!(serde_json::to_string(&response).unwrap(), r#"{"version":1,"error":"no"}"#);
        let later = r#"{"version":1,"error":"no","later":7}"#;
        assert_eq!(serde_json::from_str::<Response>(later).unwrap(), response);
    }
}
