//! REPORT SUPPORTED OPERATION CODES (SPC-5 §6.34).

use super::Sense;

/// A command: opcode, service action, length of the CDB in bytes, and usage mask of the CDB from byte 1 on. (The mask
/// of bytes that are not listed is 0.)
struct Known(u8, Option<u8>, usize, &'static [u8]);

const RANGE_6: &[u8] = &[0x1f, 0xff, 0xff, 0xff, 4];
const ALLOCATION_16: &[u8] = &[0x1f, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff];
const RANGE_10: &[u8] = &[0, 0xff, 0xff, 0xff, 0xff, 0x3f, 0xff, 0xff];
const RANGE_12: &[u8] = &[0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x3f];
const RANGE_16: &[u8] = &[0, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 0x3f];
const PERSISTENT_OUT: &[u8] = &[0x1f, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff];
const PERSISTENT_IN: &[u8] = &[0x1f, 0, 0, 0, 0, 0, 0xff, 0xff];

/// The supported commands. The number beside each is the usage mask of byte 1, which replaces the first byte of the
/// mask.
const COMMANDS: &[(Known, u8)] = &[
    (Known(0x00, None, 6, &[]), 0),
    (Known(0x03, None, 6, &[1, 0, 0, 0xff]), 1),
    (Known(0x08, None, 6, RANGE_6), 0x1f),
    (Known(0x0a, None, 6, RANGE_6), 0x1f),
    (Known(0x12, None, 6, &[1, 0xff, 0xff, 0xff]), 1),
    (Known(0x15, None, 6, &[0x11, 0, 0, 0xff]), 0x11),
    (Known(0x16, None, 6, &[]), 0),
    (Known(0x17, None, 6, &[]), 0),
    (Known(0x1a, None, 6, &[8, 0xff, 0xff, 0xff]), 8),
    (Known(0x1b, None, 6, &[1, 0, 0, 0xf7]), 1),
    (Known(0x1e, None, 6, &[0, 0, 0, 3]), 0),
    (Known(0x25, None, 10, &[]), 0),
    (Known(0x28, None, 10, RANGE_10), 0x18),
    (Known(0x2a, None, 10, RANGE_10), 0x18),
    (Known(0x2e, None, 10, RANGE_10), 0x16),
    (Known(0x2f, None, 10, RANGE_10), 0x16),
    (Known(0x34, None, 10, RANGE_10), 0x02),
    (Known(0x35, None, 10, RANGE_10), 0x02),
    (Known(0x41, None, 10, RANGE_10), 0x08),
    (Known(0x42, None, 10, &[0, 0, 0, 0, 0, 0x3f, 0xff, 0xff]), 0),
    (Known(0x55, None, 10, &[0x11, 0, 0, 0, 0, 0, 0xff, 0xff]), 0x11),
    (Known(0x56, None, 10, &[]), 0),
    (Known(0x57, None, 10, &[]), 0),
    (Known(0x5a, None, 10, &[8, 0xff, 0xff, 0, 0, 0, 0xff, 0xff]), 8),
    (Known(0x5e, Some(0), 10, PERSISTENT_IN), 0x1f),
    (Known(0x5e, Some(1), 10, PERSISTENT_IN), 0x1f),
    (Known(0x5e, Some(2), 10, PERSISTENT_IN), 0x1f),
    (Known(0x5e, Some(3), 10, PERSISTENT_IN), 0x1f),
    (Known(0x5f, Some(0), 10, PERSISTENT_OUT), 0x1f),
    (Known(0x5f, Some(1), 10, PERSISTENT_OUT), 0x1f),
    (Known(0x5f, Some(2), 10, PERSISTENT_OUT), 0x1f),
    (Known(0x5f, Some(3), 10, PERSISTENT_OUT), 0x1f),
    (Known(0x5f, Some(4), 10, PERSISTENT_OUT), 0x1f),
    (Known(0x5f, Some(5), 10, PERSISTENT_OUT), 0x1f),
    (Known(0x5f, Some(6), 10, PERSISTENT_OUT), 0x1f),
    (Known(0x88, None, 16, RANGE_16), 0x18),
    (Known(0x89, None, 16, &[0, 255, 255, 255, 255, 255, 255, 255, 255, 0, 0, 0, 255, 0x3f]), 0x18),
    (Known(0x8a, None, 16, RANGE_16), 0x18),
    (Known(0x8e, None, 16, RANGE_16), 0x16),
    (Known(0x8f, None, 16, RANGE_16), 0x16),
    (Known(0x90, None, 16, RANGE_16), 0x02),
    (Known(0x91, None, 16, RANGE_16), 0x02),
    (Known(0x93, None, 16, RANGE_16), 0x09),
    (Known(0x9e, Some(0x10), 16, ALLOCATION_16), 0x1f),
    (Known(0x9e, Some(0x12), 16, &[0x1f, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255]), 0x1f),
    (Known(0x9e, Some(0x16), 16, &[0x1f, 0, 0, 255, 255, 0, 0, 0, 0, 255, 255, 255, 255]), 0x1f),
    (Known(0xa0, None, 12, &[0, 0xff, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]), 0),
    (Known(0xa3, Some(0x0c), 12, &[0x1f, 0x87, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]), 0x1f),
    (Known(0xa8, None, 12, RANGE_12), 0x18),
    (Known(0xaa, None, 12, RANGE_12), 0x18),
    (Known(0xae, None, 12, RANGE_12), 0x16),
    (Known(0xaf, None, 12, RANGE_12), 0x16),
];

/// A command timeouts descriptor without timeouts.
const TIMEOUTS: [u8; 12] = [0, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// The answer: all commands (`options` 0), or one.
pub(crate) fn report_opcodes(options: u8, opcode: u8, service: u16, timeouts: bool) -> Result<Vec<u8>, Sense> {
    let of_opcode = || COMMANDS.iter().filter(|(known, _)| known.0 == opcode);
    let has_services = of_opcode().any(|(known, _)| known.1.is_some());
    let exact = || of_opcode().find(|(known, _)| known.1.map_or(0, u16::from) == service);
    match options {
        0 => Ok(all(timeouts)),
        // 1: an opcode without service actions; 2: one with them; 3: either.
        1 if has_services => Err(Sense::cdb(2)),
        1 => Ok(one(of_opcode().next(), timeouts)),
        2 if !has_services && of_opcode().next().is_some() => Err(Sense::cdb(2)),
        2 | 3 => Ok(one(exact(), timeouts)),
        _ => Err(Sense::cdb(2)),
    }
}

fn all(timeouts: bool) -> Vec<u8> {
    let mut bytes = vec![0; 4];
    for (Known(opcode, service, len, _), _) in COMMANDS {
        bytes.extend([*opcode, 0, 0, service.unwrap_or(0), 0]);
        bytes.extend([u8::from(service.is_some()) | u8::from(timeouts) << 1, 0, *len as u8]);
        if timeouts {
            bytes.extend(TIMEOUTS);
        }
    }
    let len = bytes.len() as u32 - 4;
    bytes[..4].copy_from_slice(&len.to_be_bytes());
    bytes
}

fn one(found: Option<&(Known, u8)>, timeouts: bool) -> Vec<u8> {
    // SUPPORT: 1, not supported; 3, supported in conformance with the standard.
    let Some((Known(opcode, _, len, mask), first)) = found else { return vec![0, 1, 0, 0] };
    let mut usage = vec![0; *len];
    usage[0] = *opcode;
    for (byte, bits) in usage[1..].iter_mut().zip(*mask) {
        *byte = *bits;
    }
    usage[1] = *first;
    let mut bytes = vec![0, 3 | u8::from(timeouts) << 7, 0, *len as u8];
    bytes.extend(usage);
    if timeouts {
        bytes.extend(TIMEOUTS);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    #[test]
    fn exactly_the_commands_that_are_known_are_reported() {
        for opcode in 0..=255 {
            for service in 0..32 {
                let mut cdb = [0; 16];
                (cdb[0], cdb[1]) = (opcode, service);
                let listed =
                    COMMANDS.iter().any(|(known, _)| known.0 == opcode && known.1.is_none_or(|s| s == service));
                let services = COMMANDS.iter().any(|(known, _)| known.0 == opcode && known.1.is_some());
                if service != 0 && !services {
                    continue;
                }
                assert_eq!(parse(&cdb, 512).is_ok(), listed, "{opcode:#x} {service:#x}");
            }
        }
    }

    #[test]
    fn one_command_is_told_with_its_bits() {
        assert_eq!(
            report_opcodes(1, 0x28, 0, false).unwrap(),
            [0, 3, 0, 10, 0x28, 0x18, 255, 255, 255, 255, 0x3f, 255, 255, 0]
        );
        assert_eq!(report_opcodes(1, 0x7f, 0, false).unwrap(), [0, 1, 0, 0]);
        // WRITE AND VERIFY has DPO and both bits of BYTCHK, as VERIFY.
        for opcode in [0x2e, 0xae, 0x8e, 0x2f, 0xaf, 0x8f] {
            assert_eq!(report_opcodes(1, opcode, 0, false).unwrap()[5], 0x16, "{opcode:#x}");
        }
        assert_eq!(report_opcodes(1, 0x9e, 0, false), Err(Sense::cdb(2)));
        assert_eq!(report_opcodes(2, 0x9e, 0x10, false).unwrap()[..4], [0, 3, 0, 16]);
        assert_eq!(report_opcodes(2, 0x28, 0, false), Err(Sense::cdb(2)));
        assert_eq!(report_opcodes(3, 0x28, 0, true).unwrap().len(), 4 + 10 + 12);
        let all = report_opcodes(0, 0, 0, true).unwrap();
        assert_eq!(all.len(), 4 + COMMANDS.len() * 20);
    }
}
