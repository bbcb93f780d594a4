//! Configuration files: what is accepted can be turned into settings, and what is not is told with a line that exists.
#![no_main]

use libfuzzer_sys::{Corpus, fuzz_target};
use nitro_config::Config;
use std::path::Path;

const CACHE_BYTES: u64 = 4 << 30;

fuzz_target!(|text: &str| -> Corpus {
    match Config::parse(text) {
        Ok(config) => {
            for cache in config.caches.values() {
                let settings = cache.engine_settings(CACHE_BYTES);
                settings.manager.check().expect("what is set was checked");
            }
            for (name, volume) in &config.volumes {
                assert!(config.caches.contains_key(config.cache_of(name).expect("it was checked")));
                if let Some(disk) = volume.emulate_disk {
                    let _ = disk.model();
                }
            }
            assert_eq!(Config::parse(text).as_ref(), Ok(&config));
        }
        Err(error) => {
            assert!(!error.problem.is_empty() && !error.to_string().is_empty());
            let lines = text.matches('\n').count() + 1;
            assert!(error.line.is_none_or(|line| (1..=lines).contains(&line)), "{error} in {lines} lines");
            let _ = error.in_file(Path::new("nitro.toml")).to_string();
        }
    }
    Corpus::Keep
});
