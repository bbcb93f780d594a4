//! One type for the devices of these tests: what is generic over them is compiled once.

use crate::jittery::Jittery;
use nitro_device::RamDevice;
use nitro_device::faulty::{Faults, FaultyDevice};
use nitro_engine::{ContentPlace, FingerprintIndex};
pub use nitro_testkit::Erased;
use nitro_testkit::VirtualTime;
use nitro_units::Fingerprint;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

/// A disk that answers after a while.
pub type Slow = Jittery<Arc<RamDevice>>;
type Faulty = FaultyDevice<Arc<RamDevice>, VirtualTime>;

/// A device that fails as it is told. See [`FaultyDevice::new`].
pub fn faulty(ram: impl Into<Arc<RamDevice>>, clock: VirtualTime, seed: u64) -> Erased {
    Erased::new(FaultyDevice::new(ram.into(), clock, seed))
}

/// See [`Jittery::new`].
pub fn jittery(ram: impl Into<Arc<RamDevice>>, clock: &VirtualTime, seed: u64, delay_us_max: u64) -> Erased {
    Erased::new(Jittery::new(ram.into(), clock, seed, delay_us_max))
}

/// What tests ask of the device behind the type.
pub trait Behind {
    /// The faults of a device of [`faulty`].
    fn faults(&self) -> Faults;
}

impl Behind for Erased {
    fn faults(&self) -> Faults {
        self.of::<Faulty>().faults()
    }
}

/// An index of fingerprints on flash, in RAM: it knows everything at once.
#[derive(Default)]
pub struct Places(RefCell<HashMap<Fingerprint, ContentPlace>>);

impl FingerprintIndex for Places {
    async fn find(&self, fingerprint: &Fingerprint) -> Option<ContentPlace> {
        self.0.borrow().get(fingerprint).copied()
    }

    async fn note(&self, fingerprint: &Fingerprint, place: ContentPlace) {
        self.0.borrow_mut().insert(*fingerprint, place);
    }
}
