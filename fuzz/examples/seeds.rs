//! Writes the seed corpora: `cd fuzz && cargo run --example seeds`.

use nitro_engine::format::superblock::{DevicePlace, SUPERBLOCK_BYTES, Superblock};
use nitro_engine::format::weu::{Entry, Head, encode_table};
use nitro_engine::journal::Area;
use nitro_engine::journal::{LogPosition, Record};
use nitro_fuzz::iscsi::{Digests, pdu};
use nitro_fuzz::wire::{CLIENT_FLAGS, cmd, info_payload, meta_payload, opt, option, request};
use nitro_iscsi::protocol::{Header, opcode};
use nitro_port::codec::FingerprintHash;
use nitro_port::codec::{Compression, Compressor};
use nitro_units::{ExtentKey, Fingerprint, Generation, ObjectId, WeuId};
use std::io::Result;
use std::path::Path;

fn main() -> Result<()> {
    device_images()?;
    iscsi_pdus()?;
    nbd_conversations()?;
    nbd_handshakes()?;
    nbd_requests()?;
    superblocks()?;
    weu_headers()?;
    journals()?;
    write_logs()?;
    stores()?;
    store_ssds()?;
    store_transfers()?;
    stored_extents()
}

fn save(target: &str, name: &str, bytes: &[u8]) -> Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(target);
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join(name), bytes)
}

/// Deeds to an image: a number and two operands, as `damage.rs` beside the engine's tests reads them.
fn device_images() -> Result<()> {
    let deed = |deed: u8, a: u32, b: u32| [&[deed][..], &a.to_le_bytes(), &b.to_le_bytes()].concat();
    let two_bytes = [deed(5, 25, 0x1_2345), deed(5, 50, 0x7_F000)].concat();
    let superblock: Vec<u8> = (1..8).flat_map(|sector| deed(2, sector, 0)).collect();
    for (name, script) in [
        ("one-bit", deed(0, 40, 77)),
        ("one-bit-of-the-journal", deed(0, 18, 900)),
        ("zeroed-superblock", superblock),
        ("zeroed-sector", deed(2, 60, 0)),
        ("exchanged-sectors", deed(3, 30, 90)),
        ("journal-cut-off", deed(4, 20, 0)),
        ("overwritten", [deed(4, 70, 5), deed(4, 35, 2)].concat()),
        ("two-bytes", two_bytes.clone()),
        ("mended", [two_bytes, deed(6, 0, 0)].concat()),
        ("mended-journal", [deed(0, 19, 1200), deed(6, 0, 0)].concat()),
    ] {
        save("device_image", name, &script)?;
    }
    Ok(())
}

