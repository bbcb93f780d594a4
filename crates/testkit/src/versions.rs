//! What one place of a store may hold after a crash, where one thing is done at a time: the value that was made durable last, or any
//! later one. (Requests that overlap in time need more: the oracle of the engine's crash simulation.)

/// The values that a place may have after a crash, in the order in which they were written.
#[derive(Clone, Debug)]
pub struct Versions<V> {
    durable: V,
    since: Vec<V>,
}

impl<V: PartialEq> Versions<V> {
    /// A place that durably has a value.
    pub const fn new(durable: V) -> Self {
        Self { durable, since: Vec::new() }
    }

    /// The value without a crash.
    pub fn newest(&self) -> &V {
        self.since.last().unwrap_or(&self.durable)
    }

    /// A value is written, which is not durable. It counts whether or not that succeeds.
    pub fn write(&mut self, value: V) {
        self.since.push(value);
    }

    /// The newest value is made durable.
    pub fn made_durable(&mut self) {
        if let Some(newest) = self.since.pop() {
            *self = Self::new(newest);
        }
    }

    /// All values that there may be after a crash, the durable one first.
    pub fn possible(&self) -> impl Iterator<Item = &V> {
        std::iter::once(&self.durable).chain(&self.since)
    }

    /// A crash is over, and this value was found, which is the only one from now on. False if it may not be there.
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
