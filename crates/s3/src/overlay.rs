//! What was written to a chunk and is in no object yet, in pages of which each sector has been written or not.

use bytes::Bytes;
use std::collections::BTreeMap;
use std::ops::Range;

const SECTOR_BYTES: u32 = 512;
const PAGE_BYTES: u32 = SECTOR_BYTES * u32::BITS;
/// RAM of a page besides its data, in bytes.
const OVERHEAD_BYTES: u64 = 64;

#[derive(Debug)]
struct Page {
    data: Box<[u8]>,
    /// A bit for each sector that was written.
    written: u32,
}

/// The bits of the sectors of a page that are within a range of the page's bytes.
fn bits(range: Range<u32>) -> u32 {
    let (from, to) = (range.start / SECTOR_BYTES, range.end.div_ceil(SECTOR_BYTES));
    let below = |n: u32| if n >= u32::BITS { u32::MAX } else { (1 << n) - 1 };
    below(to) & !below(from)
}

/// Offsets and lengths are multiples of 512.
#[derive(Debug, Default)]
pub(crate) struct Overlay {
    /// The whole chunk, if it was written at once: the pages are newer. Empty: it was not.
    whole: Bytes,
    pages: BTreeMap<u32, Page>,
    /// Sectors that were written.
    sectors: u32,
}

/// The pages that a range touches: number, range within the page, and range within the range.
fn pages(at: u32, len: u32) -> impl Iterator<Item = (u32, Range<u32>, Range<usize>)> {
    let end = at + len;
    (at / PAGE_BYTES..end.div_ceil(PAGE_BYTES)).map(move |page| {
        let (from, to) = (at.max(page * PAGE_BYTES), end.min((page + 1) * PAGE_BYTES));
        let within = from - page * PAGE_BYTES..to - page * PAGE_BYTES;
        (page, within, (from - at) as usize..(to - at) as usize)
    })
}

impl Overlay {
    /// RAM that a change of these bytes may take, in bytes.
    pub(crate) fn cost_max(at: u32, len: u32) -> u64 {
        let pages = u64::from((at + len).div_ceil(PAGE_BYTES) - at / PAGE_BYTES);
        pages * (u64::from(PAGE_BYTES) + OVERHEAD_BYTES)
    }

    /// RAM that it takes, in bytes.
    pub(crate) fn cost(&self) -> u64 {
        self.whole.len() as u64 + self.pages.len() as u64 * (u64::from(PAGE_BYTES) + OVERHEAD_BYTES)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.sectors == 0
    }

    /// Bytes that were written.
    pub(crate) fn written_bytes(&self) -> u32 {
        self.sectors * SECTOR_BYTES
    }

    fn change(&mut self, at: u32, len: u32, mut fill: impl FnMut(&mut [u8], Range<usize>)) {
        for (number, within, of_all) in pages(at, len) {
            let page = self.pages.entry(number);
            let page = page.or_insert_with(|| Page { data: vec![0; PAGE_BYTES as usize].into(), written: 0 });
            fill(&mut page.data[within.start as usize..within.end as usize], of_all);
            let before = page.written.count_ones();
            page.written |= bits(within);
            if self.whole.is_empty() {
                self.sectors += page.written.count_ones() - before;
            }
        }
    }

    /// Writes data.
    pub(crate) fn write(&mut self, at: u32, data: &[u8]) {
        self.change(at, data.len() as u32, |page, of_data| page.copy_from_slice(&data[of_data]));
    }

    /// Writes the whole chunk, which is not copied.
    pub(crate) fn write_whole(&mut self, data: Bytes) {
        let sectors = data.len() as u32 / SECTOR_BYTES;
        *self = Self { whole: data, pages: BTreeMap::new(), sectors };
    }

    /// The chunk, if it was written at once, and nothing since.
    pub(crate) fn as_written(&self) -> Option<Bytes> {
        (!self.whole.is_empty() && self.pages.is_empty()).then(|| self.whole.clone())
    }

    /// Writes zeroes.
    pub(crate) fn zero(&mut self, at: u32, len: u32) {
        self.change(at, len, |page, _| page.fill(0));
    }

