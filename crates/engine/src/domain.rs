//! Domains of deduplication: volumes of different domains share no content.

use nitro_port::codec::FingerprintHash;
use nitro_units::Fingerprint;

/// A group of volumes whose equal contents are stored once. Within a domain, the response times of one volume may
/// reveal the contents of another; between domains they do not.
///
/// The indexes identify content by its fingerprint mixed with its volume's domain. The flash holds the plain
/// fingerprint: when an entry is read again, the domain comes from the volume's entry in the cache's registry. A volume
/// that changes its domain loses only duplicates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct DedupDomain([u8; Self::BYTES]);

impl DedupDomain {
    /// Bytes of a domain on flash.
    pub const BYTES: usize = 16;
    /// The domain of all volumes without a name of a domain.
    pub const SHARED: Self = Self([0; Self::BYTES]);
    const CONTEXT: &str = "Nitro: the name of a domain of deduplication";

    /// The domain of that name.
    #[must_use]
    pub fn named(name: &str) -> Self {
        let mut domain = [0; Self::BYTES];
        domain.copy_from_slice(&blake3::derive_key(Self::CONTEXT, name.as_bytes())[..Self::BYTES]);
        Self(domain)
    }

    pub(crate) const fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        Self(bytes)
    }

    pub(crate) const fn bytes(&self) -> &[u8; Self::BYTES] {
        &self.0
    }

    pub(crate) const fn is_shared(&self) -> bool {
        u128::from_le_bytes(self.0) == 0
    }

    /// By what the indexes know content of that fingerprint.
    pub(crate) fn within(&self, fingerprint: &Fingerprint) -> Fingerprint {
        if self.is_shared() {
            return *fingerprint;
        }
        let mut mixed = [0; Self::BYTES + 20];
        mixed[..Self::BYTES].copy_from_slice(&self.0);
        mixed[Self::BYTES..].copy_from_slice(&fingerprint.0);
        FingerprintHash::Blake3.of(&mixed)
    }
}

/// A content's fingerprint, plain and as used in the indexes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Named {
    /// The hash of the bytes.
    pub(crate) plain: Fingerprint,
    /// The hash mixed with the domain of the volume.
    pub(crate) within: Fingerprint,
}

/// The fingerprints that a content is stored with, where it has any.
#[derive(Clone, Copy)]
pub(crate) struct Names {
    /// For the index: mixed with the domain. `None` also if other content has the fingerprint.
    pub(crate) indexed: Option<Fingerprint>,
    /// For the flash.
    pub(crate) plain: Option<Fingerprint>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_content_has_another_name_in_each_domain_and_its_own_in_the_shared_one() {
        let plain = FingerprintHash::Blake3.of(b"content");
        let [a, b] = ["a", "b"].map(DedupDomain::named);
        assert_eq!(DedupDomain::SHARED.within(&plain), plain);
        assert!(a != b && a.within(&plain) != b.within(&plain) && a.within(&plain) != plain);
        assert_eq!(a.within(&plain), DedupDomain::from_bytes(*DedupDomain::named("a").bytes()).within(&plain));
        assert!(!DedupDomain::named("").is_shared());
    }
}
