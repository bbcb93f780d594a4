//! Writes the seed corpora: `cd fuzz && cargo run --example seeds`.

use nitro_cache::{ExtentKey, Fingerprint, Generation, WeuId};
use nitro_engine::codec::{Compression, Compressor};
use nitro_engine::format::superblock::{SUPERBLOCK_BYTES, Superblock};
use nitro_engine::format::weu::{Entry, Head, encode_table};
use nitro_fuzz::wire::{CLIENT_FLAGS, cmd, info_payload, meta_payload, opt, option, request};
use std::io::Result;
use std::path::Path;

fn main() -> Result<()> {
    nbd_conversations()?;
    nbd_handshakes()?;
    nbd_requests()?;
    superblocks()?;
    weu_headers()?;
    stored_extents()
}

fn save(target: &str, name: &str, bytes: &[u8]) -> Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(target);
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join(name), bytes)
}

fn nbd_conversations() -> Result<()> {
    let contexts = meta_payload(b"disk", &[b"base:allocation", b"nitro:cache"]);
    let negotiation = [
        option(opt::LIST, &[]),
        option(opt::STRUCTURED_REPLY, &[]),
        option(opt::SET_META_CONTEXT, &contexts),
        option(opt::INFO, &info_payload(b"", &[1, 2, 3])),
        option(opt::GO, &info_payload(b"disk", &[3])),
    ];
    let mut requests = Vec::new();
    for (cookie, flags, command, offset, len) in [
        (0, 0, cmd::READ, 0, 100),
        (1, 4, cmd::READ, 11, 9000),
        (2, 1, cmd::WRITE, 22, 50),
        (3, 0, cmd::FLUSH, 0, 0),
        (4, 0, cmd::CACHE, 44, 9),
        (5, 3, cmd::WRITE_ZEROES, 55, 70),
        (6, 0, cmd::BLOCK_STATUS, 66, 8000),
        (7, 8, cmd::BLOCK_STATUS, 77, 10),
        (8, 0, cmd::TRIM, 0, 4096),
        (9, 0, cmd::READ, 19_999, 2),
        (10, 0, cmd::DISC, 0, 0),
    ] {
        requests.extend(request(flags, command, cookie, offset, len));
        if command == cmd::WRITE {
            requests.resize(requests.len() + len as usize, 9);
        }
    }
    let whole = |piece: u16, options: &[Vec<u8>], tail: &[u8]| {
        [&piece.to_le_bytes()[..], &CLIENT_FLAGS, &options.concat(), tail].concat()
    };
    let target = "nbd_conversation";
    save(target, "all", &whole(4000, &negotiation, &requests))?;
    save(target, "in-small-pieces", &whole(7, &negotiation, &requests))?;
    save(target, "simple-replies", &whole(400, &negotiation[4..], &requests))?;
    save(target, "export-name", &whole(400, &[option(opt::EXPORT_NAME, b"disk")], &requests))?;
    save(target, "abort", &whole(20, &[option(opt::STARTTLS, &[]), option(opt::ABORT, &[])], &[]))
}

/// Bytes of which `arbitrary` makes the variant of that number out of `count`.
fn variant(number: u64, count: u64) -> [u8; 4] {
    ((number << 32).div_ceil(count) as u32).to_le_bytes()
}

/// Bytes of which `arbitrary` makes one more element of a list.
const MORE: &[u8] = &[1];
/// Bytes of which `arbitrary` makes a list's end.
const END: &[u8] = &[0];

fn nbd_handshakes() -> Result<()> {
    let option = |number| [MORE, &variant(number, 11)].concat();
    let named = |number, list: &[u8]| {
        let (right, unspoiled) = (variant(0, 4), variant(0, 4));
        [&option(number), &right[..], list, &unspoiled].concat()
    };
    let queries: Vec<u8> = (0..3).flat_map(|query| [MORE, &variant(query, 4)].concat()).chain([0]).collect();
    let items = [MORE, &[1, 0], MORE, &[3, 0], END].concat();
    let (list, info, go) = (option(2), named(4, &items), named(5, &items));
    let (structured, list_meta, set_meta) = (option(6), named(7, &queries), named(8, &queries));
    let all = [&[1, 50][..], &list, &info, &structured, &list_meta, &set_meta, &go, END].concat();
    save("nbd_handshake", "all", &all)?;
    save("nbd_handshake", "abort", &[&[0, 3][..], &list, &option(3), &option(1), END].concat())?;
    save("nbd_handshake", "export-name", &[&[1, 9][..], &structured, &option(0), &variant(0, 4), END].concat())
}

