//! `nitro pin`, `nitro unpin` and `nitro pins`

use crate::args::{PinArgs, ServerArgs};
use crate::volume::execute;
use nitro_console::error::Error;
use nitro_console::output::{self, Format, Table};
use nitro_server::control::protocol::{Command, Pin};
use serde::Serialize;

/// Pins a range of a volume, or unpins it.
pub(crate) fn pin(args: &PinArgs, pinned: bool) -> Result<(), Error> {
    let PinArgs { volume, offset, length, server } = args;
    let (volume, offset, length) = (volume.clone(), offset.map_or(0, |size| size.0), length.map(|size| size.0));
    let command = match pinned {
        true => Command::Pin { volume, offset, length },
        false => Command::Unpin { volume, offset, length },
    };
    execute(server, command)
}

/// An entry of the list.
#[derive(Debug, Serialize)]
struct Listed<'a> {
    cache: &'a str,
    #[serde(flatten)]
    pin: &'a Pin,
}

/// Lists the pinned ranges.
pub(crate) fn list(server: &ServerArgs) -> Result<(), Error> {
    let (status, format) = (server.connect()?.status()?, server.output.format);
    let of_cache =
        status.caches.iter().flat_map(|cache| cache.pins.iter().map(|pin| Listed { cache: &cache.name, pin }));
    let all: Vec<_> = of_cache.collect();
    if all.is_empty() && format == Format::Table {
        return output::print("Nothing is pinned.\n").map(|_| ());
    }
    let mut table = Table::new(["cache", "volume", "offset", "length"]);
    for Listed { cache, pin } in &all {
        table.row(vec![(*cache).to_owned(), pin.volume.clone(), format.size(pin.offset), format.size(pin.length)]);
    }
    output::print_list(format, &all, &table)
}
