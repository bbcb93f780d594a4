//! Parameter data of READ CAPACITY, REPORT LUNS, GET LBA STATUS, GET STREAM STATUS and UNMAP (SBC-4 §5, SPC-5 §6.33).

use super::inquiry::UNMAP_DESCRIPTORS_MAX;
use super::mode::STREAMS;
use super::{Facts, Range, Sense};
use nitro_frontend::Run;

/// READ CAPACITY (10): the last block's address (at most 2³² - 1), and the block size in bytes.
pub(crate) fn read_capacity_10(facts: &Facts) -> Vec<u8> {
    let last = u32::try_from(facts.blocks.saturating_sub(1)).unwrap_or(u32::MAX);
    [last.to_be_bytes(), facts.block_bytes.to_be_bytes()].concat()
}

/// READ CAPACITY (16).
pub(crate) fn read_capacity_16(facts: &Facts) -> Vec<u8> {
    let mut bytes = vec![0; 32];
    bytes[..8].copy_from_slice(&facts.blocks.saturating_sub(1).to_be_bytes());
    bytes[8..12].copy_from_slice(&facts.block_bytes.to_be_bytes());
    bytes[13] = (facts.physical_bytes / facts.block_bytes).max(1).ilog2() as u8;
    if facts.can_unmap {
        // LBPME: the unit is thin-provisioned. LBPRZ is 0: unmapped blocks need not read as zeroes.
        bytes[14] = 0x80;
    }
    bytes
}

/// REPORT LUNS: logical unit 0 is the only one.
pub(crate) fn report_luns(select: u8, allocation: u32) -> Result<Vec<u8>, Sense> {
    if allocation < 16 {
        return Err(Sense::cdb(6));
    }
    match select {
        0 | 2 => Ok([&[0, 0, 0, 8, 0, 0, 0, 0][..], &[0; 8]].concat()),
        // There are no well-known logical units.
        1 => Ok(vec![0; 8]),
        _ => Err(Sense::cdb(2)),
    }
}

/// GET LBA STATUS: the allocation of the blocks, of `block_bytes`, from `lba` on, of which `runs` has the status.
pub(crate) fn get_lba_status(lba: u64, runs: &[Run], block_bytes: u32, allocation: u32) -> Vec<u8> {
    let descriptors_max = (allocation.saturating_sub(8) / 16).clamp(1, 1024) as usize;
    let (mut at, mut descriptors) = (lba, Vec::<(u64, u64, u8)>::new());
    let mut bytes_left = 0;
    for run in runs {
        // If a run ends within a block, the block has the status of the block's last run.
        let bytes = bytes_left + run.len;
        let (blocks, rest) = (bytes / u64::from(block_bytes), bytes % u64::from(block_bytes));
        bytes_left = rest;
        let state = u8::from(run.hole);
        let is_full = descriptors.len() == descriptors_max;
        match descriptors.last_mut() {
            Some(last) if last.2 == state => last.1 += blocks,
            _ if blocks == 0 => {}
            _ if is_full => break,
            _ => descriptors.push((at, blocks, state)),
        }
        at += blocks;
    }
    let mut bytes = ((4 + 16 * descriptors.len()) as u32).to_be_bytes().to_vec();
    bytes.extend([0; 4]);
    for (lba, blocks, state) in descriptors {
        bytes.extend(lba.to_be_bytes());
        bytes.extend(u32::try_from(blocks).unwrap_or(u32::MAX).to_be_bytes());
        bytes.extend([state, 0, 0, 0]);
    }
    bytes
}

/// GET STREAM STATUS (SBC-5 §5.13): the streams from `from` on. All streams are permanent.
pub(crate) fn get_stream_status(from: u16) -> Result<Vec<u8>, Sense> {
    if from >= STREAMS {
        return Err(Sense::cdb(4));
    }
    let streams = from..STREAMS;
    let mut bytes = (8 * streams.len() as u32).to_be_bytes().to_vec();
    bytes.extend([0, 0]);
    bytes.extend(STREAMS.to_be_bytes());
    for stream in streams {
        bytes.extend([0x80, 0]);
        bytes.extend(stream.to_be_bytes());
        // Relative lifetime: data of streams with higher numbers live longer.
        bytes.extend([stream as u8, 0, 0, 0]);
    }
    Ok(bytes)
}

