//! CHAP authentication, one-way and mutual (RFC 7143 §12.1.3, RFC 1994).

use crate::access::{Access, Account};
use crate::protocol::{Pairs, put_pair};
use bytes::BytesMut;
use md5::Md5;
use sha1::Sha1;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// Bytes of the target's challenges.
const CHALLENGE_BYTES: usize = 32;
/// The longest challenge or response that is accepted, in bytes (§12.1.3).
const BINARY_BYTES_MAX: usize = 1024;

/// The state of the authentication after a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome<'a> {
    More,
    /// The initiator has authenticated as this account.
    Done(&'a Account),
    Failed,
}

/// The algorithms by their numbers (IANA's "PPP Authentication Algorithms").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Algorithm {
    Md5,
    Sha1,
    Sha256,
}

impl Algorithm {
    fn of(number: &str) -> Option<Self> {
        match number {
            "5" => Some(Self::Md5),
            "6" => Some(Self::Sha1),
            "7" => Some(Self::Sha256),
            _ => None,
        }
    }

    const fn number(self) -> &'static str {
        match self {
            Self::Md5 => "5",
            Self::Sha1 => "6",
            Self::Sha256 => "7",
        }
    }

    /// The response to a challenge: a hash over identifier, secret, challenge.
    fn response(self, identifier: u8, secret: &[u8], challenge: &[u8]) -> Vec<u8> {
        fn hash<D: Digest>(parts: [&[u8]; 3]) -> Vec<u8> {
            let mut digest = D::new();
            parts.iter().for_each(|part| digest.update(part));
            digest.finalize().to_vec()
        }
        let parts = [&[identifier][..], secret, challenge];
        match self {
            Self::Md5 => hash::<Md5>(parts),
            Self::Sha1 => hash::<Sha1>(parts),
            Self::Sha256 => hash::<Sha256>(parts),
        }
    }
}

/// The challenge that the initiator was sent.
struct Asked {
    algorithm: Algorithm,
    identifier: u8,
    challenge: [u8; CHALLENGE_BYTES],
}

/// An authentication in progress.
#[derive(Default)]
pub(super) struct Chap(Option<Asked>);

impl Chap {
    /// Whether the initiator was sent a challenge: the next answer checks its secret.
    pub(super) fn has_asked(&self) -> bool {
        self.0.is_some()
    }

    pub(super) fn answer<'a>(&mut self, access: &'a Access, pairs: &Pairs<'_>, out: &mut BytesMut) -> Outcome<'a> {
        match &self.0 {
            None => self.ask(pairs, out),
            Some(asked) => asked.check(access, pairs, out).unwrap_or(Outcome::Failed),
        }
    }

    fn ask<'a>(&mut self, pairs: &Pairs<'_>, out: &mut BytesMut) -> Outcome<'a> {
        // The initiator lists the algorithms in the order of its preference.
        let offered = pairs.get("CHAP_A").unwrap_or("");
        let Some(algorithm) = offered.split(',').find_map(Algorithm::of) else { return Outcome::Failed };
        let mut random = [0; CHALLENGE_BYTES + 1];
        if let Err(error) = getrandom::fill(&mut random) {
            tracing::error!("cannot get random numbers from the system: {error}");
            return Outcome::Failed;
        }
        let Some((challenge, &[identifier])) = random.split_first_chunk() else { return Outcome::Failed };
        let asked = Asked { algorithm, identifier, challenge: *challenge };
        put_pair(out, "CHAP_A", algorithm.number());
        put_pair(out, "CHAP_I", &identifier.to_string());
        put_pair(out, "CHAP_C", &to_hex(&asked.challenge));
        self.0 = Some(asked);
        Outcome::More
    }
}

