//! Options and what they are answered.

use crate::support::client::{ACK, Client, ERROR, be16, be32, be64, info_payload, meta_payload, option};
use crate::support::export::{MemoryExport, MemoryExports};
use crate::support::stream::{PlainStream, Stream as _};
use crate::support::{converse, pattern, run, with_client};
use nitro_frontend::DiskInfo;
use nitro_nbd::{End, NbdErrno, NbdError, ServerOptions};
use std::future::pending;
use std::sync::Arc;

const UNSUP: u32 = ERROR + 1;
const POLICY: u32 = ERROR + 2;
const INVALID: u32 = ERROR + 3;
const UNKNOWN: u32 = ERROR + 6;
const TOO_BIG: u32 = ERROR + 9;

fn disk() -> Arc<MemoryExport> {
    Arc::new(MemoryExport::new(pattern(10_000, 1)))
}

#[test]
fn exports_are_listed_and_described() {
    let export = disk();
    let exports = MemoryExports(vec![("a".into(), disk()), ("b".into(), export)]);
    let (served, ()) = run(exports, ServerOptions::default(), pending(), |end| async {
        let mut client = Client::greet(PlainStream::new(end)).await;
        let listed = client.option(3, &[]).await;
        assert_eq!(listed[0], (2, [&[0, 0, 0, 1, b'a'][..], b"in memory"].concat()));
        assert_eq!(listed.iter().map(|reply| reply.0).collect::<Vec<_>>(), [2, 2, ACK]);
        let told = client.option(6, &info_payload("b", &[1, 2, 3, 99])).await;
        assert_eq!(told[0].1.len(), 12);
        assert_eq!(told[1], (3, vec![0, 1, b'b']));
        assert_eq!(told[2], (3, [&[0, 2][..], b"in memory"].concat()));
        let block = &told[3].1;
        assert_eq!((be16(block, 0), be32(block, 2), be32(block, 6), be32(block, 10)), (3, 1, 4096, 32 << 20));
        assert_eq!(told[4], (ACK, vec![]));
        // Two exports: none is the default.
        assert_eq!(client.option_result(7, &info_payload("", &[])).await, UNKNOWN);
        assert_eq!(client.option(2, &[]).await, [(ACK, vec![])]);
        assert!(client.stream.receive(1).await.is_none());
    });
    let summary = served.unwrap();
    assert_eq!((summary.end, summary.export), (End::Aborted, None));
}

/// As `nbdinfo --list` does.
#[test]
fn a_client_may_ask_for_all_of_many_exports() {
    let names: Vec<_> = (0..400).map(|number| format!("disk{number}")).collect();
    let exports = MemoryExports(names.iter().map(|name| (name.clone(), disk())).collect());
    let (served, asked) = run(exports, ServerOptions::default(), pending(), |end| async move {
        let mut client = Client::greet(PlainStream::new(end)).await;
        assert_eq!(client.option(3, &[]).await.len(), names.len() + 1);
        client.use_structured().await;
        let mut asked = 0;
        for name in &names {
            asked += usize::from(client.option_result(9, &meta_payload(name, &[])).await == ACK);
            asked += usize::from(client.option_result(6, &info_payload(name, &[])).await == ACK);
        }
        client.option(2, &[]).await;
        asked
    });
    assert_eq!((served.unwrap().end, asked), (End::Aborted, 800));
}

#[test]
fn an_empty_name_finds_the_only_export() {
    let (served, ()) = with_client(&disk(), |mut client| async move {
        let told = client.option(6, &info_payload("", &[1])).await;
        assert_eq!(told[1], (3, b"\0\x01disk".to_vec()));
        client.go("").await;
        client.disconnect().await;
    });
    assert_eq!(served.unwrap().export.as_deref(), Some("disk"));
}

#[test]
fn blocks_of_4096_bytes_are_the_minimum_of_clients_that_ask() {
    let mut export = MemoryExport::new(pattern(1 << 20, 1));
    export.info = DiskInfo { block_bytes: 4096, block_preferred_bytes: 512, ..export.info };
    let export = Arc::new(export);
    converse(&export, |mut client| async move {
        let told = client.option(7, &info_payload("disk", &[3])).await;
        let sizes = told.iter().find(|(_, payload)| payload.starts_with(&[0, 3])).map(|(_, payload)| &payload[2..]);
        let sizes = sizes.unwrap();
        assert_eq!((be32(sizes, 0), be32(sizes, 4), be32(sizes, 8) % 4096), (4096, 4096, 0));
        for command in [0, 1, 3, 4, 6] {
            let data = vec![9; if command == 1 { 512 } else { 0 }];
            let wanted = if command == 3 { 0 } else { NbdErrno::Invalid.code() };
            let range = if command == 3 { (0, 0) } else { (4096, 512) };
            assert_eq!(client.ask(0, command, range.0, range.1, &data).await.error, wanted, "{command}");
        }
        assert_eq!(client.ask(0, 1, 4096, 4096, &[9; 4096]).await.error, 0);
        client.disconnect().await;
    });
    // A client that does not ask may not know of them.
    converse(&export, |mut client| async move {
        client.go("disk").await;
        assert_eq!(client.ask(0, 0, 4095, 2, &[]).await.data.len(), 2);
        client.disconnect().await;
    });
}

