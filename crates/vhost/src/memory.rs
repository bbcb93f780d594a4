//! The mapped memory of a guest.

use crate::error::Fault;
use crate::host::{Guard, Host};
use rustix::fs::{fstat, fstatfs};
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, compiler_fence};
use vhost::vhost_user::message::VhostUserMemoryRegion;
use vm_memory::mmap::MmapRegionBuilder;
use vm_memory::{
    FileOffset, GuestAddress, GuestMemoryBackend, GuestMemoryMmap, GuestMemoryRegion, GuestRegionMmap, MmapRegion,
};

/// Most regions of a guest's memory. (QEMU uses as many as a back end supports.)
pub(crate) const REGIONS_MAX: usize = 509;

/// Numbers of file systems (`linux/magic.h`).
const TMPFS: i64 = 0x0102_1994;
const HUGETLBFS: i64 = 0x9584_58F6;

/// Maps the memory of one client, and notes whether an access to any of it has failed.
pub(crate) struct Mapper {
    guard: GuardOf,
    lost: Arc<AtomicBool>,
}

/// [`Host::guard`] of some host.
type GuardOf = Box<dyn Fn(&Arc<MmapRegion>, &Arc<AtomicBool>) -> io::Result<Guard> + Send + Sync>;

/// A mapped part of a file, and what guards it.
#[derive(Debug, Clone)]
pub(crate) struct Mapping {
    pub(crate) map: Arc<MmapRegion>,
    _guard: Guard,
}

impl Mapper {
    pub(crate) fn new(host: &impl Host) -> Self {
        let host = host.clone();
        Self { guard: Box::new(move |map, lost| host.guard(map, lost)), lost: Arc::default() }
    }

    /// A mapper of files that are known not to shrink.
    pub(crate) fn unguarded() -> Self {
        Self { guard: Box::new(|_, _| Ok(Arc::new(()))), lost: Arc::default() }
    }

    /// Whether an access to mapped memory has failed.
    pub(crate) fn has_lost(&self) -> bool {
        is_set(&self.lost)
    }

    /// Maps `len` bytes of a file, shared. Other file systems than those of RAM are refused: an access to a file of theirs
    /// may take any time (FUSE, NFS), which all clients of a thread would wait for.
    pub(crate) fn map(&self, file: File, offset: u64, len: u64) -> Result<Mapping, Fault> {
        let page = page_bytes(&file)?;
        let file_bytes = u64::try_from(fstat(&file).map_err(|_| Fault::Map)?.st_size).map_err(|_| Fault::Region)?;
        let end = offset.checked_add(len).ok_or(Fault::Region)?;
        let is_whole = page.is_none_or(|page| offset.is_multiple_of(page) && len.is_multiple_of(page));
        let len = usize::try_from(len).map_err(|_| Fault::Region)?;
        if len == 0 || end > file_bytes || !is_whole {
            return Err(Fault::Region);
        }
        let map = MmapRegionBuilder::new(len)
            .with_mmap_prot(libc::PROT_READ | libc::PROT_WRITE)
            .with_mmap_flags(libc::MAP_SHARED | libc::MAP_NORESERVE)
            .with_file_offset(FileOffset::new(file, offset))
            .build()
            .map_err(|_| Fault::Map)?;
        let map = Arc::new(map);
        let guard = (self.guard)(&map, &self.lost).map_err(|_| Fault::Map)?;
        Ok(Mapping { map, _guard: guard })
    }
}

/// Bytes of a huge page of the file's file system; `None`: its pages are of the usual size.
fn page_bytes(file: &File) -> Result<Option<u64>, Fault> {
    let found = fstatfs(file).map_err(|_| Fault::NotInRam)?;
    match found.f_type & 0xFFFF_FFFF {
        TMPFS => Ok(None),
        HUGETLBFS => u64::try_from(found.f_bsize).map(Some).map_err(|_| Fault::NotInRam),
        _ => Err(Fault::NotInRam),
    }
}

/// Whether the flag is set, after all accesses to memory that come before this in the program. A failed access sets it on
/// the thread of the access, so that only the compiler has to keep the order.
fn is_set(lost: &AtomicBool) -> bool {
    compiler_fence(Ordering::SeqCst);
    lost.load(Ordering::Relaxed)
}

