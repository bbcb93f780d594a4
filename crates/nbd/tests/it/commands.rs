//! Every command, simple and structured.

use crate::support::client::{Answer, be64};
use crate::support::export::MemoryExport;
use crate::support::{converse, pattern, with_client};
use nitro_frontend::{DiskError, DiskInfo};
use nitro_nbd::NbdErrno;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

const SIZE: usize = 300_000;

#[test]
fn commands_do_what_they_say() {
    for (structured, extended) in [(false, false), (true, false), (true, true)] {
        let export = Arc::new(MemoryExport::new(pattern(SIZE, 2)));
        let (served, ()) = with_client(&export, move |mut client| async move {
            if extended {
                client.use_extended().await;
            } else if structured {
                client.use_structured().await;
            }
            client.go("disk").await;
            let mut model = pattern(SIZE, 2);
            for (offset, len) in [(0, 1), (1, 1), (4095, 8194), (7, 100_001), (SIZE - 3, 3), (0, SIZE)] {
                let answer = client.ask(u16::from(structured) << 2, 0, offset as u64, len as u32, &[]).await;
                assert_eq!(answer.data, model[offset..][..len]);
                assert_eq!(answer.chunks.len(), usize::from(structured));
                if structured {
                    assert_eq!((answer.chunks[0].0, be64(&answer.chunks[0].1, 0)), (1, offset as u64));
                }
            }
            for (i, (offset, len)) in [(0, 1), (4097, 4096), (12_345, 222_222), (SIZE - 5, 5)].into_iter().enumerate() {
                let data = pattern(len, 10 + i as u64);
                let answer = client.ask((i % 2) as u16, 1, offset as u64, len as u32, &data).await;
                let chunks = if extended { vec![(0, Vec::new())] } else { Vec::new() };
                assert_eq!(answer, Answer { chunks, ..Answer::default() });
                model[offset..][..len].copy_from_slice(&data);
            }
            assert_eq!(client.ask(0, 0, 0, SIZE as u32, &[]).await.data, model);
            assert_eq!(client.ask(1, 3, 0, 0, &[]).await.error, 0);
            assert_eq!(client.ask(0, 4, 3, 50, &[]).await.error, 0);
            assert_eq!(client.ask(1, 5, 5, 60, &[]).await.error, 0);
            assert_eq!(client.ask(0b11, 6, 1001, 2000, &[]).await.error, 0);
            assert_eq!(client.ask(0b1_0000, 6, 1001, 2000, &[]).await.error, NbdErrno::NotSupported.code());
            model[1001..3001].fill(0);
            assert_eq!(client.ask(0, 0, 900, 3000, &[]).await.data, model[900..3900]);
            client.disconnect().await;
        });
        let wanted = [
            "write 0+1 fua=false",
            "write 4097+4096 fua=true",
            "write 12345+222222 fua=false",
            "write 299995+5 fua=true",
            "flush",
            "trim 3+50 fua=false",
            "cache 5+60",
            "zero 1001+2000 fua=true no_hole=true fast=false",
            "zero 1001+2000 fua=false no_hole=false fast=true",
        ];
        assert_eq!(export.log(), wanted);
        let summary = served.unwrap();
        assert_eq!((summary.requests, summary.bytes_written), (6 + 4 + 1 + 6, 1 + 4096 + 222_222 + 5));
    }
}

