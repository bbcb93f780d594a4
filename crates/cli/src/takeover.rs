//! `nitro takeover`: a volume whose host is lost with its cache.

use crate::args::TakeoverArgs;
use nitro_config::file;
use nitro_console::error::Error;
use nitro_console::output::{Format, Table, json_line, print};
use nitro_server::serve::{Loss, take_over};

/// Runs `nitro takeover`. Returns the exit code.
pub(crate) fn run(args: &TakeoverArgs) -> Result<u8, Error> {
    let loss = take_over(&file::load(&args.config)?, &args.volume, args.accept_loss)?;
    let text = match args.output.format {
        Format::Json => json_line(&loss)?,
        Format::Csv => {
            let Loss { volume, cache, since, point, frozen, age_seconds, accepted } = &loss;
            let row = [
                volume.clone(),
                cache.clone(),
                since.clone(),
                point.to_string(),
                frozen.clone(),
                age_seconds.to_string(),
                accepted.to_string(),
            ];
            let columns = ["volume", "cache", "since", "point", "frozen", "age_seconds", "accepted"];
            Table::of_one(columns, row.to_vec()).csv(true)
        }
        Format::Table if loss.accepted => format!("{}\n", loss.text()),
        Format::Table => format!("{}\n--accept-loss gives it up\n", loss.text()),
    };
    print(&text)?;
    Ok(u8::from(!loss.accepted))
}
