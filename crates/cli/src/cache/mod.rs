//! `nitro cache`: commands for the caches of a running server and for caches that no server uses.

mod fsck;
mod salvage;
mod show;
mod upgrade;

use crate::args::{CacheCommand, CreateArgs};
use crate::configure;
use crate::volume;
use nitro_console::error::Error;
use nitro_device::Reactor;
use nitro_server::control::client::Client;
use nitro_server::control::protocol::Command;
use nitro_server::serve;

/// Runs `nitro cache ...`.
pub(crate) fn run(command: &CacheCommand) -> Result<(), Error> {
    match command {
        CacheCommand::Create(args) => create(args),
        CacheCommand::Show { path: Some(path), output, .. } => show::stopped(path, *output),
        CacheCommand::Show { path: None, control, output } => show::running(control, *output),
        CacheCommand::Detach { cache, volume, control, output } => {
            let command = Command::CacheDetach { cache: cache.clone(), volume: volume.clone() };
            volume::print(&volume::wait(control, volume, command)?, *output)
        }
        CacheCommand::Attach { cache, volume, control, output } => {
            let command = Command::CacheAttach { cache: cache.clone(), volume: volume.clone() };
            volume::print(&Client::connect(control.path())?.execute(command)?, *output)
        }
        CacheCommand::Resize { cache, size, persist, control, output } => {
            let command = Command::CacheResize { cache: cache.clone(), size_bytes: size.0 };
            let done = Client::connect(control.path())?.execute(command)?;
            configure::keep_size(done, cache, *size, *persist, *output)
        }
        CacheCommand::Fsck { path, output } => fsck::run(path, *output),
        CacheCommand::Salvage(args) => salvage::run(args),
        CacheCommand::Upgrade { path, output } => upgrade::run(path, *output),
    }
}

/// The reactor for devices that are read without a server.
fn reactor() -> Result<Reactor, Error> {
    Reactor::new().map_err(|e| Error::with_sources("reactor", &e))
}

fn create(args: &CreateArgs) -> Result<(), Error> {
    let config = args.config();
    config.check_fingerprint()?;
    let entry = reactor()?.block_on(serve::create_alone(&args.path, &config, args.force_discard_dirty))?;
    show::print(&[show::of(&entry)], args.output)
}
