//! Random bytes and spoiled conversations: the server neither panics nor hangs.

use crate::support::client::{extended_request, info_payload, meta_payload, option, request};
use crate::support::export::{MemoryExport, MemoryExports};
use crate::support::run;
use crate::support::stream::PlainStream;
use nitro_nbd::protocol::{Headers, InfoRequest, MetaRequest, OptionHeader, Request, parse_name};
use nitro_nbd::transport::{ReadHalf as _, WriteHalf as _};
use nitro_nbd::{Limits, ServerOptions};
use proptest::collection::vec;
use proptest::prelude::*;
use std::future::pending;
use std::sync::Arc;

/// Lets a client send `bytes` in pieces, and listen until the server ends.
fn converse(bytes: Vec<u8>, piece_bytes: usize) {
    let mut export = MemoryExport::new(vec![1; 20_000]);
    export.info.can_trim = false;
    let export = Arc::new(export);
    let limits = Limits { in_flight_requests_max: 4, drain_bytes_max: 1 << 16, options_max: 8, ..Limits::default() };
    let options = ServerOptions { limits, ..ServerOptions::default() };
    let _ = run(MemoryExports::one(&export), options, pending(), move |end| async move {
        let PlainStream { mut reader, mut writer, .. } = PlainStream::new(end);
        let send = async move {
            for piece in bytes.chunks(piece_bytes) {
                if writer.write_all(vec![bytes::Bytes::copy_from_slice(piece)]).await.0.is_err() {
                    break;
                }
            }
            writer.shutdown().await;
        };
        let listen = async move {
            let mut buf = nitro_port::buf::BufMut::with_len(4096);
            loop {
                let (result, back) = reader.read(buf, 0).await;
                buf = back;
                if result.unwrap() == 0 {
                    return;
                }
            }
        };
        futures_util::future::join(send, listen).await;
    });
}

/// A conversation with a bit of everything.
fn valid(extended: bool) -> Vec<u8> {
    let mut bytes = vec![0, 0, 0, 3];
    bytes.extend(option(3, &[]));
    bytes.extend(option(if extended { 11 } else { 8 }, &[]));
    bytes.extend(option(10, &meta_payload("disk", &["base:allocation", "nitro:cache"])));
    bytes.extend(option(6, &info_payload("", &[1, 2, 3])));
    bytes.extend(option(7, &info_payload("disk", &[3])));
    for (i, (flags, command, len)) in
        [(0, 0, 100), (4, 0, 9000), (1, 1, 50), (0, 3, 0), (0, 5, 9), (0b11, 6, 70), (0, 7, 8000), (8, 7, 10)]
            .into_iter()
            .enumerate()
    {
        let offset = if command == 3 { 0 } else { 11 * i as u64 };
        bytes.extend(match extended {
            true => extended_request(flags, command, i as u64, offset, len.into()),
            false => request(flags, command, i as u64, offset, len),
        });
        if command == 1 {
            bytes.extend(vec![9; len as usize]);
        }
    }
    if extended {
        // A payload where none belongs.
        bytes.extend(extended_request(1 << 5, 4, 98, 0, 30));
        bytes.extend([7; 30]);
    }
    bytes.extend(if extended { extended_request(0, 2, 99, 0, 0) } else { request(0, 2, 99, 0, 0) });
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes(bytes in vec(any::<u8>(), 0..500), after in 0..4usize, piece_bytes in 1..600usize) {
        let valid = valid(false);
        // Nothing, the client's flags, most of an option's header, most of a handshake.
        let start = &valid[..[0, 4, 19, 150][after]];
        converse([start, &bytes].concat(), piece_bytes);
    }

    #[test]
    fn spoiled_conversations(
        spoils in vec((any::<prop::sample::Index>(), any::<u8>(), 0..4u8), 0..6),
        piece_bytes in 1..600usize,
        extended: bool,
    ) {
        let mut bytes = valid(extended);
        for (at, value, how) in spoils {
            let at = at.index(bytes.len());
            match how {
                0 => bytes[at] = value,
                1 => bytes[at] ^= 1 << (value % 8),
                2 => bytes.insert(at, value),
                _ => drop(bytes.remove(at)),
            }
        }
        converse(bytes, piece_bytes);
    }

    #[test]
    fn parsers(bytes in vec(any::<u8>(), 0..200)) {
        let _ = Request::parse(Headers::Simple, &bytes);
        let _ = Request::parse(Headers::Extended, &bytes);
        let _ = OptionHeader::parse(&bytes);
        let _ = InfoRequest::parse(&bytes);
        let _ = MetaRequest::parse(&bytes);
        let _ = parse_name(&bytes);
    }
}

#[test]
fn a_valid_conversation_survives_any_fragmentation() {
    for piece_bytes in 1..80 {
        converse(valid(false), piece_bytes);
        converse(valid(true), piece_bytes);
    }
}
