//! Faults of a running server, with their remedies. The web page and the commands show the same list.

use super::protocol::{Cache, CacheDevice, Status, Store, Volume};
use nitro_console::size::Size;
use nitro_engine::metrics::Counted;
use serde::{Deserialize, Serialize};
use std::fmt;

/// An origin that has not answered for so many seconds is reported.
pub const SILENCE_SECONDS: f64 = 5.0;
/// An SSD that will be worn out in fewer years is reported.
const YEARS_MIN: f64 = 1.0;

/// The severity of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Data is lost or in danger, or requests fail.
    Critical,
    /// The server is slower, or protects data less, than it should.
    Warning,
    /// A temporary state, or one that was requested.
    Notice,
}

impl Severity {
    /// The word for people.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Critical => "critical",
            Self::Warning => "warning",
            Self::Notice => "notice",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A fault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// The severity.
    pub severity: Severity,
    /// `cache NAME`, `volume NAME` or `server`.
    pub subject: String,
    /// A description.
    pub what: String,
    /// The remedy.
    pub remedy: String,
}

/// All faults, the most severe first.
#[must_use]
pub fn faults(status: &Status) -> Vec<Fault> {
    let mut faults = of_server(status);
    faults.extend(status.caches.iter().flat_map(of_cache));
    let cache_of = |volume: &Volume| status.caches.iter().find(|cache| cache.name == volume.cache);
    faults.extend(status.volumes.iter().flat_map(|volume| of_volume(volume, cache_of(volume))));
    faults.extend(status.stores.iter().flat_map(of_store));
    faults.sort_by_key(|fault| fault.severity);
    faults
}

use Severity::{Critical, Notice, Warning};

fn of_server(status: &Status) -> Vec<Fault> {
    let fault = |what: String, remedy: &str| Fault {
        severity: Warning,
        subject: "server".to_owned(),
        what,
        remedy: remedy.to_owned(),
    };
    let server = &status.server;
    let mut faults = Vec::new();
    if server.log_lines_left_out > 0 {
        let what = format!(
            "{} lines of the log were dropped: standard error is not read fast enough",
            server.log_lines_left_out
        );
        faults.push(fault(what, "Check the process that reads the server's standard error."));
    }
    if let Some(recording) = server.recording.as_ref().filter(|recording| recording.dropped > 0) {
        let what = format!("the recording {} lacks {} requests", recording.path, recording.dropped);
        faults.push(fault(what, "Check that its disk has space and is fast enough."));
    }
    if status.ram.resident_bytes > status.ram.need_bytes {
        let (takes, need) = (Size(status.ram.resident_bytes), Size(status.ram.need_bytes));
        faults.push(fault(
            format!("the process takes {takes} of RAM, more than the {need} announced"),
            "Please report this.",
        ));
    }
    faults
}

/// Counters of losses that are told below in words of their own.
const TOLD: [&str; 6] =
    ["corrupt_extents", "ssd_read_errors", "ssd_write_errors", "errors", "origin_timeouts", "destage_failures"];

/// The other counters of losses: none is left out.
fn losses(subject: &str, losses: impl Iterator<Item = (&'static Counted, u64)>) -> impl Iterator<Item = Fault> {
    losses.filter(|(counted, _)| !TOLD.contains(&counted.name)).map(move |(counted, value)| Fault {
        severity: Critical,
        subject: subject.to_owned(),
        what: format!("{value} {}: {}", counted.name.replace('_', " "), counted.meaning.trim_end_matches('.')),
        remedy: "nitro status lists lost ranges of each volume; the log has the reason.".to_owned(),
    })
}

fn of_store(store: &Store) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut add = |severity, what: String, remedy: &str| {
        faults.push(Fault { severity, subject: format!("store {}", store.path), what, remedy: remedy.to_owned() });
    };
    if let Some(reason) = &store.poisoned {
        add(
            Critical,
            format!("changes are refused: {reason}"),
            "Check the store's disk (dmesg, smartctl), and restart the server after the cause is removed.",
        );
    }
    let Some(ssd) = &store.ssd else { return faults };
    if let Some(reason) = &ssd.failed {
        add(Warning, format!("its SSD is no longer used: {reason}"), "Check the SSD (dmesg, smartctl).");
    } else if ssd.read_errors + ssd.damaged > 0 {
        let what = format!(
            "{} reads of its SSD failed and {} pieces were damaged; the disk was used instead",
            ssd.read_errors, ssd.damaged
        );
        add(Warning, what, "Check the SSD (dmesg, smartctl), and whether another program writes to it.");
    }
    faults
}

