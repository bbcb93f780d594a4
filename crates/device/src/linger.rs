//! Waits for resources of a process that was just killed: the kernel releases files and sockets with requests in an
//! io_uring a moment after the end of the process.

use std::time::Duration;

const TRIES: u32 = 8;
const PAUSE: Duration = Duration::from_millis(150);

/// Repeats `attempt` while it fails with `in_use`, for about a second at most. Blocks the thread: for start-up only.
///
/// # Errors
/// The last one of `attempt`.
pub fn patiently<T, E>(mut attempt: impl FnMut() -> Result<T, E>, in_use: impl Fn(&E) -> bool) -> Result<T, E> {
    for _ in 1..TRIES {
        match attempt() {
            Err(error) if in_use(&error) => std::thread::sleep(PAUSE),
            result => return result,
        }
    }
    attempt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_in_use_is_tried_again() {
        let mut tries = 0;
        let result = patiently(
            || {
                tries += 1;
                if tries < 3 { Err("in use") } else { Ok(tries) }
            },
            |e| *e == "in use",
        );
        assert_eq!(result, Ok(3));
        assert_eq!(patiently(|| Err::<(), _>("broken"), |e| *e == "in use"), Err("broken"));
    }
}
