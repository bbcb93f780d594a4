//! `nitro pin`, `nitro unpin` and `nitro pins`

use crate::args::{ControlArgs, OutputArgs, PinArgs};
use crate::volume::print;
use nitro_console::error::Error;
use nitro_console::output::{self, Format, Table};
use nitro_console::size::Size;
use nitro_server::control::client::Client;
use nitro_server::control::protocol::{Command, Pin};
use serde::Serialize;

/// Pins a range of a volume, or unpins it.
pub(crate) fn pin(args: &PinArgs, pinned: bool) -> Result<(), Error> {
    let PinArgs { volume, offset, length, control, output } = args;
    let (volume, offset, length) = (volume.clone(), offset.map_or(0, |size| size.0), length.map(|size| size.0));
    let command = match pinned {
        true => Command::Pin { volume, offset, length },
        false => Command::Unpin { volume, offset, length },
    };
    print(&Client::connect(control.path())?.execute(command)?, *output)
}

/// An entry of the list.
#[derive(Debug, Serialize)]
struct Listed<'a> {
    cache: &'a str,
    #[serde(flatten)]
    pin: &'a Pin,
}

/// Lists the pinned ranges.
pub(crate) fn list(control: &ControlArgs, output: OutputArgs) -> Result<(), Error> {
    let status = Client::connect(control.path())?.status()?;
    let of_cache =
        status.caches.iter().flat_map(|cache| cache.pins.iter().map(|pin| Listed { cache: &cache.name, pin }));
    let all: Vec<_> = of_cache.collect();
    if output.format == Format::Json {
        return output::print(&output::json_pretty(&all)?).map(|_| ());
    }
    let is_csv = output.format == Format::Csv;
    if all.is_empty() && !is_csv {
        return output::print("Nothing is pinned.\n").map(|_| ());
    }
    let size = |bytes: u64| if is_csv { bytes.to_string() } else { Size(bytes).to_string() };
    let mut table = Table::new(["cache", "volume", "offset", "length"]);
    for Listed { cache, pin } in &all {
        table.row(vec![(*cache).to_owned(), pin.volume.clone(), size(pin.offset), size(pin.length)]);
    }
    output::print(&if is_csv { table.csv(true) } else { table.aligned() }).map(|_| ())
}
