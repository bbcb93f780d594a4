use crate::support::*;
use nitro_iscsi::End;
use nitro_iscsi::protocol::{Header, opcode};

#[test]
fn what_is_written_is_read_in_every_way_that_data_may_come() {
    for (pairs, digests) in [
        (&[][..], false),
        (&[("HeaderDigest", "CRC32C"), ("DataDigest", "CRC32C"), ("MaxRecvDataSegmentLength", "512")][..], true),
        (&[("InitialR2T", "No"), ("MaxBurstLength", "8192"), ("FirstBurstLength", "4096")][..], false),
    ] {
        let stage = Stage::new();
        let served = alone(&stage, |mut initiator| async move {
            initiator.log_in("iqn.a:i", pairs).await;
            assert_eq!(initiator.digests, digests);
            let data: Vec<u8> = (0..32768u32).map(|at| (at / 7) as u8).collect();
            // The first 1024 bytes are immediate; the rest is asked for.
            let tag = initiator.command(&ten(0x2a, 3, 0, 64), 0xa0, data.len(), &data[..1024]).await;
            loop {
                let (header, _) = initiator.next().await.unwrap();
                if header.opcode() == opcode::SCSI_RESPONSE {
                    assert_eq!(header.0[3], 0);
                    break;
                }
                assert_eq!((header.opcode(), header.tag()), (opcode::R2T, tag));
                let (transfer, start, len) = (header.word(20), header.word(40), header.word(44));
                let wanted = &data[start as usize..(start + len) as usize];
                let half = wanted.len() / 2;
                initiator.data_out(tag, transfer, 0, start, &wanted[..half], false).await;
                initiator.data_out(tag, transfer, 1, start + half as u32, &wanted[half..], true).await;
            }
            assert_eq!(initiator.read(&ten(0x28, 3, 0, 64), data.len()).await, Ok(data));
            initiator.log_out().await;
        });
        assert_eq!(served.unwrap().end, End::LoggedOut);
    }
}

#[test]
fn unsolicited_data_are_taken_up_to_the_first_burst() {
    let stage = Stage::new();
    alone(&stage, |mut initiator| async move {
        initiator.log_in("iqn.a:i", &[("InitialR2T", "No"), ("FirstBurstLength", "4096")]).await;
        let data = vec![7; 4096];
        let tag = initiator.command(&ten(0x2a, 0, 0, 8), 0x20, 4096, &data[..1024]).await;
        initiator.data_out(tag, NONE, 0, 1024, &data[1024..2048], false).await;
        initiator.data_out(tag, NONE, 1, 2048, &data[2048..], true).await;
        assert_eq!(initiator.status().await, (0, [0; 3]));
        assert_eq!(initiator.read(&ten(0x28, 0, 0, 8), 4096).await, Ok(data));
        initiator.leave();
    })
    .unwrap();
}

#[test]
fn the_group_number_is_the_class() {
    let stage = Stage::new();
    alone(&stage, |mut initiator| async move {
        initiator.log_in("iqn.a:i", &[]).await;
        for group in [0, 5, 31, 32] {
            assert_eq!(initiator.write(&ten(0x2a, 0, group, 1), &[1; 512]).await.0, 0);
        }
        initiator.read(&ten(0x28, 0, 9, 1), 512).await.unwrap();
        initiator.leave();
    })
    .unwrap();
    assert_eq!(*stage.disk.classes.borrow(), [None, Some(5), Some(31), None, Some(9)]);
}