/// The faults of one cache.
#[must_use]
pub fn of_cache(cache: &Cache) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut add = |severity, what: String, remedy: &str| {
        faults.push(Fault { severity, subject: format!("cache {}", cache.name), what, remedy: remedy.to_owned() });
    };
    let why = cache.failed.as_ref().map_or_else(String::new, |reason| format!(": {reason}"));
    match cache.health.as_str() {
        "failed" => add(
            Critical,
            format!("the SSD failed, and with it data that are not in the origins{why}"),
            "Stop the clients. Check the log and the SSD; nitro cache salvage extracts the readable data.",
        ),
        "pass-through" => add(
            Critical,
            format!("the SSD failed and is not used; all requests go to the origins{why}"),
            "No data are lost, but volumes are slower. Check the SSD (dmesg, smartctl), replace it, and restart with a new cache.",
        ),
        "degraded" => {
            let lost = cache.devices.iter().filter(|device| device.health == "lost");
            let lost: Vec<_> = lost.map(CacheDevice::line).collect();
            add(
                Warning,
                format!("a device of the cache is lost, and the others are in use: {}", lost.join("; ")),
                "What it held is read from the origins; data that were dirty on it are lost (nitro status lists the ranges). \
                 Check it (dmesg, smartctl), and format the cache again to use a new one.",
            );
        }
        _ if cache.failed.is_some() => add(
            Critical,
            format!("the SSD cannot make data durable any more{why}"),
            "Check the SSD (dmesg, smartctl) and restart the server.",
        ),
        _ => {}
    }
    if let Some(reason) = cache.log.as_ref().and_then(|log| log.failed.as_ref()) {
        add(
            Warning,
            format!("the write log is not in use any more: {reason}"),
            "Writes are durable only after the next FLUSH. Check the write log's device, and restart with it or a new one.",
        );
    }
    let lost = cache.devices.iter().filter(|device| device.health == "lost");
    let retired_bytes = cache.space.retired_bytes.saturating_sub(lost.map(|device| device.space.retired_bytes).sum());
    if retired_bytes > 0 || cache.counters.ssd_write_errors > 0 && cache.health != "degraded" {
        let what = format!(
            "{} writes of the SSD failed; {} are not used any more",
            cache.counters.ssd_write_errors,
            Size(retired_bytes)
        );
        add(Warning, what, "Check the SSD (dmesg, smartctl).");
    }
    if cache.counters.corrupt_extents > 0 || cache.counters.ssd_read_errors > 0 {
        let what = format!(
            "{} reads of the SSD failed and {} extents were corrupt; the origins were used instead",
            cache.counters.ssd_read_errors, cache.counters.corrupt_extents
        );
        add(Warning, what, "Check the SSD (dmesg, smartctl), and whether another program writes to it.");
    }
    if cache.flash_index.as_ref().is_some_and(|index| index.errors + index.corrupt_pages > 0) {
        add(
            Warning,
            "the fingerprint index on the SSD had errors; fewer duplicates are found".to_owned(),
            "Check the SSD (dmesg, smartctl).",
        );
    }
    if cache.endurance.saved_bytes < 0 {
        let what = format!(
            "{} more were written to the SSD than its endurance allows so far",
            Size(cache.endurance.saved_bytes.unsigned_abs())
        );
        add(
            Notice,
            what,
            "Less content is admitted until the budget is kept again. A larger SSD or RAM cache reduces the writes.",
        );
    }
    if let Some(years) = cache.endurance.years.filter(|years| *years < YEARS_MIN) {
        let what = format!("at this rate, the rated endurance of the SSD will be used up in {:.0} days", years * 365.0);
        add(Warning, what, "Set --endurance to the vendor's rating, so that Nitro keeps it, or plan for a new SSD.");
    }
    if cache.loading {
        add(
            Notice,
            "clean contents are still being restored after the start".to_owned(),
            "No action is needed: the number of misses will decrease.",
        );
    }
    faults.extend(losses(&format!("cache {}", cache.name), cache.counters.losses()));
    faults
}

