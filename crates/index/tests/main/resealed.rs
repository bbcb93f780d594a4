//! Indexes whose pages say wrong things, under checksums that are right: nobody panics, and what is found has the right size.

use futures_executor::block_on;
use nitro_device::RamDevice;
use nitro_index::bufferhash::{self, BufferHash, Eviction};
use nitro_index::silt::{self, Rates, Silt};
use nitro_index::{FlashIndex, Options, PAGE_BYTES, Shape, reseal};
use nitro_port::Device;
use std::sync::Arc;

pub use nitro_index::Kind;

const SHAPE: Shape = Shape { key_bytes: 8, value_bytes: 248 };
pub const ENTRIES: u64 = 3000;
const SEED: u64 = 5;
/// Bytes of a change: page (3), offset (2), how (1), what (8).
pub const CHANGE_BYTES: usize = 14;
/// More leave little to look at.
const CHANGES_MAX: usize = 12;

async fn fill(index: &impl FlashIndex) {
    for n in 0..ENTRIES {
        index.insert(&n.to_be_bytes(), &[n as u8; 248]).await.unwrap();
        if n % 5 == 0 {
            index.remove(&(n / 2).to_be_bytes()).await.unwrap();
        }
        if n % 700 == 0 {
            index.sync().await.unwrap();
        }
    }
    index.sync().await.unwrap();
}

async fn use_it(index: &impl FlashIndex) {
    for n in (0..ENTRIES).step_by(101) {
        if let Ok(Some(value)) = index.get(&n.to_be_bytes()).await {
            assert_eq!(value.len(), 248);
        }
    }
    for n in 0..200 {
        // A full index refuses.
        let _ = index.insert(&(n * 7_u64).to_be_bytes(), &[9; 248]).await;
    }
    let _ = index.sync().await;
    let _ = index.counters();
}

fn read_all(device: &RamDevice) -> Vec<u8> {
    block_on(device.read(0, device.geometry().size_bytes as usize)).unwrap().into()
}

/// The image of an index that has been used.
pub fn image(kind: Kind) -> Vec<u8> {
    let device = |bytes| Arc::new(RamDevice::new(bytes, 4096));
    match kind {
        Kind::BufferHash => {
            let options = Options { shape: SHAPE, entries: ENTRIES, ram_bytes: 4 << 20 };
            let plan = bufferhash::Plan::new(&options).unwrap();
            let device = device(plan.flash_bytes);
            block_on(async {
                fill(&BufferHash::create(Arc::clone(&device), plan, Eviction::Fifo, SEED).await.unwrap()).await;
            });
            read_all(&device)
        }
        Kind::Silt => {
            let options = Options { shape: SHAPE, entries: ENTRIES * 2, ram_bytes: 64 << 20 };
            let plan = silt::Plan::new(&options).unwrap();
            let device = device(plan.flash_bytes);
            block_on(async {
                fill(&Silt::create(Arc::clone(&device), plan, Rates::default(), SEED).await.unwrap()).await;
            });
            read_all(&device)
        }
    }
}

/// Changes pages as `script` says, seals them again, and uses what there is then.
pub fn judge(kind: Kind, image: &[u8], script: &[u8]) {
    let mut image = image.to_vec();
    let pages = image.len() / PAGE_BYTES;
    for change in script.chunks_exact(CHANGE_BYTES).take(CHANGES_MAX) {
        let [a, b, c, d, e, how, what @ ..] = change else { continue };
        let page = u32::from_le_bytes([*a, *b, *c, 0]) as usize % pages;
        let at = usize::from(u16::from_le_bytes([*d, *e])) % (PAGE_BYTES - 8);
        let bytes = &mut image[page * PAGE_BYTES..(page + 1) * PAGE_BYTES];
        // Headers are what most depends on.
        let at = if how & 1 != 0 { at % 64 } else { at };
        let len = 1 << (how >> 1 & 3);
        bytes[at..at + len].copy_from_slice(&what[..len]);
        if how & 8 == 0 {
            reseal(bytes, (page * PAGE_BYTES) as u64, SEED);
        }
    }
    let device = Arc::new(RamDevice::new(image.len() as u64, 4096));
    block_on(async {
        device.write(0, image.into()).await.unwrap();
        match kind {
            Kind::BufferHash => {
                if let Ok(index) = BufferHash::open(device, Eviction::Fifo).await {
                    use_it(&index).await;
                }
            }
            Kind::Silt => {
                if let Ok(index) = Silt::open(device, Rates::default()).await {
                    use_it(&index).await;
                }
            }
        }
    });
}
