//! What a cache knows of a volume's origin, and whether the origin that is found now is the one that its contents came from.
//!
//! Two things are compared: what the origin is recognised by ([`StorageId`]), and the [mark](VolumeMark) on it. The mark tells the
//! cache that served it last, with a number that rises, and a random token that is new, whenever serving for writing begins or
//! ends in order. The cache has the same number and token. The number in the mark is higher after another cache, or a newer copy
//! of this one, has served the origin; it is less if the origin itself is an older copy. Copies of both may come to the same number
//! in different ways, but not to the same token.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 1 | form: 2 |
//! | 1 | 1 | flags: 1 the origin has a mark, 2 the mark may not have the number yet, but the one before, 4 units are named after the volume |
//! | 2 | 8 | the number of the last begin or end of serving for writing |
//! | 10 | 8 | the cache in the mark: the start of its UUID |
//! | 18 | 16 | UUID of the volume |
//! | 34 | 8 | the token of the last begin or end; 0: none |
//! | 42 | 8 | the token of the mark before; 0: none |
//! | 50 | | what the origin is recognised by |
//!
//! Form 1, of earlier programs, has no tokens: what the origin is recognised by follows at 34.

use crate::origins::{Uuid, VolumeMark};
use nitro_port::codec::FingerprintHash;
use nitro_port::{Sameness, StorageId};

const FORM: u8 = 2;
const HEAD_BYTES: usize = 34;
const TOKENS_BYTES: usize = 16;
/// The form without tokens.
const FORM_WITHOUT_TOKENS: u8 = 1;
/// The cache in the mark of an origin that was served without one.
const WITHOUT_CACHE: [u8; 8] = [0; 8];
const HAS_MARK: u8 = 1;
const IS_NEW: u8 = 2;
const IS_NAMED: u8 = 4;

/// What a cache knows of a volume's origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KnownOrigin {
    /// What it is recognised by.
    pub(super) id: StorageId,
    /// The UUID of the volume, which it keeps when its name, its cache or its path changes.
    pub(super) unit: Uuid,
    /// The start of the UUID of the cache in the origin's mark.
    cache: [u8; 8],
    /// The number of the last begin or end of serving for writing, by the mark.
    count: u64,
    /// The token of that begin or end.
    token: u64,
    /// The token of the mark that was found before; 0: there was none.
    before: u64,
    /// The origin has a mark.
    has_mark: bool,
    /// The mark may not have `token` yet, but `before`, because the server may have been killed before it was made.
    is_new: bool,
    /// Its units have the identifiers that earlier programs made of the volume's name.
    pub(super) is_named: bool,
}

/// How the origin that is found compares with the one that the cache knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Finding {
    /// It is the same, and nothing has served it since.
    AsLeft,
    /// Nothing speaks against it, and it is not recognised by anything that lasts: contents have to be compared.
    Unproven,
    /// It is another one, or was changed.
    Changed(String),
    /// It was served since with a newer copy of this cache.
    OlderCache(String),
    /// It was served for writing since by another cache, or without one: what this cache has is older than the origin.
    Succeeded(String),
}

fn start_of(uuid: Uuid) -> [u8; 8] {
    uuid.0.first_chunk().copied().unwrap_or_default()
}

impl KnownOrigin {
    /// Of an origin that the cache begins to serve, for writing unless `read_only`. `before` is what it knew of the volume: its
    /// UUID stays, unless the origin is another one, such as a copy of it beside a copy of the cache. `token` is the random one of
    /// this begin; `None`: for reading only.
    pub(super) fn next(
        before: Option<&Self>,
        id: &StorageId,
        mark: Option<&VolumeMark>,
        cache: Uuid,
        token: Option<u64>,
    ) -> Self {
        let seen = mark.map_or(0, |mark| mark.count);
        let marked = mark.and_then(|mark| mark.cache.parse::<Uuid>().ok()).map_or([0; 8], start_of);
        let alike = before.filter(|before| before.id.compare(id) != Sameness::Other);
        let unit = alike.map(|before| before.unit).or_else(|| mark.and_then(|mark| mark.unit.parse().ok()));
        let count = seen.max(before.map_or(0, |before| before.count));
        let found = mark.map_or(0, |mark| mark.token);
        let (cache, count) = if token.is_none() { (marked, seen) } else { (start_of(cache), count.saturating_add(1)) };
        Self {
            id: id.clone(),
            unit: unit.unwrap_or_else(|| unit_of(id)),
            cache,
            count,
            token: token.unwrap_or(found),
            before: found,
            has_mark: token.is_some() || mark.is_some(),
            is_new: token.is_some(),
            is_named: alike.is_some_and(|before| before.is_named),
        }
    }

