//! Any bytes from an initiator, before or after its login: the target ends, does not panic, and stays within its limits of memory; its
//! answers have right checksums.
//! Input: a byte, whose lowest bit says whether the initiator logs in first; then, bit 1 is for checksums of headers, bit 2 for those of
//! data, and the upper five bits are the number of a PDU whose checksum is wrong. Two bytes: how many bytes the initiator sends at a
//! time. Then what it sends, to which checksums are added.
#![no_main]

use libfuzzer_sys::{Corpus, fuzz_target};
use nitro_fuzz::gauge;
use nitro_fuzz::iscsi::{Answers, Digests, converse};

/// Above the input: the streams hold bytes, the receive and send buffers, data of commands.
const MEMORY_BYTES_MAX: usize = 2 << 20;

fuzz_target!(|data: &[u8]| -> Corpus {
    let Some((&[mode, low, high], bytes)) = data.split_first_chunk() else { return Corpus::Reject };
    let piece_bytes = usize::from(u16::from_le_bytes([low, high]));
    let logs_in = mode & 1 != 0;
    let digests = Digests { header: mode & 2 != 0, data: mode & 4 != 0 };
    let all =
        if logs_in { [digests.login(), digests.add(bytes, usize::from(mode >> 3))].concat() } else { bytes.to_vec() };
    let len = all.len();
    let mut answers = Answers::new(digests);
    let hear = move |said: &[u8]| {
        if logs_in {
            answers.hear(said);
        }
    };
    let (_, peak) = gauge::peak_bytes(|| converse(all, piece_bytes, hear));
    assert!(peak < len + MEMORY_BYTES_MAX, "{peak} bytes of memory");
    Corpus::Keep
});
