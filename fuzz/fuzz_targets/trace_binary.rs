//! Traces of binary records: as [`trace_text`](../trace_text.rs). Input: one byte, the format; then the records.
#![no_main]

use libfuzzer_sys::{Corpus, fuzz_target};
use nitro_fuzz::trace::read_both_ways;
use nitro_trace::{Format, Options};

fuzz_target!(|data: &[u8]| -> Corpus {
    let Some((&choice, records)) = data.split_first() else { return Corpus::Reject };
    let formats = [Some(Format::Vscsi), Some(Format::OracleGeneral), Some(Format::Blktrace), None];
    read_both_ways(records, &Options { format: formats[usize::from(choice) % 4], ..Options::default() });
    Corpus::Keep
});
