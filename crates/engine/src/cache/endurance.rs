//! The [wear](crate::endurance) of the SSD.

use super::Cache;
use crate::endurance::EnduranceStatus;
use nitro_port::{Clock, Device};

impl<F: Device, C: Clock> Cache<F, C> {
    /// Keeps the bytes written within the budget; to be called about every second.
    pub(crate) fn watch_spending(&self) {
        if let Some(thrift) = self.spending.step(self.clock.now(), self.metrics.snapshot().ssd_written_bytes()) {
            self.manager.lock().set_thrift(thrift);
        }
    }

    /// The wear of the SSD.
    pub fn endurance(&self) -> EnduranceStatus {
        self.spending.status(self.clock.now(), self.metrics.snapshot().ssd_written_bytes())
    }
}
