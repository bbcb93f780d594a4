//! Header and data digests of requests that are no SCSI commands (RFC 7143 §7.8).

use crate::support::*;
use nitro_iscsi::protocol::{Header, crc32c, opcode, padding_of};
use nitro_iscsi::{End, IscsiError};

const DIGESTS: &[(&str, &str)] = &[("HeaderDigest", "CRC32C"), ("DataDigest", "CRC32C")];

fn nop(initiator: &Initiator, len: usize) -> Header {
    Header::new(opcode::NOP_OUT | 0x40, 0x80, 77).with(20, NONE).with(24, initiator.cmd_sn).with_data(len)
}

fn text(initiator: &mut Initiator, len: usize) -> Header {
    initiator.cmd_sn += 1;
    Header::new(opcode::TEXT, 0x80, 78).with(20, NONE).with(24, initiator.cmd_sn - 1).with_data(len)
}

/// A PDU with the given data digest; `None`: the right one.
fn pdu(header: &Header, data: &[u8], digest: Option<[u8; 4]>) -> Vec<u8> {
    let padded = [data, &[0; 3][..padding_of(data.len())]].concat();
    let digest = digest.unwrap_or_else(|| crc32c([&padded[..]]));
    [&header.0[..], &crc32c([&header.0[..]]), &padded, &digest].concat()
}

#[test]
fn pings_and_texts_of_any_length_are_answered_with_right_digests() {
    let stage = Stage::new();
    let served = alone(&stage, |mut initiator| async move {
        let pairs = [DIGESTS, &[("MaxRecvDataSegmentLength", "65536")]].concat();
        initiator.log_in("iqn.a:i", &pairs).await;
        for len in [1, 4, 511, 513, 4095, 4097, 65535, 65536] {
            let data: Vec<u8> = (0..len).map(|at| (at / 5) as u8).collect();
            let ping = nop(&initiator, len);
            initiator.send_bytes(pdu(&ping, &data, None)).await;
            let (header, back) = initiator.next().await.unwrap();
            assert_eq!((header.opcode(), header.tag()), (opcode::NOP_IN, 77));
            assert!(back == data, "{len} bytes come back as they were sent");
        }
        // More than the initiator receives in one PDU.
        let ping = nop(&initiator, 100_000);
        initiator.send_bytes(pdu(&ping, &[9; 100_000], None)).await;
        assert_eq!(initiator.next().await.unwrap().1, vec![9; 65536]);
        let request = b"X-com.example.a=1\0".repeat(100);
        let header = text(&mut initiator, request.len());
        initiator.send_bytes(pdu(&header, &request, None)).await;
        let (header, data) = initiator.next().await.unwrap();
        assert_eq!((header.opcode(), header.tag()), (opcode::TEXT_RESPONSE, 78));
        assert_eq!(data, b"X-com.example.a=NotUnderstood\0".repeat(100));
        initiator.log_out().await;
    });
    assert_eq!(served.unwrap().end, End::LoggedOut);
    assert_eq!(stage.options.memory.free_bytes(), Stage::new().options.memory.free_bytes());
}

#[test]
fn pings_and_texts_with_a_wrong_data_digest_are_rejected_and_the_session_goes_on() {
    let stage = Stage::new();
    let served = alone(&stage, |mut initiator| async move {
        initiator.log_in("iqn.a:i", DIGESTS).await;
        for len in [3, 512, 5000] {
            let headers = [nop(&initiator, len), text(&mut initiator, len)];
            for header in headers {
                initiator.send_bytes(pdu(&header, &vec![b'a'; len], Some([1, 2, 3, 4]))).await;
                let (reject, rejected) = initiator.next().await.unwrap();
                assert_eq!((reject.opcode(), reject.0[2]), (opcode::REJECT, opcode::REASON_DATA_DIGEST));
                assert_eq!((reject.tag(), &rejected[..]), (NONE, &header.0[..]));
            }
        }
        // A wrong byte of the padding is found, too.
        let header = nop(&initiator, 1);
        let mut bytes = pdu(&header, b"p", None);
        bytes[48 + 4 + 2] = 1;
        initiator.send_bytes(bytes).await;
        assert_eq!(initiator.next().await.unwrap().0.opcode(), opcode::REJECT);
        initiator.ping().await;
        assert_eq!(initiator.write(&[0], &[]).await.0, 0);
        initiator.log_out().await;
    });
    assert_eq!(served.unwrap().end, End::LoggedOut);
    assert_eq!(stage.options.memory.free_bytes(), Stage::new().options.memory.free_bytes());
}

#[test]
fn a_wrong_header_digest_of_a_ping_or_text_ends_the_connection() {
    for is_text in [false, true] {
        let stage = Stage::new();
        let served = alone(&stage, |mut initiator| async move {
            initiator.log_in("iqn.a:i", DIGESTS).await;
            let header = if is_text { text(&mut initiator, 4) } else { nop(&initiator, 4) };
            let mut bytes = pdu(&header, b"ping", None);
            bytes[48] ^= 1;
            initiator.send_bytes(bytes).await;
            assert!(initiator.next().await.is_none());
        });
        assert!(matches!(served, Err(IscsiError::HeaderDigest)), "{served:?}");
    }
}

#[test]
fn a_text_that_is_too_long_is_rejected() {
    let stage = Stage::new();
    alone(&stage, |mut initiator| async move {
        initiator.log_in("iqn.a:i", DIGESTS).await;
        let long = vec![b'a'; 100_000];
        let header = text(&mut initiator, long.len());
        initiator.send_bytes(pdu(&header, &long, None)).await;
        let (reject, _) = initiator.next().await.unwrap();
        assert_eq!((reject.opcode(), reject.0[2]), (opcode::REJECT, opcode::REASON_PROTOCOL));
        initiator.ping().await;
        initiator.leave();
    })
    .unwrap();
}

#[test]
fn data_beyond_those_that_a_command_takes_are_checked_and_discarded() {
    let stage = Stage::new();
    alone(&stage, |mut initiator| async move {
        initiator.log_in("iqn.a:i", &[DIGESTS, &[("InitialR2T", "No")]].concat()).await;
        // TEST UNIT READY takes no data; an initiator sends a KiB, of which half are immediate.
        let tag = initiator.command(&[0; 6], 0x20, 1024, &[1; 512]).await;
        initiator.data_out(tag, NONE, 0, 512, &[2; 512], true).await;
        assert_eq!(initiator.status().await.0, 0);
        initiator.log_out().await;
    })
    .unwrap();
}