/// A mapped region, and its address in the virtual machine monitor.
#[derive(Debug, Clone)]
struct Region {
    user_address: u64,
    mapped: Arc<GuestRegionMmap>,
    _guard: Guard,
}

impl Region {
    fn map(mapper: &Mapper, told: &VhostUserMemoryRegion, file: File) -> Result<Self, Fault> {
        let Mapping { map, _guard } = mapper.map(file, told.mmap_offset, told.memory_size)?;
        told.user_addr.checked_add(told.memory_size).ok_or(Fault::Region)?;
        let mapped = GuestRegionMmap::with_arc(map, GuestAddress(told.guest_phys_addr)).ok_or(Fault::Region)?;
        Ok(Self { user_address: told.user_addr, mapped: Arc::new(mapped), _guard })
    }
}

/// A guest's memory. It is unmapped when this is dropped.
#[derive(Debug)]
pub(crate) struct Memory {
    guest: GuestMemoryMmap,
    regions: Vec<Region>,
    lost: Arc<AtomicBool>,
}

impl Memory {
    /// Maps the complete memory of a guest (`SET_MEM_TABLE`).
    pub(crate) fn map(mapper: &Mapper, told: &[VhostUserMemoryRegion], files: Vec<File>) -> Result<Self, Fault> {
        if told.len() > REGIONS_MAX || told.len() != files.len() {
            return Err(Fault::Regions);
        }
        let each = told.iter().zip(files).map(|(told, file)| Region::map(mapper, told, file));
        Self::of(each.collect::<Result<_, _>>()?, &mapper.lost)
    }

    /// The memory with another region (`ADD_MEM_REG`).
    pub(crate) fn with(
        before: Option<&Self>,
        mapper: &Mapper,
        told: &VhostUserMemoryRegion,
        file: File,
    ) -> Result<Self, Fault> {
        let mut regions = before.map_or_else(Vec::new, |memory| memory.regions.clone());
        if regions.len() == REGIONS_MAX {
            return Err(Fault::Regions);
        }
        regions.push(Region::map(mapper, told, file)?);
        Self::of(regions, &mapper.lost)
    }

    /// The memory without a region (`REM_MEM_REG`); `None` if it was the last one.
    pub(crate) fn without(&self, told: &VhostUserMemoryRegion) -> Result<Option<Self>, Fault> {
        let is_meant = |region: &Region| {
            region.user_address == told.user_addr
                && region.mapped.start_addr().0 == told.guest_phys_addr
                && region.mapped.len() == told.memory_size
        };
        let mut regions = self.regions.clone();
        let at = regions.iter().position(is_meant).ok_or(Fault::Region)?;
        regions.remove(at);
        if regions.is_empty() { Ok(None) } else { Self::of(regions, &self.lost).map(Some) }
    }

    fn of(regions: Vec<Region>, lost: &Arc<AtomicBool>) -> Result<Self, Fault> {
        let mut mapped: Vec<_> = regions.iter().map(|region| Arc::clone(&region.mapped)).collect();
        mapped.sort_by_key(|region| region.start_addr());
        let guest = GuestMemoryMmap::from_arc_regions(mapped).map_err(|_| Fault::Region)?;
        Ok(Self { guest, regions, lost: Arc::clone(lost) })
    }

    /// The memory, addressed by the guest's physical addresses.
    pub(crate) fn guest(&self) -> &GuestMemoryMmap {
        &self.guest
    }

    /// Whether an access to memory of the client has failed, so that what was read may be wrong. To be checked after an
    /// access and before its bytes have an effect.
    pub(crate) fn is_lost(&self) -> bool {
        is_set(&self.lost)
    }

    /// Whether `len` bytes from `address` on lie within the guest's memory.
    pub(crate) fn has(&self, address: GuestAddress, len: u32) -> bool {
        GuestMemoryBackend::check_range(&self.guest, address, len as usize)
    }

    /// Converts an address in the virtual machine monitor into the guest's.
    pub(crate) fn guest_address(&self, user_address: u64) -> Result<GuestAddress, Fault> {
        let within = |region: &Region| {
            let offset = user_address.checked_sub(region.user_address)?;
            (offset < region.mapped.len()).then(|| GuestAddress(region.mapped.start_addr().0 + offset))
        };
        self.regions.iter().find_map(within).ok_or(Fault::Address)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};

