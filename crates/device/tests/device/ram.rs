//! What RAM devices promise beyond being right.

use bytes::Bytes;
use nitro_device::RamDevice;
use nitro_port::{Allocation, Device};
use std::future::Future;
use std::task::{Context, Poll, Waker};

/// The result of a future that is ready at once.
fn ready<F: Future>(future: F) -> F::Output {
    match std::pin::pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("a RAM device made somebody wait"),
    }
}

#[test]
fn reading_what_was_written_as_one_piece_copies_nothing() {
    let device = RamDevice::new(1 << 20, 512);
    ready(device.write(8192, Bytes::from(vec![5; 8192]))).unwrap();
    let a = ready(device.read(8192, 8192)).unwrap();
    let b = ready(device.read(8192 + 512, 4096)).unwrap();
    assert_eq!(a.as_ptr().addr() + 512, b.as_ptr().addr());
    // What was read stays as it was.
    ready(device.write(8192, Bytes::from(vec![6; 512]))).unwrap();
    assert_eq!(a, vec![5; 8192]);
    let now = ready(device.read(8192, 8192)).unwrap();
    assert_eq!((now[511], now[512]), (6, 5));
}

#[test]
fn discarding_makes_holes() {
    let device = RamDevice::new(1 << 20, 512);
    ready(device.write(0, Bytes::from(vec![1; 1 << 20]))).unwrap();
    ready(device.discard(4096 + 512, 512 << 10)).unwrap();
    let map = ready(device.allocation(0, 1 << 20)).unwrap();
    let run = |len, hole| Allocation { len, hole };
    assert_eq!(map, [run(8192, false), run((512 << 10) - 4096, true), run((512 << 10) - 4096, false)]);
    let bytes = ready(device.read(0, 1 << 20)).unwrap();
    assert_eq!((bytes[4607], bytes[4608], bytes[(516 << 10) + 511], bytes[(516 << 10) + 512]), (1, 0, 0, 1));
}
