//! Where a half is written next.

use super::area::Halves;
use super::{AppendError, AppendedBytes, Identity};
use crate::format::journal::{Header, HeaderCrc, Kind, Record, encode_body};
use nitro_port::Device;
use nitro_port::buf::BufMut;

/// The end of a half's row of batches.
pub(super) struct Tail {
    /// Which half: 0 or 1.
    pub(super) half: usize,
    pub(super) sequence: u64,
    /// Batches so far.
    pub(super) batches: u32,
    /// How many of them are known to be durable.
    pub(super) durable: u32,
    /// How many of them the header of an empty batch behind them says to be durable.
    pub(super) confirmed: u32,
    /// Where the next one begins within the half.
    pub(super) at: u64,
    /// Where the log begins, behind the snapshot.
    pub(super) log_at: u64,
    /// The last one's header.
    pub(super) previous: HeaderCrc,
    /// A write here did not end well, or cannot: what stands at `at` is not known.
    pub(super) broken: bool,
}

impl Tail {
    pub(super) const fn new(half: usize, sequence: u64) -> Self {
        Self {
            half,
            sequence,
            batches: 0,
            durable: 0,
            confirmed: 0,
            at: 0,
            log_at: 0,
            previous: HeaderCrc(0),
            broken: false,
        }
    }

    pub(super) fn room(&self, halves: &Halves) -> u64 {
        if self.broken { 0 } else { halves.half_bytes - self.at }
    }

    pub(super) fn fits(&self, halves: &Halves, records: &[Record]) -> bool {
        let bytes = halves.batch_bytes(payload_bytes(records));
        bytes <= self.room(halves).min(u32::MAX.into())
    }

    pub(super) async fn write<F: Device>(
        &mut self,
        flash: &F,
        halves: &Halves,
        identity: Identity,
        kind: Kind,
        records: &[Record],
    ) -> Result<AppendedBytes, AppendError> {
        if !self.fits(halves, records) {
            return Err(AppendError::Full);
        }
        let (batch, crc) = self.encode(halves, identity, kind, records);
        let bytes = batch.len() as u64;
        self.put(flash, halves, batch).await?;
        (self.at, self.batches, self.previous) = (self.at + bytes, self.batches + 1, crc);
        Ok(AppendedBytes(bytes))
    }

    /// Writes an empty batch behind the last one, in the place of the next one, which will be written over it: its header
    /// says how many batches are durable. Returns 0 bytes if there is no room.
    pub(super) async fn confirm<F: Device>(
        &mut self,
        flash: &F,
        halves: &Halves,
        identity: Identity,
    ) -> Result<AppendedBytes, AppendError> {
        let durable = self.durable;
        if !self.fits(halves, &[]) {
            self.confirmed = durable;
            return Ok(AppendedBytes(0));
        }
        let (batch, _) = self.encode(halves, identity, Kind::Log, &[]);
        let bytes = batch.len() as u64;
        self.put(flash, halves, batch).await?;
        self.confirmed = durable;
        Ok(AppendedBytes(bytes))
    }

    /// The next batch.
    fn encode(&self, halves: &Halves, identity: Identity, kind: Kind, records: &[Record]) -> (BufMut, HeaderCrc) {
        let payload_bytes = payload_bytes(records);
        let bytes = halves.batch_bytes(payload_bytes);
        let mut batch = BufMut::with_len(bytes as usize);
        let body_crc = encode_body(records, &mut batch);
        let header = Header {
            batch_bytes: bytes as u32,
            epoch: identity.epoch,
            sequence: self.sequence,
            start: identity.start,
            number: self.batches,
            durable: self.durable,
            kind,
            payload_bytes: payload_bytes as u32,
            records: records.len() as u32,
            body_crc,
            previous: self.previous,
        };
        let crc = header.encode(&mut batch);
        (batch, crc)
    }

    async fn put<F: Device>(&mut self, flash: &F, halves: &Halves, batch: BufMut) -> Result<(), AppendError> {
        // Until the write has returned, also where this future is dropped, nothing may be put at the same place: the two
        // writes could mix.
        self.broken = true;
        flash.write(halves.offset(self.half) + self.at, batch.freeze()).await?;
        self.broken = false;
        Ok(())
    }
}

fn payload_bytes(records: &[Record]) -> u64 {
    records.iter().map(|r| r.encoded_bytes() as u64).sum()
}
