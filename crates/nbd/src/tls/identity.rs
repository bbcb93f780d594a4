//! What a client's certificate says about the client.

use rustls::pki_types::CertificateDer;
use sha2::{Digest, Sha256};
use std::fmt::Write as _;

/// The start of a certificate's fingerprint: the SHA-256 of the certificate follows, in hexadecimal digits.
pub const FINGERPRINT_PREFIX: &str = "sha256:";
/// The object identifier of a common name, 2.5.4.3, in DER.
const COMMON_NAME: [u8; 3] = [0x55, 0x04, 0x03];
/// Tags of DER (X.690 §8).
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT_IDENTIFIER: u8 = 0x06;
const UTF8_STRING: u8 = 0x0c;
const PRINTABLE_STRING: u8 = 0x13;
const IA5_STRING: u8 = 0x16;

/// The identities of the client that has proven to hold the key of a verified certificate: the fingerprint, the common
/// names, and the DNS names (in lower case) and URIs of the subject's alternative names.
pub(super) fn identities(certificate: &CertificateDer<'_>) -> Vec<String> {
    let mut fingerprint = FINGERPRINT_PREFIX.to_owned();
    for byte in Sha256::digest(certificate) {
        // Writing to a string cannot fail.
        let _ = write!(fingerprint, "{byte:02x}");
    }
    let mut found = vec![fingerprint];
    let Ok(parsed) = webpki::EndEntityCert::try_from(certificate) else { return found };
    let names = common_names(parsed.subject()).map(str::to_owned);
    let names = names.chain(parsed.valid_dns_names().map(str::to_ascii_lowercase));
    let names = names.chain(parsed.valid_uri_names().map(str::to_owned));
    // No name passes for a fingerprint.
    found.extend(names.filter(|name| !name.is_empty() && !name.starts_with(FINGERPRINT_PREFIX)));
    found
}

/// The common names of a distinguished name without its outer tag (X.501 §9.2).
fn common_names(name: &[u8]) -> impl Iterator<Item = &str> {
    let sets = Elements(name).filter(|(tag, _)| *tag == SET);
    let pairs = sets.flat_map(|(_, set)| Elements(set)).filter(|(tag, _)| *tag == SEQUENCE);
    pairs.filter_map(|(_, pair)| {
        let mut fields = Elements(pair);
        let (tag, kind) = fields.next()?;
        let (text_tag, text) = fields.next()?;
        let is_common_name = tag == OBJECT_IDENTIFIER && kind == COMMON_NAME;
        let is_text = matches!(text_tag, UTF8_STRING | PRINTABLE_STRING | IA5_STRING);
        str::from_utf8(text).ok().filter(|_| is_common_name && is_text)
    })
}

/// The elements of DER, each with its tag and content; ends at what is malformed.
struct Elements<'a>(&'a [u8]);

impl<'a> Iterator for Elements<'a> {
    type Item = (u8, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (&tag, rest) = self.0.split_first()?;
        let (&first, rest) = rest.split_first()?;
        let (len, rest) = match first {
            0..=0x7f => (usize::from(first), rest),
            // The long form: a name has no more than 65,535 bytes.
            0x81 | 0x82 => {
                let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
                (digits.iter().fold(0, |len, digit| len << 8 | usize::from(*digit)), rest)
            }
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(len)?;
        self.0 = rest;
        Some((tag, content))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, DnType, KeyPair, SanType};

    fn certificate(common_names: &[&str], others: &[SanType]) -> CertificateDer<'static> {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, "somebody else");
        common_names.iter().for_each(|name| params.distinguished_name.push(DnType::CommonName, *name));
        params.subject_alt_names = others.to_vec();
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().clone()
    }

    #[test]
    fn a_client_has_the_names_and_the_fingerprint_of_its_certificate() {
        let uri = SanType::URI("spiffe://example/alice".try_into().unwrap());
        let dns = SanType::DnsName("Alice.Example".try_into().unwrap());
        let long = "x".repeat(300);
        for common_name in ["alice", "ällice", &long] {
            let found = identities(&certificate(&[common_name], &[uri.clone(), dns.clone()]));
            assert_eq!(found[1..], [common_name, "alice.example", "spiffe://example/alice"]);
            assert_eq!(found[0].len(), FINGERPRINT_PREFIX.len() + 64);
        }
    }

    #[test]
    fn no_name_passes_for_a_fingerprint() {
        let forged = format!("{FINGERPRINT_PREFIX}{}", "0".repeat(64));
        let found = identities(&certificate(&[&forged], &[SanType::URI(forged.as_str().try_into().unwrap())]));
        assert_eq!(found.len(), 1, "{found:?}");
    }

    #[test]
    fn malformed_names_are_no_names() {
        assert_eq!(identities(&CertificateDer::from(vec![0x30, 0x80, 1, 2])).len(), 1);
        let sound = [0x31, 0x0a, 0x30, 0x08, 0x06, 0x03, 0x55, 0x04, 0x03, 0x0c, 0x01, b'a'];
        assert_eq!(common_names(&sound).collect::<Vec<_>>(), ["a"]);
        for end in 0..sound.len() {
            assert_eq!(common_names(&sound[..end]).count(), 0);
        }
        for (at, byte) in [(1, 0x84), (3, 0xff), (5, 0x04), (7, 0x05), (9, 0x1e), (11, 0xff)] {
            let mut wrong = sound;
            wrong[at] = byte;
            assert_eq!(common_names(&wrong).count(), 0, "{at}");
        }
    }
}
