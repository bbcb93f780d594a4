//! The mapped memory of a guest.

use crate::error::Fault;
use rustix::fs::{SealFlags, fcntl_get_seals, fstat};
use std::fs::File;
use std::sync::Arc;
use vhost::vhost_user::message::VhostUserMemoryRegion;
use vm_memory::mmap::MmapRegionBuilder;
use vm_memory::{
    FileOffset, GuestAddress, GuestMemoryBackend, GuestMemoryMmap, GuestMemoryRegion, GuestRegionMmap, MmapRegion,
};

/// Most regions of a guest's memory. (QEMU uses as many as a back end supports.)
pub(crate) const REGIONS_MAX: usize = 509;

/// Maps `len` bytes of a file, shared. The file must be sealed against shrinking, so that no access can fail.
pub(crate) fn map(file: File, offset: u64, len: u64) -> Result<MmapRegion, Fault> {
    let seals = fcntl_get_seals(&file).map_err(|_| Fault::Shrinkable)?;
    if !seals.contains(SealFlags::SHRINK) {
        return Err(Fault::Shrinkable);
    }
    let file_bytes = u64::try_from(fstat(&file).map_err(|_| Fault::Map)?.st_size).map_err(|_| Fault::Region)?;
    let end = offset.checked_add(len).ok_or(Fault::Region)?;
    let len = usize::try_from(len).map_err(|_| Fault::Region)?;
    if len == 0 || end > file_bytes {
        return Err(Fault::Region);
    }
    MmapRegionBuilder::new(len)
        .with_mmap_prot(libc::PROT_READ | libc::PROT_WRITE)
        .with_mmap_flags(libc::MAP_SHARED | libc::MAP_NORESERVE)
        .with_file_offset(FileOffset::new(file, offset))
        .build()
        .map_err(|_| Fault::Map)
}

/// A mapped region, and its address in the virtual machine monitor.
#[derive(Debug, Clone)]
struct Region {
    user_address: u64,
    mapped: Arc<GuestRegionMmap>,
}

impl Region {
    fn map(told: &VhostUserMemoryRegion, file: File) -> Result<Self, Fault> {
        let mapped = map(file, told.mmap_offset, told.memory_size)?;
        told.user_addr.checked_add(told.memory_size).ok_or(Fault::Region)?;
        let mapped = GuestRegionMmap::new(mapped, GuestAddress(told.guest_phys_addr)).ok_or(Fault::Region)?;
        Ok(Self { user_address: told.user_addr, mapped: Arc::new(mapped) })
    }
}

/// A guest's memory. It is unmapped when this is dropped.
#[derive(Debug)]
pub(crate) struct Memory {
    guest: GuestMemoryMmap,
    regions: Vec<Region>,
}

impl Memory {
    /// Maps the complete memory of a guest (`SET_MEM_TABLE`).
    pub(crate) fn map(told: &[VhostUserMemoryRegion], files: Vec<File>) -> Result<Self, Fault> {
        if told.len() > REGIONS_MAX || told.len() != files.len() {
            return Err(Fault::Regions);
        }
        let regions = told.iter().zip(files).map(|(told, file)| Region::map(told, file)).collect::<Result<_, _>>()?;
        Self::of(regions)
    }

    /// The memory with another region (`ADD_MEM_REG`).
    pub(crate) fn with(before: Option<&Self>, told: &VhostUserMemoryRegion, file: File) -> Result<Self, Fault> {
        let mut regions = before.map_or_else(Vec::new, |memory| memory.regions.clone());
        if regions.len() == REGIONS_MAX {
            return Err(Fault::Regions);
        }
        regions.push(Region::map(told, file)?);
        Self::of(regions)
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
        if regions.is_empty() { Ok(None) } else { Self::of(regions).map(Some) }
    }

    fn of(regions: Vec<Region>) -> Result<Self, Fault> {
        let mut mapped: Vec<_> = regions.iter().map(|region| Arc::clone(&region.mapped)).collect();
        mapped.sort_by_key(|region| region.start_addr());
        let guest = GuestMemoryMmap::from_arc_regions(mapped).map_err(|_| Fault::Region)?;
        Ok(Self { guest, regions })
    }

    /// The memory, addressed by the guest's physical addresses.
    pub(crate) fn guest(&self) -> &GuestMemoryMmap {
        &self.guest
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
    use rustix::fs::{MemfdFlags, fcntl_add_seals, ftruncate, memfd_create};

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
        Arc::new(Memory::map(&[told], vec![memfd(bytes, SealFlags::SHRINK)]).unwrap())
    }

    #[test]
    fn memory_that_can_shrink_is_refused() {
        let told = [VhostUserMemoryRegion::new(0, 8192, 0x1000, 0)];
        assert_eq!(Memory::map(&told, vec![memfd(8192, SealFlags::GROW)]).unwrap_err(), Fault::Shrinkable);
        let file = File::open("/proc/self/exe").unwrap();
        assert_eq!(Memory::map(&told, vec![file]).unwrap_err(), Fault::Shrinkable);
        let sealed = memfd(8192, SealFlags::SHRINK);
        let again = sealed.try_clone().unwrap();
        assert!(Memory::map(&told, vec![sealed]).is_ok());
        assert!(ftruncate(&again, 0).is_err());
    }

    #[test]
    fn regions_lie_within_their_files_and_apart() {
        let map = |told: &[VhostUserMemoryRegion]| {
            let files = told.iter().map(|_| memfd(8192, SealFlags::SHRINK)).collect();
            Memory::map(told, files).map(|_| ()).map_err(|fault| assert_ne!(fault, Fault::Shrinkable))
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
        let memory = Memory::with(None, &one, memfd(8192, SealFlags::SHRINK)).unwrap();
        let memory = Memory::with(Some(&memory), &other, memfd(8192, SealFlags::SHRINK)).unwrap();
        assert_eq!(memory.guest_address(0x9001).unwrap().0, 8193);
        assert!(memory.has(GuestAddress(8000), 400) && !memory.has(GuestAddress(16000), 400));
        assert!(memory.without(&VhostUserMemoryRegion::new(0, 4096, 0x1000, 0)).is_err());
        let memory = memory.without(&one).unwrap().unwrap();
        assert!(memory.guest_address(0x1000).is_err() && !memory.has(GuestAddress(0), 1));
        assert!(memory.without(&other).unwrap().is_none());
    }
}
