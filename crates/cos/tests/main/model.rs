//! What a store should be: a map of arrays of chunks.

use bytes::Bytes;
use nitro_cos::{Plan, Settings, Store, StoreOptions};
use nitro_port::codec::Compression;
use nitro_port::{Device, Origin};
use nitro_testkit::{Erased, Replay, Rng, Versions};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes of the test's chunks.
pub const CHUNK: usize = 4096;

/// Says how to run a failing seed of a test again.
pub fn again(seed: u64, test: &'static str) -> Replay {
    Replay::new(seed, "nitro-cos", test)
}

/// The content of that number: 0 is all zeroes, odd ones shrink by half.
pub fn content(number: u64) -> Vec<u8> {
    if number == 0 {
        return vec![0; CHUNK];
    }
    let mut random = Rng::new(number);
    let mut bytes = vec![0; CHUNK];
    let filled = if number % 2 == 1 { CHUNK / 2 } else { CHUNK };
    bytes[..filled].chunks_mut(8).for_each(|word| word.copy_from_slice(&random.next().to_le_bytes()));
    bytes
}

/// A small store.
pub fn plan(size_bytes: u64, seed: u64) -> Plan {
    plan_with(size_bytes, None, seed)
}

/// A small store with a journal of that size.
pub fn plan_with(size_bytes: u64, journal_bytes: Option<u64>, seed: u64) -> Plan {
    let options = StoreOptions {
        journal_bytes,
        size_bytes,
        chunk_bytes: CHUNK as u32,
        region_bytes: 16 << 10,
        container_bytes: 64 << 10,
        compression: Compression::Lz4,
    };
    Plan::new(&options, seed | 1, seed).unwrap()
}

/// Little RAM, so that the device is asked.
pub fn settings() -> Settings {
    Settings {
        locality_containers: 3,
        region_cache_bytes: 64 << 10,
        recipe_cache_bytes: 64 << 10,
        compare_duplicates: false,
        ..Settings::default()
    }
}

/// An object.
#[derive(Clone, Debug)]
pub struct Object {
    pub read_only: bool,
    /// By the number of their content.
    pub chunks: Vec<Versions<u64>>,
    /// A crash may make it vanish, or bring it back.
    pub uncertain: bool,
    /// It is there, as far as the store has said.
    pub present: bool,
}

/// All objects.
#[derive(Default, Debug)]
pub struct Model {
    pub objects: BTreeMap<String, Object>,
    /// Old and new names of objects that are being renamed: one of both is there.
    pub renaming: Vec<(String, String)>,
}

impl Model {
    pub fn create(&mut self, name: &str, chunks: usize) {
        let chunks = vec![Versions::new(0); chunks];
        self.objects.insert(name.to_owned(), Object { read_only: false, chunks, uncertain: true, present: true });
    }

    pub fn write(&mut self, name: &str, index: usize, number: u64) {
        self.objects.get_mut(name).unwrap().chunks[index].write(number);
    }

    pub fn copy(&mut self, source: &str, name: &str, read_only: bool) {
        let mut object = self.objects[source].clone();
        (object.read_only, object.uncertain) = (read_only, true);
        object.chunks.iter_mut().for_each(Versions::made_durable);
        self.objects.insert(name.to_owned(), object);
    }

    pub fn remove(&mut self, name: &str) {
        let object = self.objects.get_mut(name).unwrap();
        (object.uncertain, object.present) = (true, false);
    }

    /// Renames an object and its snapshots.
    pub fn rename(&mut self, old: &str, new: &str) {
        let snapshots = format!("{old}@");
        let names: Vec<String> = self.present().into_iter().filter(|n| n == old || n.starts_with(&snapshots)).collect();
        for name in names {
            let renamed = name.replacen(old, new, 1);
            let object = Object { uncertain: true, ..self.objects[&name].clone() };
            self.objects.insert(renamed.clone(), object);
            self.remove(&name);
            self.renaming.push((name, renamed));
        }
    }

    pub fn committed(&mut self) {
        self.renaming.clear();
        self.objects.retain(|_, object| object.present);
        for object in self.objects.values_mut() {
            object.uncertain = false;
            object.chunks.iter_mut().for_each(Versions::made_durable);
        }
    }

    /// What was written last of some chunks is durable.
    pub fn made_durable(&mut self, name: &str, first: usize, count: usize) {
        let chunks = &mut self.objects.get_mut(name).unwrap().chunks[first..][..count];
        chunks.iter_mut().for_each(Versions::made_durable);
    }

    /// After a restart: everything must be as it was, or as was asked for since the last commit.
    pub async fn restarted<D: Device>(&mut self, store: &Arc<Store<D>>) {
        let there: Vec<String> = store.list().await.unwrap().into_iter().map(|o| o.name).collect();
        for name in &there {
            assert!(self.objects.contains_key(name), "{name} came from nowhere");
        }
        let is_old = |(old, new): &(String, String)| {
            assert!(there.contains(old) != there.contains(new), "{old} or {new}: {there:?}");
            there.contains(old)
        };
        let old = self.renaming.iter().filter(|names| is_old(names)).count();
        assert!(old == 0 || old == self.renaming.len(), "{:?} among {there:?}", self.renaming);
        self.objects.retain(|name, object| {
            let is_there = there.contains(name);
            assert!(object.uncertain || is_there == object.present, "{name}: {is_there}");
            object.present = is_there;
            is_there
        });
        for (name, object) in &mut self.objects {
            take_over(name, object, store).await;
        }
        store.commit().await.unwrap();
        self.committed();
    }

    pub fn present(&self) -> Vec<String> {
        self.objects.iter().filter(|(_, o)| o.present).map(|(name, _)| name.clone()).collect()
    }
}

/// Chunks, one after the other.
pub fn bytes_of(numbers: &[u64]) -> Bytes {
    numbers.iter().flat_map(|n| content(*n)).collect::<Vec<u8>>().into()
}

/// Reads an object, and takes over what there is of what may be.
async fn take_over<D: Device>(name: &str, object: &mut Object, store: &Arc<Store<D>>) {
    let volume = store.open_volume(name).await.unwrap();
    assert_eq!(volume.size_bytes() as usize, object.chunks.len() * CHUNK);
    let read = volume.read_range(0, object.chunks.len() * CHUNK).await.unwrap();
    for (i, (chunk, bytes)) in object.chunks.iter_mut().zip(read.chunks(CHUNK)).enumerate() {
        let found = chunk.possible().find(|n| **n != u64::MAX && content(**n) == bytes).copied();
        let anything = chunk.possible().any(|n| *n == u64::MAX);
        match found {
            Some(number) => *chunk = Versions::new(number),
            // Half a chunk: overwritten, so that the model knows it again.
            None if anything => {
                volume.write_range((i * CHUNK) as u64, content(0).into()).await.ok();
                *chunk = Versions::new(0);
            }
            None => panic!("chunk {i} of {name} is none of {chunk:?}"),
        }
    }
}

/// The device as one of any kind: what is generic over devices is compiled once for several.
pub fn erased(device: &Arc<impl Origin>) -> Arc<Erased> {
    Arc::new(Erased::new(Arc::clone(device)))
}
