//! Memory of the client into which a read is copied.

/// Buffers that may be shared with the client, such as a virtual machine's memory: they can be written to, but not
/// borrowed.
pub trait Scatter {
    /// Their length in bytes.
    fn len(&self) -> u32;

    /// Whether they have none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies bytes to offset `at`, counted over all buffers. The buffers have room for them.
    fn put(&mut self, at: usize, bytes: &[u8]);
}

/// Buffers in the process's own memory.
#[derive(Debug)]
pub struct Slices<'a, 'b>(pub &'a mut [&'b mut [u8]]);

impl Scatter for Slices<'_, '_> {
    fn len(&self) -> u32 {
        self.0.iter().map(|slice| slice.len() as u32).sum()
    }

    fn put(&mut self, mut at: usize, mut bytes: &[u8]) {
        for slice in self.0.iter_mut() {
            if at >= slice.len() {
                at -= slice.len();
                continue;
            }
            let len = (slice.len() - at).min(bytes.len());
            slice[at..at + len].copy_from_slice(&bytes[..len]);
            (at, bytes) = (0, &bytes[len..]);
        }
    }
}
