//! A client written from the protocol's text, with numbers of its own rather than the server's constants.

use super::stream::Stream;
use std::collections::HashMap;

pub struct Client<S> {
    pub stream: S,
    pub structured: bool,
    /// Requests and chunks have lengths of 64 bits.
    pub extended: bool,
    next_cookie: u64,
}

/// A reply to an option: its type and payload.
pub type OptionReply = (u32, Vec<u8>);

/// What a command was answered: an error number or 0, the data of a read, and the chunks of any reply.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Answer {
    pub error: u32,
    pub data: Vec<u8>,
    /// Type and payload of each.
    pub chunks: Vec<(u16, Vec<u8>)>,
    pub message: String,
}

pub const ACK: u32 = 1;
pub const ERROR: u32 = 1 << 31;

pub fn option(code: u32, payload: &[u8]) -> Vec<u8> {
    [b"IHAVEOPT", &code.to_be_bytes()[..], &(payload.len() as u32).to_be_bytes(), payload].concat()
}

pub fn info_payload(name: &str, items: &[u16]) -> Vec<u8> {
    let mut bytes = [&(name.len() as u32).to_be_bytes()[..], name.as_bytes()].concat();
    bytes.extend((items.len() as u16).to_be_bytes());
    items.iter().for_each(|item| bytes.extend(item.to_be_bytes()));
    bytes
}

pub fn meta_payload(name: &str, queries: &[&str]) -> Vec<u8> {
    let mut bytes = [&(name.len() as u32).to_be_bytes()[..], name.as_bytes()].concat();
    bytes.extend((queries.len() as u32).to_be_bytes());
    for query in queries {
        bytes.extend((query.len() as u32).to_be_bytes());
        bytes.extend(query.as_bytes());
    }
    bytes
}

pub fn request(flags: u16, command: u16, cookie: u64, offset: u64, len: u32) -> Vec<u8> {
    let mut bytes = 0x2560_9513_u32.to_be_bytes().to_vec();
    bytes.extend(flags.to_be_bytes());
    bytes.extend(command.to_be_bytes());
    bytes.extend(cookie.to_be_bytes());
    bytes.extend(offset.to_be_bytes());
    bytes.extend(len.to_be_bytes());
    bytes
}

pub fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(bytes[at..at + 2].try_into().unwrap())
}

pub fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap())
}

pub fn be64(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(bytes[at..at + 8].try_into().unwrap())
}

pub fn extended_request(flags: u16, command: u16, cookie: u64, offset: u64, len: u64) -> Vec<u8> {
    let mut bytes = 0x21e4_1c71_u32.to_be_bytes().to_vec();
    bytes.extend(flags.to_be_bytes());
    bytes.extend(command.to_be_bytes());
    [cookie, offset, len].iter().for_each(|number| bytes.extend(number.to_be_bytes()));
    bytes
}

impl<S: Stream> Client<S> {
    /// Exchanges greetings with both handshake flags.
    pub async fn greet(mut stream: S) -> Self {
        let greeting = stream.receive(18).await.unwrap();
        assert_eq!(&greeting[..16], b"NBDMAGICIHAVEOPT");
        assert_eq!(be16(&greeting, 16), 3);
        stream.send(&3u32.to_be_bytes()).await.unwrap();
        Self::over(stream)
    }

    /// Goes on over a stream whose greetings were exchanged.
    pub fn over(stream: S) -> Self {
        Self { stream, structured: false, extended: false, next_cookie: 1 }
    }

    /// Sends an option; gives its replies up to the last.
    pub async fn option(&mut self, code: u32, payload: &[u8]) -> Vec<OptionReply> {
        self.stream.send(&option(code, payload)).await.unwrap();
        self.option_replies(code).await
    }

    pub async fn option_replies(&mut self, code: u32) -> Vec<OptionReply> {
        let mut replies = Vec::new();
        loop {
            let header = self.stream.receive(20).await.expect("a reply to the option");
            assert_eq!(be64(&header, 0), 0x0003_e889_0455_65a9);
            assert_eq!(be32(&header, 8), code);
            let kind = be32(&header, 12);
            replies.push((kind, self.stream.receive(be32(&header, 16) as usize).await.unwrap()));
            if kind == ACK || kind & ERROR != 0 {
                return replies;
            }
        }
    }

    /// The last reply's type.
    pub async fn option_result(&mut self, code: u32, payload: &[u8]) -> u32 {
        self.option(code, payload).await.last().unwrap().0
    }

