//! Checks every structure and checksum on a device.

use super::JournalReport;
use super::report::{Counts, Problem, Report, Severity, SuperblockReport};
use super::slots::Found;
use super::verify::{Findings, Slot, Verifier};
use super::view::View;
use crate::error::Error;
use crate::format::superblock::{SUPERBLOCK_BYTES, Superblock, superblock_offsets};
use crate::recovery::READS_AT_ONCE;
use futures_util::stream::{self, StreamExt};
use nitro_port::Device;
use nitro_units::WeuId;

/// Bytes of WEUs in RAM at once.
const RAM_BYTES: u32 = 64 << 20;

/// Checks a cache device: superblocks, journal, every write-evict unit's header and every stored extent's checksum,
/// that extents decompress and match their fingerprints, and that all dirty content can be read. Calls `progress` from
/// time to time with the number of checked slots and of all slots. Takes up to 64 MiB of RAM, in addition to the
/// journal's state.
///
/// # Errors
/// [`Error::Flash`] or [`Error::Format`]: no superblock is valid, and without one nothing can be found.
pub async fn check<F: Device>(flash: &F, mut progress: impl FnMut(u64, u64)) -> Result<Report, Error> {
    let view = View::open(flash, false).await?;
    let superblock = view.slots.superblock;
    let mut report = Report { journal: view.journal.clone(), ..Report::default() };
    check_superblocks(flash, &superblock, &mut report).await;
    check_journal(&view, &mut report);
    check_size(flash, &view, &mut report);

    let heads = view.slots.all().map(async |weu| (weu, view.slots.head(weu).await));
    let heads: Vec<(WeuId, Found)> = stream::iter(heads).buffered(READS_AT_ONCE).collect().await;
    let verifier = Verifier::new(&view, &heads);
    let total = heads.len() as u64;
    let at_once = (RAM_BYTES / superblock.weu_bytes).clamp(1, READS_AT_ONCE as u32);
    let slots = heads.into_iter().map(|(weu, found)| verifier.slot(Slot { weu, found }));
    let mut slots = stream::iter(slots).buffered(at_once as usize);
    let mut done = 0;
    let mut torn_extents = 0;
    while let Some(Findings { counts, problems, notes, torn }) = slots.next().await {
        report.counts.add(&counts);
        problems.into_iter().for_each(|problem| report.add(problem));
        report.notes.extend(notes);
        torn_extents += torn;
        done += 1;
        progress(done, total);
    }
    drop(slots);
    if torn_extents > 0 {
        report.notes.push(format!(
            "{torn_extents} extents of write-evict units that may not have been flushed when the power failed are not whole"
        ));
    }
    let lost = verifier.lost();
    report.counts.add(&Counts {
        dirty_extents: lost.len() as u64,
        lost_extents: lost.len() as u64,
        ..Counts::default()
    });
    lost.into_iter().for_each(|problem| report.add(problem));
    Ok(report)
}

fn structure(severity: Severity, offset: u64, len: u64, what: String) -> Problem {
    Problem { severity, what, offset, len, weu: None, content: None }
}

async fn check_superblocks<F: Device>(flash: &F, chosen: &Superblock, report: &mut Report) {
    let len = SUPERBLOCK_BYTES as u64;
    for offset in superblock_offsets(flash.geometry().size_bytes) {
        let copy = match flash.read(offset, SUPERBLOCK_BYTES).await {
            Ok(bytes) => Superblock::decode(&bytes).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        let (start, refused) = match copy {
            Ok(copy) => {
                if (Superblock { start: chosen.start, identity: chosen.identity, ..copy }) != *chosen {
                    let what = String::from("superblock: the two copies describe different caches");
                    report.add(structure(Severity::Metadata, offset, len, what));
                } else if copy.start != chosen.start {
                    report
                        .notes
                        .push(format!("the superblock at {offset} is of an earlier start: a start was interrupted"));
                }
                (Some(copy.start), None)
            }
            Err(refused) => {
                report.add(structure(Severity::Metadata, offset, len, refused.clone()));
                (None, Some(refused))
            }
        };
        report.superblocks.push(SuperblockReport { offset, start, refused });
    }
}

fn check_journal<F: Device>(view: &View<'_, F>, report: &mut Report) {
    let JournalReport { halves, active_half, unusable, lost_batches, .. } = view.journal.clone();
    let area = view.slots.superblock.journal;
    if let Some(reason) = unusable {
        let what = format!("journal: {reason}; the cache does not start, and what is dirty is not known");
        report.add(structure(Severity::DataLost, area.offset, area.len, what));
    }
    for half in &halves {
        if half.unreadable_bytes > 0 {
            let what = format!("journal: {} bytes of a half cannot be read", half.unreadable_bytes);
            report.add(structure(Severity::Metadata, half.offset, half.len, what));
        }
    }
    let active = active_half.and_then(|number| halves.get(number as usize));
    if let Some(half) = active.filter(|_| lost_batches > 0) {
        let (offset, len) = (half.offset + half.used_bytes, half.len - half.used_bytes);
        let what = format!(
            "journal: {lost_batches} batches that had been durable are damaged or behind a damaged one; the \
             cache does not start, salvage has what can be read"
        );
        report.add(structure(Severity::DataLost, offset, len, what));
    }
    if view.unfinished.is_some() {
        report
            .notes
            .push(String::from("the journal's last batch was written, its data was not: a start does without it"));
    }
    if let Some(uuid) = &view.journal.write_log {
        report.notes.push(format!(
            "the write log {uuid} belongs to the cache, and may hold writes that are nowhere else: it is not checked here"
        ));
    }
    if !view.state.regions.is_empty() {
        let regions = view.state.regions.len();
        report.notes.push(format!("{regions} regions were being written to: their clean extents are not trusted"));
    }
}

fn check_size<F: Device>(flash: &F, view: &View<'_, F>, report: &mut Report) {
    let (have, need) = (view.slots.count, view.slots.superblock.weu_count);
    if have < need {
        let size = flash.geometry().size_bytes;
        let what =
            format!("the device has room for {have} of the {need} write-evict units that the superblock tells of");
        report.add(structure(Severity::Metadata, size, 0, what));
    }
}
