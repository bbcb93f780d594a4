//! Executes commands.

use super::Unit;
use super::command::{STEP_BYTES, Started};
use super::reply::Asker;
use super::state::Session;
use crate::scsi::{
    Action, Command, Facts, Range, Sense, Status, get_lba_status, get_stream_status, inquiry, mode_select, mode_sense,
    read_capacity_10, read_capacity_16, report_luns, report_opcodes, unmap_ranges,
};
use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::Either;
use nitro_frontend::{Disk, DiskError, Pieces, Requester, StatusOf, ZeroFlags};
use nitro_port::buf::{BufMut, is_zero};
use nitro_port::yielding::yield_now;

/// Longest range in bytes whose status GET LBA STATUS reports.
const STATUS_BYTES_MAX: u64 = 1 << 30;

/// The result of a command.
enum Answer {
    Status(Status),
    /// Data for the initiator, of which it gets at most as many as it expects.
    Data(Pieces),
}

impl From<Sense> for Answer {
    fn from(sense: Sense) -> Self {
        Self::Status(Status::Check(sense))
    }
}

/// Parameter data, truncated to the ALLOCATION LENGTH.
fn parameters(mut bytes: Vec<u8>, allocation: u32) -> Answer {
    bytes.truncate(allocation as usize);
    Answer::Data(Pieces::from_iter([Bytes::from(bytes)]))
}

fn read_error(error: DiskError) -> Sense {
    sense_of(error, Sense::READ_ERROR)
}

fn write_error(error: DiskError) -> Sense {
    sense_of(error, Sense::WRITE_ERROR)
}

fn sense_of(error: DiskError, io: Sense) -> Sense {
    match error {
        DiskError::Io => io,
        DiskError::OutOfRange => Sense::OUT_OF_RANGE,
        DiskError::ReadOnly => Sense::WRITE_PROTECTED,
        DiskError::NoSpace => Sense::NO_SPACE,
        DiskError::Unsupported => Sense::INVALID_OPCODE,
    }
}

/// Executes a command and queues its response. Commands other than reads run in a boxed future: unboxed, the largest of
/// them would determine the size of this future, also for reads.
pub(super) fn execute<D: Disk>(session: &Session<'_, D>, started: Started) -> impl Future<Output = ()> {
    match started.command.action {
        Action::Read { range } => Either::Left(read(session, started, range)),
        _ => Either::Right(other(session, started).boxed_local()),
    }
}

async fn read<D: Disk>(session: &Session<'_, D>, started: Started, range: Range) {
    let answer = match session.unit {
        // A disk must not be called with an empty range. `Session::begin` does not see a read that came with data.
        Some(_) if range.blocks == 0 => Answer::Data(Pieces::new()),
        Some(unit) => {
            let from = session.requester(&started.command);
            match unit.disk.read(from, range.offset(), range.bytes() as u32).await {
                Ok(pieces) if pieces.iter().map(Bytes::len).sum::<usize>() as u64 == range.bytes() => {
                    Answer::Data(pieces)
                }
                Ok(_) => Answer::from(Sense::INTERNAL),
                Err(error) => read_error(error).into(),
            }
        }
        None => Sense::NO_UNIT.into(),
    };
    session.end(&started, answer);
}

async fn other<D: Disk>(session: &Session<'_, D>, started: Started) {
    let answer = match (session.unit, session.facts()) {
        (Some(unit), Some(facts)) => {
            let from = session.requester(&started.command);
            let run = Run { session, unit, facts, from };
            run.answer(&started.asker, &started.command, &started.data).await.unwrap_or_else(Answer::from)
        }
        _ => Sense::NO_UNIT.into(),
    };
    session.end(&started, answer);
}

impl<D: Disk> Session<'_, D> {
    /// Ends a command that was executed; if it was aborted, without a response.
    fn end(&self, started: &Started, answer: Answer) {
        if started.is_unwanted.get() {
            self.drop_command(&started.asker);
        } else {
            match answer {
                Answer::Data(pieces) => self.respond_with(&started.asker, pieces),
                Answer::Status(status) => {
                    self.respond(&started.asker, status, started.command.action.data_out_bytes());
                }
            }
        }
        self.note_ended(started.asker.tag);
    }
}

