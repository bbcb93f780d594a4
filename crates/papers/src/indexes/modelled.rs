//! The modelled SSD as a device, in virtual time.

use super::failed;
use nitro_console::error::Error;
use nitro_device::RamDevice;
use nitro_model::{
    AnyFtl, Counters, FtlSettings, Geometry, HybridSettings, PageMappedSettings, SleepClock, Ssd, SsdDevice, Timing,
    VictimPolicy,
};
use std::sync::Arc;

/// The translation layer of the SSD.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layer {
    /// Page mapping, as in drives with much RAM: CLAM's Intel drive.
    PageMapped,
    /// Block mapping with a log of pages, as in cheap drives of the time: CLAM's Transcend drive.
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
            // A write of an erase block counts as sequential.
            Self::Hybrid => FtlSettings::Hybrid(HybridSettings { long_pages: 32, ..HybridSettings::default() }),
        }
    }
}

/// A modelled SSD whose bytes are in RAM; it processes one request at a time.
pub(crate) struct Modelled {
    pub(crate) device: Arc<SsdDevice<RamDevice, SleepClock, AnyFtl>>,
    pub(crate) clock: SleepClock,
}

impl Modelled {
    /// An SSD with at least `bytes` for the host, pages of 4 KiB and erase blocks of 128 KiB.
    pub(crate) fn new(layer: Layer, bytes: u64) -> Result<Self, Error> {
        let settings = layer.settings();
        let pages = Geometry { page_bytes: 4096, pages_per_block: 32, ..Geometry::default() };
        let geometry = settings.geometry_for(pages, bytes).map_err(|e| failed(&e))?;
        let ftl = settings.build(geometry).map_err(|e| failed(&e))?;
        let ssd = Ssd::new(ftl, Timing::for_geometry(&geometry));
        let clock = SleepClock::default();
        let inner = RamDevice::new(ssd.logical_bytes(), 4096);
        Ok(Self { device: Arc::new(SsdDevice::new(inner, clock.clone(), ssd)), clock })
    }

    pub(crate) fn counters(&self) -> Counters {
        self.device.counters()
    }
}