/// A session with each kind of PDU, with and without checksums, also with a wrong one.
fn iscsi_pdus() -> Result<()> {
    const NONE: u32 = u32::MAX;
    let command = |number: u32, flags: u8, bytes: u32, cdb: &[u8], data: &[u8]| {
        let mut header = Header::new(opcode::SCSI_COMMAND, flags, number).with(20, bytes).with(24, number);
        header.0[32..32 + cdb.len()].copy_from_slice(cdb);
        pdu(header, data)
    };
    let data_out = |tag: u32, offset: u32, data: &[u8]| {
        pdu(Header::new(opcode::DATA_OUT, 0x80, tag).with(20, NONE).with(40, offset), data)
    };
    let ping = Header::new(opcode::NOP_OUT | 0x40, 0x80, 90).with(20, NONE).with(24, 1);
    let abort = Header::new(opcode::TASK_MANAGEMENT | 0x40, 0x81, 91).with(20, 7).with(24, 4);
    let text = Header::new(opcode::TEXT, 0x80, 92).with(20, NONE).with(24, 4);
    let logout = Header::new(opcode::LOGOUT | 0x40, 0x80, 93).with(24, 5);
    let session = [
        pdu(ping, b"ping!"),
        command(1, 0xa0, 1024, &[0x2a, 0, 0, 0, 0, 3, 0, 0, 2], &[1; 1024]),
        command(2, 0x20, 1024, &[0x2a, 0, 0, 0, 0, 5, 4, 0, 2], &[2; 512]),
        data_out(2, 512, &[3; 512]),
        command(3, 0xc0, 1024, &[0x28, 0, 0, 0, 0, 3, 0, 0, 2], &[]),
        pdu(abort, &[]),
        pdu(text, b"SendTargets=All\0"),
        pdu(logout, &[]),
    ]
    .concat();
    for (name, mode) in [
        ("plain", 1),
        ("header-digests", 3),
        ("data-digests", 5),
        ("digests", 7),
        ("wrong-digest-of-a-ping", 7 | 1 << 3),
        ("wrong-digest-of-data", 7 | 4 << 3),
    ] {
        save("iscsi_pdu", name, &[&[mode, 0, 4], &session[..]].concat())?;
    }
    let login = Digests::default().login();
    save("iscsi_pdu", "login", &[&[0, 0, 4], &login[..], &session].concat())
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
        identity: [0x1D; 16],
        extent_bytes: 8192,
        weu_bytes: 2 << 20,
        weu_count: 2047,
        data_offset: 2 << 20,
        uuid: *b"0123456789abcdef",
        epoch: 99,
        journal: Area { offset: 8192, len: 1 << 20 },
        start: 3,
        fingerprints: Some(FingerprintHash::Blake3),
        logged: false,
        index: None,
        place: DevicePlace::ONLY,
    };
    let mut block = vec![0; 1 + SUPERBLOCK_BYTES];
    superblock.encode(&mut block[1..]);
    save("superblock", "as-it-is", &block)?;
    block[0] = 1;
    save("superblock", "mended", &block[..78])?;
    let place = DevicePlace { devices: 4, number: 2, lost: 0b1001 };
    Superblock { place, ..superblock }.encode(&mut block[1..]);
    block[0] = 5;
    save("superblock", "one-of-several", &block[..116])
}

fn weu_headers() -> Result<()> {
    let entry = |n: u32| Entry {
        key: ExtentKey::from_raw(u64::from(n) << 40),
        fingerprint: n.is_multiple_of(2).then_some(Fingerprint([n as u8; 20])),
        offset: 512 + n * 400,
        stored_bytes: n * 100,
        checksum: n * 77,
        raw: false,
        class: nitro_units::ClassId::new(n as u8 % 32).unwrap_or_default(),
        version: u64::from(n) << 40,
    };
    let entries: Vec<_> = (0..3).map(entry).collect();
    let table_offset = 2048;
    let mut weu = vec![0; table_offset as usize + entries.len() * 48];
    let table_crc = encode_table(&entries, &mut weu[table_offset as usize..]);
    #[rustfmt::skip]
    let head = Head {
        weu: WeuId(7), generation: Generation(3), entries: 3, table_offset, table_crc, epoch: 0xAB,
        start: 4, version: 2 << 40, dirty: true,
    };
    head.encode(&mut weu);
    save("weu_header", "as-it-is", &[&[0], &weu[..]].concat())?;
    save("weu_header", "mended", &[&[7], &weu[..53], &weu[table_offset as usize..]].concat())?;
    save("weu_header", "empty", &[&[0x2f], &weu[..53]].concat())
}