/// A command in progress.
struct Run<'a, 'b, D> {
    session: &'a Session<'b, D>,
    unit: &'a Unit<D>,
    facts: Facts,
    from: Requester,
}

impl<D: Disk> Run<'_, '_, D> {
    async fn answer(&self, asker: &Asker, command: &Command, data: &Bytes) -> Result<Answer, Sense> {
        let good = Answer::Status(Status::Good);
        let Self { unit, facts, from, .. } = self;
        Ok(match command.action {
            Action::TestUnitReady | Action::PreventRemoval => good,
            Action::StartStop { .. } | Action::Synchronize { .. } => {
                unit.disk.flush(*from).await.map_err(write_error)?;
                good
            }
            Action::Write { range, fua, verify } => {
                self.write(range, fua, verify, data).await?;
                good
            }
            Action::Verify { range, compare } => {
                self.verify(range, compare, data).await?;
                good
            }
            Action::Prefetch { range, immediate } => self.prefetch(range, immediate).await?,
            Action::WriteSame { range, unmap, .. } => {
                self.write_same(range, unmap, data).await?;
                good
            }
            Action::Unmap { .. } => {
                self.unmap(data).await?;
                good
            }
            Action::CompareAndWrite { range, fua } => {
                self.compare_and_write(range, fua, data).await?;
                good
            }
            Action::GetLbaStatus { lba, allocation } => {
                let block_bytes = u64::from(facts.block_bytes);
                let offset = lba * block_bytes;
                let bytes = (facts.blocks * block_bytes - offset).min(STATUS_BYTES_MAX) as u32;
                let runs = unit.disk.status(StatusOf::Allocation, offset, bytes).await.map_err(read_error)?;
                parameters(get_lba_status(lba, &runs, facts.block_bytes, allocation), allocation)
            }
            Action::ModeSelect { .. } => {
                self.mode_select(command.action, data).await?;
                good
            }
            Action::Reserve => Answer::Status(unit.target.reserve(&unit.nexus, true).await),
            Action::Release => Answer::Status(unit.target.reserve(&unit.nexus, false).await),
            Action::PrOut { .. } => Answer::Status(unit.target.reservations_out(&unit.nexus, command, data).await),
            _ => self.at_once(asker, command)?,
        })
    }

    /// Executes a command that needs no I/O.
    fn at_once(&self, asker: &Asker, command: &Command) -> Result<Answer, Sense> {
        let Self { unit, facts, .. } = self;
        Ok(match command.action {
            Action::Inquiry { page, allocation } => parameters(inquiry(facts, asker.is_unit, page)?, allocation),
            Action::RequestSense { descriptor, allocation } => {
                let told = || unit.nexus.attention().unwrap_or(Sense::NONE);
                let sense = if asker.is_unit { told() } else { Sense::NO_UNIT };
                let bytes = if descriptor { sense.descriptor_bytes() } else { sense.bytes().to_vec() };
                parameters(bytes, allocation)
            }
            Action::ReportLuns { select, allocation } => parameters(report_luns(select, allocation)?, allocation),
            Action::ModeSense { long, dbd, control, page, subpage, allocation } => {
                let modes = unit.target.modes.get();
                parameters(mode_sense(facts, &modes, long, dbd, control, page, subpage)?, allocation)
            }
            Action::ReadCapacity10 { allocation } => parameters(read_capacity_10(facts), allocation),
            Action::ReadCapacity16 { allocation } => parameters(read_capacity_16(facts), allocation),
            Action::GetStreamStatus { from, allocation } => parameters(get_stream_status(from)?, allocation),
            Action::ReportOpcodes { options, opcode, service, timeouts, allocation } => {
                parameters(report_opcodes(options, opcode, service, timeouts)?, allocation)
            }
            Action::PrIn { action, allocation } => parameters(unit.target.reservations_in(action), allocation),
            _ => return Err(Sense::INTERNAL),
        })
    }

