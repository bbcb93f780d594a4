//! Extended headers: lengths of 64 bits.

use crate::support::client::{be32, be64, meta_payload};
use crate::support::converse;
use crate::support::export::MemoryExport;
use nitro_frontend::DiskInfo;
use nitro_nbd::NbdErrno;
use std::sync::Arc;

const TIB: u64 = 1 << 40;

/// A disk of 1 TiB, of which only the beginning is in memory.
fn vast() -> Arc<MemoryExport> {
    let mut export = MemoryExport::new(vec![3; 10_000]);
    export.info = DiskInfo { size_bytes: TIB, ..export.info };
    export.status_unit = Some(1 << 30);
    Arc::new(export)
}

fn log_of(export: &MemoryExport, word: &str) -> Vec<(u64, u64)> {
    let range = |line: &String| {
        let range = line.strip_prefix(word)?.split_whitespace().next()?;
        let (offset, len) = range.split_once('+')?;
        Some((offset.parse().ok()?, len.parse().ok()?))
    };
    export.log().iter().filter_map(range).collect()
}

#[test]
fn a_long_range_is_trimmed_and_zeroed_with_one_request() {
    let export = vast();
    converse(&export, |mut client| async move {
        client.use_extended().await;
        assert_eq!(client.go("disk").await.0, TIB);
        assert_eq!(client.ask_long(0, 4, 4096, 5 << 30, &[]).await.error, 0);
        assert_eq!(client.ask_long(0b10, 6, TIB - (6 << 30), 6 << 30, &[]).await.error, 0);
        // Past the end, past all addresses, and reads and writes stay short.
        assert_eq!(client.ask_long(0, 4, 4096, TIB, &[]).await.error, NbdErrno::Invalid.code());
        assert_eq!(client.ask_long(0, 6, 4096, u64::MAX, &[]).await.error, NbdErrno::NoSpace.code());
        assert_eq!(client.ask_long(0, 0, 0, (1 << 32) + 512, &[]).await.error, NbdErrno::Invalid.code());
        client.disconnect().await;
    });
    for (word, start, len) in [("trim ", 4096, 5 << 30), ("zero ", TIB - (6 << 30), 6 << 30)] {
        let steps = log_of(&export, word);
        assert_eq!(steps.iter().map(|(_, len)| len).sum::<u64>(), len, "{steps:?}");
        let mut at = start;
        for (offset, len) in steps {
            assert!(offset == at && len <= 1 << 31);
            at += len;
        }
    }
}

#[test]
fn status_has_lengths_of_64_bits() {
    let export = vast();
    converse(&export, |mut client| async move {
        client.use_extended().await;
        client.option(10, &meta_payload("disk", &["base:allocation"])).await;
        client.go("disk").await;
        let answer = client.ask_long(0, 7, 1 << 33, 9 << 30, &[]).await;
        let [(6, chunk)] = &answer.chunks[..] else { panic!("{answer:?}") };
        let count = be32(chunk, 4) as usize;
        assert_eq!(chunk.len(), 8 + 16 * count);
        let covered: u64 = (0..count).map(|run| be64(chunk, 8 + 16 * run)).sum();
        assert!(covered > 1 << 32 && covered <= 9 << 30, "{covered}");
        client.disconnect().await;
    });
}

#[test]
fn a_payload_where_none_belongs_is_refused_and_skipped() {
    let export = vast();
    converse(&export, |mut client| async move {
        client.use_extended().await;
        assert_eq!(client.option_result(8, &[]).await, (1 << 31) + 10, "structured replies are a step back");
        client.go("disk").await;
        for command in [0, 3, 4, 5, 6, 7, 200] {
            let answer = client.ask_long(1 << 5, command, 0, 300, &[9; 300]).await;
            assert_eq!(answer.error, NbdErrno::Invalid.code(), "{command}");
        }
        // A write without the flag has a payload, too.
        assert_eq!(client.ask_long(0, 1, 0, 5, &[9; 5]).await.error, 0);
        assert_eq!(client.ask(0, 0, 0, 6, &[]).await.data, [9, 9, 9, 9, 9, 3]);
        client.disconnect().await;
    });
}