/// Parses and checks the ranges of an UNMAP.
pub(crate) fn unmap_ranges(facts: &Facts, list: &[u8]) -> Result<Vec<Range>, Sense> {
    if list.is_empty() {
        return Ok(Vec::new());
    }
    let head: &[u8; 8] = list.first_chunk().ok_or(Sense::PARAMETER_LENGTH)?;
    let (data_len, descriptors_len) = (u16::from_be_bytes([head[0], head[1]]), u16::from_be_bytes([head[2], head[3]]));
    let len = usize::from(descriptors_len).min(usize::from(data_len).saturating_sub(6)).min(list.len() - 8);
    if len / 16 > UNMAP_DESCRIPTORS_MAX as usize {
        return Err(Sense::INVALID_PARAMETER);
    }
    let mut ranges = Vec::with_capacity(len / 16);
    let mut blocks = 0u64;
    for descriptor in list[8..8 + len].chunks_exact(16) {
        let number =
            |at: usize, len: usize| descriptor[at..at + len].iter().fold(0, |n, byte| n << 8 | u64::from(*byte));
        let range = Range { lba: number(0, 8), blocks: number(8, 4) as u32, block_bytes: facts.block_bytes };
        facts.check(range)?;
        blocks += u64::from(range.blocks);
        ranges.push(range);
    }
    if blocks > facts.unmap_blocks_max().into() { Err(Sense::INVALID_PARAMETER) } else { Ok(ranges) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacities_are_those_of_the_unit() {
        let mut facts = Facts::example();
        assert_eq!(read_capacity_10(&facts), [0, 0, 7, 255, 0, 0, 2, 0]);
        let long = read_capacity_16(&facts);
        assert_eq!((long[6..8].to_vec(), long[13], long[14]), (vec![7, 255], 4, 0x80));
        facts.blocks = 1 << 33;
        assert_eq!(read_capacity_10(&facts)[..4], [255; 4]);
        (facts.block_bytes, facts.blocks) = (4096, 256);
        assert_eq!(read_capacity_10(&facts), [0, 0, 0, 255, 0, 0, 16, 0]);
        let long = read_capacity_16(&facts);
        assert_eq!((&long[8..12], long[13]), (&[0, 0, 16, 0][..], 1), "8 KiB are two blocks");
    }

    #[test]
    fn runs_of_bytes_become_runs_of_blocks() {
        let run = |len, hole| Run { len, hole, ..Run::default() };
        let runs = [run(4096, false), run(1024, false), run(512 * 8, true), run(512, false)];
        let bytes = get_lba_status(7, &runs, 512, 1000);
        assert_eq!(bytes.len(), 8 + 3 * 16);
        let descriptor = |at: usize| (bytes[8 + 16 * at + 7], bytes[8 + 16 * at + 11], bytes[8 + 16 * at + 12]);
        assert_eq!([descriptor(0), descriptor(1), descriptor(2)], [(7, 10, 0), (17, 8, 1), (25, 1, 0)]);
        assert_eq!(get_lba_status(7, &runs, 512, 24).len(), 24);
    }

    #[test]
    fn unmap_takes_what_is_there_and_within_the_unit() {
        let facts = Facts::example();
        let mut list = vec![0, 38, 0, 32, 0, 0, 0, 0];
        for (lba, blocks) in [(1u64, 2u32), (2040, 8)] {
            list.extend(lba.to_be_bytes());
            list.extend(blocks.to_be_bytes());
            list.extend([0; 4]);
        }
        let ranges = unmap_ranges(&facts, &list).unwrap();
        let range = |lba, blocks| Range { lba, blocks, block_bytes: 512 };
        assert_eq!(ranges, [range(1, 2), range(2040, 8)]);
        assert_eq!(unmap_ranges(&facts, &list[..30]).unwrap().len(), 1);
        assert_eq!(unmap_ranges(&facts, &list[..7]), Err(Sense::PARAMETER_LENGTH));
        list[8] = 1;
        assert_eq!(unmap_ranges(&facts, &list), Err(Sense::OUT_OF_RANGE));
    }

    #[test]
    fn streams_are_permanent() {
        let bytes = get_stream_status(4).unwrap();
        assert_eq!(bytes, [0, 0, 0, 16, 0, 0, 0, 6, 0x80, 0, 0, 4, 4, 0, 0, 0, 0x80, 0, 0, 5, 5, 0, 0, 0]);
        assert_eq!(get_stream_status(6), Err(Sense::cdb(4)));
    }
}
