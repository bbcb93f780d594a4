//! The `nitro` command: serves volumes through a cache, and controls the server.
//!
//! It is a library so that its tests can ask for the description of the command line; the program is
//! [`main`].
#![forbid(unsafe_code)]
// The futures of a request are nested deeply, from a connection down to a store.
#![recursion_limit = "256"]

mod args;
mod attach;
mod cache;
mod classes;
mod configure;
mod cos;
mod doctor;
mod estimate;
mod explain;
mod iostat;
mod pins;
mod s3;
mod status;
mod takeover;
mod top;
mod volume;
mod warm;

use nitro_console::error::Error;
use nitro_server::serve;

/// The description of the command line.
#[doc(hidden)]
pub use args::command;

use args::{Cli, Command};
use std::process::ExitCode;

/// Runs the command line. Exit codes: 0: success; 1: failure; 2: usage error; of `nitro status --check`, the state.
#[must_use]
pub fn main() -> ExitCode {
    let cli = Cli::given();
    let is_server = matches!(cli.command, Command::Serve(_) | Command::Mount(_));
    nitro_commands::execute("nitro", &cli.log, is_server, || run(&cli))
}

/// Runs a command. Returns its exit code, which may be other than 0 although the command itself did not fail.
fn run(cli: &Cli) -> Result<u8, Error> {
    match &cli.command {
        Command::Serve(args) => return serve::run(args.config()?, args.source()?, cli.given.clone(), args.command()),
        Command::Mount(args) => return serve::run(args.config()?, None, cli.given.clone(), None),
        Command::Status(args) if args.check => return status::check(&args.server),
        Command::Status(args) => status::run(args),
        Command::Doctor(args) => doctor::run(args),
        Command::SupportBundle(args) => doctor::bundle(args),
        Command::Takeover(args) => return takeover::run(args),
        Command::Check(args) => return configure::check(args),
        Command::Reload(server) => configure::reload(server),
        Command::Set(args) => configure::set(args),
        Command::Get(args) => configure::get(args),
        Command::Config(args) => configure::config(args),
        Command::Iostat(args) => iostat::run(args),
        Command::Top(args) => top::run(args),
        Command::Explain(args) => explain::run(args),
        Command::Attach(args) => attach::attach(args),
        Command::Detach(args) => attach::detach(args),
        Command::Flush(args) => volume::flush(args),
        Command::Pin(args) => pins::pin(args, true),
        Command::Unpin(args) => pins::pin(args, false),
        Command::Warm(args) => warm::run(args),
        Command::Pins(server) => pins::list(server),
        Command::Volume { command } => volume::run(command),
        Command::Cache { command } => cache::run(command),
        Command::Class { command } => classes::run(command),
        Command::Cos { command } => cos::run(command),
        Command::S3 { command } => s3::run(command),
        Command::Estimate(args) => estimate::run(args),
        Command::Reference(reference) => configure::refer(reference),
    }
    .map(|()| 0)
}
