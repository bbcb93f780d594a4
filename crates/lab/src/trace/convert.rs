//! `nitro-lab trace convert`

use super::classify::{Classified, Image};
use super::result::ResultFile;
use crate::args::ConvertArgs;
use nitro_commands::traces::Input;
use nitro_console::error::Error;
use nitro_console::note;
use nitro_trace::parquet::is_of_object;

/// Converts traces to one Parquet or CSV file.
pub(super) fn run(args: &ConvertArgs) -> Result<(), Error> {
    let result = ResultFile::new(&args.result, args.force)?;
    let mut input = Input::open(&args.traces, &args.read)?;
    let mut notes = std::mem::take(&mut input.notes);
    // The names of objects are written with the requests.
    notes.retain(|(key, _)| !is_of_object(key));
    if notes.is_empty() {
        let names: Vec<_> = args.traces.iter().map(|path| path.display().to_string()).collect();
        notes.push(("source".to_owned(), format!("converted from {}", names.join(", "))));
    }
    let notes: Vec<_> = notes.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    match &args.classify {
        None => result.fill(&mut input, &notes, args.output.format)?,
        Some(image) => {
            let result = result.only_parquet("classes")?;
            let mut classified = Classified::new(&mut input, Image::read(image)?);
            result.fill(&mut classified, &notes, args.output.format)?;
            note!("{}", classified.told());
        }
    }
    input.tell_skipped();
    Ok(())
}