    /// A memfd with this size and these seals.
    pub(crate) fn memfd(bytes: u64, seals: SealFlags) -> File {
        let fd = memfd_create("test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&fd, bytes).unwrap();
        fcntl_add_seals(&fd, seals).unwrap();
        fd.into()
    }

    /// A guest with `bytes` of memory from address 0 on.
    pub(crate) fn guest(bytes: u64) -> Arc<Memory> {
        let told = VhostUserMemoryRegion::new(0, bytes, 0x7000_0000, 0);
        Arc::new(Memory::map(&Mapper::unguarded(), &[told], vec![memfd(bytes, SealFlags::SHRINK)]).unwrap())
    }

    #[test]
    fn memory_is_of_a_file_in_ram() {
        let told = [VhostUserMemoryRegion::new(0, 8192, 0x1000, 0)];
        let map = |file: File| Memory::map(&Mapper::unguarded(), &told, vec![file]);
        assert_eq!(map(File::open("/proc/self/exe").unwrap()).unwrap_err(), Fault::NotInRam);
        assert_eq!(map(File::open("/proc/self/mem").unwrap()).unwrap_err(), Fault::NotInRam);
        for seals in [SealFlags::SHRINK, SealFlags::GROW] {
            assert!(map(memfd(8192, seals)).is_ok());
        }
        // Parts of huge pages could not be unmapped.
        let Ok(huge) = memfd_create("test", MemfdFlags::CLOEXEC | MemfdFlags::HUGETLB) else {
            return eprintln!("skipped: the kernel has no huge pages");
        };
        ftruncate(&huge, 1 << 30).unwrap();
        assert_eq!(map(huge.into()).unwrap_err(), Fault::Region);
    }

    #[test]
    fn regions_lie_within_their_files_and_apart() {
        let map = |told: &[VhostUserMemoryRegion]| {
            let files = told.iter().map(|_| memfd(8192, SealFlags::SHRINK)).collect();
            Memory::map(&Mapper::unguarded(), told, files)
                .map(|_| ())
                .map_err(|fault| assert_ne!(fault, Fault::NotInRam))
        };
        let region = VhostUserMemoryRegion::new;
        assert!(map(&[region(0, 8192, 0, 0), region(8192, 8192, 8192, 0)]).is_ok());
        assert!(map(&[region(0, 12288, 0, 0)]).is_err(), "longer than its file");
        assert!(map(&[region(0, 8192, 0, u64::MAX - 8191)]).is_err(), "past the end of all files");
        assert!(map(&[region(0, 0, 0, 0)]).is_err(), "empty");
        assert!(map(&[region(u64::MAX - 4095, 8192, 0, 0)]).is_err(), "past the end of all addresses");
        assert!(map(&[region(0, 8192, 0, 0), region(4096, 4096, 8192, 0)]).is_err(), "overlapping");
        assert!(map(&[region(0, 4096, 0, 123)]).is_err(), "not at a page");
    }

    #[test]
    fn a_region_is_removed_by_all_its_numbers() {
        let (one, other) =
            (VhostUserMemoryRegion::new(0, 8192, 0x1000, 0), VhostUserMemoryRegion::new(8192, 8192, 0x9000, 0));
        let mapper = Mapper::unguarded();
        let memory = Memory::with(None, &mapper, &one, memfd(8192, SealFlags::SHRINK)).unwrap();
        let memory = Memory::with(Some(&memory), &mapper, &other, memfd(8192, SealFlags::SHRINK)).unwrap();
        assert_eq!(memory.guest_address(0x9001).unwrap().0, 8193);
        assert!(memory.has(GuestAddress(8000), 400) && !memory.has(GuestAddress(16000), 400));
        assert!(memory.without(&VhostUserMemoryRegion::new(0, 4096, 0x1000, 0)).is_err());
        let memory = memory.without(&one).unwrap().unwrap();
        assert!(memory.guest_address(0x1000).is_err() && !memory.has(GuestAddress(0), 1));
        assert!(memory.without(&other).unwrap().is_none());
    }
}
