//! An incarnation: the content of a full buffer, ordered by hash and packed into pages.

use super::buffer::{Buffer, Entry};
use super::filters::{Column, FilterShape};
use super::page::{Header, Page, Writer, entries_per_page};
use super::plan::Plan;
use crate::PAGE_BYTES;
use crate::hash::hash_of;
use bytes::Bytes;
use nitro_port::buf::BufMut;
use std::ops::RangeInclusive;

/// The order of the first key of each page, by which the pages of a key are found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fences(Box<[u32]>);

/// The order of a key in its super table: the 32 bits of its hash after those that chose the super table.
pub(super) fn order_of(hash: u128, super_bits: u32) -> u32 {
    ((hash >> 64) as u64).checked_shl(super_bits).unwrap_or(0).wrapping_shr(32) as u32
}

impl Fences {
    pub(super) fn new(firsts: impl IntoIterator<Item = u32>) -> Self {
        Self(firsts.into_iter().collect())
    }

    /// The pages that may hold a key of this order: one, or two if a page begins with a key of the same order.
    pub(super) fn pages(&self, order: u32) -> RangeInclusive<usize> {
        let last = self.0.partition_point(|first| *first <= order).max(1) - 1;
        let first = self.0.partition_point(|first| *first < order).max(1) - 1;
        first..=last
    }
}

/// An incarnation of a super table that is on the flash, or that is being written.
#[derive(Debug, Clone)]
pub(super) struct Incarnation {
    pub(super) sequence: u64,
    pub(super) fences: Fences,
    /// The number of entries.
    pub(super) len: u32,
}

/// A buffer that was sealed, as it is written to the flash.
pub(super) struct Sealed {
    pub(super) incarnation: Incarnation,
    pub(super) pages: Bytes,
    pub(super) filter: Column,
    /// Whether a task is writing it.
    pub(super) is_written: bool,
}

/// The fields of an incarnation's page headers.
#[derive(Clone, Copy)]
pub(super) struct Labels {
    pub(super) sequence: u64,
    pub(super) before: u64,
    pub(super) durable: u64,
    pub(super) super_table: u32,
    /// Whether it is made while the journal is replayed.
    pub(super) replaying: bool,
    pub(super) epoch: u32,
}

impl Sealed {
    pub(super) fn new(buffer: &Buffer, labels: Labels, plan: &Plan, filters: FilterShape) -> Self {
        let shape = plan.shape;
        let key_bytes = usize::from(shape.key_bytes);
        let mut filter = Column::new(filters);
        let mut ordered: Vec<(u32, Entry<'_>)> = Vec::with_capacity(buffer.len());
        for entry in buffer.iter() {
            let hash = hash_of(&entry.bytes[..key_bytes], plan.seed);
            filter.add(hash as u64);
            ordered.push((order_of(hash, plan.super_bits()), entry));
        }
        ordered.sort_unstable_by_key(|(order, _)| *order);
        let mut pages = BufMut::zeroed(plan.incarnation_bytes() as usize);
        let mut entries = ordered.iter().peekable();
        let mut firsts = Vec::with_capacity(plan.incarnation_pages as usize);
        let offset = plan.slot_offset(labels.sequence);
        for (number, page) in pages.chunks_mut(PAGE_BYTES).enumerate() {
            if let Some((order, _)) = entries.peek() {
                firsts.push(*order);
            }
            let mut writer = Writer::new(page, shape);
            for (_, entry) in entries.by_ref().take(entries_per_page(shape)) {
                writer.push(*entry);
            }
            let header = Header {
                number: labels.sequence,
                in_journal: false,
                durable: labels.durable,
                neighbour: labels.before,
                place: labels.super_table,
                pages: number as u32,
                flag: labels.replaying,
                epoch: labels.epoch,
            };
            writer.finish(&header, offset + (number * PAGE_BYTES) as u64, plan.seed);
        }
        let incarnation =
            Incarnation { sequence: labels.sequence, fences: Fences::new(firsts), len: buffer.len() as u32 };
        Self { incarnation, pages: pages.freeze(), filter, is_written: false }
    }

    /// The entry of a key, from the pages in RAM: its value, and whether it was removed.
    pub(super) fn find(&self, key: &[u8], order: u32, plan: &Plan) -> Option<(Vec<u8>, bool)> {
        let offset = plan.slot_offset(self.incarnation.sequence);
        self.incarnation.fences.pages(order).find_map(|number| {
            let at = number * PAGE_BYTES;
            let bytes = self.pages.get(at..at + PAGE_BYTES)?;
            let page = Page::open(bytes, plan.shape, offset + at as u64, plan.seed)?;
            page.find(key).map(|e| (e.bytes[key.len()..].to_vec(), e.removed))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fences_lead_to_all_pages_that_may_hold_a_key() {
        let fences = Fences::new([5, 10, 10, 20]);
        assert_eq!(fences.pages(0), 0..=0);
        assert_eq!(fences.pages(5), 0..=0);
        assert_eq!(fences.pages(9), 0..=0);
        assert_eq!(fences.pages(10), 0..=2);
        assert_eq!(fences.pages(11), 2..=2);
        assert_eq!(fences.pages(20), 2..=3);
        assert_eq!(fences.pages(u32::MAX), 3..=3);
        assert_eq!(Fences::new([]).pages(3), 0..=0);
    }

    #[test]
    fn orders_follow_the_bits_that_chose_the_super_table() {
        let hash = 0xF123_4567_89AB_CDEF_u128 << 64;
        assert_eq!(order_of(hash, 0), 0xF123_4567);
        assert_eq!(order_of(hash, 4), 0x1234_5678);
    }
}
