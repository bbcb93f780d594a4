//! Columns that the user describes. Input: the description, a line of its own; then the text.
#![no_main]

use libfuzzer_sys::{Corpus, fuzz_target};
use nitro_fuzz::trace::read_both_ways;
use nitro_trace::Options;
use nitro_trace::format::Columns;

fuzz_target!(|data: &str| -> Corpus {
    let Some((map, text)) = data.split_once('\n') else { return Corpus::Reject };
    match map.parse::<Columns>() {
        Ok(columns) => read_both_ways(text.as_bytes(), &Options { columns: Some(columns), ..Options::default() }),
        Err(error) => assert!(error.to_string().starts_with("columns: ")),
    }
    Corpus::Keep
});
