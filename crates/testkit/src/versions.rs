//! The values that one place of a store may have after a crash, if operations are sequential: the last durable value,
//! or any later one. (Requests that overlap in time need the oracle of the engine's crash simulation.)

/// The values that a place may have after a crash, in the order of their writes.
#[derive(Clone, Debug)]
pub struct Versions<V> {
    durable: V,
    since: Vec<V>,
}

impl<V: PartialEq> Versions<V> {
    /// A place with a durable value.
    pub const fn new(durable: V) -> Self {
        Self { durable, since: Vec::new() }
    }

    /// The value if there is no crash.
    pub fn newest(&self) -> &V {
        self.since.last().unwrap_or(&self.durable)
    }

    /// Records a write that is not durable yet. It counts whether or not it succeeds.
    pub fn write(&mut self, value: V) {
        self.since.push(value);
    }

    /// The newest value is durable now.
    pub fn made_durable(&mut self) {
        if let Some(newest) = self.since.pop() {
            *self = Self::new(newest);
        }
    }

    /// All values that are possible after a crash, the durable one first.
    pub fn possible(&self) -> impl Iterator<Item = &V> {
        std::iter::once(&self.durable).chain(&self.since)
    }

    /// After a crash this value was found, and it is the only one from now on. False if it was not possible.
    #[must_use]
    pub fn found(&mut self, value: V) -> bool {
        let is_possible = self.possible().any(|possible| *possible == value);
        *self = Self::new(value);
        is_possible
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_durable_value_or_a_later_one_is_found() {
        let mut versions = Versions::new(1);
        versions.write(2);
        versions.made_durable();
        versions.write(3);
        assert_eq!((*versions.newest(), versions.possible().count()), (3, 2));
        assert!(!versions.clone().found(1) && versions.clone().found(3) && versions.found(2));
        assert!(!versions.found(3), "it was not there");
    }
}
