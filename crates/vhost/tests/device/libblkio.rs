//! libblkio's driver, whose rings and buffers are memfds without seals.

use crate::support::{DISK_BYTES, Place, Ram};
use blkio::{Blkio, Blkioq, ReqFlags};
use nitro_vhost::VhostError;
use std::fs::File;
use std::mem::MaybeUninit;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const REGION_BYTES: usize = 1 << 20;

fn connect(path: &Path) -> Blkio {
    let mut blkio = Blkio::new("virtio-blk-vhost-user").unwrap();
    blkio.set_str("path", path.to_str().unwrap()).unwrap();
    blkio.connect().unwrap();
    blkio
}

/// Waits for one request.
fn wait(queue: &mut Blkioq) {
    let mut patience = Duration::from_secs(60);
    assert_eq!(queue.do_io(&mut [MaybeUninit::uninit()], 1, Some(&mut patience), None).unwrap(), 1);
}

#[test]
fn libblkio_finds_what_it_wrote() {
    let (place, disk) = (Place::new(), Arc::new(Ram::new(false)));
    let (served, mut blkio) = place.serve(&disk, connect);
    assert_eq!(blkio.get_u64("capacity").unwrap(), DISK_BYTES);
    let mut queue = blkio.start().unwrap().queues.remove(0);
    let region = blkio.alloc_mem_region(REGION_BYTES).unwrap();
    blkio.map_mem_region(&region).unwrap();
    let memory = File::options().read(true).write(true).open(format!("/proc/self/fd/{}", region.fd)).unwrap();
    let data: Vec<u8> = (0..REGION_BYTES / 2).map(|at| (at / 3) as u8).collect();
    memory.write_all_at(&data, 0).unwrap();
    let place_of = |at: usize| (region.addr + at) as *mut u8;
    queue.write(4096, place_of(0), data.len(), 0, ReqFlags::empty());
    wait(&mut queue);
    queue.flush(0, ReqFlags::empty());
    wait(&mut queue);
    assert!(disk.contents.lock().unwrap().1[4096..][..data.len()] == data, "written and flushed");
    queue.read(4096, place_of(data.len()), data.len(), 0, ReqFlags::empty());
    wait(&mut queue);
    let mut back = vec![0; data.len()];
    memory.read_exact_at(&mut back, data.len() as u64).unwrap();
    assert!(back == data, "read");
    // Its buffers are gone before the device reads them.
    memory.set_len(0).unwrap();
    queue.write(0, place_of(0), 4096, 0, ReqFlags::empty());
    let mut patience = Duration::ZERO;
    let _ = queue.do_io(&mut [MaybeUninit::uninit()], 0, Some(&mut patience), None);
    assert!(matches!(served.end(), Err(VhostError::MemoryLost)));
    assert!(disk.contents.lock().unwrap().0[..4096] == [0; 4096], "nothing was written");
}
