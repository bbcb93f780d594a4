//! Requests, in order or not: each is answered once, under its cookie; reads give their length, and the right bytes
//! where nothing was written.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use nitro_fuzz::nbd::{EXPORT_BYTES, EXPORT_NAME, converse, pattern};
use nitro_fuzz::wire::{
    ACK, CLIENT_FLAGS, GREETING_BYTES, Output, cmd, extended_request, info_payload, meta_payload, opt, option, request,
};
use std::cell::RefCell;
use std::rc::Rc;

const REQUESTS_MAX: usize = 64;

#[derive(Arbitrary, Debug)]
struct Talk {
    structured: bool,
    extended: bool,
    contexts: bool,
    piece_bytes: u16,
    requests: Vec<Order>,
}

#[derive(Arbitrary, Debug)]
struct Order {
    command: u8,
    flags: u8,
    offset: Offset,
    len: Len,
}

#[derive(Arbitrary, Debug)]
enum Offset {
    Inside(u16),
    NearEnd(i8),
    Any(u64),
}

#[derive(Arbitrary, Debug)]
enum Len {
    Short(u8),
    Medium(u16),
    Any(u32),
    /// Of an extended request.
    Long(u64),
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    command: u16,
    offset: u64,
    len: u64,
}

/// The flag of an extended request that has a payload.
const PAYLOAD: u8 = 1 << 5;

impl Order {
    fn sent(&self, extended: bool) -> Sent {
        let command = u16::from(self.command % 9);
        let offset = match self.offset {
            Offset::Inside(at) => u64::from(at) % EXPORT_BYTES as u64,
            Offset::NearEnd(by) => (EXPORT_BYTES as u64).saturating_add_signed(by.into()),
            Offset::Any(at) => at,
        };
        let len = match self.len {
            Len::Short(len) => len.into(),
            Len::Medium(len) => len.into(),
            Len::Any(len) => len.into(),
            Len::Long(len) if extended => len,
            Len::Long(len) => len % (1 << 32),
        };
        // A payload of that length must follow, and one above the limit would rightly end the connection.
        let len = if command == cmd::WRITE || extended && self.flags & PAYLOAD != 0 { len % 24_000 } else { len };
        Sent { command, offset, len }
    }
}

/// The handshake's options, all of which the server grants.
fn options(talk: &Talk) -> Vec<(u32, Vec<u8>)> {
    let mut options = Vec::new();
    if talk.structured || talk.extended {
        options.push((if talk.extended { opt::EXTENDED_HEADERS } else { opt::STRUCTURED_REPLY }, Vec::new()));
        if talk.contexts {
            let queries: [&[u8]; 2] = [b"base:allocation", b"nitro:cache"];
            options.push((opt::SET_META_CONTEXT, meta_payload(EXPORT_NAME.as_bytes(), &queries)));
        }
    }
    options.push((opt::GO, info_payload(EXPORT_NAME.as_bytes(), &[])));
    options
}

/// What is known of a request's answer so far.
#[derive(Clone, Copy, Default)]
struct Answer {
    done: bool,
    failed: bool,
    data_bytes: u64,
}

struct Replies<'a> {
    output: Output<'a>,
    sent: &'a [Sent],
    extended: bool,
    answers: Vec<Answer>,
    /// Whether reads must give the pattern.
    untouched: bool,
}