/// A disk of 256 blocks of 4096 bytes.
#[test]
fn a_unit_may_have_blocks_of_4096_bytes() {
    let stage = Stage::new();
    stage.disk.block_bytes.set(4096);
    alone(&stage, |mut initiator| async move {
        initiator.log_in("iqn.a:i", &[]).await;
        assert_eq!(initiator.read(&[0x25], 8).await, Ok(vec![0, 0, 0, 255, 0, 0, 16, 0]));
        let long = initiator.read(&[0x9e, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32], 32).await.unwrap();
        assert_eq!((&long[4..12], long[13]), (&[0, 0, 0, 255, 0, 0, 16, 0][..], 0));
        assert_eq!(initiator.write(&ten(0x2a, 255, 0, 1), &[7; 4096]).await.0, 0);
        assert_eq!(initiator.write(&ten(0x2a, 256, 0, 1), &[7; 4096]).await, (2, [5, 0x21, 0]));
        // Data of a part of a block are not written.
        assert_eq!(initiator.write(&ten(0x2a, 0, 0, 1), &[7; 512]).await.0, 0);
        assert_eq!(initiator.read(&ten(0x28, 0, 0, 1), 4096).await, Ok(vec![0; 4096]));
        // COMPARE AND WRITE sends two blocks of 4096 bytes; two of 512 are refused.
        let swap = [vec![7; 4096], vec![8; 4096]].concat();
        assert_eq!(initiator.write(&compare_and_write(255), &swap).await.0, 0);
        assert_eq!(initiator.write(&compare_and_write(255), &swap).await, MISCOMPARE);
        assert_eq!(initiator.write(&compare_and_write(255), &swap[..1024]).await, (2, [5, 0x24, 0]));
        // WRITE SAME of three blocks sends one.
        assert_eq!(initiator.write(&ten(0x41, 1, 0, 3), &[9; 4096]).await.0, 0);
        assert_eq!(initiator.write(&ten(0x41, 1, 0, 3), &[9; 512]).await, (2, [5, 0x24, 0]));
        assert_eq!(initiator.read(&ten(0x28, 1, 0, 3), 12288).await, Ok(vec![9; 12288]));
        let mut list = vec![0, 22, 0, 16, 0, 0, 0, 0];
        list.extend([0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0]);
        assert_eq!(initiator.write(&[0x42, 0, 0, 0, 0, 0, 0, 0, 24], &list).await.0, 0);
        initiator.leave();
    })
    .unwrap();
    let bytes = stage.disk.bytes.borrow();
    assert!(bytes[..4096] == [0; 4096] && bytes[4096..8192] == [9; 4096] && bytes[8192..12288] == [0; 4096]);
    assert!(bytes[12288..16384] == [9; 4096] && bytes[16384..][..4096] == [0; 4096]);
    assert!(bytes[255 * 4096..] == [8; 4096]);
}

#[test]
fn ranges_past_the_end_and_unknown_commands_are_refused() {
    let stage = Stage::new();
    alone(&stage, |mut initiator| async move {
        initiator.log_in("iqn.a:i", &[]).await;
        assert_eq!(initiator.write(&ten(0x2a, 2048, 0, 1), &[1; 512]).await, (2, [5, 0x21, 0]));
        assert_eq!(initiator.write(&ten(0x2a, u32::MAX, 0, 1), &[1; 512]).await, (2, [5, 0x21, 0]));
        assert_eq!(initiator.write(&[0xff], &[]).await, (2, [5, 0x20, 0]));
        // A unit that is none.
        let mut header = Header::new(opcode::SCSI_COMMAND, 0x80, 0);
        header.0[9] = 1;
        initiator.request(header, &[]).await;
        assert_eq!(initiator.status().await, (2, [5, 0x25, 0]));
        initiator.leave();
    })
    .unwrap();
}

#[test]
fn fewer_data_than_expected_are_told() {
    let stage = Stage::new();
    alone(&stage, |mut initiator| async move {
        initiator.log_in("iqn.a:i", &[]).await;
        initiator.command(&ten(0x28, 0, 0, 1), 0xc0, 1024, &[]).await;
        let (header, data) = initiator.next().await.unwrap();
        assert_eq!((header.flags(), data.len(), header.word(44)), (0x83, 512, 512));
        initiator.command(&ten(0x28, 0, 0, 2), 0xc0, 512, &[]).await;
        let (header, data) = initiator.next().await.unwrap();
        assert_eq!((header.flags(), data.len(), header.word(44)), (0x85, 512, 512));
        initiator.leave();
    })
    .unwrap();
}

#[test]
fn discovery_lists_the_targets() {
    let stage = Stage::new();
    alone(&stage, |mut initiator| async move {
        initiator.log_in("iqn.a:i", &[("SessionType", "Discovery")]).await;
        initiator.request(Header::new(opcode::TEXT, 0x80, 0).with(20, NONE), b"SendTargets=All\0").await;
        let (header, data) = initiator.next().await.unwrap();
        assert_eq!((header.opcode(), header.is_final()), (opcode::TEXT_RESPONSE, true));
        assert_eq!(data, format!("TargetName={TARGET}\0TargetAddress=127.0.0.1:3260,1\0").into_bytes());
        // There is no unit.
        assert_eq!(initiator.write(&[0], &[]).await, (2, [5, 0x25, 0]));
        initiator.log_out().await;
    })
    .unwrap();
}

const MISCOMPARE: (u8, [u8; 3]) = (2, [0xe, 0x1d, 0]);
const INVALID_FIELD: (u8, [u8; 3]) = (2, [5, 0x24, 0]);

