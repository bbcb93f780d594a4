//! The recent state of the server. With any number of clients, it is collected at most a few times a second.

use crate::control::protocol::Status;
use crate::control::rates::{Row, rows, total};
use crate::control::report;
use crate::metrics::{TextFormat, encode};
use crate::serve::Served;
use bytes::Bytes;
use serde::Serialize;
use std::cell::{OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a state is reused: at least this time, and at least this multiple of the time that it took to collect it.
const FRESH: Duration = Duration::from_millis(250);
const SHARE: u32 = 20;
/// What is done now is what was done since an earlier state of this age, or since the last one that anybody asked for.
const NOW: Duration = Duration::from_secs(1);
/// An older state says nothing of now.
const NOW_MAX: Duration = Duration::from_secs(30);

/// One state, and the texts made from it.
pub(super) struct Snapshot {
    pub(super) status: Arc<Status>,
    /// What rates are computed from; `None`: there is no earlier state that is recent.
    before: Option<Arc<Status>>,
    taken: Instant,
    fresh: Duration,
    json: OnceCell<Bytes>,
    rates: OnceCell<Bytes>,
    open_metrics: OnceCell<Bytes>,
    prometheus: OnceCell<Bytes>,
}

/// What is done now, as `nitro iostat` has it.
#[derive(Serialize)]
struct Activity {
    total: Row,
    volumes: Vec<Row>,
}

impl Snapshot {
    /// The output of `nitro status -o json`.
    pub(super) fn json(&self) -> Bytes {
        self.json.get_or_init(|| json(&*self.status)).clone()
    }

    /// What is done now, for all volumes and each; `null`: nobody has asked for the state within half a minute before.
    pub(super) fn rates(&self) -> Bytes {
        let now = &*self.status;
        let activity = |before: &Arc<Status>| Activity { total: total(before, now), volumes: rows(before, now) };
        self.rates.get_or_init(|| json(&self.before.as_ref().map(activity))).clone()
    }

    /// The metrics in a format.
    pub(super) fn metrics(&self, format: TextFormat) -> Bytes {
        let cell = match format {
            TextFormat::OpenMetrics => &self.open_metrics,
            TextFormat::Prometheus => &self.prometheus,
        };
        // Writing to a string does not fail.
        cell.get_or_init(|| Bytes::from(encode(&self.status, format).unwrap_or_default())).clone()
    }
}

/// A JSON document.
pub(super) fn json(value: &impl Serialize) -> Bytes {
    // What is told has no keys but strings.
    Bytes::from(serde_json::to_vec(value).unwrap_or_default())
}

/// The newest state.
pub(super) struct Snapshots {
    served: Arc<Served>,
    newest: RefCell<Option<Rc<Snapshot>>>,
    /// The state that rates are computed from.
    earlier: RefCell<Option<(Instant, Arc<Status>)>>,
}

impl Snapshots {
    pub(super) fn new(served: Arc<Served>) -> Self {
        Self { served, newest: RefCell::default(), earlier: RefCell::default() }
    }

    pub(super) fn served(&self) -> &Arc<Served> {
        &self.served
    }

    /// Has the state collected anew for the next request, because it was changed.
    pub(super) fn outdate(&self) {
        *self.newest.borrow_mut() = None;
    }

    /// A state that is recent enough.
    pub(super) fn get(&self) -> Rc<Snapshot> {
        let mut newest = self.newest.borrow_mut();
        if let Some(known) = newest.as_ref().filter(|known| known.taken.elapsed() < known.fresh) {
            return Rc::clone(known);
        }
        let begun = Instant::now();
        let status = Arc::new(report::status(&self.served));
        let fresh = FRESH.max(begun.elapsed() * SHARE);
        let (json, rates, open_metrics, prometheus) = Default::default();
        let (before, taken) = (self.before(&status), Instant::now());
        let taken = Rc::new(Snapshot { status, before, taken, fresh, json, rates, open_metrics, prometheus });
        *newest = Some(Rc::clone(&taken));
        taken
    }

    /// The earlier state, if it is recent; this one replaces it once it is old enough.
    fn before(&self, now: &Arc<Status>) -> Option<Arc<Status>> {
        let mut earlier = self.earlier.borrow_mut();
        let recent = earlier.as_ref().filter(|(taken, _)| taken.elapsed() <= NOW_MAX);
        let before = recent.map(|(_, before)| Arc::clone(before));
        if earlier.as_ref().is_none_or(|(taken, _)| taken.elapsed() >= NOW) {
            *earlier = Some((Instant::now(), Arc::clone(now)));
        }
        before
    }
}
