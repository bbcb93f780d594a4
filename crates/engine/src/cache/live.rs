//! [Settings](crate::live) that may change while the cache is in use.

use super::Cache;
use crate::settings::LiveSettings;
use nitro_port::{Clock, Device};

impl<F: Device, C: Clock> Cache<F, C> {
    /// The settings that may change, as they are now.
    pub fn live(&self) -> LiveSettings {
        self.live.load(self.endurance().endurance)
    }

    /// Changes them. Requests in progress may still use the old values.
    pub fn set_live(&self, to: &LiveSettings) {
        self.live.set(to);
        if self.endurance().endurance != to.endurance {
            self.spending.set(to.endurance);
            self.manager.lock().set_thrift(nitro_cache::Thrift::NONE);
        }
        // Whoever waits for room or for destage looks again.
        self.destage_wanted.notify(usize::MAX);
        self.room.notify(usize::MAX);
    }
}
