//! Negotiation of the operational keys (RFC 7143 §13).

use super::{Refusal, Status};
use crate::limits::Limits;
use crate::protocol::{Digest, Pairs, put_pair};
use bytes::BytesMut;

/// The negotiated values; initially the defaults of the standard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Params {
    pub(crate) header_digest: Digest,
    pub(crate) data_digest: Digest,
    /// A command may have no unsolicited data except immediate data.
    pub(crate) initial_r2t: bool,
    pub(crate) immediate_data: bool,
    /// Longest data segment that the initiator receives, in bytes.
    pub(crate) segment_bytes: u32,
    pub(crate) burst_bytes: u32,
    pub(crate) first_burst_bytes: u32,
    is_declared: bool,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            header_digest: Digest::None,
            data_digest: Digest::None,
            initial_r2t: true,
            immediate_data: true,
            segment_bytes: 8192,
            burst_bytes: 256 << 10,
            first_burst_bytes: 64 << 10,
            is_declared: false,
        }
    }
}

/// Keys that `negotiate` skips: declarations, and keys that other code evaluates.
const DECLARED: [&str; 14] = [
    "InitiatorName",
    "InitiatorAlias",
    "TargetName",
    "TargetAlias",
    "TargetAddress",
    "SessionType",
    "AuthMethod",
    "CHAP_A",
    "CHAP_I",
    "CHAP_C",
    "CHAP_N",
    "CHAP_R",
    "SendTargets",
    "TargetPortalGroupTag",
];

/// Answers the keys that the initiator offers.
pub(super) fn negotiate(
    pairs: &Pairs<'_>,
    is_operational: bool,
    limits: &Limits,
    params: &mut Params,
    out: &mut BytesMut,
) -> Result<(), Refusal> {
    for (key, value) in pairs.iter().filter(|(key, _)| !DECLARED.contains(key)) {
        if is_answer(value) {
            continue;
        }
        let answer =
            answer(key, value, limits, params).ok_or((Status::INITIATOR_ERROR, "a key has an invalid value"))?;
        if let Some(answer) = answer {
            put_pair(out, key, &answer);
        }
    }
    if is_operational && !params.is_declared {
        params.is_declared = true;
        put_pair(out, "MaxRecvDataSegmentLength", &limits.segment_bytes_max.to_string());
    }
    params.first_burst_bytes = params.first_burst_bytes.min(params.burst_bytes);
    Ok(())
}

/// Whether a value is an answer to an offer. The target makes no offers, so that answers are ignored.
fn is_answer(value: &str) -> bool {
    matches!(value, "NotUnderstood" | "Irrelevant" | "Reject")
}

/// The answer to one key. `None`: the value is invalid; `Some(None)`: the key gets no answer.
fn answer(key: &str, value: &str, limits: &Limits, params: &mut Params) -> Option<Option<String>> {
    let yes_no = |value: bool| Some(if value { "Yes" } else { "No" }.to_owned());
    Some(match key {
        "HeaderDigest" => Some(digest(value, &mut params.header_digest)),
        "DataDigest" => Some(digest(value, &mut params.data_digest)),
        "MaxRecvDataSegmentLength" => {
            params.segment_bytes = number(value, 512, (1 << 24) - 1)?;
            None
        }
        "MaxBurstLength" => {
            params.burst_bytes = number(value, 512, (1 << 24) - 1)?.min(limits.burst_bytes_max);
            Some(params.burst_bytes.to_string())
        }
        "FirstBurstLength" => {
            params.first_burst_bytes = number(value, 512, (1 << 24) - 1)?.min(limits.first_burst_bytes_max);
            Some(params.first_burst_bytes.to_string())
        }
        "InitialR2T" => {
            params.initial_r2t = boolean(value)?;
            yes_no(params.initial_r2t)
        }
        "ImmediateData" => {
            params.immediate_data = boolean(value)?;
            yes_no(params.immediate_data)
        }
        "DataPDUInOrder" | "DataSequenceInOrder" => {
            boolean(value)?;
            yes_no(true)
        }
        "IFMarker" | "OFMarker" => {
            boolean(value)?;
            yes_no(false)
        }
        "IFMarkInt" | "OFMarkInt" => Some("Irrelevant".to_owned()),
        "MaxConnections" | "MaxOutstandingR2T" => {
            number(value, 1, 65535)?;
            Some("1".to_owned())
        }
        "iSCSIProtocolLevel" => {
            number(value, 0, 31)?;
            Some("1".to_owned())
        }
        "DefaultTime2Wait" => Some(number(value, 0, 3600)?.to_string()),
        "DefaultTime2Retain" => {
            number(value, 0, 3600)?;
            Some("0".to_owned())
        }
        "ErrorRecoveryLevel" => {
            number(value, 0, 2)?;
            Some("0".to_owned())
        }
        "TaskReporting" => Some("RFC3720".to_owned()),
        _ => Some("NotUnderstood".to_owned()),
    })
}

/// Chooses the first supported digest of a list.
fn digest(offered: &str, chosen: &mut Digest) -> String {
    for one in offered.split(',') {
        let known = match one {
            "None" => Digest::None,
            "CRC32C" => Digest::Crc32c,
            _ => continue,
        };
        *chosen = known;
        return one.to_owned();
    }
    "Reject".to_owned()
}

fn boolean(value: &str) -> Option<bool> {
    match value {
        "Yes" => Some(true),
        "No" => Some(false),
        _ => None,
    }
}

/// A number, decimal or hexadecimal (§6.1), within its key's range.
fn number(value: &str, least: u32, most: u32) -> Option<u32> {
    let hex = value.strip_prefix("0x").or_else(|| value.strip_prefix("0X"));
    let plain = |digits: &str| !digits.starts_with('+');
    let number = match hex {
        Some(digits) => u32::from_str_radix(digits, 16).ok().filter(|_| plain(digits)),
        None => value.parse().ok().filter(|_| plain(value)),
    };
    number.filter(|number| (least..=most).contains(number))
}