    /// Copies what was written into `out`, the bytes from `at` on, where it is missing there. `missing` are ranges of the chunk, in
    /// order; what is still missing remains in it.
    pub(crate) fn copy_to(&self, at: u32, out: &mut [u8], missing: &mut Vec<Range<u32>>) {
        let mut left: Vec<Range<u32>> = Vec::new();
        let mut miss = |from: u32, to: u32| match left.last_mut() {
            Some(last) if last.end == from => last.end = to,
            _ => left.push(from..to),
        };
        for range in missing.drain(..) {
            for (number, within, _) in pages(range.start, range.end - range.start) {
                let begin = number * PAGE_BYTES;
                let Some(page) = self.pages.get(&number) else {
                    miss(begin + within.start, begin + within.end);
                    continue;
                };
                let mut from = within.start;
                while from < within.end {
                    let is_written = page.written >> (from / SECTOR_BYTES) & 1 == 1;
                    let same = |to: u32| (page.written >> (to / SECTOR_BYTES) & 1 == 1) == is_written;
                    let mut to = from + SECTOR_BYTES;
                    while to < within.end && same(to) {
                        to += SECTOR_BYTES;
                    }
                    if is_written {
                        let target = (begin + from - at) as usize..(begin + to - at) as usize;
                        out[target].copy_from_slice(&page.data[from as usize..to as usize]);
                    } else {
                        miss(begin + from, begin + to);
                    }
                    from = to;
                }
            }
        }
        if !self.whole.is_empty() {
            fill_from(&self.whole, 0, at, out, &left);
            left.clear();
        }
        *missing = left;
    }

    /// Adds what an older one has and this one lacks.
    pub(crate) fn add_older(&mut self, older: Self) {
        if !self.whole.is_empty() {
            return;
        }
        for (number, old) in older.pages {
            let Some(page) = self.pages.get_mut(&number) else {
                self.sectors += old.written.count_ones();
                self.pages.insert(number, old);
                continue;
            };
            for sector in (0..u32::BITS).filter(|sector| (old.written & !page.written) >> sector & 1 == 1) {
                let part = (sector * SECTOR_BYTES) as usize..((sector + 1) * SECTOR_BYTES) as usize;
                page.data[part.clone()].copy_from_slice(&old.data[part]);
            }
            self.sectors += (old.written & !page.written).count_ones();
            page.written |= old.written;
        }
        if !older.whole.is_empty() {
            self.sectors = older.whole.len() as u32 / SECTOR_BYTES;
            self.whole = older.whole;
        }
    }
}

/// Everything in a range is missing.
pub(crate) fn all_of(range: Range<u32>) -> Vec<Range<u32>> {
    std::iter::once(range).collect()
}

/// Copies the parts of `data`, which begins at `begin` of the chunk, that are missing in `out`, which begins at `at`.
pub(crate) fn fill_from(data: &Bytes, begin: u32, at: u32, out: &mut [u8], missing: &[Range<u32>]) {
    for range in missing {
        let target = (range.start - at) as usize..(range.end - at) as usize;
        out[target].copy_from_slice(&data[(range.start - begin) as usize..(range.end - begin) as usize]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nitro_testkit::Rng;

    const SIZE: u32 = 3 * PAGE_BYTES;

    fn content(overlay: &Overlay) -> (Vec<u8>, Vec<Range<u32>>) {
        let (mut out, mut missing) = (vec![0xEE; SIZE as usize], all_of(0..SIZE));
        overlay.copy_to(0, &mut out, &mut missing);
        (out, missing)
    }

    #[test]
    fn an_overlay_has_what_was_written_last_and_knows_what_is_missing() {
        for seed in 0..30 {
            let (mut random, mut overlay) = (Rng::new(seed), Overlay::default());
            let mut model = vec![None; SIZE as usize];
            let change = |random: &mut Rng, overlay: &mut Overlay, model: &mut Vec<Option<u8>>| {
                let at = random.below(u64::from(SIZE / 512)) as u32 * 512;
                let len = (1 + random.below(u64::from((SIZE - at) / 512).min(40))) as u32 * 512;
                let value = random.below(250) as u8;
                if random.one_in(15) {
                    overlay.write_whole(vec![value; SIZE as usize].into());
                    model.fill(Some(value));
                    assert_eq!(overlay.as_written().map(|whole| whole[0]), Some(value));
                    return;
                }
                if value == 0 {
                    overlay.zero(at, len)
                } else {
                    overlay.write(at, &vec![value; len as usize])
                }
                model[at as usize..(at + len) as usize].fill(Some(value));
            };
            for step in 0..40 {
                if step == 20 {
                    // A newer one over it.
                    let (mut newer, mut newer_model) = (Overlay::default(), vec![None; SIZE as usize]);
                    (0..5).for_each(|_| change(&mut random, &mut newer, &mut newer_model));
                    newer.add_older(std::mem::take(&mut overlay));
                    overlay = newer;
                    newer_model.iter().zip(&mut model).for_each(|(new, old)| *old = new.or(*old));
                }
                change(&mut random, &mut overlay, &mut model);
                let (out, missing) = content(&overlay);
                let is_missing = |at: usize| missing.iter().any(|range| range.contains(&(at as u32)));
                for (at, known) in model.iter().enumerate() {
                    assert_eq!(known.is_none(), is_missing(at), "seed {seed}, byte {at}");
                    assert_eq!(out[at], known.unwrap_or(0xEE), "seed {seed}, byte {at}");
                }
                let written = model.iter().filter(|byte| byte.is_some()).count() as u32;
                assert_eq!((overlay.written_bytes(), overlay.is_empty()), (written, written == 0));
            }
        }
    }
}
