//! Settling of [doubts](crate::doubts).

use super::Cache;
use nitro_port::{Clock, Device};

impl<F: Device, C: Clock> Cache<F, C> {
    /// Records the result of doubtful extents in the journal, and clears their table. Only one task may call it.
    ///
    /// # Errors
    /// [`Error::Poisoned`](crate::Error::Poisoned): the journal has failed; the extents stay doubtful.
    pub(crate) async fn settle_doubts(&self) -> Result<(), crate::Error> {
        // While entries are still being read, what the last start left doubtful is needed.
        if self.is_restoring() || !self.is_journaling() {
            return Ok(());
        }
        let Some(table) = self.doubts.turn() else { return Ok(()) };
        self.write_journal().await?;
        self.doubts.clear(table);
        Ok(())
    }
}
