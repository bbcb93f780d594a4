//! The device, which control messages set up: memory, queues, features.

use crate::config::{self, F_EVENT_IDX, F_FLUSH, F_PROTOCOL, QUEUE_SIZE_MAX, QUEUES_MAX};
use crate::control::Control;
use crate::error::Fault;
use crate::host::Host;
use crate::inflight::{Inflight, Left, Unflushed};
use crate::memory::{Mapper, Memory, REGIONS_MAX};
use crate::queue::{Ending, Run, Shared, run};
use crate::ring::{Placement, Ring};
use crate::wake::{Answer, Stop};
use futures_util::FutureExt as _;
use nitro_frontend::Disk;
use parking_lot::Mutex;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vhost::vhost_user::message::{
    VhostTransferStateDirection, VhostTransferStatePhase, VhostUserConfigFlags, VhostUserInflight, VhostUserLog,
    VhostUserMemoryRegion, VhostUserProtocolFeatures, VhostUserShMemConfig, VhostUserSharedMsg,
    VhostUserSingleMemoryRegion, VhostUserVringAddrFlags, VhostUserVringState,
};
use vhost::vhost_user::{Error, GpuBackend, Result, VhostUserBackendReqHandlerMut};

/// Most bytes of the configuration space that a message may read.
const SPACE_BYTES_MAX: u32 = 256;

/// The identifier of a server's process in in-flight regions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Incarnation(pub(crate) [u64; 2]);

impl Incarnation {
    /// A random identifier.
    #[must_use]
    pub fn new() -> Self {
        Self([RandomState::new().hash_one(std::process::id()), RandomState::new().hash_one(0)])
    }
}

impl Default for Incarnation {
    fn default() -> Self {
        Self::new()
    }
}

/// The settings of a queue, and the running queue.
#[derive(Default)]
struct Vring {
    at: Placement,
    has_addresses: bool,
    kick: Option<Arc<OwnedFd>>,
    call: Arc<Mutex<Option<Arc<OwnedFd>>>>,
    is_enabled: bool,
    running: Option<Running>,
}

struct Running {
    stop: Arc<Stop>,
    ended: Arc<Answer<Option<u16>>>,
}

/// The device of one connection.
pub(crate) struct Device<D, H> {
    pub(crate) shared: Arc<Shared<D>>,
    host: H,
    control: Arc<Control>,
    incarnation: Incarnation,
    features: u64,
    pub(crate) mapper: Mapper,
    memory: Option<Arc<Memory>>,
    inflight: Option<Inflight>,
    pub(crate) unflushed: Arc<Unflushed>,
    vrings: Vec<Vring>,
}

