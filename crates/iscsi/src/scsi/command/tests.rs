use super::*;

fn cdb(bytes: &[u8]) -> [u8; 16] {
    let mut cdb = [0; 16];
    cdb[..bytes.len()].copy_from_slice(bytes);
    cdb
}

#[test]
fn reads_of_all_lengths_have_their_range_and_group() {
    let read = |bytes: &[u8], lba, blocks, group| {
        let range = Range { lba, blocks, block_bytes: 512 };
        assert_eq!(parse(&cdb(bytes), 512), Ok(Command { action: Action::Read { range }, group }), "{bytes:?}");
    };
    read(&[0x08, 0xff, 2, 3, 4], 0x1f_0203, 4, 0);
    read(&[0x08, 0, 0, 0, 0], 0, 256, 0);
    read(&[0x28, 0, 1, 2, 3, 4, 0x25, 5, 6], 0x0102_0304, 0x0506, 0x25);
    read(&[0xa8, 0, 1, 2, 3, 4, 0, 0, 5, 6, 0x07], 0x0102_0304, 0x0506, 7);
    read(&[0x88, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 1, 2, 3, 0xc5], 0x0102_0304_0506_0708, 0x0001_0203, 5);
    assert_eq!(parse(&cdb(&[0x28, 0x20]), 512), Err(Sense::cdb(1)));
}

#[test]
fn what_a_command_sends_is_known() {
    let bytes = |bytes: &[u8]| parse(&cdb(bytes), 512).unwrap().action.data_out_bytes();
    assert_eq!(bytes(&[0x2a, 0, 0, 0, 0, 0, 0, 0, 3]), 3 * 512);
    assert_eq!(bytes(&[0x89, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3]), 6 * 512);
    assert_eq!(bytes(&[0x93, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3]), 512);
    assert_eq!(bytes(&[0x93, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3]), 0);
    assert_eq!(bytes(&[0x2f, 2, 0, 0, 0, 0, 0, 0, 3]), 3 * 512);
    assert_eq!(bytes(&[0x2f, 0, 0, 0, 0, 0, 0, 0, 3]), 0);
    assert_eq!(bytes(&[0x2f, 6, 0, 0, 0, 0, 0, 0, 3]), 512);
    assert_eq!(bytes(&[0x2f, 6, 0, 0, 0, 0, 0, 0, 0]), 0);
    assert_eq!(bytes(&[0x2e, 2, 0, 0, 0, 0, 0, 0, 3]), 3 * 512);
    assert_eq!(bytes(&[0x42, 0, 0, 0, 0, 0, 0, 1, 2]), 258);
    assert_eq!(bytes(&[0x8a, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]), 0xffff_ffff * 512);
}

#[test]
fn ranges_count_in_the_blocks_of_the_unit() {
    let parse = |bytes: &[u8]| parse(&cdb(bytes), 4096).unwrap().action;
    let range = parse(&[0x28, 0, 0, 0, 0, 7, 0, 0, 3]).range().unwrap();
    assert_eq!((range.offset(), range.bytes()), (7 * 4096, 3 * 4096));
    assert_eq!(parse(&[0x2a, 0, 0, 0, 0, 0, 0, 0, 3]).data_out_bytes(), 3 * 4096);
    assert_eq!(parse(&[0x93, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3]).data_out_bytes(), 4096);
    assert_eq!(parse(&[0x89, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3]).data_out_bytes(), 6 * 4096);
    assert_eq!(parse(&[0x2f, 6, 0, 0, 0, 0, 0, 0, 3]).data_out_bytes(), 4096);
}

#[test]
fn values_of_bytchk_that_a_command_does_not_have_are_refused() {
    for (opcodes, known) in [([0x2e, 0xae, 0x8e], &[0, 1][..]), ([0x2f, 0xaf, 0x8f], &[0, 1, 3])] {
        for opcode in opcodes {
            for compare in 0..4 {
                let parsed = parse(&cdb(&[opcode, compare << 1]), 512).map(|command| match command.action {
                    Action::Write { verify, .. } => verify,
                    Action::Verify { compare, .. } => Some(compare),
                    other => panic!("{other:?}"),
                });
                let wanted = if known.contains(&compare) { Ok(Some(compare)) } else { Err(Sense::cdb(1)) };
                assert_eq!(parsed, wanted, "{opcode:#x} {compare}");
            }
        }
    }
}

#[test]
fn naca_is_refused_in_commands_of_all_lengths() {
    for (opcode, control) in [(0x00, 5), (0x08, 5), (0x28, 9), (0x5a, 9), (0xa8, 11), (0xa0, 11), (0x88, 15)] {
        let mut bytes = cdb(&[opcode]);
        assert!(parse(&bytes, 512).is_ok(), "{opcode:#x}");
        bytes[control] = 0x04;
        assert_eq!(parse(&bytes, 512), Err(Sense::cdb(control as u16)), "{opcode:#x}");
    }
}

#[test]
fn a_mode_select_does_not_revert_to_defaults() {
    for opcode in [0x15, 0x55] {
        assert!(parse(&cdb(&[opcode, 0x10]), 512).is_ok());
        assert_eq!(parse(&cdb(&[opcode, 0x12]), 512), Err(Sense::cdb(1)));
    }
}

#[test]
fn unknown_commands_are_refused() {
    for opcode in [0x01, 0x0b, 0x7f, 0x8b, 0x9f, 0xc0, 0xff] {
        assert_eq!(parse(&cdb(&[opcode]), 512), Err(Sense::INVALID_OPCODE), "{opcode:#x}");
    }
    assert_eq!(parse(&cdb(&[0x9e, 0x11]), 512), Err(Sense::cdb(1)));
    assert_eq!(parse(&cdb(&[0x41, 1]), 512), Err(Sense::cdb(1)));
    assert_eq!(parse(&cdb(&[0x12, 0, 0x83]), 512), Err(Sense::cdb(2)));
}
