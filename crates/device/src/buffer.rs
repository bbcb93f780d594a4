//! The engine's pooled buffers in the form that the runtime requires: owned by a request until the kernel has answered.

use compio_buf::{IoBuf, IoBufMut, SetLen};
use nitro_port::buf::BufMut;
use std::mem::MaybeUninit;

/// The part of a [`BufMut`] from byte `begin` on, as the target of a read.
pub(crate) struct IoBuffer {
    buf: BufMut,
    begin: usize,
}

impl IoBuffer {
    /// # Panics
    /// If `begin` is beyond the end of `buf`.
    pub(crate) fn new(buf: BufMut, begin: usize) -> Self {
        assert!(begin <= buf.len(), "a read may not begin past the end of its buffer");
        Self { buf, begin }
    }

    pub(crate) fn into_buf(self) -> BufMut {
        self.buf
    }
}

impl IoBuf for IoBuffer {
    fn as_init(&self) -> &[u8] {
        &self.buf[self.begin..]
    }
}

#[expect(unsafe_code, reason = "the runtime's trait has an unsafe method")]
impl SetLen for IoBuffer {
    // SAFETY: the whole buffer is initialised at all times, so no length within it exposes uninitialised bytes. Nothing
    // is changed here: the caller learns the number of new bytes from the read's result.
    unsafe fn set_len(&mut self, len: usize) {
        debug_assert!(len <= self.buf.len() - self.begin);
    }
}

impl IoBufMut for IoBuffer {
    // The slice lies on the heap and stays in place while `self` moves, as a submitted request needs.
    fn as_uninit(&mut self) -> &mut [MaybeUninit<u8>] {
        self.buf[self.begin..].as_uninit()
    }
}
