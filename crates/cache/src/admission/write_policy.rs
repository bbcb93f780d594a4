//! What happens in the cache when the origin is written to (Azor, "Static decision for I/O misses").

/// Which written content is cached. In write-back, all of it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum WritePolicy {
    /// All: Azor's `write-hdd-ssd`.
    #[default]
    Allocate,
    /// Only content that replaces cached content: `write-hdd-upd`.
    Update,
    /// None; cached content of the extent is dropped: `write-hdd-inv`.
    Invalidate,
}

impl WritePolicy {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Allocate, Self::Update, Self::Invalidate];

    /// Its name in configurations and on command lines.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Allocate => "allocate",
            Self::Update => "update",
            Self::Invalidate => "invalidate",
        }
    }

    /// The policy with this name, or with its name in the Azor paper.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "write-hdd-ssd" => Some(Self::Allocate),
            "write-hdd-upd" => Some(Self::Update),
            "write-hdd-inv" => Some(Self::Invalidate),
            name => Self::ALL.into_iter().find(|policy| policy.name() == name),
        }
    }

    /// Whether written content is cached, given whether the extent was cached.
    #[must_use]
    pub const fn takes(self, was_cached: bool) -> bool {
        match self {
            Self::Allocate => true,
            Self::Update => was_cached,
            Self::Invalidate => false,
        }
    }
}

crate::by_name::by_name!(WritePolicy, "write policy");
