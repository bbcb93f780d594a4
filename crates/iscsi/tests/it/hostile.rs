use crate::support::*;
use md5::{Digest as _, Md5};
use nitro_frontend::RequestMemory;
use nitro_iscsi::protocol::{Header, opcode};
use nitro_iscsi::{Access, Account, AllowList, IscsiError};
use std::sync::Arc;

#[test]
fn data_beyond_what_was_asked_for_fail_their_command() {
    let stage = Stage::new();
    alone(&stage, |mut initiator| async move {
        initiator.log_in("iqn.a:i", &[]).await;
        // Too many, at the wrong place, under the wrong tag, with the wrong number.
        for (tag_by, number, offset, len) in [(0, 0, 0, 1024), (0, 0, 512, 512), (1, 0, 0, 512), (0, 1, 0, 512)] {
            let tag = initiator.command(&ten(0x2a, 0, 0, 1), 0xa0, 512, &[]).await;
            let (header, _) = initiator.next().await.unwrap();
            assert_eq!(header.opcode(), opcode::R2T);
            initiator.data_out(tag, header.word(20) + tag_by, number, offset, &vec![1; len], true).await;
            assert_eq!(initiator.status().await.1[0], 0xb);
        }
        assert_eq!(initiator.write(&ten(0x2a, 0, 0, 1), &[2; 512]).await.0, 0);
        initiator.leave();
    })
    .unwrap();
}

#[test]
fn a_read_of_nothing_that_comes_with_data_asks_the_disk_for_nothing() {
    let stage = Stage::new();
    alone(&stage, |mut initiator| async move {
        initiator.log_in("iqn.a:i", &[]).await;
        initiator.command(&ten(0x28, 0, 0, 0), 0xe0, 512, &[1; 512]).await;
        assert_eq!(initiator.status().await.0, 0);
        initiator.leave();
    })
    .unwrap();
    assert!(stage.disk.classes.borrow().is_empty());
}

#[test]
fn what_breaks_the_protocol_ends_the_connection() {
    let ends = |send: &dyn Fn(&mut Initiator) -> (Header, Vec<u8>)| {
        let stage = Stage::new();
        let served = alone(&stage, |mut initiator| {
            let (header, data) = send(&mut initiator);
            async move {
                initiator.log_in("iqn.a:i", &[]).await;
                initiator.request(header, &data).await;
                assert!(initiator.next().await.is_none());
            }
        });
        assert!(matches!(served, Err(IscsiError::Protocol(_))), "{served:?}");
    };
    let command = |flags, expected| Header::new(opcode::SCSI_COMMAND, flags, 0).with(20, expected);
    // More immediate data than expected, without a flag for writing, and unsolicited data against the agreement.
    ends(&|_| (command(0xa0, 512), vec![0; 1024]));
    ends(&|_| (command(0x80, 512), vec![0; 512]));
    ends(&|_| (command(0x20, 512), Vec::new()));
    ends(&|_| (command(0xa0, u32::MAX), vec![0; (256 << 10) + 4]));
}

#[test]
fn commands_outside_the_window_are_ignored() {
    let stage = Stage::new();
    alone(&stage, |mut initiator| async move {
        initiator.log_in("iqn.a:i", &[]).await;
        let write = ten(0x2a, 0, 0, 1);
        for number in [0, 2, 500] {
            let mut header = Header::new(opcode::SCSI_COMMAND, 0xa0, 99).with(20, 512).with(24, number);
            header.0[32..42].copy_from_slice(&write);
            initiator.send(header, &[1; 512]).await;
        }
        // Fills the window with writes whose data never come.
        for _ in 0..128 {
            initiator.command(&write, 0xa0, 512, &[]).await;
        }
        for _ in 0..128 {
            assert_eq!(initiator.next().await.unwrap().0.opcode(), opcode::R2T);
        }
        initiator.command(&write, 0xa0, 512, &[3; 512]).await;
        initiator.cmd_sn -= 1;
        // What is for immediate delivery has a room of its own.
        let ping = Header::new(opcode::NOP_OUT | 0x40, 0x80, 5).with(20, NONE).with(24, initiator.cmd_sn);
        initiator.send(ping, b"ping").await;
        let (header, data) = initiator.next().await.unwrap();
        assert_eq!((header.opcode(), &data[..]), (opcode::NOP_IN, &b"ping"[..]));
        // The window is closed.
        assert_eq!(header.word(32), header.word(28) - 1);
        initiator.leave();
    })
    .unwrap();
    assert!(stage.disk.classes.borrow().is_empty(), "nothing was written");
}