impl<D: Disk + Send + Sync + 'static, H: Host> Device<D, H> {
    pub(crate) fn new(shared: Arc<Shared<D>>, host: H, control: Arc<Control>, incarnation: Incarnation) -> Self {
        let vrings = (0..QUEUES_MAX).map(|_| Vring::default()).collect();
        Self {
            shared,
            mapper: Mapper::new(&host),
            host,
            control,
            incarnation,
            features: 0,
            memory: None,
            inflight: None,
            unflushed: Arc::default(),
            vrings,
        }
    }

    fn vring(&mut self, index: u32) -> std::result::Result<&mut Vring, Fault> {
        self.vrings.get_mut(index as usize).ok_or(Fault::QueueIndex)
    }

    /// Stops all queues and waits until their requests have ended.
    pub(crate) fn stop_all(&mut self) {
        self.stop(0..QUEUES_MAX);
    }

    fn stop(&mut self, which: std::ops::Range<usize>) {
        let vrings = &mut self.vrings[which];
        vrings.iter().filter_map(|vring| vring.running.as_ref()).for_each(|running| running.stop.set());
        for vring in vrings {
            if let Some(running) = vring.running.take()
                && let Some(base) = running.ended.wait()
            {
                vring.at.base = base;
            }
        }
    }

    /// Starts all queues that are ready and not running.
    fn start_all(&mut self) -> std::result::Result<(), Fault> {
        (0..QUEUES_MAX).try_for_each(|index| self.start(index))
    }

    fn start(&mut self, index: usize) -> std::result::Result<(), Fault> {
        let is_always_enabled = self.features & F_PROTOCOL == 0;
        let (Some(memory), Some(vring)) = (&self.memory, self.vrings.get_mut(index)) else { return Ok(()) };
        let is_ready = vring.has_addresses && vring.at.size > 0 && (vring.is_enabled || is_always_enabled);
        let Some(kick) = vring.kick.as_ref().filter(|_| is_ready && vring.running.is_none()) else { return Ok(()) };
        let log = self.inflight.as_ref().and_then(|inflight| inflight.queue(index, vring.at.size));
        let has_event_idx = self.features & F_EVENT_IDX != 0;
        let (ring, under_way) = Ring::open(Arc::clone(memory), &vring.at, has_event_idx, log)?;
        if !under_way.is_empty() {
            tracing::info!(
                queue = index,
                requests = under_way.len(),
                "requests of an earlier connection are executed again"
            );
        }
        let (stop, ending) = (Arc::<Stop>::default(), Ending::default());
        let ended = Arc::clone(&ending.0);
        let queue = Run {
            shared: Arc::clone(&self.shared),
            ring,
            under_way,
            index,
            kick: Arc::clone(kick),
            call: Arc::clone(&vring.call),
            always_durable: self.features & F_FLUSH == 0,
            unflushed: Arc::clone(&self.unflushed),
            control: Arc::clone(&self.control),
            stop: Arc::clone(&stop),
            ending,
        };
        let host = self.host.clone();
        self.control.watch(&stop);
        // If the host cannot run the queue, its `Ending` is dropped: the queue has ended.
        self.host.spawn(index, Box::new(move || run(host, queue).boxed_local()));
        vring.running = Some(Running { stop, ended });
        Ok(())
    }

    /// Changes the guest's memory. Queues are stopped before, so that none uses memory that is removed, and started
    /// after.
    fn change_memory(
        &mut self,
        change: impl FnOnce(Option<&Memory>, &Mapper) -> std::result::Result<Option<Memory>, Fault>,
    ) -> Result<()> {
        self.stop_all();
        self.memory = change(self.memory.as_deref(), &self.mapper)?.map(Arc::new);
        if let Err(fault) = self.start_all() {
            // The client may set the addresses of the rings again.
            tracing::debug!("a queue cannot start before its rings are set again: {fault}");
        }
        Ok(())
    }

    fn lose(&self, what: &str) {
        tracing::warn!("{what}: all I/O of the guest fails until it resets the device");
        self.shared.has_lost.store(true, Ordering::SeqCst);
    }

    fn reset(&mut self) {
        self.stop_all();
        self.vrings = (0..QUEUES_MAX).map(|_| Vring::default()).collect();
        self.shared.has_lost.store(false, Ordering::SeqCst);
    }
}

/// Accepts only an eventfd, since reads and writes of other files may block.
fn event(file: Option<File>) -> std::result::Result<Option<Arc<OwnedFd>>, Fault> {
    let Some(file) = file else { return Ok(None) };
    let link = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).map_err(|_| Fault::NoEvent)?;
    let is_event = link.to_str().is_some_and(|link| link.starts_with("anon_inode:[eventfd"));
    if is_event { Ok(Some(Arc::new(file.into()))) } else { Err(Fault::NoEvent) }
}

fn unsupported<T>(what: &'static str) -> Result<T> {
    Err(Error::InvalidOperation(what))
}

