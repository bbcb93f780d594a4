//! A whole iSCSI connection in memory: the target, a disk of [`EXPORT_BYTES`](crate::nbd::EXPORT_BYTES), an initiator that sends what it is given.

use crate::nbd::{OneExport, STREAM_BYTES, talk};
use bytes::BytesMut;
use nitro_iscsi::protocol::{HEADER_BYTES, Header, opcode, padding_of, put_pair};
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

/// A login that is granted.
#[must_use]
pub fn login() -> Vec<u8> {
    let mut text = BytesMut::new();
    put_pair(&mut text, "InitiatorName", "iqn.2026-11.test:i");
    put_pair(&mut text, "TargetName", "iqn.2026-11.nitro:disk");
    put_pair(&mut text, "InitialR2T", "No");
    pdu(Header::new(opcode::LOGIN | 0x40, 0x87, 0).with(24, 1), &text)
}

/// The PDUs of an answer: header and length of data each. What is not whole is left out.
#[must_use]
pub fn headers(mut said: &[u8]) -> Vec<Header> {
    let mut headers = Vec::new();
    while let Some(header) = Header::parse(said) {
        let len = header.data_bytes();
        let Some(rest) = said.get(HEADER_BYTES + len + padding_of(len)..) else { break };
        headers.push(header);
        said = rest;
    }
    headers
}
