//! Metadata contexts, whose status `NBD_CMD_BLOCK_STATUS` returns ("Metadata querying" in proto.md).

use crate::protocol::{STATE_CACHED, STATE_DIRTY, STATE_HOLE, STATE_ZERO};
use nitro_frontend::{Run, StatusOf};

/// A metadata context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Context {
    /// `base:allocation`: flags [`STATE_HOLE`] and [`STATE_ZERO`].
    BaseAllocation,
    /// `nitro:cache`: flags [`STATE_CACHED`] and [`STATE_DIRTY`].
    NitroCache,
}

impl Context {
    /// The kind of status to request from the disk.
    pub(crate) const fn asked(self) -> StatusOf {
        match self {
            Self::BaseAllocation => StatusOf::Allocation,
            Self::NitroCache => StatusOf::Cache,
        }
    }

    /// The status flags of a run in this context.
    pub(crate) fn flags(self, run: &Run) -> u32 {
        let flag = |set: bool, flag: u32| if set { flag } else { 0 };
        match self {
            Self::BaseAllocation => flag(run.hole, STATE_HOLE) | flag(run.zero, STATE_ZERO),
            Self::NitroCache => flag(run.cached, STATE_CACHED) | flag(run.dirty, STATE_DIRTY),
        }
    }
}
