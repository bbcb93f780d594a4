//! INQUIRY and vital product data (SPC-5 §6.6, §7.7, SBC-4 §6.6).

use super::{Facts, Sense};

const VENDOR: &[u8; 8] = b"NITRO   ";
const PRODUCT: &[u8; 16] = b"Nitro cache     ";
/// The supported pages of vital product data.
const PAGES: [u8; 8] = [0x00, 0x80, 0x83, 0x86, 0xb0, 0xb1, 0xb2, 0xb7];
/// Version descriptors: SAM-5, SPC-4, SBC-3, iSCSI (SPC-5 §6.6.2, table 145).
const VERSIONS: [u16; 4] = [0x00a0, 0x0460, 0x04c0, 0x0960];
/// Most descriptors of an UNMAP.
pub(super) const UNMAP_DESCRIPTORS_MAX: u32 = 256;
/// Longest COMPARE AND WRITE in blocks.
pub(crate) const COMPARE_BLOCKS_MAX: u8 = 255;

/// The answer to an INQUIRY: a page of vital product data, or the standard data if `page` is `None`.
pub(crate) fn inquiry(facts: &Facts, has_unit: bool, page: Option<u8>) -> Result<Vec<u8>, Sense> {
    // Without a unit: peripheral qualifier 3, device type unknown.
    let peripheral = if has_unit { 0 } else { 0x7f };
    let Some(page) = page else { return Ok(standard(facts, peripheral)) };
    let body = match page {
        0x00 => PAGES.to_vec(),
        0x80 => facts.identity.serial.as_bytes().to_vec(),
        0x83 => identification(facts),
        0x86 => extended(),
        0xb0 => block_limits(facts),
        0xb1 => characteristics(facts),
        0xb2 => provisioning(facts),
        0xb7 => limits_extension(),
        _ => return Err(Sense::cdb(2)),
    };
    let mut bytes = vec![peripheral, page];
    bytes.extend((body.len() as u16).to_be_bytes());
    bytes.extend(body);
    Ok(bytes)
}

fn standard(facts: &Facts, peripheral: u8) -> Vec<u8> {
    let mut bytes = vec![0; 96];
    bytes[0] = peripheral;
    // SPC-4; HISUP, response data format 2; additional length; command queuing.
    (bytes[2], bytes[3], bytes[4], bytes[7]) = (0x06, 0x12, 91, 0x02);
    bytes[8..16].copy_from_slice(VENDOR);
    bytes[16..32].copy_from_slice(PRODUCT);
    bytes[32..36].copy_from_slice(b"0.1 ");
    bytes[36..56].iter_mut().zip(facts.identity.serial.bytes()).for_each(|(place, byte)| *place = byte);
    for (at, version) in VERSIONS.iter().enumerate() {
        bytes[58 + 2 * at..60 + 2 * at].copy_from_slice(&version.to_be_bytes());
    }
    bytes
}

/// The designators of the unit and of the port (SPC-5 §7.7.6).
fn identification(facts: &Facts) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut designator = |set: u8, kind: u8, value: &[u8]| {
        bytes.extend([set, kind, 0, value.len() as u8]);
        bytes.extend(value);
    };
    // The unit: locally assigned NAA, and vendor ID.
    designator(0x01, 0x03, &(3 << 60 | facts.identity.number >> 4).to_be_bytes());
    designator(0x02, 0x01, &[&VENDOR[..], facts.identity.serial.as_bytes()].concat());
    // The target port: relative port number, portal group, name. The target device: name.
    designator(0x51, 0x94, &[0, 0, 0, 1]);
    designator(0x51, 0x95, &[0, 0, 0, 1]);
    designator(0x53, 0x98, &name(&format!("{},t,0x0001", facts.identity.target)));
    designator(0x53, 0xa8, &name(&facts.identity.target));
    bytes
}

