//! Handshakes of sensible options with errors in them: each option is answered, in order and under its own number.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use nitro_fuzz::nbd::{EXPORT_NAME, converse};
use nitro_fuzz::wire::{ACK, CLIENT_FLAGS, GREETING_BYTES, Output, info_payload, meta_payload, opt, option};
use std::cell::RefCell;
use std::rc::Rc;

#[derive(Arbitrary, Debug)]
struct Handshake<'a> {
    no_zeroes: bool,
    piece_bytes: u8,
    options: Vec<ClientOption<'a>>,
    tail: &'a [u8],
}

#[derive(Arbitrary, Debug)]
enum ClientOption<'a> {
    ExportName(Name<'a>),
    Abort,
    List,
    StartTls,
    Info(Name<'a>, Vec<u16>, Spoil),
    Go(Name<'a>, Vec<u16>, Spoil),
    StructuredReply,
    ExtendedHeaders,
    ListMeta(Name<'a>, Vec<Query<'a>>, Spoil),
    SetMeta(Name<'a>, Vec<Query<'a>>, Spoil),
    Any(u8, &'a [u8]),
    TooLong(u8),
}

#[derive(Arbitrary, Debug)]
enum Name<'a> {
    Right,
    Default,
    Long,
    Other(&'a [u8]),
}

#[derive(Arbitrary, Debug)]
enum Query<'a> {
    Allocation,
    Cache,
    Namespace,
    Other(&'a [u8]),
}

/// What is wrong with a payload.
#[derive(Arbitrary, Debug)]
enum Spoil {
    Nothing,
    Cut(u8),
    Longer(u8),
    Byte(u8, u8),
}

impl Name<'_> {
    fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Right => EXPORT_NAME.into(),
            Self::Default => Vec::new(),
            Self::Long => vec![b'n'; 4097],
            Self::Other(bytes) => bytes.to_vec(),
        }
    }
}

impl Query<'_> {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Allocation => b"base:allocation",
            Self::Cache => b"nitro:cache",
            Self::Namespace => b"base:",
            Self::Other(bytes) => bytes,
        }
    }
}

impl Spoil {
    fn apply(&self, mut payload: Vec<u8>) -> Vec<u8> {
        match *self {
            Self::Nothing => {}
            Self::Cut(bytes) => payload.truncate(payload.len().saturating_sub(bytes.into())),
            Self::Longer(bytes) => payload.resize(payload.len() + usize::from(bytes), 7),
            Self::Byte(at, value) => {
                let len = payload.len().max(1);
                if let Some(byte) = payload.get_mut(usize::from(at) % len) {
                    *byte = value;
                }
            }
        }
        payload
    }
}

impl ClientOption<'_> {
    /// Its number and payload.
    fn wire(&self) -> (u32, Vec<u8>) {
        let info = |name: &Name<'_>, items: &[u16], spoil: &Spoil| spoil.apply(info_payload(&name.bytes(), items));
        let meta = |name: &Name<'_>, queries: &[Query<'_>], spoil: &Spoil| {
            let queries: Vec<_> = queries.iter().map(Query::bytes).collect();
            spoil.apply(meta_payload(&name.bytes(), &queries))
        };
        match self {
            Self::ExportName(name) => (opt::EXPORT_NAME, name.bytes()),
            Self::Abort => (opt::ABORT, Vec::new()),
            Self::List => (opt::LIST, Vec::new()),
            Self::StartTls => (opt::STARTTLS, Vec::new()),
            Self::Info(name, items, spoil) => (opt::INFO, info(name, items, spoil)),
            Self::Go(name, items, spoil) => (opt::GO, info(name, items, spoil)),
            Self::StructuredReply => (opt::STRUCTURED_REPLY, Vec::new()),
            Self::ExtendedHeaders => (opt::EXTENDED_HEADERS, Vec::new()),
            Self::ListMeta(name, queries, spoil) => (opt::LIST_META_CONTEXT, meta(name, queries, spoil)),
            Self::SetMeta(name, queries, spoil) => (opt::SET_META_CONTEXT, meta(name, queries, spoil)),
            Self::Any(code, payload) => ((*code).into(), payload.to_vec()),
            Self::TooLong(code) => ((*code).into(), vec![0; 3000]),
        }
    }
}

fuzz_target!(|handshake: Handshake<'_>| {
    let options: Vec<_> = handshake.options.iter().map(ClientOption::wire).collect();
    let mut bytes = CLIENT_FLAGS.to_vec();
    bytes[3] = 1 + 2 * u8::from(handshake.no_zeroes);
    options.iter().for_each(|(code, payload)| bytes.extend(option(*code, payload)));
    bytes.extend(handshake.tail);

    let said = Rc::new(RefCell::new(Vec::new()));
    let heard = Rc::clone(&said);
    let ended = converse(bytes, handshake.piece_bytes.into(), move |bytes| heard.borrow_mut().extend(bytes));
    let said = said.take();
    let mut output = Output(&said);
    output.take(GREETING_BYTES);
    for (code, _) in options {
        if code == opt::EXPORT_NAME {
            return;
        }
        let Some(result) = output.option_result(code) else {
            assert!(ended.is_err(), "option {code} is not answered, and yet all was well: {ended:?}");
            return;
        };
        if matches!((code, result), (opt::ABORT, _) | (opt::GO, ACK)) {
            return;
        }
    }
});