    pub async fn use_structured(&mut self) {
        assert_eq!(self.option_result(8, &[]).await, ACK);
        self.structured = true;
    }

    pub async fn use_extended(&mut self) {
        assert_eq!(self.option_result(11, &[]).await, ACK);
        (self.structured, self.extended) = (true, true);
    }

    /// `NBD_OPT_GO`; gives size and transmission flags.
    pub async fn go(&mut self, name: &str) -> (u64, u16) {
        let replies = self.option(7, &info_payload(name, &[])).await;
        assert_eq!(replies.len(), 2, "{replies:?}");
        let export = &replies[0].1;
        assert_eq!((be16(export, 0), replies[1].0), (0, ACK));
        (be64(export, 2), be16(export, 10))
    }

    /// Sends a request without waiting; gives its cookie.
    pub async fn send(&mut self, flags: u16, command: u16, offset: u64, len: u32, payload: &[u8]) -> u64 {
        let cookie = self.next_cookie;
        self.next_cookie += 1;
        let header = match self.extended {
            // A write's length is that of its payload.
            true => extended_request(flags | u16::from(command == 1) << 5, command, cookie, offset, len.into()),
            false => request(flags, command, cookie, offset, len),
        };
        self.stream.send(&[&header, payload].concat()).await.unwrap();
        cookie
    }

    /// One extended request of any length, and its reply.
    pub async fn ask_long(&mut self, flags: u16, command: u16, offset: u64, len: u64, payload: &[u8]) -> Answer {
        let cookie = self.next_cookie;
        self.next_cookie += 1;
        let header = extended_request(flags, command, cookie, offset, len);
        self.stream.send(&[&header, payload].concat()).await.unwrap();
        let (got, answer) = self.answer(&HashMap::from([(cookie, 0)])).await.expect("a reply");
        assert_eq!(got, cookie);
        answer
    }

    /// One request and its reply.
    pub async fn ask(&mut self, flags: u16, command: u16, offset: u64, len: u32, payload: &[u8]) -> Answer {
        let cookie = self.send(flags, command, offset, len, payload).await;
        let lens = HashMap::from([(cookie, if command == 0 { len } else { 0 })]);
        let (got, answer) = self.answer(&lens).await.expect("a reply");
        assert_eq!(got, cookie);
        answer
    }

    /// The next reply, to any request. `lens` has the length of each read.
    pub async fn answer(&mut self, lens: &HashMap<u64, u32>) -> Option<(u64, Answer)> {
        let mut answer = Answer::default();
        loop {
            let header = self.stream.receive(16).await?;
            let cookie = be64(&header, 8);
            let read_len = *lens.get(&cookie).expect("a reply to a request");
            if be32(&header, 0) == 0x6744_6698 {
                assert!(!(self.structured && read_len > 0 || self.extended), "answered in chunks");
                answer.error = be32(&header, 4);
                if answer.error == 0 {
                    answer.data = self.stream.receive(read_len as usize).await.unwrap();
                }
                return Some((cookie, answer));
            }
            let (flags, kind) = (be16(&header, 4), be16(&header, 6));
            let len = if self.extended {
                assert_eq!(be32(&header, 0), 0x6e8a_278c);
                be64(&self.stream.receive(16).await.unwrap(), 8) as usize
            } else {
                assert!(be32(&header, 0) == 0x668e_33ef && self.structured);
                be32(&self.stream.receive(4).await.unwrap(), 0) as usize
            };
            let payload = self.stream.receive(len).await.unwrap();
            match kind {
                0 => assert!(payload.is_empty() && flags == 1),
                1 => answer.data.extend(&payload[8..]),
                5 | 6 => assert_eq!(kind == 6, self.extended),
                0x8001 => {
                    answer.error = be32(&payload, 0);
                    assert_eq!(be16(&payload, 4) as usize, payload.len() - 6);
                    answer.message = String::from_utf8(payload[6..].to_vec()).unwrap();
                }
                other => panic!("chunk type {other}"),
            }
            answer.chunks.push((kind, payload));
            if flags & 1 != 0 {
                return Some((cookie, answer));
            }
        }
    }

    pub async fn disconnect(&mut self) {
        self.send(0, 2, 0, 0, &[]).await;
        assert!(self.stream.receive(1).await.is_none(), "nothing follows the client's leave");
    }
}
