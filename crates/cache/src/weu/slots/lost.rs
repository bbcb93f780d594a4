//! Slots on devices that are not used any more.

use super::{SlotState, WeuTable};
use nitro_units::WeuId;

/// The lost ones among the devices of a cache. Slot *n* is on device *n* modulo the number of devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LostDevices {
    /// Number of devices; 0 counts as one.
    pub devices: u32,
    /// One bit for each device that is lost, from the lowest bit on.
    pub lost: u32,
}

impl LostDevices {
    /// The number of the device that a slot is on.
    #[must_use]
    pub fn device_of(&self, weu: WeuId) -> u32 {
        weu.0 % self.devices.max(1)
    }

    /// Whether a slot is on a lost device.
    #[must_use]
    pub fn has(&self, weu: WeuId) -> bool {
        self.lost != 0 && self.lost >> self.device_of(weu) & 1 == 1
    }

    /// How many of the first `slots` slots are on lost devices.
    #[must_use]
    pub fn slots_lost(&self, slots: u32) -> u32 {
        let devices = self.devices.max(1);
        let of = |device: u32| slots / devices + u32::from(device < slots % devices);
        (0..devices.min(u32::BITS)).filter(|device| self.lost >> device & 1 == 1).map(of).sum()
    }
}

impl WeuTable {
    /// From now on, slots on these devices are not opened.
    pub(crate) fn lose(&mut self, lost: LostDevices) {
        self.lost = lost;
        let (gone, free) = self.free.iter().partition::<Vec<WeuId>, _>(|weu| lost.has(**weu));
        self.free = free.into();
        for weu in gone {
            self.slot_mut(weu).state = SlotState::Retired;
        }
    }

    /// The devices whose slots are not opened.
    pub(crate) const fn lost(&self) -> LostDevices {
        self.lost
    }

    /// The state of a slot.
    pub(crate) fn state(&self, weu: WeuId) -> SlotState {
        self.slot(weu).state
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_counted_by_device() {
        for devices in 1..6 {
            for lost in 0..1 << devices {
                let lost = LostDevices { devices, lost };
                for slots in 0..30 {
                    let counted = (0..slots).filter(|weu| lost.has(WeuId(*weu))).count();
                    assert_eq!(lost.slots_lost(slots) as usize, counted, "{lost:?}, {slots} slots");
                }
            }
        }
        assert!(!LostDevices::default().has(WeuId(3)));
    }
}
