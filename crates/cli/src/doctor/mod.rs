//! `nitro doctor` and `nitro support-bundle`: whether a machine is suitable for a server, and information for the
//! analysis of a fault.

use crate::args::{BundleArgs, DoctorArgs};
use nitro_console::error::Error;
use nitro_console::output::{self, Format, Table};
use nitro_files as files;
use nitro_server::control::client::Client;
use nitro_server::doctor::{self, Finding, State};
use std::io::Write;

/// Runs `nitro support-bundle`.
pub(crate) fn bundle(args: &BundleArgs) -> Result<(), Error> {
    let status = Client::connect(args.control.path()).and_then(|mut client| client.status());
    let text = output::json_pretty(&doctor::bundle(&status))?;
    if args.file.as_os_str() == "-" {
        return output::print(&text).map(drop);
    }
    let fail = |e| Error::new(args.file.display(), e).or("name a file that does not exist");
    files::create_new(&args.file).and_then(|mut file| file.write_all(text.as_bytes())).map_err(fail)?;
    output::print(&format!("{}: read it before you pass it on\n", args.file.display())).map(drop)
}

/// Runs `nitro doctor`.
pub(crate) fn run(args: &DoctorArgs) -> Result<(), Error> {
    let mut all = doctor::look_at_machine();
    for path in &args.paths {
        all.extend(doctor::look_at_device(path));
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
    if format == Format::Csv {
        let mut table = Table::new(["subject", "check", "state", "found", "remedy"]);
        for one in all {
            let Finding { subject, check, found, remedy, .. } = one;
            table.row(vec![
                subject.clone(),
                (*check).to_owned(),
                one.state.as_str().to_owned(),
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
        out += &format!("  {:<8} {:<22} {}\n", one.state.as_str(), one.check, one.found);
        if !one.remedy.is_empty() {
            out += &format!("  {:<8} {:<22} → {}\n", "", "", one.remedy);
        }
    }
    Ok(out)
}
