//! What look-ups of duplicates cost an aged store: requests of the disk, and the space, RAM and writes of an SSD with pages of the
//! index or with short fingerprints (Allu et al., USENIX ATC 2018: "Two level index requires 2 HDD I/Os per chunk"; 0.4 % of the
//! space, collisions < 0.01 %).

use crate::model::erased;
use crate::requests::{Bed, CHUNK, chunk};
use futures_executor::block_on;
use nitro_cos::{Fpi, Settings, SsdOptions, SsdSource, SsdState, Stats, Store};
use nitro_device::RamDevice;
use nitro_testkit::{Erased, Rng};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

const SSD_BYTES: u64 = 64 << 20;
/// Bytes of a page of the index on the SSD.
const PAGE_BYTES: u64 = 4104;
/// RAM that the cache manager takes for a piece, in bytes.
const PIECE_RAM_BYTES: f64 = 21.4;

/// How chunks are written again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    /// As a stream, by requests of 1 MiB.
    Stream,
    /// By themselves, scattered.
    Random,
}

/// What it took to write duplicates.
struct Again {
    /// Look-ups that RAM did not answer.
    lookups: u64,
    /// Requests of the disk.
    requests: u64,
    /// Look-ups in the index.
    of_index: u64,
}

impl Again {
    fn each(&self) -> f64 {
        self.requests as f64 / self.lookups as f64
    }
}

/// Writes duplicates of a volume to another one.
async fn write_again(bed: &Bed, store: &Arc<Store<Erased>>, name: &str, order: Order, seed: u64) -> Again {
    let chunks = bed.contents.len();
    store.create_volume(name, chunks as u64 * CHUNK, Some(CHUNK as u32), 0).await.unwrap();
    let volume = store.open_volume(name).await.unwrap();
    let short_lookups = || store.ssd_stats().and_then(|stats| stats.short).map_or(0, |short| short.lookups);
    let (before, short, reads) = (store.counters(), short_lookups(), bed.disk.reads.load(Relaxed));
    let bytes = |from: usize, to: usize| bed.contents[from..to].iter().flat_map(|n| chunk(*n)).collect::<Vec<u8>>();
    let mut written: Vec<usize> = (0..chunks).collect();
    if order == Order::Stream {
        for from in (0..chunks).step_by(128) {
            let to = (from + 128).min(chunks);
            volume.write_range(from as u64 * CHUNK, bytes(from, to).into()).await.unwrap();
        }
    } else {
        let mut random = Rng::new(seed);
        for at in (1..chunks).rev() {
            written.swap(at, random.below(at as u64 + 1) as usize);
        }
        written.truncate(chunks / 2);
        for index in &written {
            volume.write_range(*index as u64 * CHUNK, bytes(*index, index + 1).into()).await.unwrap();
        }
    }
    let requests = bed.disk.reads.load(Relaxed) - reads;
    let (after, short) = (store.counters(), short_lookups() - short);
    let stored = after.stored_chunks - before.stored_chunks;
    assert_eq!(stored, 0, "{stored} of {} duplicates were not found", written.len());
    for index in written.into_iter().step_by(7) {
        let read = volume.read_range(index as u64 * CHUNK, CHUNK as usize).await.unwrap();
        assert!(read == chunk(bed.contents[index]), "chunk {index} of {name}");
    }
    let of_index = after.index_lookups - before.index_lookups;
    Again { lookups: of_index.max(short), requests, of_index }
}

/// What a choice of the SSD costs.
struct Cost {
    /// Requests of the disk for a look-up: of a stream in the first and second pass, and of random writes.
    requests: [f64; 4],
    /// Bytes of pieces of class `fpi` on the SSD, in percent of the containers.
    percent: f64,
    /// RAM in bytes for each chunk that the store has.
    ram_bytes: f64,
    /// Bytes of class `fpi` that were put on the SSD for each chunk that was stored, and for each look-up of a duplicate.
    written: [f64; 2],
    /// Collisions in percent of look-ups.
    collisions: f64,
}

