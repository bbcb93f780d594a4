//! `nitro cache`: commands for the caches of a running server and for caches that no server uses.

mod fsck;
mod list;
mod salvage;
mod show;
mod upgrade;

use crate::args::{CacheCommand, CreateArgs};
use crate::configure;
use crate::volume;
use nitro_console::error::Error;
use nitro_device::Reactor;
use nitro_server::control::protocol::Command;
use nitro_server::serve;

/// Runs `nitro cache ...`.
pub(crate) fn run(command: &CacheCommand) -> Result<(), Error> {
    match command {
        CacheCommand::Create(args) => create(args),
        CacheCommand::List(server) => list::run(server),
        CacheCommand::Show { path, server } if !path.is_empty() => show::stopped(path, server.output),
        CacheCommand::Show { server, .. } => show::print(&server.connect()?.status()?.caches, server.output),
        CacheCommand::Detach { cache, volume, server } => {
            volume::wait(server, volume, Command::CacheDetach { cache: cache.clone(), volume: volume.clone() })
        }
        CacheCommand::Attach { cache, volume, server } => {
            volume::execute(server, Command::CacheAttach { cache: cache.clone(), volume: volume.clone() })
        }
        CacheCommand::Resize { cache, size, persist, server } => {
            let command = Command::CacheResize { cache: cache.clone(), size_bytes: size.0 };
            configure::keep_size(server.connect()?.execute(command)?, cache, *size, *persist, server.output)
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
    let entry = reactor()?.block_on(serve::create_alone(&config, args.force_discard_dirty))?;
    show::print(&[show::of(&entry)], args.output)
}
