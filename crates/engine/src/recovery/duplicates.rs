//! The last part of a restart: duplicates are restored from the records in the headers of WEUs. They are read after all
//! entries, because each is only as good as the entry that it names.

use super::READS_AT_ONCE;
use super::load::read_part;
use super::replay::State;
use crate::cache::Cache;
use crate::format::duplicate::Duplicate;
use crate::format::weu::Head;
use futures_util::stream::{self, StreamExt};
use nitro_cache::{RECORD_STEP, RestoredRecord};
use nitro_port::yielding::yield_now;
use nitro_port::{Clock, Device};

impl<F: Device, C: Clock> Cache<F, C> {
    /// Restores the duplicates that restored WEUs have records of.
    pub(super) async fn load_duplicates(&self, state: &State, recorded: Vec<Head>) {
        let reads = recorded.into_iter().map(async |head| {
            let bytes = read_part(self, head.weu, head.duplicates_offset(), head.duplicates_bytes()).await;
            (head, bytes.and_then(|bytes| head.decode_duplicates(&bytes).ok()))
        });
        let mut reads = stream::iter(reads).buffered(READS_AT_ONCE);
        while let Some((head, duplicates)) = reads.next().await {
            match duplicates {
                Some(duplicates) => self.restore_duplicates(state, &head, &duplicates).await,
                None => self.lose_duplicates(&head),
            }
        }
    }

    async fn restore_duplicates(&self, state: &State, head: &Head, duplicates: &[Duplicate]) {
        let mut bit = self.duplicates_bit();
        for some in duplicates.chunks(RECORD_STEP) {
            let bits = bit..;
            bit += some.len() as u32;
            let restored = bits.zip(some).map(|(bit, duplicate)| self.judged(state, head, bit, duplicate));
            let restored: Vec<RestoredRecord> = restored.collect();
            let shares = |a, b| self.domain(a) == self.domain(b);
            self.manager.lock().restore_records(head.weu, head.generation, &restored, shares);
            yield_now().await;
        }
    }

    fn judged(&self, state: &State, head: &Head, bit: u32, duplicate: &Duplicate) -> RestoredRecord {
        let Duplicate { record, start } = *duplicate;
        let key = record.key;
        RestoredRecord {
            record,
            void: state.is_void(head.weu, head.generation, bit, key, record.version) || state.is_dirty(key),
            doubtful: self.settings.distrust_clean
                || self.filled_in(record.weu) != start
                || self.is_doubtful(state, key),
        }
    }

    /// The records of a WEU cannot be read, or were not written whole: they are void from now on.
    fn lose_duplicates(&self, head: &Head) {
        tracing::info!("{} records of duplicates cannot be read: they are forgotten", head.duplicates);
        let mut left = head.duplicates as usize;
        while left > 0 {
            let some = left.min(RECORD_STEP);
            self.manager.lock().lose_records(head.weu, head.generation, some);
            left -= some;
        }
    }
}
