//! Attaching an SSD to a store in use, and detaching it.

use super::{Session, Ssd, SsdSource, SsdStats};
use crate::{Error, Store};
use nitro_port::Device;
use std::sync::Arc;

impl<D: Device> Store<D> {
    /// Attaches an SSD to the store, and detaches the previous one. The content of the new SSD is overwritten.
    ///
    /// # Errors
    /// [`Error::Setting`] if it is too small or its options are not valid, or an error of the SSD. The store then keeps
    /// its previous SSD.
    pub async fn attach_ssd(&self, source: SsdSource) -> Result<(), Error> {
        let ssd = Ssd::open(source, &self.tables.superblock(), Session::Open).await?;
        if let Some(before) = self.ssd.set(Some(Arc::new(ssd))) {
            before.detach();
        }
        Ok(())
    }

    /// Detaches the store's SSD; returns false if it has none. No data are lost. The content of the SSD is not used
    /// when it is attached again.
    pub fn detach_ssd(&self) -> bool {
        let before = self.ssd.set(None);
        before.iter().for_each(|ssd| ssd.detach());
        before.is_some()
    }

    /// Statistics of the store's SSD, if it has one.
    pub fn ssd_stats(&self) -> Option<SsdStats> {
        self.ssd.get().map(|ssd| ssd.stats())
    }

    /// Marks the content of the SSD as valid for the next start, provided that the store does not change before that.
    pub(crate) async fn close_ssd(&self) {
        let Some(ssd) = self.ssd.get().filter(|ssd| !ssd.is_closed()) else { return };
        self.merge_short(&ssd).await;
        let session = self.journal.lock().await.session();
        ssd.close(session).await;
    }
}
