//! Giving a store that is in use an SSD, and taking it away.

use super::{Session, Ssd, SsdSource, SsdStats};
use crate::{Error, Store};
use nitro_port::Device;
use std::sync::Arc;

impl<D: Device> Store<D> {
    /// Gives the store an SSD, in place of the one that it has. Whatever the new one holds is overwritten.
    ///
    /// # Errors
    /// [`Error::Setting`] when it is too small or its options cannot be used, or when it fails; the store then goes on as it was.
    pub async fn attach_ssd(&self, source: SsdSource) -> Result<(), Error> {
        let ssd = Ssd::open(source, &self.superblock, Session::Open).await?;
        if let Some(before) = self.ssd.set(Some(Arc::new(ssd))) {
            before.detach();
        }
        Ok(())
    }

    /// Takes the store's SSD away; false: it has none. Nothing is lost. What it holds does not count when it comes back.
    pub fn detach_ssd(&self) -> bool {
        let before = self.ssd.set(None);
        before.iter().for_each(|ssd| ssd.detach());
        before.is_some()
    }

    /// What its SSD holds and did, if it has one.
    pub fn ssd_stats(&self) -> Option<SsdStats> {
        self.ssd.get().map(|ssd| ssd.stats())
    }

    /// Has what the SSD holds count at the next start, if the store is then as it is now.
    pub(crate) async fn close_ssd(&self) {
        let Some(ssd) = self.ssd.get().filter(|ssd| !ssd.is_closed()) else { return };
        let session = self.journal.lock().await.session();
        ssd.close(session).await;
    }
}