    /// Changes mode parameters. When the write cache is disabled or the unit is protected, all written data are durable
    /// before the command ends (SBC-5 §6.5.6, SPC-5 §7.5.8).
    async fn mode_select(&self, action: Action, list: &[u8]) -> Result<(), Sense> {
        let Unit { target, nexus, disk, .. } = self.unit;
        let _selecting = target.modes.select().await;
        let before = target.modes.get();
        let after = mode_select(&self.facts, &before, action, list)?;
        if after == before {
            return Ok(());
        }
        target.modes.set(after);
        let must_flush = before.write_cache && !after.write_cache || !before.write_protect && after.write_protect;
        if must_flush && let Err(error) = disk.flush(self.from).await {
            target.modes.set(before);
            return Err(write_error(error));
        }
        target.note_modes_changed(nexus);
        Ok(())
    }

    /// Makes written data durable if the write cache is disabled. `is_durable`: they are.
    async fn write_through(&self, is_durable: bool) -> Result<(), Sense> {
        if is_durable || !self.unit.target.modes.writes_through() {
            return Ok(());
        }
        self.unit.disk.flush(self.from).await.map_err(write_error)
    }

    /// Writes those blocks for which there are complete data. `verify` is BYTCHK: the blocks are then read back, and
    /// with 1 compared with the data. No other write of these blocks runs between write and comparison.
    async fn write(&self, range: Range, fua: bool, verify: Option<u8>, data: &Bytes) -> Result<(), Sense> {
        let blocks = data.len() as u32 / range.block_bytes;
        if blocks == 0 {
            return Ok(());
        }
        let written = Range { blocks, ..range };
        let (start, len) = (written.offset(), written.bytes());
        let data = data.slice(..len as usize);
        let writes = &self.unit.target.writes;
        let _held = match verify {
            Some(1) => writes.alone(start..start + len).await,
            _ => writes.shared(start..start + len).await,
        };
        let fua = fua || self.unit.target.modes.writes_through();
        self.unit.disk.write(self.from, start, data.clone(), fua).await.map_err(write_error)?;
        self.write_through(fua).await?;
        match verify {
            Some(compare) => self.verify(written, compare, &data).await,
            None => Ok(()),
        }
    }

    async fn read(&self, offset: u64, len: u32) -> Result<Pieces, Sense> {
        let pieces = match self.unit.disk.try_read(self.from, offset, len) {
            Some(pieces) => pieces,
            None => self.unit.disk.read(self.from, offset, len).await,
        };
        let pieces = pieces.map_err(read_error)?;
        if pieces.iter().map(Bytes::len).sum::<usize>() == len as usize { Ok(pieces) } else { Err(Sense::INTERNAL) }
    }

    /// The steps of a range: offset on the disk, offset within the range, and length, in bytes.
    fn steps(range: Range) -> impl Iterator<Item = (u64, u64, u32)> {
        let (start, total) = (range.offset(), range.bytes());
        let step = u64::from(STEP_BYTES);
        (0..total.div_ceil(step)).map(move |at| (start + at * step, at * step, (total - at * step).min(step) as u32))
    }

    /// Reads a range. `compare` is BYTCHK: with 1, the range is compared with `data`, which is as long; with 3, each
    /// block is compared with `data`, which is one block.
    async fn verify(&self, range: Range, compare: u8, data: &Bytes) -> Result<(), Sense> {
        for (offset, at, len) in Self::steps(range) {
            if self.session.connection.is_leaving() {
                return Err(Sense::INTERNAL);
            }
            let pieces = self.read(offset, len).await?;
            let differs = match compare {
                0 => None,
                1 => {
                    let wanted = data.get(at as usize..(at + u64::from(len)) as usize);
                    first_difference(&pieces, wanted.ok_or(Sense::MISSING_DATA)?)
                }
                _ => first_difference(&pieces, &data.repeat((len / range.block_bytes) as usize)),
            };
            if let Some(place) = differs {
                return Err(miscompare(at + place));
            }
            yield_now().await;
        }
        Ok(())
    }