/// Whether a cache has a fault that makes requests to its volumes fail, although their origins are well.
fn is_broken(cache: &Cache) -> bool {
    cache.failed.is_some() || matches!(cache.health.as_str(), "failed" | "pass-through")
}

/// The faults of a volume, and of its cache what they follow from.
fn of_volume(volume: &Volume, cache: Option<&Cache>) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut add = |severity, what: String, remedy: &str| {
        faults.push(Fault { severity, subject: format!("volume {}", volume.name), what, remedy: remedy.to_owned() });
    };
    if volume.lost_bytes > 0 {
        let what = format!("{} of dirty data cannot be read from the cache any more", Size(volume.lost_bytes));
        add(
            Critical,
            what,
            "nitro status lists the ranges: overwrite them, restore them from a backup, or discard them with nitro volume remove --force-discard-dirty.",
        );
    }
    if let Some(reason) = &volume.poisoned {
        add(
            Critical,
            format!("writes are refused: {reason}"),
            "See the log; restart the server after the cause is removed.",
        );
    }
    if let Some(error) = &volume.destage_error {
        let what = format!(
            "destage has been failing for {:.0} s: {error}; {} are only in the cache",
            volume.destage_failing_seconds,
            Size(volume.dirty_bytes)
        );
        let remedy = if volume.destage_error_of_cache || cache.is_some_and(is_broken) {
            "The cause is the cache: check its SSD (dmesg, smartctl). Nitro continues to try."
        } else {
            "Check that the origin accepts writes (space, permissions, network). Nitro continues to try."
        };
        add(Critical, what, remedy);
    }
    if volume.origin_owes_seconds >= SILENCE_SECONDS {
        let what = format!("the origin has not answered for {:.0} s", volume.origin_owes_seconds);
        add(
            Critical,
            what,
            "Check the origin and the connection to it. --origin-timeout limits how long requests wait.",
        );
    }
    if volume.counters.origin_timeouts > 0 {
        let what = format!("the origin did not answer {} requests in time", volume.counters.origin_timeouts);
        add(Warning, what, "Check the origin and the connection to it.");
    }
    let by_cache = volume.counters.errors_of_cache;
    if by_cache > 0 {
        let what = format!(
            "{by_cache} requests of clients have failed since the start because of the cache's SSD or write log"
        );
        add(
            Warning,
            what,
            "Check the SSD (dmesg, smartctl); the origin is not the cause. The faults of the cache have more.",
        );
    }
    let others = volume.counters.errors.saturating_sub(by_cache);
    if others > 0 {
        let what = format!("{others} requests of clients have failed since the start");
        let remedy = if volume.poisoned.is_some() || cache.is_some_and(is_broken) {
            "The critical fault of the volume or of its cache is the cause; the log has the reasons."
        } else {
            "The log has the reason, usually an error of the origin. Check the origin and its disks."
        };
        add(Warning, what, remedy);
    }
    if !volume.attached {
        add(
            Notice,
            "it is detached from its cache; all requests go to the origin".to_owned(),
            "nitro cache attach attaches it again.",
        );
    }
    faults.extend(losses(&format!("volume {}", volume.name), volume.counters.losses()));
    faults
}

