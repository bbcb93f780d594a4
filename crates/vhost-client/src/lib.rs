//! A vhost-user-blk driver without a virtual machine: the parts of QEMU and of a guest's kernel that tests and
//! benchmarks of a device need. It can reconnect to a device with the memory, rings and in-flight region of its last
//! connection.
#![forbid(unsafe_code)]

mod queue;

pub use queue::{Done, Kind, Queue};

use rustix::fs::{MemfdFlags, Mode, OFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create, open};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use vhost::vhost_user::message::{
    VhostUserConfigFlags, VhostUserHeaderFlag, VhostUserInflight, VhostUserProtocolFeatures,
};
use vhost::vhost_user::{Frontend, VhostUserFrontend};
use vhost::{VhostBackend, VhostUserMemoryRegionInfo, VringConfigData};
use vm_memory::{FileOffset, GuestAddress, GuestMemoryMmap, GuestRegionMmap, MmapRegion};

/// The declared address of the driver's memory in its own process; a device uses it only as a base.
const USER_ADDRESS: u64 = 0x5000_0000_0000;
/// Bytes of the configuration space that are requested.
const CONFIG_BYTES: u32 = 60;

const F_EVENT_IDX: u64 = 1 << 29;
const F_PROTOCOL: u64 = 1 << 30;
const F_VERSION_1: u64 = 1 << 32;

/// The settings of a client.
#[derive(Debug, Clone, Copy)]
pub struct Setup {
    /// Number of queues.
    pub queues: u16,
    /// Most requests of a queue at a time; at most 256.
    pub depth: u16,
    /// Most data bytes of a request.
    pub data_bytes: u32,
    /// Virtio features that are accepted if they are offered.
    pub features: u64,
    /// Requests use indirect tables of descriptors.
    pub indirect: bool,
    /// The file of the driver's memory.
    pub memory: Backing,
}

/// The file of a driver's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backing {
    /// A memfd that cannot shrink, as QEMU's.
    Sealed,
    /// A memfd that can shrink, as libblkio's and Cloud Hypervisor's.
    Plain,
    /// An unlinked file in this folder.
    Folder(&'static str),
}

impl Backing {
    fn open(self, bytes: u64) -> io::Result<File> {
        let fd = match self {
            Self::Sealed | Self::Plain => memfd_create("guest", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?,
            Self::Folder(folder) => open(folder, OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC, Mode::RWXU)?,
        };
        ftruncate(&fd, bytes)?;
        if self == Self::Sealed {
            fcntl_add_seals(&fd, SealFlags::SHRINK)?;
        }
        Ok(fd.into())
    }
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            queues: 1,
            depth: 64,
            data_bytes: 64 << 10,
            features: u64::MAX,
            indirect: false,
            memory: Backing::Sealed,
        }
    }
}

/// A client of a device.
pub struct Client {
    frontend: Frontend,
    setup: Setup,
    file: File,
    memory: Arc<GuestMemoryMmap>,
    memory_bytes: u64,
    /// The queues.
    pub queues: Vec<Queue>,
    inflight: Option<(VhostUserInflight, File)>,
    has_event_idx: bool,
    notices: Option<OwnedFd>,
}

fn failed(error: impl std::fmt::Debug) -> io::Error {
    io::Error::other(format!("{error:?}"))
}

impl Client {
    /// Connects to a device's socket and starts all queues.
    ///
    /// # Errors
    /// The device's error or the operating system's.
    pub fn connect(path: &Path, setup: Setup) -> io::Result<Self> {
        let layout = queue::Layout::new(setup.depth, setup.data_bytes);
        let memory_bytes = (layout.bytes * u64::from(setup.queues)).next_multiple_of(2 << 20);
        let file = setup.memory.open(memory_bytes)?;
        let mapped =
            MmapRegion::from_file(FileOffset::new(file.try_clone()?, 0), memory_bytes as usize).map_err(failed)?;
        let region = GuestRegionMmap::new(mapped, GuestAddress(0)).ok_or_else(|| failed("region"))?;
        let memory = Arc::new(GuestMemoryMmap::from_regions(vec![region]).map_err(failed)?);
        let queues = (0..setup.queues)
            .map(|index| Queue::new(&memory, layout, layout.bytes * u64::from(index), setup.indirect))
            .collect::<io::Result<Vec<_>>>()?;
        let frontend = Frontend::connect(path, setup.queues.into()).map_err(failed)?;
        let mut client = Self {
            frontend,
            setup,
            file,
            memory,
            memory_bytes,
            queues,
            inflight: None,
            has_event_idx: false,
            notices: None,
        };
        client.introduce()?;
        Ok(client)
    }

    /// Connects again after the server has ended, with the same memory, rings and in-flight region.
    ///
    /// # Errors
    /// The device's error or the operating system's.
    pub fn reconnect(&mut self, path: &Path) -> io::Result<()> {
        self.frontend = Frontend::connect(path, self.setup.queues.into()).map_err(failed)?;
        self.introduce()
    }

    /// Resets the device, as a guest's driver does. Requests in flight are dropped.
    ///
    /// # Errors
    /// The device's error or the operating system's.
    pub fn reset(&mut self) -> io::Result<()> {
        for index in 0..self.queues.len() {
            self.frontend.get_vring_base(index).map_err(failed)?;
        }
        self.inflight = None;
        self.queues.iter_mut().try_for_each(Queue::reset)?;
        self.start()
    }

