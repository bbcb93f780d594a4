//! A naive map beside an index whose power fails now and then.

use nitro_index::{FlashIndex, Shape, Value};
use nitro_testkit::{CrashingDevice, Replay, Rng, Versions, seeds};
use std::collections::HashMap;
use std::sync::Arc;

/// Runs a simulation, which returns how many keys are left, with each seed. Of many seeds some must leave any.
pub fn for_seeds(count: u64, simulation: impl Fn(u64) -> usize) {
    let seeds = seeds(count);
    let few = seeds.end - seeds.start < 10;
    let left: usize = seeds.map(simulation).sum();
    assert!(few || left > 0, "nothing ever survived");
}

/// Says how to run a failing seed again.
pub fn replay(seed: u64) -> Replay {
    Replay::new(seed, "nitro-index", "<test>")
}

/// The map.
pub struct Model {
    shape: Shape,
    /// What an index must know of each key; `None`: not there.
    known: HashMap<u64, Versions<Option<Value>>>,
    /// Entries may give way to others.
    evicts: bool,
    next: u64,
}

pub fn key(shape: Shape, n: u64) -> Vec<u8> {
    let mut key = vec![n as u8; shape.key_bytes.into()];
    key[..8].copy_from_slice(&n.to_be_bytes());
    key
}

impl Model {
    pub fn new(shape: Shape, evicts: bool) -> Self {
        Self { shape, known: HashMap::new(), evicts, next: 0 }
    }

    /// A value that was never given before.
    fn value(&mut self, n: u64) -> Value {
        self.next += 1;
        let mut value = Value::from_elem(self.next as u8, self.shape.value_bytes.into());
        value[..4].copy_from_slice(&(n as u32).to_le_bytes());
        value[4..8].copy_from_slice(&(self.next as u32).to_le_bytes());
        value
    }

    /// Enters some keys, removes others, at the same time, and looks some up. Stops at the first error.
    pub async fn change(
        &mut self,
        index: &impl FlashIndex,
        rng: &mut Rng,
        keys: u64,
    ) -> Result<(), nitro_index::Error> {
        let count = 1 + rng.below(40);
        let mut chosen: Vec<u64> = (0..count).map(|_| rng.below(keys)).collect();
        chosen.sort_unstable();
        chosen.dedup();
        let mut doing = Vec::new();
        for n in chosen {
            let (key, value) = (key(self.shape, n), (rng.below(8) != 0).then(|| self.value(n)));
            // Before it is known whether it succeeds: it may have come into effect in either case.
            self.known.entry(n).or_insert_with(|| Versions::new(None)).write(value.clone());
            doing.push(async move {
                match value {
                    Some(value) => index.insert(&key, &value).await,
                    None => index.remove(&key).await,
                }
            });
        }
        let done = futures_util::future::join_all(doing).await;
        done.into_iter().collect::<Result<(), _>>()?;
        let asked: Vec<u64> = (0..10).map(|_| rng.below(keys)).collect();
        let names: Vec<_> = asked.iter().map(|n| key(self.shape, *n)).collect();
        let mut found = index.get_many(&names[..5]).await?;
        for name in &names[5..] {
            found.push(index.get(name).await?);
        }
        for (n, found) in asked.into_iter().zip(found) {
            let due = self.known.get(&n).and_then(|known| known.newest().as_ref());
            let is_due = found.as_ref() == due || (self.evicts && found.is_none());
            assert!(is_due, "key {n}: {found:?} where {due:?} is due");
        }
        Ok(())
    }

    pub async fn sync(&mut self, index: &impl FlashIndex) -> Result<(), nitro_index::Error> {
        index.sync().await?;
        self.known.values_mut().for_each(Versions::made_durable);
        Ok(())
    }

    /// After a crash: what was synced is there, or what came later. From now on the model knows what it is.
    pub async fn check_crashed(&mut self, index: &impl FlashIndex) {
        for (n, known) in &mut self.known {
            let found = index.get(&key(self.shape, *n)).await.unwrap();
            let (due, gave_way) = (known.clone(), self.evicts && found.is_none());
            assert!(known.found(found.clone()) || gave_way, "key {n}: {found:?} where {due:?} is due");
        }
    }

    /// How many keys are there.
    pub fn len(&self) -> usize {
        self.known.values().filter(|k| k.newest().is_some()).count()
    }
}

/// Lets power fail within the next `within` writes and flushes, or the device run out of room before.
pub fn doom(device: &CrashingDevice, rng: &mut Rng, within: u64) {
    device.fail_power_after(rng.below(within));
    if rng.below(2) == 0 {
        device.set_room(rng.below(within) * 4096);
    }
}

/// What a failure leaves: after one of power what it may leave, else all that was written. Now and then the device fails
/// again while the index is opened.
pub fn failed(device: Arc<CrashingDevice>, rng: &mut Rng) -> Arc<CrashingDevice> {
    let left = if rng.below(3) == 0 { device } else { Arc::new(device.crashed()) };
    left.settle();
    left.set_room(u64::MAX);
    if rng.below(3) == 0 {
        doom(&left, rng, 4);
    }
    left
}

/// The index; none if its device failed while it was opened.
///
/// # Panics
/// When it cannot be opened for another reason.
pub fn opened<I>(index: Result<I, nitro_index::Error>) -> Option<I> {
    match index {
        Ok(index) => Some(index),
        Err(nitro_index::Error::Device(_)) => None,
        Err(error) => panic!("what a failure left is not opened: {error}"),
    }
}
