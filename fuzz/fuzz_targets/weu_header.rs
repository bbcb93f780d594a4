//! WEU heads and their entry tables: what is accepted lies within the WEU and comes back from its encoding.
//! Input: one byte, how; 48 bytes of a head (the rest of its sector is zero); then the entry table. The byte's bits:
//! 0: magic number, version and checksum of the head are mended; 1: so is the table's checksum; 2: so is the number of
//! entries; 3 to 5: the size of the WEU. Without bit 0, what follows the byte is taken as a WEU as it is.
#![no_main]

use libfuzzer_sys::{Corpus, fuzz_target};
use nitro_engine::format::FORMAT_VERSION;
use nitro_engine::format::weu::{Entry, Head, encode_table};
use nitro_log::crc32c;

const HEAD_BYTES: usize = 512;
const FIELDS_BYTES: usize = 48;
const ENTRY_BYTES: usize = 48;
const CRC_AT: usize = HEAD_BYTES - 4;

fn mended(how: u8, fields: &[u8; FIELDS_BYTES], table: &[u8]) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[..FIELDS_BYTES].copy_from_slice(fields);
    head[..8].copy_from_slice(b"NITROWEU");
    head[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    if how & 4 != 0 {
        head[20..24].copy_from_slice(&((table.len() / ENTRY_BYTES) as u32).to_le_bytes());
    }
    if how & 2 != 0 {
        let table = &table[..table.len() / ENTRY_BYTES * ENTRY_BYTES];
        head[28..32].copy_from_slice(&crc32c(table).to_le_bytes());
    }
    let crc = crc32c(&head[..CRC_AT]);
    head[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
    head
}

fn check(head: &Head, entries: &[Entry], weu_bytes: u32) {
    assert_eq!(entries.len(), head.entries as usize);
    let table_end = u64::from(head.table_offset) + head.table_bytes() as u64;
    assert!(head.table_offset as usize >= HEAD_BYTES && table_end <= weu_bytes.into());
    for entry in entries {
        let (offset, end) = (u64::from(entry.offset), u64::from(entry.offset) + u64::from(entry.stored_bytes));
        match entry.raw {
            false => assert!(offset >= HEAD_BYTES as u64 && end <= head.table_offset.into(), "{entry:?}"),
            true => assert!(offset >= table_end && end <= weu_bytes.into() && offset % 4096 == 0, "{entry:?}"),
        }
    }
    let mut table = vec![0; head.table_bytes()];
    let again = Head { table_crc: encode_table(entries, &mut table), ..*head };
    assert_eq!(again.decode_table(&table, weu_bytes).as_deref(), Ok(entries));
    let mut sector = [0xAA; HEAD_BYTES];
    again.encode(&mut sector);
    assert_eq!(Head::decode(&sector, weu_bytes), Ok(again));
}

fuzz_target!(|data: &[u8]| -> Corpus {
    let Some((&how, bytes)) = data.split_first() else { return Corpus::Reject };
    let weu_bytes = (512 << 10) << (how >> 3 & 7).min(4);
    if how & 1 == 0 {
        if let Ok(head) = Head::decode(bytes, weu_bytes) {
            let table = bytes.get(head.table_offset as usize..).unwrap_or_default();
            if let Ok(entries) = head.decode_table(table, weu_bytes) {
                check(&head, &entries, weu_bytes);
            }
        }
        return Corpus::Keep;
    }
    let Some((fields, table)) = bytes.split_first_chunk() else { return Corpus::Reject };
    if let Ok(head) = Head::decode(&mended(how, fields, table), weu_bytes)
        && let Ok(entries) = head.decode_table(table, weu_bytes)
    {
        check(&head, &entries, weu_bytes);
    }
    Corpus::Keep
});
