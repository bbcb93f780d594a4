//! Checks whether a machine and its devices are suitable for a server, and collects information about faults.

mod bundle;
mod device;
mod folder;
mod machine;

pub use bundle::bundle;
pub use device::look as look_at_device;
pub use machine::look as look_at_machine;

use serde::Serialize;

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// As it should be.
    Ok,
    /// It works, but worse than it could.
    Warn,
    /// It would not work.
    Fail,
    /// It could not be checked.
    Unknown,
}

/// One check with its result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The machine, or a device.
    pub subject: String,
    /// The checked property.
    pub check: &'static str,
    /// The result.
    pub state: State,
    /// A description of the finding.
    pub found: String,
    /// The remedy; may be empty.
    pub remedy: String,
}

impl State {
    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
            Self::Unknown => "unknown",
        }
    }
}

impl Finding {
    fn new(subject: &str, check: &'static str, state: State, found: impl ToString) -> Self {
        Self { subject: subject.to_owned(), check, state, found: found.to_string(), remedy: String::new() }
    }

    fn or(mut self, remedy: impl ToString) -> Self {
        if self.state != State::Ok {
            self.remedy = remedy.to_string();
        }
        self
    }
}
