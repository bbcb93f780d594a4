//! Commands, in order or not, with all data that they announce: each within the window is answered once, under its tag.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use nitro_fuzz::iscsi::{Answers, Digests, converse, pdu};
use nitro_iscsi::protocol::{Header, opcode};
use std::cell::RefCell;
use std::collections::HashSet;
use std::rc::Rc;

#[derive(Arbitrary, Debug)]
struct Talk {
    header_digests: bool,
    data_digests: bool,
    piece_bytes: u16,
    commands: Vec<Order>,
}

#[derive(Arbitrary, Debug)]
struct Order {
    opcode: u8,
    rest: [u8; 15],
    reads: bool,
    data: Vec<u8>,
}

/// Opcodes that are known: others are tried, too, but seldom.
const KNOWN: [u8; 40] = [
    0x00, 0x03, 0x08, 0x0a, 0x12, 0x15, 0x16, 0x17, 0x1a, 0x1b, 0x1e, 0x25, 0x28, 0x2a, 0x2e, 0x2f, 0x34, 0x35, 0x41,
    0x42, 0x55, 0x5a, 0x5e, 0x5f, 0x88, 0x89, 0x8a, 0x8e, 0x8f, 0x90, 0x91, 0x93, 0x9e, 0xa0, 0xa3, 0xa8, 0xaa, 0xae,
    0xaf, 0xff,
];

fuzz_target!(|talk: Talk| {
    let digests = Digests { header: talk.header_digests, data: talk.data_digests };
    let mut bytes = digests.login();
    for (number, order) in (1..).zip(talk.commands.iter().take(4)) {
        let data = &order.data[..order.data.len().min(8 << 10)];
        let flags = 0x80 | if order.reads { 0x40 } else { 0 } | if data.is_empty() { 0 } else { 0x20 };
        let mut header = Header::new(opcode::SCSI_COMMAND, flags, number).with(20, data.len() as u32).with(24, number);
        header.0[32] = KNOWN[usize::from(order.opcode) % KNOWN.len()];
        header.0[33..].copy_from_slice(&order.rest);
        bytes.extend(digests.add(&pdu(header, data), 0));
    }
    let count = talk.commands.len().min(4);
    let answers = Rc::new(RefCell::new(Answers::new(digests)));
    let heard = Rc::clone(&answers);
    let ended = converse(bytes, talk.piece_bytes.into(), move |bytes| heard.borrow_mut().hear(bytes));
    assert!(ended.is_ok(), "{ended:?}");
    let mut answered = HashSet::new();
    for header in &answers.borrow().headers {
        let ends = match header.opcode() {
            opcode::SCSI_RESPONSE => true,
            opcode::DATA_IN => header.flags() & 1 != 0,
            opcode::LOGIN_RESPONSE => false,
            other => panic!("opcode {other:#x}"),
        };
        if ends {
            assert!(answered.insert(header.tag()), "{header:?} is a second answer");
        }
    }
    assert_eq!(answered.len(), count);
});
