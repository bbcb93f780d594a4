//! A client's messages and the server's replies, from the protocol's text rather than the server's constants.

/// Handshake options by number.
pub mod opt {
    #![expect(missing_docs, reason = "the names are the protocol's")]
    pub const EXPORT_NAME: u32 = 1;
    pub const ABORT: u32 = 2;
    pub const LIST: u32 = 3;
    pub const STARTTLS: u32 = 5;
    pub const INFO: u32 = 6;
    pub const GO: u32 = 7;
    pub const STRUCTURED_REPLY: u32 = 8;
    pub const LIST_META_CONTEXT: u32 = 9;
    pub const SET_META_CONTEXT: u32 = 10;
    pub const EXTENDED_HEADERS: u32 = 11;
}

/// Commands by number.
pub mod cmd {
    #![expect(missing_docs, reason = "the names are the protocol's")]
    pub const READ: u16 = 0;
    pub const WRITE: u16 = 1;
    pub const DISC: u16 = 2;
    pub const FLUSH: u16 = 3;
    pub const TRIM: u16 = 4;
    pub const CACHE: u16 = 5;
    pub const WRITE_ZEROES: u16 = 6;
    pub const BLOCK_STATUS: u16 = 7;
}

/// The client's flags: fixed newstyle, no zeroes.
pub const CLIENT_FLAGS: [u8; 4] = [0, 0, 0, 3];
/// Bytes of the server's greeting.
pub const GREETING_BYTES: usize = 18;
/// The reply type that ends a good option.
pub const ACK: u32 = 1;
/// Reply types with this bit are refusals.
pub const ERROR: u32 = 1 << 31;

/// A handshake option.
#[must_use]
pub fn option(code: u32, payload: &[u8]) -> Vec<u8> {
    [b"IHAVEOPT", &code.to_be_bytes()[..], &(payload.len() as u32).to_be_bytes(), payload].concat()
}

/// The payload of `INFO` and `GO`.
#[must_use]
pub fn info_payload(name: &[u8], items: &[u16]) -> Vec<u8> {
    let mut bytes = [&(name.len() as u32).to_be_bytes()[..], name].concat();
    bytes.extend((items.len() as u16).to_be_bytes());
    items.iter().for_each(|item| bytes.extend(item.to_be_bytes()));
    bytes
}

/// The payload of `LIST_META_CONTEXT` and `SET_META_CONTEXT`.
#[must_use]
pub fn meta_payload(name: &[u8], queries: &[&[u8]]) -> Vec<u8> {
    let mut bytes = [&(name.len() as u32).to_be_bytes()[..], name].concat();
    bytes.extend((queries.len() as u32).to_be_bytes());
    for query in queries {
        bytes.extend((query.len() as u32).to_be_bytes());
        bytes.extend(*query);
    }
    bytes
}

/// A request's header.
#[must_use]
pub fn request(flags: u16, command: u16, cookie: u64, offset: u64, len: u32) -> Vec<u8> {
    let mut bytes = 0x2560_9513_u32.to_be_bytes().to_vec();
    bytes.extend(flags.to_be_bytes());
    bytes.extend(command.to_be_bytes());
    bytes.extend(cookie.to_be_bytes());
    bytes.extend(offset.to_be_bytes());
    bytes.extend(len.to_be_bytes());
    bytes
}

/// An extended request's header.
#[must_use]
pub fn extended_request(flags: u16, command: u16, cookie: u64, offset: u64, len: u64) -> Vec<u8> {
    let mut bytes = 0x21e4_1c71_u32.to_be_bytes().to_vec();
    bytes.extend(flags.to_be_bytes());
    bytes.extend(command.to_be_bytes());
    [cookie, offset, len].iter().for_each(|number| bytes.extend(number.to_be_bytes()));
    bytes
}

/// What is left of the server's output. Numbers panic when it is cut short: a server sends whole messages.
pub struct Output<'a>(pub &'a [u8]);

impl<'a> Output<'a> {
    /// The next `len` bytes.
    pub fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at_checked(len).expect("the server's message is cut short");
        self.0 = rest;
        taken
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        self.take(N).try_into().expect("N bytes were taken")
    }

    /// The next two bytes.
    pub fn be16(&mut self) -> u16 {
        u16::from_be_bytes(self.array())
    }

    /// The next four bytes.
    pub fn be32(&mut self) -> u32 {
        u32::from_be_bytes(self.array())
    }

    /// The next eight bytes.
    pub fn be64(&mut self) -> u64 {
        u64::from_be_bytes(self.array())
    }

    /// All replies to one option; gives the type of the last. `None` if the output ends before the first.
    pub fn option_result(&mut self, code: u32) -> Option<u32> {
        let mut replies = 0;
        while !self.0.is_empty() {
            assert_eq!(self.be64(), 0x0003_e889_0455_65a9, "magic of an option's reply");
            assert_eq!(self.be32(), code, "the option replied to");
            let kind = self.be32();
            let len = self.be32() as usize;
            self.take(len);
            if kind == ACK || kind & ERROR != 0 {
                return Some(kind);
            }
            replies += 1;
        }
        assert_eq!(replies, 0, "an option's last reply is missing");
        None
    }
}
