//! Descriptor chains (virtio 1.2, §2.7.5), whose addresses, lengths and indices are checked.

use crate::error::Fault;
use crate::memory::Memory;
use smallvec::SmallVec;
use virtio_queue::desc::split::Descriptor;
use vm_memory::{Address, Bytes, GuestAddress};

/// Most descriptors of a chain. (The configuration space limits a request to 254 data segments; header and status add
/// to them.)
const DESCRIPTORS_MAX: usize = 1024;
const DESCRIPTOR_BYTES: u64 = size_of::<Descriptor>() as u64;

/// A range of the guest's memory, all of which exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) address: GuestAddress,
    pub(crate) len: u32,
}

/// Ranges of memory in order. Up to four need no allocation.
pub(crate) type Spans = SmallVec<[Span; 4]>;

/// The memory that a chain describes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Chain {
    /// The part that the device reads.
    pub(crate) readable: Spans,
    /// The part that the device writes.
    pub(crate) writable: Spans,
}

/// A table of `size` descriptors.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Table {
    pub(crate) address: GuestAddress,
    pub(crate) size: u32,
}

impl Table {
    fn descriptor(&self, memory: &Memory, index: u16) -> Result<Descriptor, Fault> {
        if u32::from(index) >= self.size {
            return Err(Fault::DescriptorIndex);
        }
        let address = self.address.checked_add(u64::from(index) * DESCRIPTOR_BYTES).ok_or(Fault::Address)?;
        memory.guest().read_obj(address).map_err(|_| Fault::Address)
    }
}

/// Collects the chain that begins with descriptor `head` of a queue's table.
pub(crate) fn gather(memory: &Memory, queue: Table, head: u16) -> Result<Chain, Fault> {
    let mut chain = Chain::default();
    let (mut table, mut index, mut is_indirect) = (queue, head, false);
    // A chain with more descriptors than the table has is a loop.
    let mut left = table.size;
    loop {
        left = left.checked_sub(1).ok_or(Fault::ChainLength)?;
        let descriptor = table.descriptor(memory, index)?;
        if descriptor.refers_to_indirect_table() {
            if is_indirect || descriptor.has_next() {
                return Err(Fault::Indirect);
            }
            table = indirect(&descriptor)?;
            (index, is_indirect, left) = (0, true, table.size);
            continue;
        }
        chain.push(memory, &descriptor)?;
        if !descriptor.has_next() {
            return Ok(chain);
        }
        index = descriptor.next();
    }
}

fn indirect(descriptor: &Descriptor) -> Result<Table, Fault> {
    let (bytes, each) = (descriptor.len(), DESCRIPTOR_BYTES as u32);
    let size = bytes / each;
    if size == 0 || !bytes.is_multiple_of(each) || size > u32::from(u16::MAX) {
        return Err(Fault::Indirect);
    }
    Ok(Table { address: descriptor.addr(), size })
}

impl Chain {
    fn push(&mut self, memory: &Memory, descriptor: &Descriptor) -> Result<(), Fault> {
        if self.readable.len() + self.writable.len() == DESCRIPTORS_MAX {
            return Err(Fault::ChainLength);
        }
        let span = Span { address: descriptor.addr(), len: descriptor.len() };
        if span.len == 0 {
            return Ok(());
        }
        if !memory.has(span.address, span.len) {
            return Err(Fault::Address);
        }
        match descriptor.is_write_only() {
            true => self.writable.push(span),
            false if !self.writable.is_empty() => return Err(Fault::Order),
            false => self.readable.push(span),
        }
        Ok(())
    }
}

/// Bytes of all spans.
pub(crate) fn total(spans: &[Span]) -> u64 {
    spans.iter().map(|span| u64::from(span.len)).sum()
}

/// Removes the first `count` bytes of the spans, which have at least so many.
pub(crate) fn skip(spans: &mut Spans, mut count: u32) {
    let whole = spans.iter().take_while(|span| {
        let is_skipped = span.len <= count;
        count -= if is_skipped { span.len } else { 0 };
        is_skipped
    });
    let whole = whole.count();
    spans.drain(..whole);
    if let Some(first) = spans.first_mut() {
        first.address = first.address.unchecked_add(count.into());
        first.len -= count;
    }
}

/// Removes the last byte and returns its address; `None` if there is none.
pub(crate) fn take_last(spans: &mut Spans) -> Option<GuestAddress> {
    let last = spans.last_mut()?;
    last.len -= 1;
    let address = last.address.unchecked_add(last.len.into());
    if last.len == 0 {
        spans.pop();
    }
    Some(address)
}

/// Fills `into` with bytes of the spans, from offset `at` on. A fault if the spans are too short.
pub(crate) fn copy_from(memory: &Memory, spans: &[Span], mut at: u64, mut into: &mut [u8]) -> Result<(), Fault> {
    for span in spans {
        let len = u64::from(span.len);
        if at >= len {
            at -= len;
            continue;
        }
        let count = (len - at).min(into.len() as u64) as usize;
        let (now, later) = into.split_at_mut(count);
        memory.guest().read_slice(now, span.address.unchecked_add(at)).map_err(|_| Fault::Address)?;
        (at, into) = (0, later);
        if into.is_empty() {
            break;
        }
    }
    if into.is_empty() { Ok(()) } else { Err(Fault::Address) }
}