#[cfg(test)]
mod tests {
    use super::*;
    use nitro_engine::metrics::{CacheCounters, VolumeCounters};
    use serde_json::{Value, json};

    /// Whether a fault appears when this counter is above 0, both in the table of counters and in a field of its own.
    fn is_told<T: Default + Serialize + for<'a> Deserialize<'a>>(
        name: &str,
        faults: impl Fn(&T) -> Vec<Fault>,
    ) -> bool {
        let mut status: Value = serde_json::to_value(T::default()).unwrap();
        status["counters"][name] = json!(7);
        if status.get(name).is_some() {
            status[name] = json!(7);
        }
        if name == "destage_failures" {
            status["destage_error"] = json!("no room");
        }
        let told = faults(&serde_json::from_value(status).unwrap());
        told.iter().any(|fault| fault.severity != Notice && (fault.what.contains('7') || name == "destage_failures"))
    }

    #[test]
    fn every_loss_is_told() {
        for counted in CacheCounters::ALL.iter().filter(|counted| counted.is_loss) {
            assert!(is_told::<Cache>(counted.name, of_cache), "{}", counted.name);
        }
        for counted in VolumeCounters::ALL.iter().filter(|counted| counted.is_loss) {
            assert!(is_told::<Volume>(counted.name, |volume| of_volume(volume, None)), "{}", counted.name);
        }
    }

    #[test]
    fn what_is_well_has_no_faults() {
        let status = Status {
            caches: vec![Cache { health: "caching".into(), ..Cache::default() }],
            volumes: vec![Volume { attached: true, ..Volume::default() }],
            ..Status::default()
        };
        assert_eq!(faults(&status), []);
    }

    #[test]
    fn a_fault_of_the_ssd_is_not_blamed_on_the_origin() {
        let mut volume = Volume { cache: "fast".into(), attached: true, ..Volume::default() };
        let (mut broken, well) = (Cache { name: "fast".into(), ..Cache::default() }, Cache::default());
        broken.health = "failed".into();
        volume.counters.errors = 5;
        let blames_origin = |volume: &Volume, cache: &Cache| {
            of_volume(volume, Some(cache)).iter().any(|fault| {
                fault.remedy.contains("Check the origin") || fault.remedy.contains("Check that the origin")
            })
        };
        assert!(blames_origin(&volume, &well) && !blames_origin(&volume, &broken));
        volume.counters.errors_of_cache = 5;
        assert!(!blames_origin(&volume, &well));
        assert!(of_volume(&volume, Some(&well))[0].what.starts_with("5 requests"));
        volume.counters.errors = 7;
        assert!(blames_origin(&volume, &well), "two of them");
        volume.counters = VolumeCounters::default();
        volume.destage_error = Some("cache device: unreadable".into());
        assert!(blames_origin(&volume, &well) && !blames_origin(&volume, &broken));
        volume.destage_error_of_cache = true;
        assert!(!blames_origin(&volume, &well));
    }

    #[test]
    fn the_worst_comes_first_and_each_has_a_remedy() {
        let status = Status {
            caches: vec![Cache {
                name: "fast".into(),
                health: "pass-through".into(),
                loading: true,
                ..Cache::default()
            }],
            volumes: vec![Volume { name: "vm".into(), destage_error: Some("no room".into()), ..Volume::default() }],
            ..Status::default()
        };
        let told = faults(&status);
        let subjects: Vec<_> = told.iter().map(|f| (f.severity, f.subject.as_str())).collect();
        let critical = [(Critical, "cache fast"), (Critical, "volume vm")];
        assert_eq!(subjects[..2], critical);
        assert_eq!(subjects[2..], [(Notice, "cache fast"), (Notice, "volume vm")]);
        assert!(told.iter().all(|f| !f.remedy.is_empty() && !f.what.is_empty()));
        assert!(told[1].what.contains("no room"), "{told:?}");
    }
}
