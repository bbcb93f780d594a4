//! The metadata contexts of a connection ("Metadata querying" in proto.md).

use crate::context::Context;

/// The contexts that the server supports, with their numbers and names on the wire.
const KNOWN: [(Context, u32, &str); 2] =
    [(Context::BaseAllocation, 1, "base:allocation"), (Context::NitroCache, 2, "nitro:cache")];

/// A set of contexts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Contexts(u8);

impl Contexts {
    pub(crate) const NONE: Self = Self(0);
    const ALL: Self = Self((1 << KNOWN.len()) - 1);

    /// The contexts that match the queries of `NBD_OPT_LIST_META_CONTEXT`. A namespace (`base:`) matches all its
    /// contexts; an empty list of queries matches every context.
    pub(crate) fn listed(queries: &[&[u8]]) -> Self {
        if queries.is_empty() { Self::ALL } else { Self::matching(queries, true) }
    }

    /// The contexts that match the queries of `NBD_OPT_SET_META_CONTEXT`: only complete names match.
    pub(crate) fn selected(queries: &[&[u8]]) -> Self {
        Self::matching(queries, false)
    }

    fn matching(queries: &[&[u8]], wildcards: bool) -> Self {
        let mut set = 0;
        for (bit, (_, _, name)) in KNOWN.iter().enumerate() {
            let namespace = name.split_inclusive(':').next().unwrap_or(name);
            let wanted = |query: &&[u8]| *query == name.as_bytes() || (wildcards && *query == namespace.as_bytes());
            set |= u8::from(queries.iter().any(wanted)) << bit;
        }
        Self(set)
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The contexts of the set, with their numbers and names on the wire.
    pub(crate) fn iter(self) -> impl Iterator<Item = (Context, u32, &'static str)> {
        KNOWN.into_iter().enumerate().filter(move |(bit, _)| self.0 & (1 << bit) != 0).map(|(_, known)| known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_list_but_do_not_select() {
        let queries: [&[u8]; 3] = [b"base:", b"nitro:cache", b"x-other:thing"];
        assert_eq!(Contexts::listed(&queries), Contexts::ALL);
        let selected: Vec<_> = Contexts::selected(&queries).iter().collect();
        assert_eq!(selected, [(Context::NitroCache, 2, "nitro:cache")]);
        assert_eq!(Contexts::listed(&[]), Contexts::ALL);
        assert!(Contexts::selected(&[]).is_empty());
        assert!(Contexts::listed(&[b"base", b":", b""]).is_empty());
    }
}