fn journals() -> Result<()> {
    let (key, weu, generation, version) = (ExtentKey::from_raw(9), WeuId(1), Generation(3), 4);
    let (object, region, name) = (ObjectId(2), 5, "disk".into());
    let fingerprint = Some(Fingerprint([8; 20]));
    let (start, entry, offset, stored_bytes, crc, raw_blocks) = (1, 2, 512, 4096, 7, true);
    #[rustfmt::skip]
    let base = Record::DirtyBase {
        key, version, weu, generation, start, entry, offset, stored_bytes, crc, raw_blocks, fingerprint,
        class: nitro_units::ClassId::UNCLASSIFIED,
    };
    let state = [
        Record::NextVersion { version },
        Record::Volume {
            object,
            name,
            origin_bytes: 1 << 30,
            uuid: [6; 16],
            mode: 1,
            domain: nitro_engine::DedupDomain::named("red"),
        },
        Record::Slot { weu, evicted: Generation(2), generation, dead: vec![0xF0; 3] },
        Record::RegionOpened { object, region },
        base.clone(),
    ];
    let changes = [
        base,
        Record::DirtyDup { key, version, weu, generation, entry },
        Record::Clean { key, version },
        Record::Forget { first: key, count: 3, version },
        Record::Evicted { weu, generation },
        Record::RegionClosed { object, region },
        Record::Lost { key, version },
        Record::VolumeRemoved { object },
        Record::Log(LogPosition { uuid: [5; 16], sequence: 7, offset: 4096 }),
    ];
    let batch = |flags: u8, records: &[Record]| {
        let mut payload = vec![0; records.iter().map(Record::encoded_bytes).sum()];
        let mut rest = &mut payload[..];
        for record in records {
            let (bytes, behind) = rest.split_at_mut(record.encoded_bytes());
            record.encode(bytes);
            rest = behind;
        }
        [&[flags], &(payload.len() as u16).to_le_bytes()[..], &payload].concat()
    };
    let (part, end, log, other) = (1, 2, 0, 4);
    let (restarted, torn, foreign) = (8, 16, 32);
    let target = "journal";
    let whole = [batch(part, &state), batch(end, &[]), batch(log, &changes), batch(log | restarted, &changes[2..])];
    save(target, "log", &[&[1, 1], &whole.concat()[..]].concat())?;
    let switch = [batch(end, &state), batch(log, &changes), batch(part | other, &state), batch(end | other, &changes)];
    save(target, "switch", &[&[1, 0], &switch.concat()[..]].concat())?;
    let ends = [batch(end, &state), batch(log | torn, &changes), batch(log | foreign, &changes), batch(log, &changes)];
    save(target, "torn", &[&[1, 0], &ends.concat()[..]].concat())
}

/// Batches as `write_log.rs` builds them: flags, a number of entries, and for each what it is, its extent and its content.
fn write_logs() -> Result<()> {
    let batch = |flags: u8, entries: &[[u8; 3]]| [&[flags, entries.len() as u8][..], &entries.concat()].concat();
    let (content, zeroes, void) = (0, 1, 2);
    let first = batch(0, &[[content, 1, 7], [content, 2, 8], [zeroes, 3, 0]]);
    let second = batch(0, &[[void, 1, 2], [content, 1, 9]]);
    let (wrapped, torn, skipped, older) = (1, 2, 4, 8);
    let target = "write_log";
    let built = |batches: &[Vec<u8>]| [&[1, 0], &batches.concat()[..]].concat();
    save(target, "row", &built(&[first.clone(), second.clone(), batch(0, &[[content, 250, 1]; 40])]))?;
    save(target, "wrapped", &built(&[first.clone(), batch(wrapped, &[[content, 4, 4]; 3]), second.clone()]))?;
    save(target, "torn", &built(&[first.clone(), batch(torn, &[[content, 5, 5]]), second.clone()]))?;
    let ends = [first.clone(), batch(older, &[[content, 6, 6]]), batch(skipped, &[[content, 7, 7]])];
    save(target, "ends", &built(&ends))?;
    save(target, "later-start", &[&[3, 9], &first[..], &second].concat())
}

fn stores() -> Result<()> {
    for (number, (which, bytes)) in nitro_cos::fuzzing::samples().into_iter().enumerate() {
        save("store", &format!("{number}"), &[&[which], &bytes[..]].concat())?;
    }
    Ok(())
}

fn store_ssds() -> Result<()> {
    for (number, (which, bytes)) in nitro_cos::fuzzing::ssd_samples().into_iter().enumerate() {
        save("store_ssd", &format!("{number}"), &[&[which], &bytes[..]].concat())?;
    }
    Ok(())
}

fn store_transfers() -> Result<()> {
    save("store_transfer", "all", &[&[1], &nitro_cos::fuzzing::transfer_samples()[..]].concat())
}

fn stored_extents() -> Result<()> {
    let extent: Vec<u8> = (0..4096u32).map(|at| if at % 64 < 16 { ((at * at) >> 7) as u8 } else { b' ' }).collect();
    for (number, name, compression) in [(0, "lz4", Compression::Lz4), (1, "zstd", Compression::Zstd)] {
        let (_, payload) = Compressor::new(compression).compress(&extent.clone().into());
        save("stored_extent", name, &[&[number, 5, 9], &payload[..]].concat())?;
    }
    save("stored_extent", "garbage", &[&[0, 5, 9], &extent[..512]].concat())
}
