//! A whole iSCSI connection in memory: the target, a disk of [`EXPORT_BYTES`](crate::nbd::EXPORT_BYTES), an initiator that sends what it is given.

use crate::nbd::{OneExport, STREAM_BYTES, talk};
use bytes::BytesMut;
use nitro_iscsi::protocol::{DIGEST_BYTES, HEADER_BYTES, Header, crc32c, opcode, padding_of, put_pair};
use nitro_iscsi::{ConnectionSummary, Ends, IscsiError, Limits, ServerOptions, serve};
use nitro_nbd::transport::memory::duplex;
use std::future::pending;

/// Small limits, so that short inputs reach them.
pub const LIMITS: Limits = Limits {
    login_requests_max: 4,
    text_bytes_max: 2048,
    tasks_max: 4,
    immediate_max: 2,
    transfer_bytes_max: 64 << 10,
    segment_bytes_max: 8 << 10,
    burst_bytes_max: 8 << 10,
    first_burst_bytes_max: 8 << 10,
};

/// Connects, sends `bytes` in pieces, hangs up; `listen` gets what the target says. Gives how it ended.
///
/// # Panics
/// If the target stands still.
pub fn converse(
    bytes: Vec<u8>,
    piece_bytes: usize,
    listen: impl FnMut(&[u8]) + 'static,
) -> Result<ConnectionSummary, IscsiError> {
    let (ours, theirs) = duplex(STREAM_BYTES);
    let options = ServerOptions { limits: LIMITS, ..ServerOptions::default() };
    let (disks, ends) = (OneExport::new(), Ends { peer: None, portal: None });
    let server = async move { serve(ours.reader, ours.writer, ends, &disks, &options, pending()).await };
    talk(server, theirs, bytes, piece_bytes, listen)
}

/// A PDU.
#[must_use]
pub fn pdu(header: Header, data: &[u8]) -> Vec<u8> {
    let mut bytes = header.with_data(data.len()).0.to_vec();
    bytes.extend(data);
    bytes.resize(bytes.len() + padding_of(data.len()), 0);
    bytes
}

/// The checksums that a session uses.
#[derive(Debug, Clone, Copy, Default)]
pub struct Digests {
    /// A checksum follows each header.
    pub header: bool,
    /// A checksum follows each data segment.
    pub data: bool,
}

impl Digests {
    /// A login that is granted, with these checksums.
    #[must_use]
    pub fn login(self) -> Vec<u8> {
        let value = |used: bool| if used { "CRC32C" } else { "None" };
        let mut text = BytesMut::new();
        put_pair(&mut text, "InitiatorName", "iqn.2026-11.test:i");
        put_pair(&mut text, "TargetName", "iqn.2026-11.nitro:disk");
        put_pair(&mut text, "InitialR2T", "No");
        put_pair(&mut text, "HeaderDigest", value(self.header));
        put_pair(&mut text, "DataDigest", value(self.data));
        pdu(Header::new(opcode::LOGIN | 0x40, 0x87, 0).with(24, 1), &text)
    }

    /// Adds checksums to PDUs that have none. They are right, except for the last one of the PDU with number `wrong`,
    /// from 1 on. A PDU that is not whole gets none.
    #[must_use]
    pub fn add(self, mut bytes: &[u8], wrong: usize) -> Vec<u8> {
        let mut all = Vec::new();
        for number in 1.. {
            let Some(header) = Header::parse(bytes) else { break };
            let len = header.data_bytes() + padding_of(header.data_bytes());
            let Some((head, rest)) = bytes.split_at_checked(HEADER_BYTES + header.additional_bytes()) else { break };
            let Some((data, rest)) = rest.split_at_checked(len) else { break };
            let mut has_digest = false;
            for (part, used) in [(head, self.header), (data, self.data && len > 0)] {
                all.extend(part);
                if used {
                    all.extend(crc32c([part]));
                    has_digest = true;
                }
            }
            if number == wrong
                && has_digest
                && let Some(last) = all.last_mut()
            {
                *last ^= 1;
            }
            bytes = rest;
        }
        all.extend(bytes);
        all
    }
}

/// What the target says after a [login](Digests::login), which is granted.
#[derive(Debug)]
pub struct Answers {
    digests: Digests,
    /// Bytes of a PDU that is not whole yet.
    received: Vec<u8>,
    /// The headers of all PDUs.
    pub headers: Vec<Header>,
}

impl Answers {
    /// Nothing yet, in a session with these checksums.
    #[must_use]
    pub const fn new(digests: Digests) -> Self {
        Self { digests, received: Vec::new(), headers: Vec::new() }
    }

    /// Adds what was received.
    ///
    /// # Panics
    /// If a checksum is wrong, or the login was refused.
    pub fn hear(&mut self, bytes: &[u8]) {
        self.received.extend(bytes);
        let mut rest = &self.received[..];
        while let Some(header) = Header::parse(rest) {
            // The session uses checksums from the PDU after the login response on.
            let digests = if self.headers.is_empty() { Digests::default() } else { self.digests };
            let len = header.data_bytes() + padding_of(header.data_bytes());
            let head_bytes = HEADER_BYTES + if digests.header { DIGEST_BYTES } else { 0 };
            let data_bytes = len + if digests.data && len > 0 { DIGEST_BYTES } else { 0 };
            let Some((pdu, after)) = rest.split_at_checked(head_bytes + data_bytes) else { break };
            let (head, data) = pdu.split_at(head_bytes);
            assert_eq!(
                head[HEADER_BYTES..],
                crc32c([&head[..HEADER_BYTES]])[..head_bytes - HEADER_BYTES],
                "{header:?}"
            );
            assert_eq!(data[len..], crc32c([&data[..len]])[..data_bytes - len], "{header:?}");
            if self.headers.is_empty() {
                assert_eq!((header.opcode(), header.0[36]), (opcode::LOGIN_RESPONSE, 0), "{header:?}");
            }
            self.headers.push(header);
            rest = after;
        }
        let done = self.received.len() - rest.len();
        self.received.drain(..done);
    }
}
