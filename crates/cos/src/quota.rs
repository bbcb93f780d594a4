//! The quota: the part of its device that a store may use.

use crate::plan::CONTAINERS_MIN;
use crate::{Error, Store};
use nitro_port::Device;

impl<D: Device> Store<D> {
    /// Sets the limit of the bytes in containers above which new content is refused; `None`: it is refused only when
    /// the store is full. Existing content is kept. Recipes and collections may exceed the limit a little. Durable when
    /// this returns.
    ///
    /// # Errors
    /// [`Error::Setting`] for less than the minimum of a store, and the errors of [`commit`](Self::commit).
    pub async fn set_quota(&self, bytes: Option<u64>) -> Result<(), Error> {
        let container_bytes = u64::from(self.superblock.container_bytes);
        let least = u64::from(CONTAINERS_MIN) * container_bytes;
        if let Some(given) = bytes.filter(|bytes| *bytes < least) {
            let why = format!("a store needs {least} bytes at least");
            return Err(Error::Setting { what: "quota in bytes", given, why });
        }
        self.check_poison()?;
        let containers = bytes.map(|bytes| u32::try_from(bytes / container_bytes).unwrap_or(u32::MAX));
        self.state.lock().slots.set_quota(containers);
        self.commit().await
    }

    /// The bytes that containers may take, in whole containers; `None` if there is no limit.
    pub fn quota_bytes(&self) -> Option<u64> {
        let quota = self.state.lock().slots.quota();
        quota.map(|containers| u64::from(containers) * u64::from(self.superblock.container_bytes))
    }
}
