//! Operations on a store that take long, for clients of the control socket.
//!
//! ```text
//! C: {"version":1,"command":{"operate":{"store":"/srv/store","job":{"import":{…}}}}}
//! S: {"version":1,"news":"descriptor"}            if the operation needs a file: the client may open it now
//! C: one byte, with the file's descriptor (SCM_RIGHTS of unix(7))
//! S: {"version":1,"news":{"progress":{"what":"imported","unit":"bytes","done":1048576,"total":2097152}}}
//! S: {"version":1,"news":"complete"}              a stream has ended: was that all of it?
//! C: "complete"
//! S: {"version":1,"report":{"imported":{…}}}      or an error; then the server ends the connection
//! ```
//! The client ends the operation with `{"end":{"cause":"SIGINT"}}`, or by ending the connection. The server opens no files: it
//! reads and writes what the client passes, with the rights with which the client has opened it.

mod client;
mod server;

pub(super) use server::converse;

use crate::cos::transfer::Unit;
use serde::{Deserialize, Serialize};

/// What the server tells during an operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum News {
    /// It waits for a descriptor.
    Descriptor,
    /// So much is done; see [`Watch::show`](crate::cos::transfer::Watch::show).
    Progress {
        /// A participle, or the name of a phase.
        what: String,
        /// What is counted.
        unit: Unit,
        /// How much is done.
        done: u64,
        /// Of how much; 0: unknown.
        total: u64,
    },
    /// A line for people.
    Note(String),
    /// It waits for [`Message::Complete`].
    Complete,
}

/// What the client tells during an operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Message {
    /// What was read is all of the content.
    Complete,
    /// The operation has to end.
    End {
        /// The reason, such as the name of a signal.
        cause: String,
    },
}