impl Asked {
    fn check<'a>(&self, access: &'a Access, pairs: &Pairs<'_>, out: &mut BytesMut) -> Option<Outcome<'a>> {
        let (name, response) = (pairs.get("CHAP_N")?, binary(pairs.get("CHAP_R")?)?);
        // An unknown name takes as long as a wrong secret, so that the time does not reveal which names exist.
        let account = access.accounts.iter().find(|account| account.name == name);
        let secret = account.map_or(&b""[..], |account| &account.secret);
        let wanted = self.algorithm.response(self.identifier, secret, &self.challenge);
        let is_right = bool::from(wanted.ct_eq(&response));
        let account = account.filter(|_| is_right)?;
        let (Some(identifier), Some(challenge)) = (pairs.get("CHAP_I"), pairs.get("CHAP_C")) else {
            return Some(Outcome::Done(account));
        };
        let own = access.own.as_ref()?;
        self.respond(own, account, identifier.parse().ok()?, &binary(challenge)?, out)
    }

    /// Authenticates the target to the initiator (mutual CHAP).
    fn respond<'a>(
        &self,
        own: &Account,
        theirs: &'a Account,
        identifier: u8,
        challenge: &[u8],
        out: &mut BytesMut,
    ) -> Option<Outcome<'a>> {
        // Reflection attack (§9.2.1): an initiator that returns the target's challenge would get the response to it.
        let is_ours = bool::from(challenge.ct_eq(&self.challenge));
        if challenge.is_empty() || is_ours || bool::from(own.secret.ct_eq(&theirs.secret)) {
            return None;
        }
        put_pair(out, "CHAP_N", &own.name);
        put_pair(out, "CHAP_R", &to_hex(&self.algorithm.response(identifier, &own.secret, challenge)));
        Some(Outcome::Done(theirs))
    }
}

fn to_hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold("0x".to_owned(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A binary value in hexadecimal digits or base64 (§6.1).
fn binary(text: &str) -> Option<Vec<u8>> {
    let (prefix, digits) = text.split_at_checked(2)?;
    let bytes = match prefix {
        "0x" | "0X" => hex(digits.as_bytes())?,
        "0b" | "0B" => base64(digits.as_bytes())?,
        _ => return None,
    };
    (bytes.len() <= BINARY_BYTES_MAX).then_some(bytes)
}

fn hex(digits: &[u8]) -> Option<Vec<u8>> {
    let value = |digit: &u8| char::from(*digit).to_digit(16).map(|value| value as u8);
    let first = digits.len() % 2;
    let mut bytes = Vec::with_capacity(digits.len() / 2 + first);
    if first == 1 {
        bytes.push(value(&digits[0])?);
    }
    for pair in digits[first..].chunks_exact(2) {
        bytes.push(value(&pair[0])? << 4 | value(&pair[1])?);
    }
    Some(bytes)
}

fn base64(digits: &[u8]) -> Option<Vec<u8>> {
    let digits = digits.strip_suffix(b"==").or_else(|| digits.strip_suffix(b"=")).unwrap_or(digits);
    let (mut bytes, mut bits, mut held) = (Vec::with_capacity(digits.len() * 3 / 4), 0u32, 0);
    for digit in digits {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held) as u8);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binaries_are_hexadecimal_or_base64() {
        assert_eq!(binary("0x0aFf"), Some(vec![10, 255]));
        assert_eq!(binary("0xaff"), Some(vec![10, 255]));
        assert_eq!(binary("0bTml0cm8="), Some(b"Nitro".to_vec()));
        assert_eq!(binary("0bTml0cg=="), Some(b"Nitr".to_vec()));
        for wrong in ["", "0", "12", "0xg0", "0b_", "é0"] {
            assert_eq!(binary(wrong), None, "{wrong}");
        }
        assert_eq!(to_hex(&[10, 255]), "0x0aff");
    }

    /// RFC 1994 §4.1, with the hash of the algorithm.
    #[test]
    fn responses_are_hashes_of_identifier_secret_challenge() {
        let response = Algorithm::Md5.response(1, b"secret", b"challenge");
        assert_eq!(to_hex(&response), to_hex(&Md5::digest(b"\x01secretchallenge")));
        assert_eq!(Algorithm::Sha1.response(1, b"s", b"c").len(), 20);
        assert_eq!(Algorithm::Sha256.response(1, b"s", b"c").len(), 32);
    }
}