fn nbd_requests() -> Result<()> {
    let order = |command: u16, flags: u8, offset: u16, len: u16| {
        let offset = [&variant(0, 3)[..], &offset.to_le_bytes()].concat();
        let len = [&variant(1, 3)[..], &len.to_le_bytes()].concat();
        [MORE, &[command as u8, flags], &offset, &len].concat()
    };
    let reads = [order(cmd::READ, 0, 0, 9000), order(cmd::READ, 0, 101, 3), order(cmd::CACHE, 0, 8, 8)].concat();
    let changes = [
        order(cmd::WRITE, 1, 500, 1000),
        order(cmd::READ, 0, 400, 2000),
        order(cmd::WRITE_ZEROES, 2, 7, 9000),
        order(cmd::TRIM, 0, 3, 300),
        order(cmd::FLUSH, 0, 0, 0),
    ]
    .concat();
    let status = [order(cmd::BLOCK_STATUS, 0, 5, 15_000), order(cmd::BLOCK_STATUS, 8, 5, 50)].concat();
    save("nbd_requests", "reads", &[&[0, 0, 0, 16], &reads[..], END].concat())?;
    save("nbd_requests", "structured-reads", &[&[1, 0, 40, 0], &reads[..], END].concat())?;
    save("nbd_requests", "changes", &[&[0, 0, 0, 16], &changes[..], END].concat())?;
    save("nbd_requests", "all", &[&[1, 1, 0, 16], &status[..], &changes, &reads, END].concat())
}

fn superblocks() -> Result<()> {
    let superblock = Superblock {
        extent_bytes: 8192,
        weu_bytes: 2 << 20,
        weu_count: 2047,
        data_offset: 2 << 20,
        uuid: *b"0123456789abcdef",
        epoch: 99,
    };
    let mut block = vec![0; 1 + SUPERBLOCK_BYTES];
    superblock.encode(&mut block[1..]);
    save("superblock", "as-it-is", &block)?;
    block[0] = 1;
    save("superblock", "mended", &block[..57])
}

fn weu_headers() -> Result<()> {
    let entry = |n: u32| Entry {
        key: ExtentKey::from_raw(u64::from(n) << 40),
        fingerprint: n.is_multiple_of(2).then_some(Fingerprint([n as u8; 20])),
        offset: 512 + n * 400,
        stored_bytes: n * 100,
        extent_bytes: 8192,
    };
    let entries: Vec<_> = (0..3).map(entry).collect();
    let table_offset = 2048;
    let mut weu = vec![0; table_offset as usize + entries.len() * 48];
    let table_crc = encode_table(&entries, &mut weu[table_offset as usize..]);
    let head = Head { weu: WeuId(7), generation: Generation(3), entries: 3, table_offset, table_crc, epoch: 0xAB };
    head.encode(&mut weu);
    save("weu_header", "as-it-is", &[&[0], &weu[..]].concat())?;
    save("weu_header", "mended", &[&[7], &weu[..48], &weu[table_offset as usize..]].concat())?;
    save("weu_header", "empty", &[&[0x2f], &weu[..48]].concat())
}

fn stored_extents() -> Result<()> {
    let extent: Vec<u8> = (0..4096u32).map(|at| if at % 64 < 16 { ((at * at) >> 7) as u8 } else { b' ' }).collect();
    for (number, name, compression) in [(1, "lz4", Compression::Lz4), (2, "zstd", Compression::Zstd)] {
        let (_, payload) = Compressor::new(compression).compress(&extent.clone().into());
        save("stored_extent", name, &[&[number, 5, 9], &payload[..]].concat())?;
    }
    save("stored_extent", "raw", &[&[0, 5, 9], &extent[..512]].concat())
}
