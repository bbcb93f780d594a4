//! Traces of lines: whatever they are, they are read in constant memory, or told what is bad about them.
//! Input: one byte, the format, or none to recognise it; then the text.
#![no_main]

use libfuzzer_sys::{Corpus, fuzz_target};
use nitro_fuzz::trace::read_both_ways;
use nitro_trace::format::BlockEvent;
use nitro_trace::{Format, Options};

fuzz_target!(|data: &[u8]| -> Corpus {
    let Some((&choice, text)) = data.split_first() else { return Corpus::Reject };
    let format = Format::ALL.get(usize::from(choice & 0x1F)).copied();
    let event = [BlockEvent::Queued, BlockEvent::Issued, BlockEvent::Completed][usize::from(choice >> 5) % 3];
    if matches!(format, Some(Format::Vscsi | Format::OracleGeneral | Format::Blktrace)) {
        return Corpus::Reject;
    }
    read_both_ways(text, &Options { format, event, ..Options::default() });
    Corpus::Keep
});
