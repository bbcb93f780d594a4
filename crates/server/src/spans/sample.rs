//! Which requests become spans. Each thread counts the requests that it gets, so that threads share nothing.

use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};
use std::num::NonZeroU32;

thread_local! {
    /// Requests of this thread up to the next sampled one, which is included; 0: none was counted yet.
    static LEFT: Cell<u64> = const { Cell::new(0) };
}

/// A random number.
pub(crate) fn random() -> u64 {
    RandomState::new().hash_one(0_u8)
}

/// The number of requests from one sampled request to the next. It is random, with the mean `every`: a client whose
/// requests repeat in a circle would otherwise have the same ones sampled each time.
fn distance(every: NonZeroU32) -> u64 {
    1 + random() % (2 * u64::from(every.get()) - 1)
}

/// Counts a request. Returns whether it is sampled, which one of `every` requests is.
pub(super) fn count(every: NonZeroU32) -> bool {
    let left = match LEFT.get() {
        0 => distance(every),
        left => left,
    };
    let is_sampled = left == 1;
    LEFT.set(if is_sampled { distance(every) } else { left - 1 });
    is_sampled
}

/// Whether the next request of this thread may be sampled.
pub(super) fn is_next() -> bool {
    LEFT.get() <= 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_so_many_requests_is_sampled() {
        let sampled = |every: u32| (0..100_000).filter(|_| count(NonZeroU32::new(every).unwrap())).count();
        let tenth = sampled(10);
        assert!((9_000..11_000).contains(&tenth), "{tenth}");
        while !is_next() {
            count(NonZeroU32::new(10).unwrap());
        }
        assert_eq!(sampled(1), 100_000);
    }

    #[test]
    fn a_request_that_is_sampled_was_announced() {
        let every = NonZeroU32::new(3).unwrap();
        for _ in 0..1_000 {
            let announced = is_next();
            assert!(!count(every) || announced);
        }
    }
}