impl Replies<'_> {
    fn check(&mut self) {
        while !self.output.0.is_empty() {
            match self.output.be32() {
                0x6744_6698 if !self.extended => self.simple(),
                0x668e_33ef if !self.extended => self.chunk(),
                0x6e8a_278c if self.extended => self.chunk(),
                other => panic!("magic {other:#010x} of a reply"),
            }
        }
        for (sent, answer) in self.sent.iter().zip(&self.answers) {
            assert!(answer.done, "{sent:?} is not answered");
            let whole = sent.command != cmd::READ || answer.failed || answer.data_bytes == sent.len;
            assert!(whole, "{sent:?} gave {} bytes", answer.data_bytes);
        }
    }

    fn at(&mut self, cookie: u64) -> (Sent, Answer) {
        let index = cookie as usize;
        let sent = *self.sent.get(index).expect("the cookie of a request");
        assert!(!self.answers[index].done, "{sent:?} is answered twice");
        (sent, self.answers[index])
    }

    fn simple(&mut self) {
        let (error, cookie) = (self.output.be32(), self.output.be64());
        let (sent, mut answer) = self.at(cookie);
        (answer.done, answer.failed) = (true, error != 0);
        if error == 0 && sent.command == cmd::READ {
            self.data(sent.offset, sent.len, &mut answer);
        }
        self.answers[cookie as usize] = answer;
    }

    fn chunk(&mut self) {
        let (flags, kind) = (self.output.be16(), self.output.be16());
        let cookie = self.output.be64();
        let (sent, mut answer) = self.at(cookie);
        let len = if self.extended {
            assert_eq!(self.output.be64(), sent.offset, "the offset of {sent:?}");
            self.output.be64()
        } else {
            self.output.be32().into()
        };
        answer.done = flags & 1 != 0;
        match (kind, sent.command) {
            (0, _) => assert!(len == 0 && answer.done, "an empty chunk ends its reply"),
            (1, cmd::READ) => {
                let offset = self.output.be64();
                assert!(offset >= sent.offset && len > 8, "{sent:?} gave {offset}");
                self.data(offset, len - 8, &mut answer);
            }
            (5 | 6, cmd::BLOCK_STATUS) => {
                assert_eq!(kind == 6, self.extended);
                self.block_status(sent, len);
            }
            (0x8001, _) => {
                answer.failed = true;
                let error = self.output.be32();
                let text = self.output.be16();
                self.output.take(text.into());
                assert!(error != 0 && len == u64::from(text) + 6, "error chunk of {sent:?}");
            }
            (kind, _) => panic!("chunk type {kind} for {sent:?}"),
        }
        self.answers[cookie as usize] = answer;
    }

    fn data(&mut self, offset: u64, len: u64, answer: &mut Answer) {
        let data = self.output.take(len as usize);
        let right = data.iter().zip(offset as usize..).all(|(byte, at)| *byte == pattern(at));
        assert!(right || !self.untouched, "wrong bytes from {offset}+{len}");
        answer.data_bytes += len;
    }

    fn block_status(&mut self, sent: Sent, len: u64) {
        self.output.be32();
        let count = if self.extended { self.output.be32().into() } else { len / 8 };
        assert!(
            count > 0 && len == if self.extended { 8 + 16 * count } else { 4 + 8 * count },
            "{len} bytes of block status"
        );
        let mut bytes = 0;
        for _ in 0..count {
            let (run, _) = match self.extended {
                true => (self.output.be64(), self.output.be64()),
                false => (self.output.be32().into(), self.output.be32().into()),
            };
            assert_ne!(run, 0, "an empty run");
            bytes += run;
        }
        assert!(bytes <= sent.len, "{sent:?} told of {bytes} bytes");
    }
}

fuzz_target!(|talk: Talk| {
    let options = options(&talk);
    let mut bytes = CLIENT_FLAGS.to_vec();
    options.iter().for_each(|(code, payload)| bytes.extend(option(*code, payload)));
    let mut sent = Vec::new();
    for (cookie, order) in talk.requests.iter().take(REQUESTS_MAX).enumerate() {
        let Sent { command, offset, len } = order.sent(talk.extended);
        let flags = u16::from(order.flags);
        bytes.extend(match talk.extended {
            true => extended_request(flags, command, cookie as u64, offset, len),
            false => request(flags, command, cookie as u64, offset, len as u32),
        });
        if command == cmd::DISC {
            break;
        }
        if command == cmd::WRITE || talk.extended && order.flags & PAYLOAD != 0 {
            bytes.resize(bytes.len() + len as usize, 9);
        }
        sent.push(Sent { command, offset, len });
    }

    let said = Rc::new(RefCell::new(Vec::new()));
    let heard = Rc::clone(&said);
    let ended = converse(bytes, talk.piece_bytes.into(), move |bytes| heard.borrow_mut().extend(bytes));
    let summary = ended.expect("the client kept to the protocol");
    assert_eq!(summary.requests, sent.len() as u64);
    let said = said.take();
    let mut output = Output(&said);
    output.take(GREETING_BYTES);
    for (code, _) in options {
        assert_eq!(output.option_result(code), Some(ACK), "option {code}");
    }
    let untouched = !sent.iter().any(|sent| matches!(sent.command, cmd::WRITE | cmd::WRITE_ZEROES));
    Replies { output, sent: &sent, extended: talk.extended, answers: vec![Answer::default(); sent.len()], untouched }
        .check();
});
