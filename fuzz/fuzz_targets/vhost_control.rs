//! Any messages of a virtual machine monitor, with any files: they are carried out or refused, and nothing panics or waits for ever.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nitro_fuzz::vhost::{Message, talk};

fuzz_target!(|messages: Vec<Message<'_>>| talk(&messages));