async fn cost(fpi: Option<Fpi>) -> Cost {
    let ssd = Arc::new(RamDevice::new(SSD_BYTES, 4096));
    let source = || {
        let options = SsdOptions { fpi: fpi?, data: false, ..SsdOptions::default() };
        Some(SsdSource::new(Arc::clone(&ssd), options))
    };
    let bed = Bed::with_ssd(source()).await;
    let built = bed.stats.as_ref().unwrap();
    let stored = |stats: &Stats| stats.ssd.as_ref().map_or(0, |ssd| ssd.pieces[1].stored_bytes) as f64;
    let settings = Settings {
        locality_containers: 3,
        region_cache_bytes: 256 << 10,
        recipe_cache_bytes: 1 << 20,
        ..Settings::default()
    };
    let stored_chunks =
        (built.counters.stored_chunks + built.counters.recipe_blocks + built.counters.copied_chunks) as f64;
    let mut cost = Cost {
        requests: [0.0; 4],
        percent: 0.0,
        ram_bytes: 0.0,
        written: [stored(built) / stored_chunks, 0.0],
        collisions: 0.0,
    };
    let (mut lookups, mut again_bytes, mut collisions) = (0, 0.0, 0);
    for order in [Order::Stream, Order::Random] {
        let store = Store::open_with_ssd(erased(&bed.disk), settings, source()).await.unwrap();
        let store = Arc::new(store);
        assert!(store.ssd_stats().is_none_or(|stats| stats.state == SsdState::Kept), "{:?}", store.ssd_stats());
        for pass in 0..2 {
            let again = write_again(&bed, &store, &format!("{order:?}-{pass}"), order, pass).await;
            println!(
                "{fpi:?}, {order:?}, pass {}: {} look-ups that RAM does not answer, {:.3} requests of the disk for each; {:.3} ask the \
                 index",
                pass + 1,
                again.lookups,
                again.each(),
                again.of_index as f64 / again.lookups as f64
            );
            cost.requests[order as usize * 2 + pass as usize] = again.each();
            lookups += again.lookups;
        }
        let stats = store.stats();
        store.close().await.unwrap();
        again_bytes += stored(&stats);
        let Some(ssd) = &stats.ssd else { continue };
        let short_bytes = ssd.short.map(|short| short.bytes);
        let bytes = short_bytes.unwrap_or(ssd.pieces[1].pieces * PAGE_BYTES) as f64;
        let content_bytes = f64::from(stats.containers) * f64::from(stats.container_bytes);
        cost.percent = cost.percent.max(bytes * 100.0 / content_bytes);
        let ram_bytes =
            ssd.short.map_or(0, |short| short.ram_bytes) as f64 + ssd.pieces[1].pieces as f64 * PIECE_RAM_BYTES;
        cost.ram_bytes = cost.ram_bytes.max(ram_bytes / stats.chunks as f64);
        collisions += ssd.short.map_or(0, |short| short.false_tags);
        println!("{:?} {:?}", ssd.short, ssd.pieces[1]);
    }
    cost.written[1] = again_bytes / lookups as f64;
    cost.collisions = collisions as f64 * 100.0 / lookups as f64;
    cost
}

#[test]
fn short_fingerprints_save_the_look_ups_of_the_index_on_the_disk() {
    block_on(async {
        let (mut all, kinds) = (Vec::new(), [None, Some(Fpi::Off), Some(Fpi::Pages), Some(Fpi::Short)]);
        for fpi in kinds {
            all.push(cost(fpi).await);
        }
        for (fpi, Cost { requests, percent, ram_bytes, written, collisions }) in kinds.iter().zip(&all) {
            println!(
                "{fpi:?}: requests of the disk for a look-up, of a stream in two passes and of random writes in two passes: \
                 {requests:.3?}; {percent:.3} % of the containers' bytes on the SSD, {ram_bytes:.2} bytes of RAM a chunk, {:.0} \
                 bytes written for a new chunk and {:.0} for a look-up, {collisions:.4} % collisions",
                written[0], written[1]
            );
        }
        let [_, off, pages, short] = &all[..] else { panic!("four choices") };
        assert!(short.requests.iter().zip(off.requests).all(|(short, off)| *short < off * 0.6));
        assert!(short.requests.iter().all(|each| *each < 1.05), "{:?}", short.requests);
        assert!(short.percent <= 0.4 && short.percent < pages.percent && short.ram_bytes <= 1.0);
        assert!(short.collisions < 0.01, "{} %", short.collisions);
    });
}