impl<D: Disk + Send + Sync + 'static, H: Host> VhostUserBackendReqHandlerMut for Device<D, H> {
    fn set_owner(&mut self) -> Result<()> {
        self.control.begin();
        Ok(())
    }

    fn reset_owner(&mut self) -> Result<()> {
        self.reset();
        Ok(())
    }

    fn reset_device(&mut self) -> Result<()> {
        self.reset();
        Ok(())
    }

    fn get_features(&mut self) -> Result<u64> {
        Ok(config::features(&self.shared.disk.info()))
    }

    fn set_features(&mut self, features: u64) -> Result<()> {
        if features & !config::features(&self.shared.disk.info()) != 0 {
            return Err(Error::InvalidParam);
        }
        self.features = features;
        Ok(())
    }

    fn set_mem_table(
        &mut self,
        told: &[VhostUserMemoryRegion],
        files: Vec<File>,
        _: Option<bool>,
    ) -> Result<Option<Vec<vhost::VhostUserMemoryRegionBase>>> {
        self.change_memory(|_, mapper| Memory::map(mapper, told, files).map(Some))?;
        Ok(None)
    }

    fn set_vring_num(&mut self, index: u32, num: u32) -> Result<()> {
        let size = u16::try_from(num).ok().filter(|size| size.is_power_of_two() && *size <= QUEUE_SIZE_MAX);
        self.vring(index)?.at.size = size.ok_or(Fault::QueueSize)?;
        Ok(())
    }

    fn set_vring_addr(
        &mut self,
        index: u32,
        _: VhostUserVringAddrFlags,
        descriptors: u64,
        used: u64,
        available: u64,
        _: u64,
    ) -> Result<()> {
        let vring = self.vring(index)?;
        vring.at = Placement { descriptors, available, used, ..vring.at };
        vring.has_addresses = true;
        Ok(self.start(index as usize)?)
    }

    fn set_vring_base(&mut self, index: u32, base: u32) -> Result<()> {
        self.vring(index)?.at.base = u16::try_from(base).map_err(|_| Error::InvalidParam)?;
        // Without an in-flight region it is unknown which writes an earlier server had acknowledged.
        let is_taken_over = base != 0 && self.inflight.is_none() && !self.control.has_run();
        if is_taken_over && !self.shared.disk.keeps_writes() {
            self.lose("a guest continues without an in-flight region, and some of its writes may be lost");
        }
        Ok(())
    }

    fn get_vring_base(&mut self, index: u32) -> Result<VhostUserVringState> {
        self.vring(index)?;
        let at = index as usize;
        self.stop(at..at + 1);
        let vring = self.vring(index)?;
        vring.kick = None;
        Ok(VhostUserVringState::new(index, vring.at.base.into()))
    }

    fn set_vring_kick(&mut self, index: u8, file: Option<File>) -> Result<()> {
        let event = event(file)?.ok_or(Fault::NoEvent)?;
        let at = usize::from(index);
        self.vring(index.into())?;
        self.stop(at..at + 1);
        self.vring(index.into())?.kick = Some(event);
        Ok(self.start(at)?)
    }

    fn set_vring_call(&mut self, index: u8, file: Option<File>) -> Result<()> {
        *self.vring(index.into())?.call.lock() = event(file)?;
        Ok(())
    }

    fn set_vring_err(&mut self, index: u8, _: Option<File>) -> Result<()> {
        self.vring(index.into())?;
        Ok(())
    }

    fn get_protocol_features(&mut self) -> Result<VhostUserProtocolFeatures> {
        Ok(VhostUserProtocolFeatures::MQ
            | VhostUserProtocolFeatures::CONFIG
            | VhostUserProtocolFeatures::BACKEND_REQ
            | VhostUserProtocolFeatures::INFLIGHT_SHMFD
            | VhostUserProtocolFeatures::RESET_DEVICE
            | VhostUserProtocolFeatures::CONFIGURE_MEM_SLOTS)
    }

    fn set_protocol_features(&mut self, _: u64) -> Result<()> {
        Ok(())
    }

    fn get_queue_num(&mut self) -> Result<u64> {
        Ok(QUEUES_MAX as u64)
    }

    fn set_vring_enable(&mut self, index: u32, enable: bool) -> Result<()> {
        self.vring(index)?.is_enabled = enable;
        let at = index as usize;
        if enable {
            return Ok(self.start(at)?);
        }
        self.stop(at..at + 1);
        Ok(())
    }

    fn get_config(&mut self, offset: u32, size: u32, _: VhostUserConfigFlags) -> Result<Vec<u8>> {
        let end = offset.checked_add(size).filter(|end| *end <= SPACE_BYTES_MAX).ok_or(Error::InvalidParam)?;
        let info = self.shared.disk.info();
        self.shared.size_bytes.store(info.size_bytes, Ordering::SeqCst);
        Ok(config::space(&info, offset as usize, (end - offset) as usize))
    }

    fn set_config(&mut self, _: u32, _: &[u8], _: VhostUserConfigFlags) -> Result<()> {
        // No field can be changed. An error would end the connection, so that writes are ignored.
        Ok(())
    }

    fn get_inflight_fd(&mut self, told: &VhostUserInflight) -> Result<(VhostUserInflight, File)> {
        let (made, file) = Inflight::create(&self.mapper, told.num_queues, told.queue_size, self.incarnation)?;
        // With a new region, the guest starts anew.
        self.shared.has_lost.store(false, Ordering::SeqCst);
        Ok((made, file))
    }

    fn set_inflight_fd(&mut self, told: &VhostUserInflight, file: File) -> Result<()> {
        let inflight = Inflight::adopt(&self.mapper, told, file)?;
        self.stop_all();
        match inflight.take_over(self.incarnation)? {
            Left::Safe => self.shared.has_lost.store(false, Ordering::SeqCst),
            Left::Unflushed => self.lose("the last server ended before acknowledged writes of the guest were flushed"),
            Left::Unknown if self.shared.disk.keeps_writes() => {}
            Left::Unknown => {
                self.lose("the in-flight region is of another kind of server, and writes of the guest may be lost")
            }
        }
        self.unflushed = Arc::new(inflight.unflushed());
        self.inflight = Some(inflight);
        Ok(self.start_all()?)
    }

    fn get_max_mem_slots(&mut self) -> Result<u64> {
        Ok(REGIONS_MAX as u64)
    }

    fn add_mem_region(
        &mut self,
        told: &VhostUserSingleMemoryRegion,
        file: File,
        _: Option<bool>,
    ) -> Result<Option<vhost::VhostUserMemoryRegionBase>> {
        self.change_memory(|before, mapper| Memory::with(before, mapper, told, file).map(Some))?;
        Ok(None)
    }

    fn remove_mem_region(&mut self, told: &VhostUserSingleMemoryRegion) -> Result<()> {
        self.change_memory(|before, _| before.ok_or(Fault::Region)?.without(told))
    }

    fn set_gpu_socket(&mut self, _: GpuBackend) -> Result<()> {
        unsupported("GPU_SET_SOCKET")
    }

    fn get_shared_object(&mut self, _: VhostUserSharedMsg) -> Result<File> {
        unsupported("GET_SHARED_OBJECT")
    }

    fn set_device_state_fd(
        &mut self,
        _: VhostTransferStateDirection,
        _: VhostTransferStatePhase,
        _: File,
    ) -> Result<Option<File>> {
        unsupported("SET_DEVICE_STATE_FD")
    }

    fn check_device_state(&mut self) -> Result<()> {
        unsupported("CHECK_DEVICE_STATE")
    }

    fn get_shmem_config(&mut self) -> Result<VhostUserShMemConfig> {
        unsupported("GET_SHMEM_CONFIG")
    }

    fn set_log_base(&mut self, _: &VhostUserLog, _: File) -> Result<()> {
        unsupported("SET_LOG_BASE")
    }
}
