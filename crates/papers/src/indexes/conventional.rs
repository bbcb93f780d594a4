//! A conventional hash table on flash, as in CLAM's comparison: each key has a page, and an insertion reads and
//! rewrites that page.

use super::timed::KeyValue;
use crate::load::Entries;
use bytes::Bytes;
use nitro_index::{Error, PAGE_BYTES, Value};
use nitro_port::buf::BufMut;
use nitro_port::{Device, DeviceError};

/// Bytes of the number of entries at the start of a page.
const COUNT_BYTES: usize = 2;
/// The percentage of entries in use, at most, when the table is created.
const LOAD_PERCENT: u64 = 70;
/// Bytes of a write when the table is created.
const WRITE_BYTES: usize = 1 << 20;

/// A hash table in pages. An entry that does not fit on its key's page is stored on the next page with room.
pub(crate) struct Conventional<D> {
    device: D,
    entries: Entries,
    pages: u64,
}

/// The result of the search for a key on a page.
enum Place {
    /// The key is the entry with this number.
    Here(usize),
    /// The key is absent, and the page has room after this number of entries.
    Room(usize),
    /// The page is full of other keys: the key may be on the next page.
    Beyond,
}

impl<D: Device> Conventional<D> {
    /// Bytes of a table with room for `count` entries at the initial load.
    pub(crate) fn bytes_for(entries: Entries, count: u64) -> u64 {
        (count * 100 / LOAD_PERCENT).div_ceil(capacity(entries) as u64) * PAGE_BYTES as u64
    }

    /// Creates a table with the size for `count` entries that holds the entries `numbers`, written in sequence.
    pub(crate) async fn create(
        device: D,
        entries: Entries,
        count: u64,
        numbers: impl Iterator<Item = u64>,
    ) -> Result<Self, DeviceError> {
        let bytes = Self::bytes_for(entries, count);
        let table = Self { device, entries, pages: bytes / PAGE_BYTES as u64 };
        let mut image = vec![0; bytes as usize];
        for number in numbers {
            let key = entries.key(number);
            let mut page = table.page_of(&key);
            loop {
                let at = page as usize * PAGE_BYTES;
                let bytes = &mut image[at..at + PAGE_BYTES];
                match table.place(bytes, &key) {
                    Place::Beyond => page = (page + 1) % table.pages,
                    place => {
                        table.put(bytes, &place, &key, &entries.value(number));
                        break;
                    }
                }
            }
        }
        for (piece, offset) in image.chunks(WRITE_BYTES).zip((0..).step_by(WRITE_BYTES)) {
            table.device.write(offset, BufMut::copy_of(piece).freeze()).await?;
        }
        table.device.flush().await?;
        Ok(table)
    }

    fn page_of(&self, key: &[u8]) -> u64 {
        // Keys are random, so their first bytes serve as the hash.
        let hash = key.first_chunk().map_or(0, |first: &[u8; 8]| u64::from_le_bytes(*first));
        ((u128::from(hash) * u128::from(self.pages)) >> 64) as u64
    }

    fn place(&self, page: &[u8], key: &[u8]) -> Place {
        let capacity = capacity(self.entries);
        let count = usize::from(u16::from_le_bytes([page[0], page[1]])).min(capacity);
        let entries = page[COUNT_BYTES..].chunks_exact(self.entries.0.entry_bytes());
        match entries.take(count).position(|entry| entry.starts_with(key)) {
            Some(number) => Place::Here(number),
            None if count < capacity => Place::Room(count),
            None => Place::Beyond,
        }
    }

    fn put(&self, page: &mut [u8], place: &Place, key: &[u8], value: &[u8]) {
        let (Place::Here(number) | Place::Room(number)) = *place else { return };
        let at = COUNT_BYTES + number * self.entries.0.entry_bytes();
        page[at..at + key.len()].copy_from_slice(key);
        page[at + key.len()..at + key.len() + value.len()].copy_from_slice(value);
        if matches!(place, Place::Room(_)) {
            page[..COUNT_BYTES].copy_from_slice(&(number as u16 + 1).to_le_bytes());
        }
    }

    /// The page that holds a key, or that should hold it.
    async fn find(&self, key: &[u8]) -> Result<(u64, Bytes, Place), Error> {
        let mut page = self.page_of(key);
        for _ in 0..self.pages {
            let bytes = self.device.read(page * PAGE_BYTES as u64, PAGE_BYTES).await?;
            match self.place(&bytes, key) {
                Place::Beyond => page = (page + 1) % self.pages,
                place => return Ok((page, bytes, place)),
            }
        }
        Err(Error::Full { entries: self.pages * capacity(self.entries) as u64 })
    }
}

fn capacity(entries: Entries) -> usize {
    (PAGE_BYTES - COUNT_BYTES) / entries.0.entry_bytes()
}

impl<D: Device> KeyValue for Conventional<D> {
    async fn get(&self, key: &[u8]) -> Result<Option<Value>, Error> {
        let (_, page, place) = self.find(key).await?;
        let Place::Here(number) = place else { return Ok(None) };
        let at = COUNT_BYTES + number * self.entries.0.entry_bytes() + key.len();
        Ok(Some(Value::from_slice(&page[at..at + usize::from(self.entries.0.value_bytes)])))
    }

    async fn insert(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        let (number, page, place) = self.find(key).await?;
        let mut bytes = BufMut::copy_of(&page);
        self.put(&mut bytes, &place, key, value);
        Ok(self.device.write(number * PAGE_BYTES as u64, bytes.freeze()).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nitro_device::{RamDevice, Reactor};
    use nitro_index::Shape;
    use std::collections::HashMap;

    #[test]
    fn it_holds_what_a_map_holds_also_where_pages_overflow() {
        let entries = Entries(Shape::new(20, 12).unwrap());
        let count = 2000;
        let device = RamDevice::new(Conventional::<RamDevice>::bytes_for(entries, count), 4096);
        Reactor::new().unwrap().block_on(async {
            let table = Conventional::create(device, entries, count, 0..count / 2).await.unwrap();
            let mut model: HashMap<u64, u64> = (0..count / 2).map(|n| (n, n)).collect();
            // More than 70 % of the capacity of the pages: some entries overflow.
            for n in count / 4..count * 13 / 10 {
                table.insert(&entries.key(n), &entries.value(n + 7)).await.unwrap();
                model.insert(n, n + 7);
            }
            for n in 0..count * 2 {
                let found = table.get(&entries.key(n)).await.unwrap();
                let value = model.get(&n).map(|v| entries.value(*v));
                assert_eq!(found.as_deref(), value.as_deref(), "{n}");
            }
        });
    }
}
