//! The modelled SSD as a device, in virtual time.

use super::failed;
use nitro_console::error::Error;
use nitro_device::RamDevice;
use nitro_model::{
    AnyFtl, Counters, FtlSettings, Geometry, HybridSettings, Nanos, PageMappedSettings, SleepClock, Ssd, SsdDevice,
    Timing, VictimPolicy,
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

/// The device of a modelled SSD.
pub(crate) type ModelledDevice = SsdDevice<RamDevice, SleepClock, AnyFtl>;

/// The time of a read of 4 KiB of CLAM's drives, in microseconds: the talk has 0.15 ms for Intel's, and BerkeleyDB's look-ups,
/// which read one page, take 0.3 ms on Transcend's.
const READ_US: [u64; 2] = [150, 300];
/// The same of the modelled flash and its link, without the controller.
const FLASH_READ_US: u64 = 109;

/// A modelled SSD whose bytes are in RAM; it processes one request at a time.
pub(crate) struct Modelled {
    pub(crate) device: Arc<ModelledDevice>,
    pub(crate) clock: SleepClock,
}

impl Modelled {
    /// An SSD with at least `bytes` for the host, pages of 4 KiB and erase blocks of 128 KiB.
    pub(crate) fn new(layer: Layer, bytes: u64) -> Result<Self, Error> {
        let settings = layer.settings();
        let pages = Geometry { page_bytes: 4096, pages_per_block: 32, ..Geometry::default() };
        let geometry = settings.geometry_for(pages, bytes).map_err(|e| failed(&e))?;
        let ftl = settings.build(geometry).map_err(|e| failed(&e))?;
        let read_us = READ_US[usize::from(layer == Layer::Hybrid)];
        let timing = Timing { command: Nanos::from_us(read_us - FLASH_READ_US), ..Timing::for_geometry(&geometry) };
        let ssd = Ssd::new(ftl, timing);
        let clock = SleepClock::default();
        let inner = RamDevice::new(ssd.logical_bytes(), 4096);
        Ok(Self { device: Arc::new(SsdDevice::new(inner, clock.clone(), ssd)), clock })
    }

    pub(crate) fn counters(&self) -> Counters {
        self.device.counters()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nitro_device::Reactor;
    use nitro_port::buf::BufMut;
    use nitro_port::{Clock, Device};

    #[test]
    fn a_read_takes_as_long_as_on_the_papers_drives() {
        for (layer, read_us) in [Layer::PageMapped, Layer::Hybrid].into_iter().zip(READ_US) {
            let ssd = Modelled::new(layer, 8 << 20).unwrap();
            Reactor::new().unwrap().block_on(async {
                ssd.device.write(1 << 20, BufMut::with_len(4096).freeze()).await.unwrap();
                let begun = ssd.clock.now();
                ssd.device.read(1 << 20, 4096).await.unwrap();
                assert_eq!((ssd.clock.now() - begun).as_micros() as u64, read_us, "{layer:?}");
            });
        }
    }
}