#[test]
fn flags_tell_what_the_export_can() {
    converse(&disk(), |mut client| async move {
        assert_eq!(client.go("disk").await, (10_000, 0b1101_0110_1101));
        client.disconnect().await;
    });
    let mut export = MemoryExport::new(vec![0; 512]);
    let info = DiskInfo { read_only: true, rotational: true, can_multi_conn: false, can_cache: false, ..export.info };
    export.info = info;
    converse(&Arc::new(export), |mut client| async move {
        client.use_structured().await;
        assert_eq!(client.go("disk").await, (512, 0b1001_1111));
        client.disconnect().await;
    });
}

#[test]
fn options_out_of_order_are_refused_and_skipped() {
    let (served, ()) = with_client(&disk(), |mut client| async move {
        assert_eq!(client.option_result(4, b"withdrawn").await, UNSUP);
        assert_eq!(client.option_result(12, &[]).await, UNSUP);
        assert_eq!(client.option_result(0xdead_beef, &[7; 5000]).await, UNSUP);
        assert_eq!(client.option_result(5, &[]).await, POLICY);
        assert_eq!(client.option_result(3, &[1]).await, INVALID);
        assert_eq!(client.option_result(8, &[1]).await, INVALID);
        assert_eq!(client.option_result(11, &[1]).await, INVALID);
        assert_eq!(client.option_result(7, &[0, 0, 0, 9]).await, INVALID);
        assert_eq!(client.option_result(7, &info_payload("nothing", &[])).await, UNKNOWN);
        assert_eq!(client.option_result(7, &info_payload(&"x".repeat(4097), &[])).await, TOO_BIG);
        assert_eq!(client.option_result(99, &vec![0; 200_000]).await, TOO_BIG);
        assert_eq!(client.option_result(10, &meta_payload("disk", &["base:allocation"])).await, INVALID);
        client.go("disk").await;
        client.disconnect().await;
    });
    assert_eq!(served.unwrap().end, End::Disconnected);
}

#[test]
fn the_oldest_way_to_choose_an_export_still_works() {
    for (client_flags, zeroes) in [(1u32, 124), (3, 0), (0, 124)] {
        let (served, ()) =
            run(MemoryExports::one(&disk()), ServerOptions::default(), pending(), move |end| async move {
                let mut stream = PlainStream::new(end);
                stream.receive(18).await.unwrap();
                stream.send(&[&client_flags.to_be_bytes()[..], &option(1, b"disk")].concat()).await.unwrap();
                let reply = stream.receive(10 + zeroes).await.unwrap();
                assert_eq!((be64(&reply, 0), be16(&reply, 8) & 1), (10_000, 1));
                assert!(reply[10..].iter().all(|byte| *byte == 0));
                let mut client = Client::over(stream);
                assert_eq!(client.ask(0, 0, 10, 5, &[]).await.data, pattern(10_000, 1)[10..15]);
                client.disconnect().await;
            });
        assert_eq!(served.unwrap().end, End::Disconnected);
    }
    let (served, ()) = with_client(&disk(), |mut client| async move {
        client.stream.send(&option(1, b"nothing")).await.unwrap();
        assert!(client.stream.receive(1).await.is_none());
    });
    assert!(matches!(served, Err(NbdError::Refused { .. })));
}

#[test]
fn requests_may_follow_the_last_option_at_once() {
    converse(&disk(), |mut client| async move {
        let bytes = [option(7, &info_payload("disk", &[])), crate::support::client::request(0, 0, 9, 0, 4)].concat();
        client.stream.send(&bytes).await.unwrap();
        client.option_replies(7).await;
        let (cookie, answer) = client.answer(&[(9, 4)].into()).await.unwrap();
        assert_eq!((cookie, answer.data), (9, pattern(4, 1)));
        client.disconnect().await;
    });
}
