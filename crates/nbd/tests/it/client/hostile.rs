//! Servers that break the protocol: the client neither panics nor takes memory that it did not ask for.

use futures_executor::LocalPool;
use futures_util::task::LocalSpawnExt as _;
use nitro_nbd::client::{ClientError, ClientOptions, Connect, Security, open};
use nitro_nbd::protocol::{
    Answered, CHUNK_OFFSET_DATA, Command, Cookie, Headers, InfoItem, OptionCode, OptionReply, Request, put_greeting,
    put_info, put_meta_context, put_offset_data, put_reply, put_simple,
};
use nitro_nbd::transport::memory::{MemoryReader, MemoryWriter, duplex};
use nitro_nbd::transport::{ReadHalf as _, WriteHalf as _};
use nitro_port::Device as _;
use nitro_testkit::VirtualTime;
use proptest::prelude::*;
use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::time::Duration;

/// A server that says what it is told to: first at once, then after the client's first request. After that there is none.
struct Once {
    says: RefCell<Option<[Vec<u8>; 2]>>,
    pool: futures_executor::LocalSpawner,
}

impl Connect for Once {
    type Read = MemoryReader;
    type Write = MemoryWriter;

    async fn connect(&self) -> io::Result<(MemoryReader, MemoryWriter)> {
        let [first, then] = self.says.borrow_mut().take().ok_or(io::ErrorKind::ConnectionRefused)?;
        let (ours, mut theirs) = duplex(4 << 10);
        let speak = async move {
            let _ = theirs.writer.write_all(vec![first.into()]).await;
            let (mut heard, mut then) = (Vec::new(), Some(then));
            let mut buf = nitro_port::buf::BufMut::with_len(4096);
            loop {
                let has_asked = heard.windows(4).any(|word| word == [0x25, 0x60, 0x95, 0x13]);
                if let Some(then) = then.take_if(|then| has_asked || then.is_empty()) {
                    let _ = theirs.writer.write_all(vec![then.into()]).await;
                    theirs.writer.shutdown().await;
                }
                let (read, back) = theirs.reader.read(buf, 0).await;
                buf = back;
                match read {
                    Ok(len @ 1..) => heard.extend_from_slice(&buf[..len]),
                    _ => return,
                }
            }
        };
        self.pool.spawn_local(speak).map_err(io::Error::other)?;
        Ok((ours.reader, ours.writer))
    }
}

/// What the client makes of a server that says `first`, and `then` when it is asked for something: the error of connecting, or after that what a read has got.
fn hear(first: Vec<u8>, then: Vec<u8>) -> Result<Option<Vec<u8>>, ClientError> {
    let mut pool = LocalPool::new();
    let once = Once { says: RefCell::new(Some([first, then])), pool: pool.spawner() };
    let options = ClientOptions::new("disk", "server", Security::Plain);
    let result = Rc::new(RefCell::new(None));
    let (slot, spawner) = (Rc::clone(&result), pool.spawner());
    let talk = async move {
        match open(options, once, VirtualTime::default()).await {
            Err(error) => *slot.borrow_mut() = Some(Err(error)),
            Ok((disk, driver)) => {
                *slot.borrow_mut() = Some(Ok(None));
                spawner.spawn_local(driver.run()).unwrap();
                let read = disk.read(4096, 4096).await.map(|data| data.to_vec()).ok();
                *slot.borrow_mut() = Some(Ok(read));
            }
        }
    };
    pool.spawner().spawn_local(talk).unwrap();
    pool.run_until_stalled();
    let result = result.borrow_mut().take();
    // It waits for what does not come: time stands still here.
    result.unwrap_or(Err(ClientError::Late(Duration::ZERO)))
}

/// A handshake with an export of 1 MiB.
fn handshake() -> bytes::BytesMut {
    let mut out = bytes::BytesMut::new();
    put_greeting(&mut out);
    put_reply(&mut out, OptionCode::StructuredReply, OptionReply::Ack, &[]);
    put_meta_context(&mut out, OptionCode::SetMetaContext, 1, "base:allocation");
    put_reply(&mut out, OptionCode::SetMetaContext, OptionReply::Ack, &[]);
    put_info(&mut out, OptionCode::Go, InfoItem::Export { size_bytes: 1 << 20, flags: 1 | 1 << 2 });
    put_reply(&mut out, OptionCode::Go, OptionReply::Ack, &[]);
    out
}

