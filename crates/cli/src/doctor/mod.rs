//! `nitro doctor`: whether a machine and its devices are fit for a server.

mod bundle;
mod device;
mod machine;

pub(crate) use bundle::run as bundle;

use crate::args::DoctorArgs;
use nitro_console::error::Error;
use nitro_console::output::{self, Format, Table};
use serde::Serialize;

/// What a look came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Ok,
    /// It works, but worse than it could.
    Warn,
    /// It would not work.
    Fail,
    /// It cannot be told.
    Unknown,
}

/// One thing that was looked at.
#[derive(Debug, Serialize)]
struct Finding {
    /// The machine, or a device.
    subject: String,
    check: &'static str,
    state: State,
    found: String,
    /// What to do; may be empty.
    remedy: String,
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

/// Looks, and tells.
pub(crate) fn run(args: &DoctorArgs) -> Result<(), Error> {
    let mut all = machine::look();
    for path in &args.paths {
        all.extend(device::look(path));
    }
    output::print(&told(&all, args.output.format)?)?;
    let failed: Vec<_> =
        all.iter().filter(|finding| finding.state == State::Fail).map(|finding| finding.check).collect();
    match failed.is_empty() {
        true => Ok(()),
        false => {
            Err(Error::new("doctor", format_args!("a server would not work: {}", failed.join(", "))).or("see above"))
        }
    }
}

fn told(all: &[Finding], format: Format) -> Result<String, Error> {
    if format == Format::Json {
        return output::json_pretty(&all);
    }
    let state = |state: State| match state {
        State::Ok => "ok",
        State::Warn => "warn",
        State::Fail => "fail",
        State::Unknown => "unknown",
    };
    if format == Format::Csv {
        let mut table = Table::new(["subject", "check", "state", "found", "remedy"]);
        for one in all {
            let Finding { subject, check, found, remedy, .. } = one;
            table.row(vec![
                subject.clone(),
                (*check).to_owned(),
                state(one.state).to_owned(),
                found.clone(),
                remedy.clone(),
            ]);
        }
        return Ok(table.csv(true));
    }
    let (mut out, mut subject) = (String::new(), "");
    for one in all {
        if one.subject != subject {
            subject = &one.subject;
            out += &format!("{subject}\n");
        }
        out += &format!("  {:<8} {:<22} {}\n", state(one.state), one.check, one.found);
        if !one.remedy.is_empty() {
            out += &format!("  {:<8} {:<22} → {}\n", "", "", one.remedy);
        }
    }
    Ok(out)
}
