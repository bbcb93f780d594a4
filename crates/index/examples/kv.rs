//! A key-value store in a file: `kv FILE put KEY VALUE`, `kv FILE get KEY`, `kv FILE delete KEY`.
//!
//! Keys are hashed to 16 bytes, as in a content-addressed store; values have up to 32 bytes.

use nitro_device::{FileOptions, Reactor};
use nitro_index::silt::{Plan, Rates, Silt};
use nitro_index::{FlashIndex, Options, Shape};
use std::error::Error;
use std::path::Path;

const SHAPE: Shape = Shape { key_bytes: 16, value_bytes: 32 };

fn hashed(key: &str) -> [u8; 16] {
    xxhash_rust::xxh3::xxh3_128(key.as_bytes()).to_be_bytes()
}

async fn run(file: &Path, command: &[&str]) -> Result<(), Box<dyn Error>> {
    let plan = Plan::new(&Options { shape: SHAPE, entries: 100_000, ram_bytes: 16 << 20 })?;
    let store = if file.exists() {
        Silt::open(FileOptions::new(file).open()?, Rates::default()).await?
    } else {
        Silt::create(FileOptions::new(file).create(plan.flash_bytes)?, plan, Rates::default(), 1).await?
    };
    match command {
        ["put", key, value] if value.len() <= 32 => {
            let mut padded = [b' '; 32];
            padded[..value.len()].copy_from_slice(value.as_bytes());
            store.insert(&hashed(key), &padded).await?;
        }
        ["get", key] => match store.get(&hashed(key)).await? {
            Some(value) => println!("{}", String::from_utf8_lossy(&value).trim_end()),
            None => return Err(format!("{key} is not there").into()),
        },
        ["delete", key] => store.remove(&hashed(key)).await?,
        _ => return Err("usage: kv FILE put KEY VALUE (up to 32 bytes) | get KEY | delete KEY".into()),
    }
    Ok(store.sync().await?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, command @ ..] = &arguments[..] else { return Err("usage: kv FILE put|get|delete KEY [VALUE]".into()) };
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    Reactor::new()?.block_on(run(file.as_ref(), &command))
}
