//! Event counters (`eventfd`(2)) that are shared with other processes; a virtual machine and its device notify each
//! other with them.
//!
//! Other processes may set and clear `O_NONBLOCK`, and may read and write at any time: no operation here blocks the
//! reactor's thread.

use crate::runtime::Lent;
use compio::driver::op::{Interest, PollOnce, Write};
use compio::runtime::submit;
use compio_buf::BufResult;
use rustix::event::{PollFd, PollFlags};
use rustix::fd::OwnedFd;
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use std::io::{self, IoSliceMut};
use std::sync::Arc;

/// For `preadv2`: read at the file's position.
const NO_OFFSET: u64 = u64::MAX;

/// Waits until the counter is above zero, and resets it.
///
/// # Errors
/// The error of the operating system.
pub async fn wait(event: &Arc<OwnedFd>) -> io::Result<()> {
    loop {
        let BufResult(result, _) = submit(PollOnce::new(Lent::new(event), Interest::Readable)).await;
        result?;
        let mut count = [0; 8];
        match preadv2(event, &mut [IoSliceMut::new(&mut count)], NO_OFFSET, ReadWriteFlags::NOWAIT) {
            Ok(_) => return Ok(()),
            // Another reader has reset it.
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Adds one to the counter. If the counter is full, waits until it is read, without a limit.
///
/// # Errors
/// The error of the operating system.
pub async fn ring(event: &Arc<OwnedFd>) -> io::Result<()> {
    let BufResult(result, _) = submit(Write::new(Lent::new(event), 1_u64.to_ne_bytes())).await;
    match result {
        // A full counter is above zero already.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
        result => result.map(|_| ()),
    }
}

/// Whether the counter is above zero; does not wait.
#[must_use]
pub fn is_set(event: &OwnedFd) -> bool {
    let mut poll = [PollFd::new(event, PollFlags::IN)];
    rustix::event::poll(&mut poll, Some(&rustix::event::Timespec::default())).is_ok_and(|ready| ready > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Reactor;
    use rustix::event::{EventfdFlags, eventfd};

    #[test]
    fn an_event_is_waited_for_and_reset_whether_it_blocks_or_not() {
        let reactor = Reactor::new().unwrap();
        for flags in [EventfdFlags::empty(), EventfdFlags::NONBLOCK] {
            let event = Arc::new(eventfd(0, flags).unwrap());
            reactor.block_on(async {
                let waited = futures_util::future::join(wait(&event), async {
                    ring(&event).await.unwrap();
                    ring(&event).await
                });
                let (waited, rung) = waited.await;
                assert!(waited.is_ok() && rung.is_ok());
                if is_set(&event) {
                    wait(&event).await.unwrap();
                }
                assert!(!is_set(&event));
            });
        }
    }

    #[test]
    fn a_full_counter_stops_nobody_else() {
        let event = Arc::new(eventfd(0, EventfdFlags::empty()).unwrap());
        rustix::io::write(&event, &(u64::MAX - 1).to_ne_bytes()).unwrap();
        let (other, reactor) = (Arc::new(eventfd(0, EventfdFlags::empty()).unwrap()), Reactor::new().unwrap());
        reactor.block_on(async {
            let full = std::pin::pin!(ring(&event));
            let rung = async {
                ring(&other).await.unwrap();
                wait(&other).await.unwrap();
            };
            match futures_util::future::select(full, std::pin::pin!(rung)).await {
                futures_util::future::Either::Left(_) => panic!("the counter took more than it can hold"),
                futures_util::future::Either::Right(((), _)) => {}
            }
        });
        assert!(is_set(&event));
    }
}