/// A chunk of data.
fn data(offset: u64, bytes: &[u8], done: bool) -> Vec<u8> {
    let mut out = bytes::BytesMut::new();
    let request = Request { flags: 0, command: Command::Read, cookie: Cookie(1), offset, len: bytes.len() as u64 };
    put_offset_data(&mut out, Answered::new(Headers::Structured, &request), offset, bytes.len() as u32);
    out[5] = done.into();
    assert_eq!(out[7], CHUNK_OFFSET_DATA as u8);
    [&out[..], bytes].concat()
}

#[test]
fn a_read_is_put_together_from_its_parts_and_refused_where_they_do_not_fit() {
    let read = |chunks: &[Vec<u8>]| hear(handshake().to_vec(), chunks.concat()).unwrap();
    let (a, b) = ([1; 1024], [2; 3072]);
    let whole = [a.as_slice(), &b].concat();
    assert_eq!(read(&[data(4096, &whole, true)]), Some(whole.clone()));
    assert_eq!(read(&[data(5120, &b, false), data(4096, &a, true)]), Some(whole));
    // A part is missing, twice there, before the range or behind it.
    for chunks in [
        vec![data(5120, &b, true)],
        vec![data(4096, &a, false), data(4096, &a, false), data(5120, &b, true)],
        vec![data(4000, &a, true)],
        vec![data(8000, &a, true)],
        vec![data(u64::MAX, &a, true)],
        vec![data(4096, &[], true)],
    ] {
        assert_eq!(read(&chunks), None);
    }
    // Not as agreed on, to no request, or announced and not sent.
    let mut simple = bytes::BytesMut::new();
    put_simple(&mut simple, Cookie(1), None);
    assert_eq!(read(&[simple.to_vec(), vec![7; 4096]]), None);
    let mut other = data(4096, &[1; 4096], true);
    other[15] = 9;
    assert_eq!(read(&[other]), None);
    let mut long = data(4096, &[1; 4096], true);
    long[16..20].fill(0xff);
    assert_eq!(read(&[long]), None);
}

#[test]
fn what_is_no_server_is_named() {
    let said = |bytes: &[u8]| hear(bytes.to_vec(), Vec::new()).unwrap_err().to_string();
    assert!(said(b"SSH-2.0-OpenSSH_9.2p1 Debian\r\n").contains("does not speak NBD"));
    assert!(said(b"HTTP").contains("does not speak NBD"));
    assert!(said(b"").contains("closed the connection"));
    assert!(said(b"NBDMAGIC\0\0\x42\x02\x81\x86\x12\x53\0\0").contains("old NBD protocol"));
    let refusal = |reply, message: &str| {
        let mut out = bytes::BytesMut::new();
        put_greeting(&mut out);
        put_reply(&mut out, OptionCode::StructuredReply, OptionReply::Unsupported, &[]);
        put_reply(&mut out, OptionCode::Go, reply, message.as_bytes());
        said(&out)
    };
    assert!(refusal(OptionReply::Unknown, "").contains("no export \"disk\""));
    assert!(refusal(OptionReply::TlsRequired, "").contains("requires TLS"));
    let words = refusal(OptionReply::Policy, "go \u{1b}[31maway");
    assert!(words.contains("go [31maway"), "{words}");
    let mut endless = bytes::BytesMut::new();
    put_greeting(&mut endless);
    (0..1000).for_each(|_| put_reply(&mut endless, OptionCode::StructuredReply, OptionReply::Server, b"x"));
    assert!(said(&endless).contains("too many replies"));
}

/// A server that accepts and says nothing.
#[derive(Default)]
struct Mute(RefCell<Vec<nitro_nbd::transport::memory::MemoryEnd>>);

impl Connect for Mute {
    type Read = MemoryReader;
    type Write = MemoryWriter;

    async fn connect(&self) -> io::Result<(MemoryReader, MemoryWriter)> {
        let (ours, theirs) = duplex(4 << 10);
        self.0.borrow_mut().push(theirs);
        Ok((ours.reader, ours.writer))
    }
}

#[test]
fn a_server_that_says_nothing_is_an_error_in_time() {
    let time = VirtualTime::default();
    let options = ClientOptions::new("disk", "server", Security::Plain);
    let said = time.run(open(options, Mute::default(), time.clone())).err().unwrap().to_string();
    assert_eq!(said, "no answer to the handshake within 10 s");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_an_error_or_an_answer(
        tail in proptest::collection::vec(any::<u8>(), 0..200),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let (mut first, mut then) = (handshake().to_vec(), [data(4096, &[3; 4096], true), tail].concat());
        let at = at.index(first.len() + 100);
        match at.checked_sub(first.len()) {
            None => first[at] = byte,
            Some(at) => then[at] = byte,
        }
        if let Ok(Some(read)) = hear(first, then) {
            prop_assert_eq!(read.len(), 4096);
        }
    }
}
