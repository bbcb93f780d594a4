//! Runs a queue over arbitrary memory, for the fuzz target `vhost_queue`.

use crate::chain::{copy_into, total};
use crate::inflight::Inflight;
use crate::memory::{Mapper, Memory};
use crate::request::{Action, Request};
use crate::ring::{Placement, Ring};
use nitro_frontend::DiskInfo;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use std::fs::File;
use std::sync::Arc;
use vhost::vhost_user::message::{VhostUserInflight, VhostUserMemoryRegion};
use vm_memory::{Bytes, GuestAddress};

/// Bytes of the guest's memory, and its address in the virtual machine monitor.
const MEMORY_BYTES: u64 = 64 << 10;
const USER_ADDRESS: u64 = 1 << 40;
/// Most requests that are taken.
const REQUESTS_MAX: usize = 2048;

/// A monitor's settings of a queue. Places are offsets in the guest's memory.
#[derive(Debug, Clone, Copy)]
pub struct Told {
    /// Descriptors of the queue.
    pub size: u16,
    /// Places of the descriptor table, the available ring and the used ring.
    pub places: [u16; 3],
    /// The index of the available ring at which the device begins.
    pub base: u16,
    /// EVENT_IDX is negotiated.
    pub event_idx: bool,
    /// The place of the in-flight region, if there is one: it is in the guest's memory, too.
    pub inflight_at: Option<u16>,
}

fn memory_file(content: &[u8]) -> Option<File> {
    let fd = memfd_create("fuzz", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).ok()?;
    ftruncate(&fd, MEMORY_BYTES).ok()?;
    fcntl_add_seals(&fd, SealFlags::SHRINK).ok()?;
    rustix::io::pwrite(&fd, &content[..content.len().min(MEMORY_BYTES as usize)], 0).ok()?;
    Some(File::from(fd))
}

/// Runs a queue over memory with this content: takes requests, copies data into their buffers, and completes them.
/// Returns the number of completed requests. Invalid content is a fault; nothing panics or accesses memory that is not
/// the guest's.
pub fn run(told: Told, content: &[u8]) -> usize {
    let Some((file, again)) = memory_file(content).and_then(|file| Some((file.try_clone().ok()?, file))) else {
        return 0;
    };
    let region = VhostUserMemoryRegion::new(0, MEMORY_BYTES, USER_ADDRESS, 0);
    // The memory is sealed.
    let mapper = Mapper::unguarded();
    let Ok(memory) = Memory::map(&mapper, &[region], vec![file]).map(Arc::new) else { return 0 };
    let [descriptors, available, used] = told.places.map(|place| USER_ADDRESS + u64::from(place));
    let at = Placement { size: told.size, descriptors, available, used, base: told.base };
    let log = told.inflight_at.and_then(|at| {
        // Rounded down to a page, since the offset of a mapping is a multiple of the page size.
        let offset = u64::from(at) / 4096 * 4096;
        let region = VhostUserInflight::new(MEMORY_BYTES - offset, offset, 1, told.size);
        Inflight::adopt(&mapper, &region, again).ok()?.queue(0, told.size)
    });
    let info = DiskInfo::new(1 << 20);
    let Ok((mut ring, under_way)) = Ring::open(Arc::clone(&memory), &at, told.event_idx, log) else { return 0 };
    let mut under_way = under_way.into_iter();
    for count in 0..REQUESTS_MAX {
        let head = match under_way.next() {
            Some(head) => Ok(Some(head)),
            None => ring.pop(),
        };
        let Ok(Some(head)) = head else { return count };
        let Ok(request) = ring.chain(head).and_then(|chain| Request::parse(&memory, chain, &info)) else {
            return count;
        };
        let written = match &request.action {
            Action::Read { offset, into } | Action::Write { offset, from: into } => {
                assert!(offset + total(into) <= info.size_bytes, "a range outside the disk");
                let len = total(into).min(1 << 16);
                assert!(
                    copy_into(&memory, into, 0, &vec![0xA5; len as usize]).is_ok(),
                    "checked memory can be written"
                );
                len as u32
            }
            Action::Discard(ranges) | Action::WriteZeroes(ranges) => {
                assert!(ranges.iter().all(|range| range.offset + u64::from(range.len) <= info.size_bytes));
                0
            }
            _ => 0,
        };
        assert!(memory.guest().write_slice(&[0], GuestAddress(request.status.0)).is_ok());
        let _ = ring.must_ring();
        if ring.complete(head, written).is_err() || ring.arm().is_err() {
            return count;
        }
    }
    REQUESTS_MAX
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn descriptor(address: u16, len: u16, flags: u16, next: u16) -> Vec<u8> {
        let address = u64::from(address).to_le_bytes();
        [&address[..], &u32::from(len).to_le_bytes(), &flags.to_le_bytes(), &next.to_le_bytes()].concat()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        /// Most values are plausible, so that the deeper checks are reached.
        #[test]
        fn no_memory_makes_the_device_panic(
            size in prop::sample::select(vec![0_u16, 1, 3, 8, 16, 1024, 4096]),
            places in prop::sample::select(vec![[0, 1024, 2048], [0, 0, 0], [65520, 1024, 2048], [8, 1025, 2049], [0, 65534, 4096]]),
            base in prop::sample::select(vec![0_u16, 1, 65535]),
            event_idx: bool,
            inflight_at in prop::option::of(prop::sample::select(vec![0_u16, 4096, 61440])),
            chains in prop::collection::vec((any::<u16>(), 0_u16..2000, 0_u16..8, 0_u16..20), 0..16),
            available in prop::collection::vec(0_u16..20, 0..8),
            noise in prop::collection::vec(any::<u8>(), 0..9000),
        ) {
            let mut content = noise;
            content.resize(content.len().max(4096), 0);
            let table: Vec<u8> = chains.iter().flat_map(|&(at, len, flags, next)| descriptor(at, len, flags, next)).collect();
            content[..table.len()].copy_from_slice(&table);
            let ring: Vec<u8> = [0, available.len() as u16].iter().chain(&available).flat_map(|n| n.to_le_bytes()).collect();
            content[1024..1024 + ring.len()].copy_from_slice(&ring);
            run(Told { size, places, base, event_idx, inflight_at }, &content);
        }
    }

    #[test]
    fn a_queue_in_order_is_served() {
        let mut content = vec![0; 8192];
        let table = [descriptor(4096, 16, 1, 1), descriptor(4200, 512, 3, 2), descriptor(5000, 1, 2, 0)].concat();
        content[..table.len()].copy_from_slice(&table);
        content[1026] = 1;
        let told = Told { size: 8, places: [0, 1024, 2048], base: 0, event_idx: true, inflight_at: None };
        assert_eq!(run(told, &content), 1);
    }
}
