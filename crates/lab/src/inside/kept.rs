//! What simulations need of a trace, kept from one call to the next: sweeps whose points are tasks simulate one trace many times.

use nitro_sim::Error;
use nitro_sim::workload::{self, Open, Stamp, Stored};
use nitro_trace::{Place, TraceError};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// The pieces of one trace, once they are made.
type Slot = Arc<Mutex<Option<Stored>>>;

/// The trace that was used last: 64 MiB of RAM at most, and an unnamed file.
static LAST: Mutex<Option<(String, Slot)>> = Mutex::new(None);

/// Drops what is kept. Simulations that use it go on.
pub fn forget() {
    LAST.lock().unwrap_or_else(PoisonError::into_inner).take();
}

/// The pieces of `traces`, which `open` opens in the way that `how` names. Several threads make them once; another trace, and a
/// file that has changed, replace them.
pub(crate) fn pieces(how: &str, traces: &[PathBuf], extent_bytes: u32, open: &Open<'_>) -> Result<Stored, Error> {
    let mut stamps = Vec::with_capacity(traces.len());
    for path in traces {
        let stamp = Stamp::of(path).map_err(|error| TraceError::io(error, Place::Whole).in_file(path))?;
        stamps.push((path, stamp));
    }
    let key = format!("{how} {extent_bytes} {stamps:?}");
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    let slot = match &*last {
        Some((known, slot)) if *known == key => Arc::clone(slot),
        _ => {
            let slot = Slot::default();
            *last = Some((key, Arc::clone(&slot)));
            slot
        }
    };
    drop(last);
    let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(stored) = &*slot {
        return Ok(stored.clone());
    }
    let stored = workload::stored(open, extent_bytes)?;
    *slot = Some(stored.clone());
    Ok(stored)
}
