//! Tables of classes, in TOML and as Open-CAS writes them: what is accepted can be written again, and what is not is told with a line
//! that exists.
#![no_main]

use libfuzzer_sys::{Corpus, fuzz_target};
use nitro_config::classes::ClassTable;

fuzz_target!(|text: &str| -> Corpus {
    match ClassTable::parse(text) {
        Ok(table) => {
            if let Ok(written) = table.to_toml() {
                assert_eq!(ClassTable::parse(&written).as_ref(), Ok(&table), "{written}");
            }
        }
        Err(error) => {
            let lines = text.matches('\n').count() + 1;
            assert!(error.line.is_none_or(|line| (1..=lines).contains(&line)), "{error} in {lines} lines");
        }
    }
    Corpus::Keep
});