    /// The mark that the origin is to have.
    pub(super) fn mark(&self, cache: Uuid) -> VolumeMark {
        VolumeMark::new(cache, self.unit, (self.count, self.token), &self.id)
    }

    /// Notes whether the origin has the mark.
    pub(super) fn marked(self, has_mark: bool) -> Self {
        Self { has_mark, is_new: false, ..self }
    }

    /// At the orderly end of serving for writing, with its random token; `None`: the origin has no mark, which would tell copies of
    /// the cache apart.
    pub(super) fn ended(&self, token: u64) -> Option<Self> {
        let count = self.count.saturating_add(1);
        self.has_mark.then(|| Self { count, token, before: self.token, is_new: true, ..self.clone() })
    }

    /// Whether the mark is the one before, because the server was killed before it made its own.
    fn is_before(&self, mark: Option<&VolumeMark>) -> bool {
        self.is_new
            && mark.map_or(self.before == 0, |mark| {
                // Marks of earlier programs have no token.
                mark.token == self.before && (self.before != 0 || mark.count + 1 == self.count)
            })
    }

    /// Compares it with an origin that is found now, of which `mark` was read, for the cache `cache`.
    pub(super) fn examine(&self, id: &StorageId, mark: Option<&VolumeMark>, cache: Uuid) -> Finding {
        let same = self.id.compare(id);
        if same == Sameness::Other {
            return Finding::Changed("it is another file or device than the one that the cache knows".to_owned());
        }
        match (self.has_mark, mark) {
            (false, None) => {}
            (true, mark) if self.is_before(mark) => {}
            (true, None) => {
                return Finding::Changed("it does not bear the mark of the cache that served it last".to_owned());
            }
            (_, Some(mark)) => {
                let by = mark.cache.parse::<Uuid>().ok().map_or([0; 8], start_of);
                if !self.has_mark || by != self.cache {
                    let why = match by {
                        WITHOUT_CACHE => "it was served without a cache since".to_owned(),
                        _ => format!("another cache ({}) has served it since", mark.cache),
                    };
                    // A number below that of the cache is of an older state of the origin, which was put in place.
                    let is_older = mark.count < self.count;
                    return if is_older { Finding::Changed(why) } else { Finding::Succeeded(why) };
                }
                if mark.count > self.count && by == start_of(cache) {
                    return Finding::OlderCache(
                        "it was served since with a newer copy of this cache: this copy is outdated".to_owned(),
                    );
                }
                if (mark.count, mark.token) != (self.count, self.token) {
                    return Finding::Changed(
                        "its mark has another number than the cache: an older or newer state of it was put in place"
                            .to_owned(),
                    );
                }
            }
        }
        if same == Sameness::Same { Finding::AsLeft } else { Finding::Unproven }
    }

    /// The stored form, at most 149 bytes.
    pub(super) fn encode(&self) -> Vec<u8> {
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        let flags = flag(self.has_mark, HAS_MARK) | flag(self.is_new, IS_NEW) | flag(self.is_named, IS_NAMED);
        let mut bytes = vec![FORM, flags];
        bytes.extend(self.count.to_le_bytes());
        bytes.extend(self.cache);
        bytes.extend(self.unit.0);
        bytes.extend(self.token.to_le_bytes());
        bytes.extend(self.before.to_le_bytes());
        bytes.extend(self.id.encode());
        bytes
    }

    /// Reads the stored form; `None`: there is none, or of a later program.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (head, rest) = bytes.split_first_chunk::<HEAD_BYTES>()?;
        let (tokens, id) = match head[0] {
            FORM => rest.split_first_chunk::<TOKENS_BYTES>()?,
            FORM_WITHOUT_TOKENS => (&[0; TOKENS_BYTES], rest),
            _ => return None,
        };
        let token = |at: usize| tokens[at..].first_chunk().copied().map_or(0, u64::from_le_bytes);
        let count = u64::from_le_bytes(*head[2..].first_chunk()?);
        let (cache, unit) = (*head[10..].first_chunk()?, Uuid(*head[18..].first_chunk()?));
        let is = |flag| head[1] & flag != 0;
        Some(Self {
            id: StorageId::decode(id),
            unit,
            cache,
            count,
            token: token(0),
            before: token(8),
            has_mark: is(HAS_MARK),
            is_new: is(IS_NEW),
            is_named: is(IS_NAMED),
        })
    }
}

/// The UUID of a new volume. It follows from what its origin is recognised by, so that a copy gets another one, and a server without
/// a cache the same one at each start.
pub(super) fn unit_of(id: &StorageId) -> Uuid {
    let digest = FingerprintHash::Blake3.of(&[b"nitro volume".as_slice(), &id.encode()].concat());
    Uuid(digest.0.first_chunk().copied().unwrap_or_default())
}

#[cfg(test)]
mod tests;
