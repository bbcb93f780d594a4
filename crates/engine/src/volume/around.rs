//! Writes around the cache in write-back: extents whose class may not enter the cache are written to the origin before
//! the write is acknowledged (Differentiated Storage Services, SOSP 2011, §3.2: selective allocation also of writes).

use super::Volume;
use super::context::RequestContext;
use super::mode::WriteMode;
use super::write::Keep;
use crate::error::Error;
use bytes::Bytes;
use nitro_cache::admission::Provenance;
use nitro_port::buf::BufMut;
use nitro_port::{Clock, Device, Origin};
use nitro_units::{ExtentIndex, ExtentRange};

impl<F: Device, O: Origin, C: Clock> Volume<F, O, C> {
    /// A write in write-back where classes may keep extents out of the cache: runs of extents become dirty in the cache,
    /// or go around it.
    pub(super) async fn write_by_class(
        &self,
        offset: u64,
        data: Bytes,
        fua: bool,
        context: &RequestContext,
    ) -> Result<(), Error> {
        let end = offset + data.len() as u64;
        // With a log, a write is durable when it is acknowledged: all of it, also if the mode changes meanwhile.
        let durable = fua || self.cache.promises_durable_writes();
        let ways = self.go_around(self.extents(offset, data.len() as u64), context.provenance());
        for run in ways.chunk_by(|(_, a), (_, b)| a == b) {
            let [(first, goes_around), ..] = *run else { continue };
            let bytes = ExtentRange::from(first, run.len() as u64).bytes(self.extent_bytes());
            let (from, to) = (bytes.start.max(offset), bytes.end.min(end));
            let part = data.slice((from - offset) as usize..(to - offset) as usize);
            if goes_around {
                self.write_through(from, part, durable, Keep::Nothing, context).await?;
            } else {
                // What is kept of a part must not keep the memory of the whole, which nobody would count.
                let part = if part.len() < data.len() { BufMut::copy_of(&part).freeze() } else { part };
                let fua = if self.mode() == WriteMode::WriteBack { fua } else { durable };
                self.write_alike(from, part, fua, context).await?;
            }
        }
        Ok(())
    }

    /// Which extents of a write go around the cache. Those that are dirty join what is there: one that becomes dirty after
    /// this is destaged under the guard of the write, which then goes around all the same.
    fn go_around(&self, extents: ExtentRange, from: Provenance) -> Vec<(ExtentIndex, bool)> {
        // First what is on its way, then what is there: an extent goes from the one to the other.
        let mut coming = self.flights.dirty(extents);
        coming.sort_unstable();
        let known = self.cache.classifiers.of(self.object());
        let classes: Vec<_> = match known.filter(|_| !from.class.is_classified()) {
            Some(known) => {
                let class = |index| known.class_of(ExtentRange::one(index).bytes(self.extent_bytes()));
                extents.iter().map(|index| class(index).unwrap_or_default()).collect()
            }
            None => vec![from.class; extents.count() as usize],
        };
        let mut manager = self.cache.manager.lock();
        let goes_around = |(index, class): (ExtentIndex, _)| {
            if coming.binary_search(&index).is_ok() {
                return (index, false);
            }
            let barred = manager.goes_around(self.key(index), Provenance { class, ..from });
            if let Some((class, rule)) = barred {
                self.classes.around(class, rule);
            }
            (index, barred.is_some())
        };
        extents.iter().zip(classes).map(goes_around).collect()
    }
}