/// A SCSI name string: with a zero byte at its end, padded to a multiple of four bytes, at most 252 bytes long.
fn name(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes()[..text.len().min(251)].to_vec();
    bytes.push(0);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// Extended INQUIRY data (SPC-5 §7.7.7).
fn extended() -> Vec<u8> {
    let mut bytes = vec![0; 60];
    // GROUP_SUP, and the task attributes HEAD OF QUEUE, ORDERED and SIMPLE; V_SUP: there is a volatile write cache.
    (bytes[1], bytes[2]) = (0x17, 0x01);
    bytes
}

fn block_limits(facts: &Facts) -> Vec<u8> {
    let mut bytes = vec![0; 60];
    let physical = facts.physical_bytes / facts.block_bytes;
    let mut word = |at: usize, value: u32| bytes[at - 4..at].copy_from_slice(&value.to_be_bytes());
    word(8, facts.transfer_blocks_max);
    word(12, (128 << 10) / facts.block_bytes);
    // The longest pre-fetch is as long as the longest transfer.
    word(16, facts.transfer_blocks_max);
    if facts.can_unmap {
        word(20, facts.unmap_blocks_max());
        word(24, UNMAP_DESCRIPTORS_MAX);
        word(28, physical);
        // UGAVALID, with an unmap granularity alignment of 0.
        word(32, 1 << 31);
    }
    word(40, facts.write_same_blocks_max());
    // WSNZ: a WRITE SAME with a number of 0 blocks is refused.
    (bytes[0], bytes[1]) = (1, COMPARE_BLOCKS_MAX);
    bytes[2..4].copy_from_slice(&(physical.min(u16::MAX.into()) as u16).to_be_bytes());
    bytes
}

fn characteristics(facts: &Facts) -> Vec<u8> {
    let mut bytes = vec![0; 60];
    // Medium rotation rate: 7200 rpm, or 1 for a medium that does not rotate.
    let rate: u16 = if facts.rotational { 7200 } else { 1 };
    bytes[..2].copy_from_slice(&rate.to_be_bytes());
    // FUAB: SYNCHRONIZE CACHE and FUA have the meaning of SBC-4, not of SBC-2. VBULS: a VERIFY compares unmapped blocks, too.
    bytes[4] = 0x03;
    bytes
}

/// Thin provisioning: UNMAP, WRITE SAME (16) and WRITE SAME (10) can unmap. LBPRZ is 0: the content of unmapped blocks
/// is not defined.
fn provisioning(facts: &Facts) -> Vec<u8> {
    if facts.can_unmap { vec![0, 0xe0, 2, 0] } else { vec![0; 4] }
}

/// RSCS, reduced stream control: the streams that GET STREAM STATUS reports need not be opened (SBC-5 §6.6.3).
fn limits_extension() -> Vec<u8> {
    let mut bytes = vec![0; 60];
    bytes[1] = 1;
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_have_their_length_and_no_page_is_missing() {
        let facts = Facts::example();
        for page in PAGES {
            let bytes = inquiry(&facts, true, Some(page)).unwrap();
            assert_eq!((bytes[0], bytes[1]), (0, page));
            assert_eq!(usize::from(u16::from_be_bytes([bytes[2], bytes[3]])) + 4, bytes.len(), "{page:#x}");
        }
        assert_eq!(inquiry(&facts, true, Some(0x01)), Err(Sense::cdb(2)));
    }

    #[test]
    fn limits_are_told_where_the_standard_has_them() {
        for (block_bytes, eighth) in [(512, 1), (4096, 8)] {
            let bytes = inquiry(&Facts { block_bytes, ..Facts::example() }, true, Some(0xb0)).unwrap();
            let word = |at: usize| u32::from_be_bytes(*bytes[at..].first_chunk().unwrap());
            assert_eq!((bytes.len(), bytes[5], u32::from(bytes[7])), (64, 255, 16 / eighth));
            assert_eq!((word(8), word(12)), (16384, 256 / eighth));
            let unmapped = ((1 << 20) / eighth, UNMAP_DESCRIPTORS_MAX, 16 / eighth);
            assert_eq!(((word(20), word(24), word(28)), word(40)), (unmapped, (1 << 21) / eighth));
        }
        // Linux uses group numbers for write hints if bit 0 of byte 5 is set.
        assert_eq!(inquiry(&Facts::example(), true, Some(0xb7)).unwrap()[5] & 1, 1);
    }

    #[test]
    fn characteristics_are_told_where_the_standard_has_them() {
        let mut facts = Facts::example();
        for (rotational, rate) in [(false, 1), (true, 7200)] {
            facts.rotational = rotational;
            let bytes = inquiry(&facts, true, Some(0xb1)).unwrap();
            // FUAB and VBULS; not zoned (bits 4 and 5).
            assert_eq!((u16::from_be_bytes([bytes[4], bytes[5]]), bytes[8]), (rate, 0x03));
        }
    }

    #[test]
    fn task_attributes_are_told_where_the_standard_has_them() {
        let bytes = inquiry(&Facts::example(), true, Some(0x86)).unwrap();
        assert_eq!((bytes.len(), bytes[5], bytes[6]), (64, 0x17, 1));
    }

    #[test]
    fn a_unit_that_is_none_says_so() {
        let bytes = inquiry(&Facts::example(), false, None).unwrap();
        assert_eq!((bytes[0], bytes.len(), usize::from(bytes[4]) + 5), (0x7f, 96, 96));
    }
}
