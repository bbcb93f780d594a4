//! `nitro cos send` and `nitro cos receive`

use super::terminal::Terminal;
use super::{operated, strange_answer};
use crate::args::{CosReceiveArgs, CosSendArgs, CosTuningArgs};
use nitro_console::error::Error;
use nitro_console::output::{Format, json_line, print};
use nitro_console::size::Size;
use nitro_server::cos::transfer::{Job, Producer, Received, Report, Sent};
use serde::Serialize;
use std::fs::File;
use std::io::{self, IsTerminal, stdin, stdout};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How often is checked whether the command that receives has ended.
const TURN: Duration = Duration::from_millis(10);

/// The result of a transfer.
#[derive(Serialize)]
struct Passed<T> {
    name: String,
    #[serde(flatten)]
    passed: T,
    seconds: f64,
}

/// The other side, by way of this process's standard input and output: a connection, whose other end threads copy from and to.
struct Standard {
    output: JoinHandle<io::Result<u64>>,
}

impl Standard {
    fn connect() -> Result<(Self, File), Error> {
        let fail = |e: io::Error| Error::new("standard input and output", e);
        if stdin().is_terminal() || stdout().is_terminal() {
            return Err(Error::new(
                "standard input and output",
                "a terminal is there, and not the other side of a transfer",
            )
            .or("let nitro cos send start the other side: --to 'ssh HOST nitro cos receive STORE NAME'"));
        }
        let mut from = File::from(stdin().as_fd().try_clone_to_owned().map_err(fail)?);
        let mut to = File::from(stdout().as_fd().try_clone_to_owned().map_err(fail)?);
        let (ours, theirs) = UnixStream::pair().map_err(fail)?;
        let mut arriving = theirs.try_clone().map_err(fail)?;
        // It may wait for input when the transfer has ended; it ends with the process then.
        thread::spawn(move || {
            // An error is the end of the input to whoever reads.
            let _ = io::copy(&mut from, &mut arriving);
            let _ = arriving.shutdown(Shutdown::Write);
        });
        let mut leaving = theirs;
        let output = thread::spawn(move || {
            let copied = io::copy(&mut leaving, &mut to);
            // Whoever writes must not wait for what nobody reads.
            let _ = leaving.shutdown(Shutdown::Both);
            copied
        });
        Ok((Self { output }, File::from(OwnedFd::from(ours))))
    }

    /// Waits until the other side has what was written; the other end of the connection is closed.
    fn finish(self) {
        // If it could not be written, the other side knows it.
        let _ = self.output.join();
    }
}

pub(super) async fn send(args: &CosSendArgs) -> Result<(), Error> {
    let begun = Instant::now();
    let peer = args.to.as_ref().map_or_else(|| "receiver".to_owned(), |line| format!("receiver ({line})"));
    let job = Job::Send { name: args.name.clone(), peer };
    let (mut command, mut standard) = (None, None);
    let open = |_: &Terminal| match &args.to {
        Some(line) => {
            let (started, file) = Producer::connect(line)?;
            command = Some(started);
            Ok(file)
        }
        None => {
            let (connected, file) = Standard::connect()?;
            standard = Some(connected);
            Ok(file)
        }
    };
    let report = operated(&args.store, (job, CosTuningArgs::default()), open).await;
    standard.into_iter().for_each(Standard::finish);
    if report.is_ok()
        && let Some(command) = &mut command
    {
        while command.succeeded().transpose()?.is_none() {
            thread::sleep(TURN);
        }
    }
    let Report::Sent(sent) = report? else {
        return Err(strange_answer(&args.name));
    };
    let Sent { bytes, sent_bytes, received_bytes, stored_bytes, .. } = sent;
    let seconds = begun.elapsed().as_secs_f64();
    let text = match args.output.format {
        Format::Json => json_line(&Passed { name: args.name.clone(), passed: sent, seconds })?,
        _ => format!(
            "{}: {} in {seconds:.1} s, {} sent ({}), {} received, {} stored there\n",
            args.name,
            Size(bytes),
            Size(sent_bytes),
            percent(sent_bytes, bytes),
            Size(received_bytes),
            Size(stored_bytes)
        ),
    };
    if args.to.is_none() {
        nitro_console::note!("{}", text.trim_end());
        return Ok(());
    }
    print(&text).map(drop)
}

fn percent(part: u64, all: u64) -> String {
    format!("{:.1} % of its size", part as f64 * 100.0 / all.max(1) as f64)
}

pub(super) async fn receive(args: &CosReceiveArgs) -> Result<(), Error> {
    let begun = Instant::now();
    let job = Job::Receive { name: args.name.clone(), peer: "sender".to_owned() };
    let mut standard = None;
    let open = |_: &Terminal| {
        let (connected, file) = Standard::connect()?;
        standard = Some(connected);
        Ok(file)
    };
    let report = operated(&args.store, (job, CosTuningArgs { compare: args.compare, threads: None }), open).await;
    standard.into_iter().for_each(Standard::finish);
    let Report::Received(received) = report? else {
        return Err(strange_answer(&args.name));
    };
    let Received { bytes, received_bytes, stored_bytes, .. } = received;
    let seconds = begun.elapsed().as_secs_f64();
    // Standard output belongs to the sender.
    match args.output.format {
        Format::Json => {
            let text = json_line(&Passed { name: args.name.clone(), passed: received, seconds })?;
            nitro_console::note!("{}", text.trim_end());
        }
        _ => nitro_console::note!(
            "{}: {} in {seconds:.1} s, {} received, {} stored",
            args.name,
            Size(bytes),
            Size(received_bytes),
            Size(stored_bytes)
        ),
    }
    Ok(())
}
