//! Records of duplicates, in the units of clean extents: a restart finds them there.

use super::lanes::Lanes;
use super::open_weu::OpenWeu;
use super::worker::write;
use crate::cache::Cache;
use crate::format::duplicate::Duplicate;
use crate::format::journal::{EVICTED_BYTES, Record};
use nitro_cache::{DupRecord, Evicted, RECORD_STEP};
use nitro_port::yielding::yield_now;
use nitro_port::{Clock, Device};

/// Duplicates examined under one holding of the manager's lock.
const DUPS_PER_LOCK: u32 = 512;

impl<F: Device, C: Clock> Cache<F, C> {
    /// Adds the records of waiting duplicates to a unit that was just sealed and has room for so many.
    pub(super) fn record_duplicates(&self, open: &mut OpenWeu, mut room: u32) {
        if self.is_given_up(open.weu) {
            return;
        }
        let mut made: Vec<DupRecord> = Vec::with_capacity(RECORD_STEP);
        let mut is_more = true;
        while is_more {
            made.clear();
            is_more = self.manager.lock().record(open.weu, &mut room, &mut made);
            for record in &made {
                open.record(&Duplicate { record: *record, start: self.filled_in(record.weu) });
            }
        }
    }

    /// Writes the records of waiting duplicates to a unit of their own, together with those of older such units, if
    /// there are many. `false`: there is no slot for it.
    pub(super) async fn write_record_unit(&self, lanes: &mut Lanes) -> bool {
        let mut merged = 0;
        loop {
            let evicted = self.ledger.tell(EVICTED_BYTES as u64, |room| {
                let Evicted { weu, generation } = self.manager.lock().begin_merging_records(merged)?;
                room.push(Record::Evicted { weu, generation });
                Some(weu)
            });
            let Some(weu) = evicted.await else { break };
            self.empty(weu);
            merged += 1;
        }
        self.make_room(lanes).await;
        let (mut open, room) = {
            let mut manager = self.manager.lock();
            let Some((weu, generation)) = manager.open_weu() else { return false };
            self.set_start(weu, self.start);
            self.resident.open(weu, generation);
            (OpenWeu::new(weu, generation, self.settings.manager.weu_bytes, false), manager.seal(weu))
        };
        self.record_duplicates(&mut open, room);
        write(self, open).await;
        // A load of duplicates writes so little that all of it could be lost in a power cut.
        if let Err(error) = self.flash.flush().await {
            self.fail(&error);
        }
        true
    }

    /// Has all duplicates wait for a record that have none of the present place of their content.
    pub(super) async fn recall_duplicates(&self) {
        let mut from = Some(0);
        while let Some(number) = from {
            from = self.manager.lock().repair_dups(number, DUPS_PER_LOCK);
            yield_now().await;
        }
    }
}
