//! Why extents are not cached, and what the cached ones are worth.

use super::CacheManager;
use crate::gone::{Gone, Worth};
use crate::weu::Location;
use nitro_units::ExtentKey;

impl CacheManager {
    /// Notes why an extent is not cached.
    pub fn note_gone(&mut self, key: ExtentKey, gone: Gone) {
        self.departed.note(key, gone);
    }

    /// The value of the extent at a location.
    #[must_use]
    pub fn worth(&self, location: &Location) -> Worth {
        let (weu, entry) = (location.weu, location.entry);
        Worth { lane: self.weus.lane(weu), heat: self.weus.heat(weu, entry), class: self.weus.class_of(weu, entry) }
    }

    /// As [`invalidate`](Self::invalidate), for an extent whose bytes must not be trusted any more.
    pub fn disown(&mut self, key: ExtentKey) {
        if self.invalidate(key).is_some() {
            self.note_gone(key, Gone::Invalidated);
        }
    }

    /// Whether an extent that is not cached, and of which a part is written, is worth a read of its rest.
    #[must_use]
    pub fn is_worth_fetching(&self, key: ExtentKey) -> bool {
        self.departed.get(key).is_some()
    }

    /// Why an extent is not cached; `None`: it never was, or the cause is not remembered.
    #[must_use]
    pub fn why_gone(&self, key: ExtentKey) -> Option<Gone> {
        self.departed.get(key)
    }
}