#[test]
fn refused_commands_leave_the_stream_in_step() {
    for structured in [false, true] {
        let export = Arc::new(MemoryExport::new(vec![7; SIZE]));
        converse(&export, move |mut client| async move {
            if structured {
                client.use_structured().await;
            }
            client.go("disk").await;
            let end = SIZE as u64;
            let cases: [(u16, u16, u64, u32, NbdErrno); 14] = [
                (0, 0, end - 1, 2, NbdErrno::Invalid),
                (0, 0, u64::MAX, 2, NbdErrno::Invalid),
                (0, 0, 0, u32::MAX, NbdErrno::Invalid),
                (1 << 1, 0, 0, 2, NbdErrno::Invalid),
                (0, 1, end - 1, 2, NbdErrno::NoSpace),
                (1 << 2, 1, 0, 2, NbdErrno::Invalid),
                (1 << 15, 1, 0, 9000, NbdErrno::Invalid),
                (0, 1, 0, (32 << 20) + 1, NbdErrno::Invalid),
                (0, 3, 1, 0, NbdErrno::Invalid),
                (0, 4, end, 1, NbdErrno::Invalid),
                (0, 6, end, 1, NbdErrno::NoSpace),
                (0, 7, 0, 10, NbdErrno::Invalid),
                (0, 8, 0, 10, NbdErrno::Invalid),
                (0, 0xffff, 0, 10, NbdErrno::Invalid),
            ];
            for (flags, command, offset, len, error) in cases {
                let payload = if command == 1 { vec![1; len as usize] } else { vec![] };
                let answer = client.ask(flags, command, offset, len, &payload).await;
                assert_eq!(answer.error, error.code(), "command {command} flags {flags} {offset}+{len}");
                assert_eq!(structured, !answer.message.is_empty());
            }
            for command in [0, 1, 4, 5, 6] {
                assert_eq!(client.ask(0, command, 5, 0, &[]).await.error, 0);
            }
            assert_eq!(client.ask(0, 0, 0, 3, &[]).await.data, [7, 7, 7]);
            client.disconnect().await;
        });
        assert!(export.log().is_empty());
    }
}

#[test]
fn read_only_exports_refuse_to_change() {
    let mut export = MemoryExport::new(vec![1; 100]);
    export.info = DiskInfo { read_only: true, ..export.info };
    let export = Arc::new(export);
    converse(&export, |mut client| async move {
        client.go("disk").await;
        for command in [1, 4, 6] {
            let payload: &[u8] = if command == 1 { &[9; 10] } else { &[] };
            assert_eq!(client.ask(0, command, 0, 10, payload).await.error, NbdErrno::Permission.code());
        }
        assert_eq!(client.ask(0, 3, 0, 0, &[]).await.error, 0);
        client.disconnect().await;
    });
    assert_eq!(export.log(), ["flush"]);
}

#[test]
fn errors_of_the_export_reach_the_client() {
    for structured in [false, true] {
        let mut export = MemoryExport::new(vec![1; 100]);
        (export.failure, export.inline) = (Some(DiskError::Io), false);
        converse(&Arc::new(export), move |mut client| async move {
            if structured {
                client.use_structured().await;
            }
            client.go("disk").await;
            for command in [0, 1, 3, 4, 5, 6] {
                let len = if command == 3 { 0 } else { 10 };
                let payload: &[u8] = if command == 1 { &[9; 10] } else { &[] };
                let answer = client.ask(0, command, 0, len, payload).await;
                assert_eq!((answer.error, answer.data), (NbdErrno::Io.code(), vec![]));
            }
            client.disconnect().await;
        });
    }
}

#[test]
fn thousands_of_pipelined_requests_are_all_answered() {
    let export = Arc::new(MemoryExport::new(pattern(SIZE, 3)));
    let (served, overtaken) = with_client(&export, |mut client| async move {
        client.use_structured().await;
        client.go("disk").await;
        let data = pattern(SIZE, 3);
        let (mut lens, mut offsets, mut overtaken, mut newest) = (HashMap::new(), HashMap::new(), 0, 0);
        for round in 0..20u64 {
            for i in 0..300u64 {
                let (offset, len) = ((round * 7919 + i * 997) % 290_000, (i * 31 % 2000 + 1) as u32);
                let cookie = client.send(0, 0, offset, len, &[]).await;
                lens.insert(cookie, len);
                offsets.insert(cookie, offset as usize);
                // The stream is smaller than what is asked for: the client has to read too.
                if offsets.len() > 64 {
                    let (cookie, answer) = client.answer(&lens).await.unwrap();
                    let offset = offsets.remove(&cookie).unwrap();
                    assert_eq!(answer.data, data[offset..][..lens[&cookie] as usize]);
                    overtaken += u32::from(cookie < newest);
                    newest = newest.max(cookie);
                }
            }
        }
        while !offsets.is_empty() {
            let (cookie, answer) = client.answer(&lens).await.unwrap();
            let offset = offsets.remove(&cookie).unwrap();
            assert_eq!(answer.data, data[offset..][..lens[&cookie] as usize]);
        }
        client.disconnect().await;
        overtaken
    });
    assert_eq!(served.unwrap().requests, 6000);
    assert!(overtaken > 100, "slow requests do not hold up fast ones");
    assert!(export.running_max.load(Relaxed) > 5);
}