    async fn prefetch(&self, range: Range, _: bool) -> Result<Answer, Sense> {
        for (offset, _, len) in Self::steps(range) {
            if self.session.connection.is_leaving() {
                break;
            }
            self.unit.disk.cache(self.from, offset, len).await.map_err(read_error)?;
            yield_now().await;
        }
        Ok(Answer::Status(Status::ConditionMet))
    }

    async fn write_same(&self, range: Range, unmap: bool, data: &Bytes) -> Result<(), Sense> {
        let start = range.offset();
        let _held = self.unit.target.writes.shared(start..start + range.bytes()).await;
        if is_zero(data) {
            let flags = ZeroFlags { no_hole: !unmap, ..ZeroFlags::default() };
            let len = range.bytes() as u32;
            self.unit.disk.write_zeroes(self.from, start, len, flags).await.map_err(write_error)?;
            return self.write_through(false).await;
        }
        let mut step = BufMut::with_len(range.bytes().min(STEP_BYTES.into()) as usize);
        let block = &data[..range.block_bytes as usize];
        step.chunks_exact_mut(block.len()).for_each(|place| place.copy_from_slice(block));
        let step = step.freeze();
        for (offset, _, len) in Self::steps(range) {
            let part = step.slice(..len as usize);
            self.unit.disk.write(self.from, offset, part, false).await.map_err(write_error)?;
            yield_now().await;
        }
        self.write_through(false).await
    }

    async fn unmap(&self, list: &Bytes) -> Result<(), Sense> {
        for range in unmap_ranges(&self.facts, list)?.into_iter().filter(|range| range.blocks > 0) {
            let (start, len) = (range.offset(), range.bytes() as u32);
            let _held = self.unit.target.writes.shared(start..start + range.bytes()).await;
            match self.unit.disk.trim(self.from, start, len, false).await {
                Ok(()) | Err(DiskError::Unsupported) => {}
                Err(error) => return Err(write_error(error)),
            }
        }
        self.write_through(false).await
    }

    async fn compare_and_write(&self, range: Range, fua: bool, data: &Bytes) -> Result<(), Sense> {
        let (start, len) = (range.offset(), range.bytes());
        if len == 0 {
            return Ok(());
        }
        let (Some(wanted), Some(new)) = (data.get(..len as usize), data.get(len as usize..2 * len as usize)) else {
            return Err(Sense::MISSING_DATA);
        };
        let _alone = self.unit.target.writes.alone(start..start + len).await;
        let now = self.read(start, len as u32).await?;
        if let Some(place) = first_difference(&now, wanted) {
            return Err(miscompare(place));
        }
        // `Disk::write` needs data at a page-aligned address.
        let new = BufMut::copy_of(new).freeze();
        let fua = fua || self.unit.target.modes.writes_through();
        self.unit.disk.write(self.from, start, new, fua).await.map_err(write_error)?;
        self.write_through(fua).await
    }
}

fn miscompare(place: u64) -> Sense {
    Sense { information: u32::try_from(place).ok(), ..Sense::MISCOMPARE }
}

/// The offset of the first byte in which `pieces` and `wanted` differ. `wanted` is not longer than `pieces`.
fn first_difference(pieces: &Pieces, wanted: &[u8]) -> Option<u64> {
    let mut at = 0;
    for piece in pieces {
        let part = &wanted[at.min(wanted.len())..];
        let len = part.len().min(piece.len());
        if piece[..len] != part[..len] {
            let place = piece.iter().zip(part).position(|(now, wanted)| now != wanted).unwrap_or(0);
            return Some((at + place) as u64);
        }
        at += piece.len();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_difference_is_found_across_pieces() {
        let pieces = Pieces::from_iter([Bytes::from_static(b"abc"), Bytes::from_static(b"def")]);
        assert_eq!(first_difference(&pieces, b"abcdef"), None);
        assert_eq!(first_difference(&pieces, b"abcd"), None);
        assert_eq!(first_difference(&pieces, b"abcxef"), Some(3));
        assert_eq!(first_difference(&pieces, b"xbcdef"), Some(0));
    }
}