#[test]
fn data_that_never_come_hold_bounded_memory() {
    let mut stage = Stage::new();
    stage.options.memory = Arc::new(RequestMemory::new(8 << 20, 4));
    let memory = Arc::clone(&stage.options.memory);
    alone(&stage, |mut initiator| async move {
        initiator.log_in("iqn.a:i", &[]).await;
        let all = memory.free_bytes();
        for _ in 0..20 {
            initiator.command(&ten(0x2a, 0, 0, 2048), 0xa0, 1 << 20, &[]).await;
        }
        let mut full = 0;
        for _ in 0..20 {
            let (header, _) = initiator.next().await.unwrap();
            match header.opcode() {
                opcode::R2T => {}
                // TASK SET FULL.
                opcode::SCSI_RESPONSE if header.0[3] == 0x28 => full += 1,
                other => panic!("opcode {other:#x}"),
            }
        }
        assert!(full >= 12 && memory.free_bytes() < all);
        initiator.leave();
    })
    .unwrap();
    let memory = &stage.options.memory;
    assert_eq!(memory.free_bytes(), RequestMemory::new(8 << 20, 4).free_bytes());
}

#[test]
fn wrong_checksums_write_nothing() {
    let stage = Stage::new();
    let served = alone(&stage, |mut initiator| async move {
        initiator.log_in("iqn.a:i", &[("HeaderDigest", "CRC32C"), ("DataDigest", "CRC32C")]).await;
        let header = |initiator: &Initiator| {
            let mut header = Header::new(opcode::SCSI_COMMAND, 0xa0, 1).with(20, 512).with(24, initiator.cmd_sn);
            header.0[32..42].copy_from_slice(&ten(0x2a, 0, 0, 1));
            header.with_data(512)
        };
        let digest = |header: &Header| nitro_iscsi::protocol::crc32c([&header.0[..]]);
        let first = header(&initiator);
        initiator.cmd_sn += 1;
        let bytes = [&first.0[..], &digest(&first), &[1; 512], &[1, 2, 3, 4]].concat();
        initiator.send_bytes(bytes).await;
        let (reject, rejected) = initiator.next().await.unwrap();
        assert_eq!((reject.opcode(), reject.0[2]), (opcode::REJECT, opcode::REASON_DATA_DIGEST));
        assert_eq!(rejected, first.0);
        assert_eq!(initiator.status().await, (2, [0xb, 0x47, 5]));
        let second = header(&initiator);
        initiator.send_bytes([&second.0[..], &[1, 2, 3, 4]].concat()).await;
        assert!(initiator.next().await.is_none());
    });
    assert!(matches!(served, Err(IscsiError::HeaderDigest)), "{served:?}");
    assert!(stage.disk.classes.borrow().is_empty());
}

