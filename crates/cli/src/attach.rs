//! `nitro attach` and `nitro detach`

use crate::args::{AttachArgs, DetachArgs};
use crate::volume::{execute, print};
use nitro_console::error::Error;
use nitro_console::output::{self, Format};
use nitro_server::control::protocol::Command;

/// Makes a volume a block device of the server's machine, and prints its path.
pub(crate) fn attach(args: &AttachArgs) -> Result<(), Error> {
    let AttachArgs { volume, block_size, server } = args;
    // What is too large is refused as any other size.
    let block_bytes = block_size.map(|size| u32::try_from(size.0).unwrap_or(u32::MAX));
    let done = server.connect()?.execute(Command::Attach { volume: volume.clone(), block_bytes })?;
    match (&done.device, server.output.format) {
        (Some(path), Format::Table) => output::print(&format!("{path}\n")).map(drop),
        _ => print(&done, server.output),
    }
}

/// Removes the block device of a volume.
pub(crate) fn detach(args: &DetachArgs) -> Result<(), Error> {
    execute(&args.server, Command::Detach { volume: args.volume.clone() })
}
