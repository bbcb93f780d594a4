//! Whether a machine and its devices are fit for a server, and what helps to find a fault of one.

mod bundle;
mod device;
mod machine;

pub use bundle::bundle;
pub use device::look as look_at_device;
pub use machine::look as look_at_machine;

use serde::Serialize;

/// What a look came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// As it should be.
    Ok,
    /// It works, but worse than it could.
    Warn,
    /// It would not work.
    Fail,
    /// It cannot be told.
    Unknown,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The machine, or a device.
    pub subject: String,
    /// What was looked at.
    pub check: &'static str,
    /// How it is.
    pub state: State,
    /// What was found, in words.
    pub found: String,
    /// What to do; may be empty.
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