    fn introduce(&mut self) -> io::Result<()> {
        let frontend = &mut self.frontend;
        frontend.set_owner().map_err(failed)?;
        let offered = frontend.get_features().map_err(failed)?;
        let features = offered & (self.setup.features | F_PROTOCOL | F_VERSION_1);
        frontend.set_features(features).map_err(failed)?;
        let protocol = frontend.get_protocol_features().map_err(failed)?;
        let wanted = VhostUserProtocolFeatures::MQ
            | VhostUserProtocolFeatures::CONFIG
            | VhostUserProtocolFeatures::REPLY_ACK
            | VhostUserProtocolFeatures::INFLIGHT_SHMFD
            | VhostUserProtocolFeatures::BACKEND_REQ
            | VhostUserProtocolFeatures::RESET_DEVICE
            | VhostUserProtocolFeatures::CONFIGURE_MEM_SLOTS;
        let protocol = protocol & wanted;
        frontend.set_protocol_features(protocol).map_err(failed)?;
        if protocol.contains(VhostUserProtocolFeatures::REPLY_ACK) {
            frontend.set_hdr_flags(VhostUserHeaderFlag::NEED_REPLY);
        }
        if protocol.contains(VhostUserProtocolFeatures::BACKEND_REQ) {
            let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
            frontend.set_backend_request_fd(&theirs.as_raw_fd()).map_err(failed)?;
            self.notices = Some(ours);
        }
        self.has_event_idx = features & F_EVENT_IDX != 0;
        if !protocol.contains(VhostUserProtocolFeatures::INFLIGHT_SHMFD) {
            self.inflight = None;
        }
        self.start_with(protocol.contains(VhostUserProtocolFeatures::INFLIGHT_SHMFD))
    }

    fn start(&mut self) -> io::Result<()> {
        self.start_with(true)
    }

    fn start_with(&mut self, has_inflight: bool) -> io::Result<()> {
        let frontend = &mut self.frontend;
        if has_inflight {
            if self.inflight.is_none() {
                let size = self.queues.first().map_or(0, |queue| queue.size());
                let wanted = VhostUserInflight::new(0, 0, self.setup.queues, size);
                self.inflight = Some(frontend.get_inflight_fd(&wanted).map_err(failed)?);
            }
            if let Some((told, file)) = &self.inflight {
                frontend.set_inflight_fd(told, file.as_raw_fd()).map_err(failed)?;
            }
        }
        frontend.set_mem_table(&[region(&self.file, self.memory_bytes)]).map_err(failed)?;
        for (index, queue) in self.queues.iter_mut().enumerate() {
            queue.use_event_idx(self.has_event_idx);
            frontend.set_vring_num(index, queue.size()).map_err(failed)?;
            let places = queue.places();
            let config = VringConfigData {
                queue_max_size: queue.size(),
                queue_size: queue.size(),
                flags: 0,
                desc_table_addr: USER_ADDRESS + places[0],
                avail_ring_addr: USER_ADDRESS + places[1],
                used_ring_addr: USER_ADDRESS + places[2],
                log_addr: None,
            };
            frontend.set_vring_addr(index, &config).map_err(failed)?;
            frontend.set_vring_base(index, queue.used_index()?).map_err(failed)?;
            frontend.set_vring_call(index, queue.call()).map_err(failed)?;
            frontend.set_vring_kick(index, queue.kick_event()).map_err(failed)?;
            frontend.set_vring_enable(index, true).map_err(failed)?;
        }
        Ok(())
    }

    /// Reads the configuration space.
    ///
    /// # Errors
    /// The device's error or the operating system's.
    pub fn config(&mut self) -> io::Result<Vec<u8>> {
        let asked = vec![0; CONFIG_BYTES as usize];
        let told = self.frontend.get_config(0, CONFIG_BYTES, VhostUserConfigFlags::empty(), &asked);
        told.map(|(_, space)| space).map_err(failed)
    }

    /// Reads the disk's size in bytes.
    ///
    /// # Errors
    /// The device's error or the operating system's.
    pub fn size_bytes(&mut self) -> io::Result<u64> {
        let space = self.config()?;
        Ok(space.first_chunk().copied().map_or(0, u64::from_le_bytes) * 512)
    }

    /// Waits until the device notifies of a change of its configuration.
    ///
    /// # Errors
    /// The device does not support such notifications, or has closed its socket.
    pub fn wait_for_change(&mut self) -> io::Result<()> {
        let notices = self.notices.as_ref().ok_or_else(|| failed("the device does not support notifications"))?;
        let mut header = [0; 12];
        let got = rustix::io::read(notices, &mut header)?;
        if got == 12 && header[..4] == 2_u32.to_ne_bytes() { Ok(()) } else { Err(failed(header)) }
    }

    /// Removes the memory from the device and adds it again. There must be no request in flight.
    ///
    /// # Errors
    /// The device's error or the operating system's.
    pub fn replug_memory(&mut self) -> io::Result<()> {
        let region = region(&self.file, self.memory_bytes);
        self.frontend.remove_mem_region(&region).map_err(failed)?;
        self.frontend.add_mem_region(&region).map_err(failed)?;
        Ok(())
    }

    /// Shrinks the file of the memory, which must not be sealed. From then on, an access to what is beyond its end would
    /// kill the process.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn shrink(&self, bytes: u64) -> io::Result<()> {
        Ok(ftruncate(&self.file, bytes)?)
    }

    /// The driver's memory.
    #[must_use]
    pub fn memory(&self) -> &GuestMemoryMmap {
        &self.memory
    }
}

fn region(file: &File, bytes: u64) -> VhostUserMemoryRegionInfo {
    VhostUserMemoryRegionInfo {
        guest_phys_addr: 0,
        memory_size: bytes,
        userspace_addr: USER_ADDRESS,
        mmap_offset: 0,
        mmap_handle: file.as_raw_fd(),
    }
}
