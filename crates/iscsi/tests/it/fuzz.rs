use crate::support::*;
use nitro_iscsi::protocol::opcode;
use nitro_iscsi::scsi::parse;
use proptest::prelude::*;

const KNOWN: [u8; 24] = [
    0, 3, 8, 0xa, 0x12, 0x15, 0x1a, 0x25, 0x28, 0x2a, 0x2e, 0x2f, 0x41, 0x42, 0x5e, 0x5f, 0x88, 0x89, 0x8a, 0x8e, 0x93,
    0x9e, 0xa0, 0xa3,
];

proptest! {
    #[test]
    fn noise_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..600), logs_in in any::<bool>()) {
        let stage = Stage::new();
        let _ = alone(&stage, |mut initiator| async move {
            if logs_in {
                initiator.log_in("iqn.a:i", &[]).await;
            }
            initiator.send_bytes(bytes).await;
            initiator.leave();
        });
    }

    #[test]
    fn any_command_is_answered(cdb in any::<[u8; 16]>(), opcode in any::<prop::sample::Index>(), len in 0usize..2048) {
        let stage = Stage::new();
        let _ = (parse(&cdb, 512), parse(&cdb, 4096));
        alone(&stage, |mut initiator| async move {
            initiator.log_in("iqn.a:i", &[]).await;
            let mut cdb = cdb;
            cdb[0] = KNOWN[opcode.index(KNOWN.len())];
            initiator.command(&cdb, 0xe0, len, &vec![1; len]).await;
            assert!(initiator.next().await.is_some());
            initiator.leave();
        }).unwrap();
    }

    /// Whether the command takes them or not, and in whatever parts they are sent.
    #[test]
    fn unsolicited_data_of_any_command_are_received(
        cdb in any::<[u8; 16]>(),
        command in any::<prop::sample::Index>(),
        blocks in 1usize..5,
        immediate in 0usize..5,
        digests in any::<bool>(),
    ) {
        let stage = Stage::new();
        let len = blocks * 512;
        let immediate = (immediate * 512).min(len);
        alone(&stage, |mut initiator| async move {
            let mut pairs = vec![("InitialR2T", "No")];
            if digests {
                pairs.extend([("HeaderDigest", "CRC32C"), ("DataDigest", "CRC32C")]);
            }
            initiator.log_in("iqn.a:i", &pairs).await;
            let mut cdb = cdb;
            cdb[0] = KNOWN[command.index(KNOWN.len())];
            let data = vec![1; len];
            let flags = if immediate == len { 0xa0 } else { 0x20 };
            let tag = initiator.command(&cdb, flags, len, &data[..immediate]).await;
            for (number, start) in (0..).zip((immediate..len).step_by(512)) {
                let end = start + 512;
                initiator.data_out(tag, NONE, number, start as u32, &data[start..end], end == len).await;
            }
            let (header, _) = initiator.next().await.expect("an answer");
            assert_eq!((header.opcode(), header.tag()), (opcode::SCSI_RESPONSE, tag));
            initiator.leave();
        }).unwrap();
    }

    #[test]
    fn commands_are_executed_in_the_order_of_their_attributes(attributes in prop::collection::vec(0u8..4, 1..31)) {
        const ORDERED: u8 = 2;
        const HEAD_OF_QUEUE: u8 = 3;
        let stage = Stage::new();
        let sent = &attributes;
        alone(&stage, |mut initiator| async move {
            initiator.log_in("iqn.a:i", &[]).await;
            for (attribute, class) in sent.iter().zip(1..) {
                initiator.task(*attribute, &ten(0x2a, 0, class, 1), &[class; 512]).await;
            }
            let mut tags = Vec::new();
            for _ in sent {
                let (tag, status, _) = initiator.ended().await;
                assert_eq!(status, 0);
                tags.push(tag);
            }
            tags.sort_unstable();
            assert_eq!(tags, (1..=sent.len() as u32).collect::<Vec<_>>());
            initiator.log_out().await;
        }).unwrap();
        let started: Vec<u8> = stage.disk.classes.borrow().iter().copied().flatten().collect();
        let place = |index: usize| started.iter().position(|class| usize::from(*class) == index + 1).expect("executed");
        for later in 0..attributes.len() {
            for earlier in 0..later {
                let pair = [attributes[earlier], attributes[later]];
                if pair.contains(&ORDERED) && !pair.contains(&HEAD_OF_QUEUE) {
                    prop_assert!(place(earlier) < place(later), "{attributes:?}: {started:?}");
                }
            }
        }
    }
}
