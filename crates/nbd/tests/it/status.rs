//! Metadata contexts and block status.

use crate::support::client::{ACK, ERROR, be32, meta_payload};
use crate::support::converse;
use crate::support::export::MemoryExport;
use std::sync::Arc;

fn disk() -> Arc<MemoryExport> {
    Arc::new(MemoryExport::new(vec![0; 10_000]))
}

fn names(replies: &[(u32, Vec<u8>)]) -> Vec<&str> {
    let contexts = replies.iter().filter(|reply| reply.0 == 4);
    contexts.map(|reply| std::str::from_utf8(&reply.1[4..]).unwrap()).collect()
}

fn runs(chunk: &(u16, Vec<u8>)) -> Vec<(u32, u32)> {
    assert_eq!(chunk.0, 5);
    chunk.1[4..].chunks(8).map(|run| (be32(run, 0), be32(run, 4))).collect()
}

#[test]
fn contexts_are_listed_by_name_and_namespace() {
    converse(&disk(), |mut client| async move {
        let all = ["base:allocation", "nitro:cache"];
        for (queries, wanted) in [
            (&[][..], &all[..]),
            (&["base:"], &all[..1]),
            (&["nitro:", "nitro:cache"], &all[1..]),
            (&["base:allocation", "nitro:cache"], &all),
            (&["qemu:dirty-bitmap:x", "base"], &[]),
        ] {
            let replies = client.option(9, &meta_payload("disk", queries)).await;
            assert_eq!(names(&replies), wanted);
            assert_eq!(replies.last().unwrap().0, ACK);
        }
        assert_eq!(client.option_result(9, &meta_payload("other", &[])).await, ERROR + 6);
        assert_eq!(client.option_result(10, &meta_payload("disk", &[])).await, ERROR + 3);
        client.option(2, &[]).await;
    });
}

#[test]
fn each_selected_context_has_a_chunk() {
    converse(&disk(), |mut client| async move {
        client.use_structured().await;
        let replies = client.option(10, &meta_payload("", &["nitro:cache", "base:allocation", "base:"])).await;
        assert_eq!(names(&replies), ["base:allocation", "nitro:cache"]);
        let ids: Vec<_> = replies[..2].iter().map(|reply| be32(&reply.1, 0)).collect();
        client.go("disk").await;
        let answer = client.ask(0, 7, 500, 2000, &[]).await;
        assert_eq!(answer.chunks.iter().map(|chunk| be32(&chunk.1, 0)).collect::<Vec<_>>(), ids);
        assert_eq!(runs(&answer.chunks[0]), [(500, 0), (1000, 1), (500, 2)]);
        assert_eq!(runs(&answer.chunks[1]), [(200, 0), (700, 1), (700, 2), (400, 3)]);
        let answer = client.ask(1 << 3, 7, 500, 2000, &[]).await;
        assert_eq!((runs(&answer.chunks[0]), runs(&answer.chunks[1])), (vec![(500, 0)], vec![(200, 0)]));
        assert_eq!(client.ask(0, 7, 500, 0, &[]).await.error, 22);
        assert_eq!(client.ask(0, 7, 9_999, 2, &[]).await.error, 22);
        client.disconnect().await;
    });
}

#[test]
fn a_later_selection_replaces_the_earlier() {
    for last in [meta_payload("disk", &[]), meta_payload("other", &["base:allocation"]), vec![1, 2, 3]] {
        converse(&disk(), |mut client| async move {
            client.use_structured().await;
            assert_eq!(client.option_result(10, &meta_payload("disk", &["base:allocation"])).await, ACK);
            client.option(10, &last).await;
            client.go("disk").await;
            assert_eq!(client.ask(0, 7, 0, 10, &[]).await.error, 22);
            client.disconnect().await;
        });
    }
}
