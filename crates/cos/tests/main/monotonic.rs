//! Accesses that go upwards with gaps ("NSIO-Monotonic", Allu et al., USENIX ATC 2018): the recipe is read in advance and
//! cached on the SSD, data are neither; and reads without the places in recipes.

use crate::model::erased;
use crate::requests::{Bed, CHUNK, chunk};
use futures_executor::block_on;
use nitro_cos::{Pattern, Settings, SsdOptions, SsdPieces, SsdSource, Store};
use nitro_device::RamDevice;
use nitro_testkit::{Erased, Rng};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Chunks from one read to the next: a gap that is longer than what continues a sequence.
const STEP: u64 = 11;
/// References in a recipe block.
const FANOUT: u64 = 448;

async fn open(bed: &Bed, settings: Settings) -> Arc<Store<Erased>> {
    let source = SsdSource::new(RamDevice::new(256 << 20, 4096), SsdOptions::default());
    Arc::new(Store::open_with_ssd(erased(&bed.disk), settings, Some(source)).await.unwrap())
}

/// Reads chunks of the volume. Returns the recipe blocks that were read from the disk for each read.
async fn read(bed: &Bed, store: &Arc<Store<Erased>>, chunks: impl Iterator<Item = u64>) -> Vec<u64> {
    let volume = store.open_volume("vm").await.unwrap();
    let mut blocks = Vec::new();
    for index in chunks {
        let before = store.counters().recipe_reads;
        let read = volume.read_range(index * CHUNK, CHUNK as usize).await.unwrap();
        assert!(read == chunk(bed.contents[index as usize]), "chunk {index}");
        blocks.push(store.counters().recipe_reads - before);
    }
    blocks
}

fn pieces(store: &Store<Erased>) -> [SsdPieces; 3] {
    store.ssd_stats().unwrap().pieces
}

#[test]
fn reads_that_go_upwards_with_gaps_read_the_recipe_in_advance_and_keep_no_data_on_the_ssd() {
    block_on(async {
        let bed = Bed::with_ssd(None).await;
        let chunks = bed.contents.len() as u64;
        let store = open(&bed, Settings::default()).await;
        let blocks = read(&bed, &store, (0..chunks).step_by(STEP as usize)).await;
        let patterns = store.patterns("vm").await.unwrap();
        assert!(patterns.iter().all(|region| region.pattern == Pattern::Monotonic), "{patterns:?}");
        // The blocks of the last part were read before it was reached.
        let leaves = chunks.div_ceil(FANOUT);
        assert!(blocks.iter().sum::<u64>() >= leaves);
        let last = ((leaves - 1) * FANOUT / STEP + 1) as usize;
        assert!(blocks[last..].iter().all(|read| *read == 0), "{:?}", &blocks[last..]);
        let [fmd, _, data] = pieces(&store);
        assert!(fmd.pieces >= leaves, "{fmd:?}");
        // Until the pattern is known, small reads count as random.
        let upwards = data.misses;
        assert!(upwards < blocks.len() as u64 / 4, "{data:?}");
        store.close().await.unwrap();

        let store = open(&bed, Settings { patterns: false, ..Settings::default() }).await;
        read(&bed, &store, (0..chunks).step_by(STEP as usize)).await;
        let [_, _, data] = pieces(&store);
        assert!(data.misses > upwards * 3 && data.pieces > upwards * 3, "{data:?}, {upwards}");
        store.close().await.unwrap();
    });
}

#[test]
fn small_writes_that_go_upwards_with_gaps_keep_no_data_on_the_ssd() {
    block_on(async {
        let mut bed = Bed::with_ssd(None).await;
        let store = open(&bed, Settings::default()).await;
        let volume = store.open_volume("vm").await.unwrap();
        let mut kept = 0;
        for (index, number) in (0..bed.contents.len()).step_by(STEP as usize).zip(1_000_000..) {
            bed.contents[index] = number;
            volume.write_range(index as u64 * CHUNK, chunk(number).into()).await.unwrap();
            if index < bed.contents.len() / 2 {
                kept = pieces(&store)[2].pieces;
            }
        }
        let [_, _, data] = pieces(&store);
        assert!(data.pieces < bed.contents.len() as u64 / STEP / 4 && data.pieces < kept * 3, "{data:?}");
        store.close().await.unwrap();
        let store = open(&bed, Settings::default()).await;
        read(&bed, &store, 0..bed.contents.len() as u64).await;
        store.close().await.unwrap();
    });
}

#[test]
fn without_places_each_block_and_each_chunk_is_looked_up() {
    block_on(async {
        let bed = Bed::with_ssd(None).await;
        let little = Settings { region_cache_bytes: 64 << 10, recipe_cache_bytes: 48 << 10, ..Settings::default() };
        let mut random = Rng::new(3);
        let chunks: Vec<u64> = (0..300).map(|_| random.below(bed.contents.len() as u64)).collect();
        let mut asked = Vec::new();
        for (places, nsio_metadata) in [(true, false), (false, false), (false, true)] {
            let settings = Settings { places, nsio_metadata, locality_containers: 1, ..little };
            let store = Arc::new(Store::open(erased(&bed.disk), settings).await.unwrap());
            let (before, counters) = (bed.disk.reads.load(Relaxed), store.counters());
            read(&bed, &store, chunks.iter().copied()).await;
            let after = store.counters();
            asked.push([
                bed.disk.reads.load(Relaxed) - before,
                after.index_lookups - counters.index_lookups,
                after.metadata_reads - counters.metadata_reads,
            ]);
            store.close().await.unwrap();
        }
        let [[with, none, _], [without, looked_up, no_metadata], [most, _, metadata]] = asked[..] else { panic!() };
        println!("requests of the disk, look-ups, containers' metadata: {asked:?}");
        let reads = chunks.len() as u64;
        assert!(none < reads / 10 && looked_up > reads * 3 / 2 && no_metadata < reads / 10, "{asked:?}");
        assert!(with < without && without < most && metadata > reads, "{asked:?}");
    });
}

#[test]
fn the_settings_that_only_measure_store_and_read_the_same() {
    block_on(async {
        let mut bed = Bed::with_ssd(None).await;
        let settings = Settings {
            places: false,
            nsio_parallel: false,
            nsio_metadata: true,
            nsio_prefetch_bytes: 64 << 10,
            delayed_recipes: false,
            ..Settings::default()
        };
        let store = open(&bed, settings).await;
        let volume = store.open_volume("vm").await.unwrap();
        let mut random = Rng::new(4);
        for number in 2_000_000..2_000_400_u64 {
            // In the middle of two chunks, which keep their other halves.
            let index = random.below(bed.contents.len() as u64 - 1);
            let read = volume.read_range(index * CHUNK + CHUNK / 2, CHUNK as usize).await.unwrap();
            let both: Vec<u8> = [index, index + 1].iter().flat_map(|i| chunk(bed.contents[*i as usize])).collect();
            assert!(read == both[CHUNK as usize / 2..][..CHUNK as usize], "chunk {index}");
            if number % 3 == 0 {
                bed.contents[index as usize] = number;
                volume.write_range(index * CHUNK, chunk(number).into()).await.unwrap();
            } else if number % 7 == 0 {
                volume.write_range(index * CHUNK + CHUNK / 2, read).await.unwrap();
            }
        }
        store.close().await.unwrap();
        let store = open(&bed, Settings::default()).await;
        read(&bed, &store, 0..bed.contents.len() as u64).await;
    });
}