#[test]
fn write_and_verify_compares_if_bytchk_requests_it() {
    let stage = Stage::new();
    let flaw = &stage.disk.flaw;
    alone(&stage, |mut initiator| async move {
        initiator.log_in("iqn.a:i", &[]).await;
        let cdb = |compare| with_bytchk(ten(0x2e, 4, 0, 3), compare);
        let data: Vec<u8> = (0..3 * 512u32).map(|at| (at / 3) as u8).collect();
        for compare in [0, 1] {
            assert_eq!(initiator.write(&cdb(compare), &data).await, (0, [0; 3]));
        }
        assert_eq!(initiator.read(&ten(0x28, 4, 0, 3), data.len()).await.as_ref(), Ok(&data));
        for compare in [2, 3] {
            assert_eq!(initiator.write(&cdb(compare), &data).await, INVALID_FIELD);
        }
        flaw.set(Some(4 * 512 + 1000));
        assert_eq!(initiator.write(&cdb(0), &data).await.0, 0, "the blocks are readable");
        initiator.command(&cdb(1), 0xa0, data.len(), &data).await;
        let (header, sense) = initiator.next().await.unwrap();
        assert_eq!((header.0[3], sense[4], sense[14]), (2, 0xe, 0x1d));
        // VALID, and the offset of the byte in INFORMATION.
        assert_eq!((sense[2], u32::from_be_bytes([sense[5], sense[6], sense[7], sense[8]])), (0xf0, 1000));
        // Only the blocks that were sent are written and compared.
        flaw.set(Some(6 * 512));
        assert_eq!(initiator.write(&cdb(1), &data[..1024]).await.0, 0);
        initiator.leave();
    })
    .unwrap();
}

#[test]
fn verify_compares_all_data_or_is_refused() {
    let stage = Stage::new();
    alone(&stage, |mut initiator| async move {
        initiator.log_in("iqn.a:i", &[]).await;
        let cdb = |compare, blocks| with_bytchk(ten(0x2f, 0, 0, blocks), compare);
        let (ones, mut data) = ([1; 512], [1; 1024]);
        assert_eq!(initiator.write(&ten(0x2a, 0, 0, 2), &data).await.0, 0);
        assert_eq!(initiator.write(&cdb(0, 2), &[]).await.0, 0);
        assert_eq!(initiator.write(&cdb(1, 2), &data).await.0, 0);
        assert_eq!(initiator.write(&cdb(3, 2), &ones).await.0, 0);
        data[1023] = 2;
        assert_eq!(initiator.write(&cdb(1, 2), &data).await, MISCOMPARE);
        assert_eq!(initiator.write(&cdb(3, 3), &ones).await, MISCOMPARE);
        // There are too few data for a comparison.
        assert_eq!(initiator.write(&cdb(1, 2), &ones).await, INVALID_FIELD);
        assert_eq!(initiator.write(&cdb(3, 2), &[]).await, INVALID_FIELD);
        assert_eq!(initiator.write(&cdb(2, 2), &ones).await, INVALID_FIELD);
        // Nothing is compared.
        assert_eq!(initiator.write(&cdb(1, 0), &[]).await.0, 0);
        assert_eq!(initiator.write(&cdb(3, 0), &[]).await.0, 0);
        initiator.leave();
    })
    .unwrap();
}

#[test]
fn verify_compares_unmapped_blocks_with_what_a_read_returns() {
    let stage = Stage::new();
    alone(&stage, |mut initiator| async move {
        initiator.log_in("iqn.a:i", &[]).await;
        assert_eq!(initiator.write(&ten(0x2a, 0, 0, 2), &[1; 1024]).await.0, 0);
        // UNMAP of blocks 0 and 1.
        let range = [&[0, 22, 0, 16, 0, 0, 0, 0][..], &[0; 8], &[0, 0, 0, 2], &[0; 4]].concat();
        assert_eq!(initiator.write(&[0x42, 0, 0, 0, 0, 0, 0, 0, 24, 0], &range).await, (0, [0; 3]));
        assert_eq!(initiator.read(&ten(0x28, 0, 0, 2), 1024).await, Ok(vec![0; 1024]));
        let verify = with_bytchk(ten(0x2f, 0, 0, 2), 1);
        assert_eq!(initiator.write(&verify, &[0; 1024]).await.0, 0);
        assert_eq!(initiator.write(&verify, &[1; 1024]).await, MISCOMPARE);
        initiator.leave();
    })
    .unwrap();
}