/// Copies bytes into the spans, from offset `at` on. A fault if the spans are too short.
pub(crate) fn copy_into(memory: &Memory, spans: &[Span], mut at: u64, mut bytes: &[u8]) -> Result<(), Fault> {
    for span in spans {
        let len = u64::from(span.len);
        if at >= len {
            at -= len;
            continue;
        }
        let (now, later) = bytes.split_at(((len - at) as usize).min(bytes.len()));
        memory.guest().write_slice(now, span.address.unchecked_add(at)).map_err(|_| Fault::Address)?;
        (at, bytes) = (0, later);
        if bytes.is_empty() {
            break;
        }
    }
    if bytes.is_empty() { Ok(()) } else { Err(Fault::Address) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::tests::guest;

    const NEXT: u16 = 1;
    const WRITE: u16 = 2;
    const INDIRECT: u16 = 4;
    const TABLE: Table = Table { address: GuestAddress(0), size: 8 };

    fn with(descriptors: &[(u64, u32, u16, u16)]) -> Result<Chain, Fault> {
        let memory = guest(1 << 16);
        put(&memory, 0, descriptors);
        gather(&memory, TABLE, 0)
    }

    fn put(memory: &Memory, table: u64, descriptors: &[(u64, u32, u16, u16)]) {
        for (at, &(address, len, flags, next)) in descriptors.iter().enumerate() {
            let descriptor = Descriptor::new(address, len, flags, next);
            memory.guest().write_obj(descriptor, GuestAddress(table + 16 * at as u64)).unwrap();
        }
    }

    fn span(address: u64, len: u32) -> Span {
        Span { address: GuestAddress(address), len }
    }

    #[test]
    fn a_chain_is_gathered_in_its_order() {
        let chain =
            with(&[(4096, 16, NEXT, 2), (0, 0, 0, 0), (8192, 100, NEXT | WRITE, 3), (300, 1, WRITE, 0)]).unwrap();
        assert_eq!(chain.readable[..], [span(4096, 16)]);
        assert_eq!(chain.writable[..], [span(8192, 100), span(300, 1)]);
    }

    #[test]
    fn chains_that_lie_are_found_out() {
        assert_eq!(with(&[(4096, 16, NEXT, 0)]), Err(Fault::ChainLength), "a loop");
        assert_eq!(with(&[(4096, 16, NEXT, 8)]), Err(Fault::DescriptorIndex));
        assert_eq!(with(&[(65530, 16, 0, 0)]), Err(Fault::Address), "past the end");
        assert_eq!(with(&[(u64::MAX - 3, 16, 0, 0)]), Err(Fault::Address), "past all addresses");
        assert_eq!(with(&[(4096, u32::MAX, 0, 0)]), Err(Fault::Address));
        assert_eq!(with(&[(4096, 1, NEXT | WRITE, 1), (4096, 1, 0, 0)]), Err(Fault::Order));
        assert_eq!(with(&[(4096, 24, INDIRECT, 0)]), Err(Fault::Indirect), "no whole descriptors");
        assert_eq!(with(&[(4096, 0, INDIRECT, 0)]), Err(Fault::Indirect));
        assert_eq!(with(&[(4096, 16, INDIRECT | NEXT, 1)]), Err(Fault::Indirect));
        assert_eq!(with(&[(70000, 16, INDIRECT, 1)]), Err(Fault::Address));
    }

    #[test]
    fn indirect_tables_are_not_nested_and_have_a_bound() {
        let memory = guest(1 << 20);
        put(&memory, 0, &[(4096, 16 * 2000, INDIRECT, 0)]);
        put(&memory, 4096, &[(8192, 16, INDIRECT, 0)]);
        assert_eq!(gather(&memory, TABLE, 0), Err(Fault::Indirect));
        let long: Vec<_> = (1..=2000).map(|next| (100_000, 1, NEXT, next)).collect();
        put(&memory, 4096, &long);
        assert_eq!(gather(&memory, TABLE, 0), Err(Fault::ChainLength));
        put(&memory, 4096 + 16 * 100, &[(100_000, 1, 0, 0)]);
        assert_eq!(gather(&memory, TABLE, 0).unwrap().readable.len(), 101);
    }

    #[test]
    fn spans_are_cut_at_both_ends() {
        let mut spans = Spans::from_slice(&[span(0, 10), span(100, 20), span(200, 1)]);
        assert_eq!(take_last(&mut spans), Some(GuestAddress(200)));
        assert_eq!(take_last(&mut spans), Some(GuestAddress(119)));
        skip(&mut spans, 16);
        assert_eq!(spans[..], [span(106, 13)]);
        skip(&mut spans, 13);
        assert_eq!((total(&spans), take_last(&mut spans)), (0, None));
    }

    #[test]
    fn bytes_are_copied_over_several_spans() {
        let memory = guest(1 << 16);
        let spans = [span(10, 3), span(100, 2), span(50, 4)];
        copy_into(&memory, &spans, 2, &[1, 2, 3, 4]).unwrap();
        let mut back = [9; 9];
        copy_from(&memory, &spans, 0, &mut back).unwrap();
        assert_eq!(back, [0, 0, 1, 2, 3, 4, 0, 0, 0]);
        assert!(copy_into(&memory, &spans, 6, &[0; 4]).is_err());
        assert!(copy_from(&memory, &spans, 9, &mut [0]).is_err());
    }
}
