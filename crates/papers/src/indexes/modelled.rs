//! The modelled SSD behind the port of devices, in virtual time.

use super::failed;
use nitro_console::error::Error;
use nitro_device::RamDevice;
use nitro_model::{
    AnyFtl, Counters, FtlSettings, Geometry, HybridSettings, PageMappedSettings, Ssd, SsdDevice, Timing, VictimPolicy,
};
use nitro_port::Clock;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Time that passes only while somebody sleeps.
#[derive(Clone, Default)]
pub(crate) struct VirtualClock(Arc<AtomicU64>);

impl Clock for VirtualClock {
    fn now(&self) -> Duration {
        Duration::from_nanos(self.0.load(Relaxed))
    }

    async fn sleep(&self, duration: Duration) {
        self.0.fetch_add(duration.as_nanos() as u64, Relaxed);
    }
}

/// How the SSD maps what it is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layer {
    /// By page, as drives with much RAM do: CLAM's Intel drive.
    PageMapped,
    /// By block with a log of pages, as cheap drives did: CLAM's Transcend drive.
    Hybrid,
}

impl Layer {
    fn settings(self) -> FtlSettings {
        match self {
            Self::PageMapped => FtlSettings::PageMapped(PageMappedSettings {
                over_provisioning: 0.07,
                victims: VictimPolicy::Greedy,
                aligned: false,
            }),
            // A write of an erase block is a sequential one.
            Self::Hybrid => FtlSettings::Hybrid(HybridSettings { long_pages: 32, ..HybridSettings::default() }),
        }
    }
}

/// A modelled SSD whose bytes are in RAM; one request at a time.
pub(crate) struct Modelled {
    pub(crate) device: Arc<SsdDevice<RamDevice, VirtualClock, AnyFtl>>,
    pub(crate) clock: VirtualClock,
}

impl Modelled {
    /// An SSD that offers `bytes` at least, in pages of 4 KiB and erase blocks of 128 KiB.
    pub(crate) fn new(layer: Layer, bytes: u64) -> Result<Self, Error> {
        let settings = layer.settings();
        let pages = Geometry { page_bytes: 4096, pages_per_block: 32, ..Geometry::default() };
        let geometry = settings.geometry_for(pages, bytes).map_err(|e| failed(&e))?;
        let ftl = settings.build(geometry).map_err(|e| failed(&e))?;
        let ssd = Ssd::new(ftl, Timing::for_geometry(&geometry));
        let clock = VirtualClock::default();
        let inner = RamDevice::new(ssd.logical_bytes(), 4096);
        Ok(Self { device: Arc::new(SsdDevice::new(inner, clock.clone(), ssd)), clock })
    }

    pub(crate) fn counters(&self) -> Counters {
        self.device.counters()
    }
}
