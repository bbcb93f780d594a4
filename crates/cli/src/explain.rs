//! `nitro explain`

use crate::args::ExplainArgs;
use crate::status::{block, rows};
use nitro_console::error::Error;
use nitro_console::output::{self, Format, Table};
use nitro_console::size::Size;
use nitro_server::control::protocol::{Explanation, Stored};

/// Prints what the cache of a running server knows about one offset of a volume.
pub(crate) fn run(args: &ExplainArgs) -> Result<(), Error> {
    let explained = args.server.connect()?.explain(&args.volume, args.offset.0)?;
    let text = match args.server.output.format {
        Format::Table => render(&explained),
        Format::Json => output::json_pretty(&explained)?,
        Format::Csv => {
            let mut table = Table::new(["kind", "name", "metric", "value"]);
            let value = serde_json::to_value(&explained).map_err(|e| Error::new("CSV", e))?;
            rows(&mut table, "extent", &explained.volume, "", &value);
            table.csv(true)
        }
    };
    output::print(&text).map(|_| ())
}

fn render(explained: &Explanation) -> String {
    let Explanation { volume, offset, bytes, dirty, in_ram, pending, .. } = explained;
    let mut lines = vec![("extent", format!("{} at {offset}", Size(*bytes)))];
    let read = match (*in_ram || *pending, &explained.stored) {
        (true, _) | (_, Some(Stored { on_its_way: true, .. })) => "from RAM",
        (false, Some(_)) => "from the SSD",
        (false, None) => "from the origin",
    };
    lines.push(("is read", read.to_owned()));
    lines.push(("is dirty", if *dirty { "yes: it is not in the origin yet" } else { "no" }.to_owned()));
    if *in_ram {
        lines.push(("RAM cache", "has it".to_owned()));
    }
    if explained.pinned {
        lines.push(("pinned", "it stays in the cache once it is cached".to_owned()));
    }
    if *pending {
        lines.push(("insertion", "it is being inserted into the cache".to_owned()));
    }
    lines.push(("SSD", explained.stored.as_ref().map_or_else(|| absent(explained), stored)));
    block(&format!("volume {volume}"), &lines)
}

fn stored(at: &Stored) -> String {
    let what = match at.read_bytes {
        0 => "all zeroes, nothing to be read".to_owned(),
        bytes => format!("{} to be read", Size(bytes)),
    };
    let way = if at.on_its_way { ", which is being filled or written" } else { "" };
    let class =
        if at.class > 0 { format!(", class {} (by {})", at.class_name, at.class_source) } else { String::new() };
    format!("unit {}{way} (lane {}): {what}; used again {} times since{class}", at.weu, at.lane, at.heat)
}

fn absent(explained: &Explanation) -> String {
    let why = match explained.gone.as_deref() {
        Some("evicted") => "it was evicted",
        Some("overwritten") => "it was overwritten or trimmed, and its new content is not cached",
        Some("refused") => "the policy of admission refused it",
        Some("dropped") => "the queue for the SSD was full",
        Some("invalidated") => "it was invalidated: another program changed the origin, or its bytes could not be read",
        Some(other) => other,
        None => "it was not cached recently",
    };
    format!("does not have it: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_says_where_an_extent_is_and_why_it_is_not() {
        let extent = Explanation { volume: "vm".into(), offset: 8192, bytes: 8192, ..Explanation::default() };
        let evicted = render(&Explanation { gone: Some("evicted".into()), ..extent.clone() });
        assert!(evicted.contains("from the origin") && evicted.contains("it was evicted"), "{evicted}");
        let at = Stored { weu: 7, read_bytes: 4096, lane: "main".into(), heat: 2, ..Stored::default() };
        let found = render(&Explanation { cached: true, stored: Some(at), ..extent });
        assert!(found.contains("from the SSD") && found.contains("unit 7 (lane main): 4 KiB"), "{found}");
    }
}