#[test]
fn who_may_not_log_in_does_not() {
    let refused = |access: Access, name: &'static str, pairs: &'static [(&str, &str)]| {
        let mut stage = Stage::new();
        stage.options.access = Arc::new(access);
        let served = alone(&stage, |mut initiator| async move {
            let (header, _) = initiator.log_in(name, pairs).await;
            assert_eq!(header.0[36], 2);
        });
        assert!(matches!(served, Err(IscsiError::Refused { .. })), "{served:?}");
    };
    let only = |allowed| Access { allowed, ..Access::default() };
    let (names, networks) = (vec!["iqn.b:*".parse().unwrap()], vec!["10.0.0.0/8".parse().unwrap()]);
    refused(only(AllowList { initiators: names, ..AllowList::default() }), "iqn.a:i", &[]);
    refused(only(AllowList { networks, ..AllowList::default() }), "iqn.a:i", &[]);
    refused(Access::default(), "iqn.a:i", &[("SessionType", "Other")]);
    refused(Access::default(), "", &[]);
}

#[test]
fn who_may_not_use_a_target_neither_finds_it_nor_logs_in_to_it() {
    let lists = [
        AllowList { initiators: vec!["iqn.b:*".parse().unwrap()], ..AllowList::default() },
        // The initiators of these tests have no address.
        AllowList { networks: vec!["10.0.0.0/8".parse().unwrap()], ..AllowList::default() },
    ];
    for (at, allowed) in lists.into_iter().enumerate() {
        let mut stage = Stage::new();
        stage.allowed = allowed;
        for (name, is_allowed) in [("iqn.a:i", false), ("iqn.b:i", at == 0)] {
            let served = alone(&stage, |mut initiator| async move {
                initiator.log_in(name, &[("SessionType", "Discovery")]).await;
                initiator.request(Header::new(opcode::TEXT, 0x80, 0).with(20, NONE), b"SendTargets=All\0").await;
                let (_, data) = initiator.next().await.unwrap();
                assert_eq!(!data.is_empty(), is_allowed);
                initiator.log_out().await;
            });
            assert!(served.is_ok(), "any initiator may discover");
            let served = alone(&stage, |mut initiator| async move {
                let (header, _) = initiator.log_in(name, &[]).await;
                assert_eq!(header.0[36..38], if is_allowed { [0, 0] } else { [2, 2] });
                initiator.leave();
            });
            assert_eq!(served.is_ok(), is_allowed, "{served:?}");
        }
    }
}

#[test]
fn each_answer_to_a_challenge_waits_for_its_turn() {
    for is_right in [false, true] {
        let mut stage = Stage::new();
        let account = Account { name: "me".into(), secret: b"the secret of mine".to_vec(), initiators: Vec::new() };
        stage.options.access = Arc::new(Access { accounts: vec![account], ..Access::default() });
        let served = alone(&stage, |mut initiator| async move {
            let names = [("InitiatorName", "iqn.a:i"), ("SessionType", "Discovery"), ("AuthMethod", "CHAP")];
            initiator.negotiate(0x81, &names).await;
            let (_, asked) = initiator.negotiate(0, &[("CHAP_A", "5")]).await;
            let asked = String::from_utf8(asked).unwrap();
            let value = |key: &str| asked.split('\0').find_map(|pair| pair.strip_prefix(key)).unwrap();
            let challenge = value("CHAP_C=0x");
            let digits = |at: usize| u8::from_str_radix(&challenge[at..at + 2], 16).unwrap();
            let challenge: Vec<u8> = (0..challenge.len()).step_by(2).map(digits).collect();
            let identifier: u8 = value("CHAP_I=").parse().unwrap();
            let secret: &[u8] = if is_right { b"the secret of mine" } else { b"guessed" };
            let hash = Md5::digest([&[identifier], secret, &challenge].concat());
            let response = hash.iter().fold("0x".to_owned(), |text, byte| format!("{text}{byte:02x}"));
            let (header, _) = initiator.negotiate(0x81, &[("CHAP_N", "me"), ("CHAP_R", &response)]).await;
            assert_eq!(header.0[36..38], if is_right { [0, 0] } else { [2, 1] });
            initiator.leave();
        });
        assert_eq!(served.is_ok(), is_right, "{served:?}");
        assert_eq!(*stage.secrets.borrow(), [("iqn.a:i me".to_owned(), Some(is_right))]);
    }
}
