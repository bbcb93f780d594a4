//! The state of a server as text.

use nitro_cache::weu::Space;
use nitro_commands::shares::{missed, percent};
use nitro_console::output::Table;
use nitro_console::screen::duration;
use nitro_console::size::Size;
use nitro_console::text::escaped;
use nitro_engine::metrics::Counted;
use nitro_server::control::faults::{self, SILENCE_SECONDS, faults};
use nitro_server::control::protocol::{
    Cache, ClassOfContents, ClassOfRequests, Detection, Endurance, Etcd, KnownVolume, Latency, Point, Ram, Recording,
    Recovered, Scan, Server, Spans, Status, Store, Volume, WaitCounters,
};
use nitro_server::cos::sizes;
use nitro_server::origins::{S3Bill, S3Prices};

/// Parts of the RAM that are smaller than this are shown as one sum; `-o json` has all parts.
const RAM_PART_MIN: u64 = 1 << 20;
/// Column at which the texts of a block begin.
pub(super) const INDENT: usize = 16;

/// `verbose`: with the parts of the RAM.
pub(super) fn render(status: &Status, verbose: bool) -> String {
    let mut out = server(&status.server);
    out += "\n";
    let faults = faults(status);
    if !faults.is_empty() {
        let lines: Vec<_> =
            faults.iter().map(|f| (f.severity.as_str(), format!("{}: {}. {}", f.subject, f.what, f.remedy))).collect();
        out += &block("Needs attention", &lines);
        out += "\n";
    }
    out += &if verbose { ram(&status.ram) } else { ram_in_short(&status.ram) };
    for part in status.caches.iter().map(cache) {
        out += "\n";
        out += &part;
    }
    for volume in &status.volumes {
        out += "\n";
        out += &self::volume(volume);
    }
    for store in &status.stores {
        out += "\n";
        out += &self::store(store);
    }
    out
}

/// A heading and its lines, each with a label.
pub(crate) fn block(heading: &str, lines: &[(&str, String)]) -> String {
    let mut out = format!("{}\n", escaped(heading));
    for (label, text) in lines {
        out += &format!("  {label:<width$}{}\n", escaped(text), width = INDENT - 2);
    }
    out
}

fn server(server: &Server) -> String {
    let heading = format!("nitro {}, process {}, up {}", server.version, server.pid, duration(server.uptime_seconds));
    let clients = format!("{} now, {} since the start", server.connections, server.connections_total);
    let busy: Vec<_> = server.reactors.iter().map(|reactor| format!("{:.0} %", reactor.busy_percent)).collect();
    let busy = if busy.is_empty() { String::new() } else { format!(" ({} busy)", busy.join(", ")) };
    let threads = format!("{} for clients{busy}, {} for insertion", server.threads, server.insert_threads);
    let mut lines = vec![("clients", clients), ("threads", threads)];
    lines.extend(server.uris.iter().map(|uri| ("serves", uri.clone())));
    if let Some(Recording { path, requests, dropped }) = &server.recording {
        lines.push(("records", format!("{path}: {requests} requests, {dropped} left out")));
    }
    if let Some(Spans { url, sample, sent, dropped }) = &server.spans {
        lines.push(("spans", format!("{url}: one in {sample} requests, {sent} sent, {dropped} dropped")));
    }
    if let Some(Etcd { host, cluster, left_ms, waits_for }) = &server.etcd {
        let waits = if waits_for.is_empty() { String::new() } else { format!(", waits for {}", waits_for.join(", ")) };
        lines.push(("etcd", format!("{cluster} as {host}: serves for {left_ms} ms if it is not renewed{waits}")));
    }
    if server.log_lines_limited > 0 {
        let text = format!("{} messages were not logged: their kinds came too often", server.log_lines_limited);
        lines.push(("log", text));
    }
    if server.log_lines_left_out > 0 {
        lines.push(("log", format!("{} lines left out: standard error is not read", server.log_lines_left_out)));
    }
    block(&heading, &lines)
}

/// The RAM that the server uses, its maximum, and the parts of that maximum.
fn ram(ram: &Ram) -> String {
    let mut parts: Vec<_> = ram.parts.iter().collect();
    parts.sort_by_key(|part| std::cmp::Reverse(part.bytes));
    let mut lines =
        vec![("in use", Size(ram.resident_bytes).to_string()), ("at most", Size(ram.need_bytes).to_string())];
    let (shown, rest): (Vec<_>, Vec<_>) = parts.into_iter().partition(|part| part.bytes >= RAM_PART_MIN);
    lines.extend(shown.iter().map(|part| ("", format!("{:>10}  {}", Size(part.bytes).to_string(), part.name))));
    if !rest.is_empty() {
        let sum = Size(rest.iter().map(|part| part.bytes).sum());
        lines.push(("", format!("{:>10}  {} smaller parts", sum.to_string(), rest.len())));
    }
    block("RAM", &lines)
}

fn ram_in_short(ram: &Ram) -> String {
    format!(
        "RAM             {} in use, at most {}; -v shows the parts\n",
        Size(ram.resident_bytes),
        Size(ram.need_bytes)
    )
}

/// The state of a cache in short.
pub(super) fn cache_in_short(cache: &Cache) -> String {
    let heading = format!("cache {}: {}", cache.name, cache.health);
    if cache.path.is_empty() {
        return heading + "\n";
    }
    let mut lines: Vec<_> = faults_of(cache).collect();
    lines.extend([
        ("path", cache.path.clone()),
        ("uuid", cache.uuid.clone()),
        ("capacity", Size(cache.capacity_bytes).to_string()),
        ("dirty", dirty(cache)),
        ("at the start", start(cache)),
    ]);
    lines.extend(
        cache.devices.iter().map(|device| ("device", device.line())).chain(log(cache).map(|text| ("write log", text))),
    );
    lines.extend(cache.volumes.iter().map(|known| ("volume", known_volume(known))));
    block(&heading, &lines)
}

fn known_volume(known: &KnownVolume) -> String {
    let KnownVolume { name, size_bytes, mode, dirty_bytes, served } = known;
    let served = if *served { "served" } else { "not served" };
    format!("{name}: {}, {mode}, {} dirty, {served}", Size(*size_bytes), Size(*dirty_bytes))
}

/// The division of the capacity; parts of 0 bytes are left out.
fn space(space: &Space) -> String {
    let parts = [
        (space.live_bytes, "live"),
        (space.overwritten_bytes, "overwritten"),
        (space.pinned_bytes, "pinned by dirty data"),
        (space.open_bytes, "being filled"),
        (space.free_bytes, "free"),
        (space.unread_bytes, "not read yet"),
        (space.retired_bytes, "failed to be written"),
    ];
    let text: Vec<_> =
        parts.iter().filter(|(bytes, _)| *bytes > 0).map(|(bytes, what)| format!("{} {what}", Size(*bytes))).collect();
    text.join(", ")
}

/// Bytes written in a day, and the expected life of the SSD.
fn endurance(life: &Endurance) -> String {
    let written = match life.written_bytes_per_day {
        Some(bytes) => format!("{} written a day", Size(bytes)),
        None => "the rate of writes is known after an hour".to_owned(),
    };
    let Some(budget) = life.budget_bytes_per_day else { return written };
    let saved = match life.saved_bytes {
        saved @ 0.. => format!("{} saved", Size(saved.unsigned_abs())),
        owed => format!("{} overdrawn", Size(owed.unsigned_abs())),
    };
    let years = life.years.map_or_else(String::new, |years| match years {
        ..100.0 => format!("; {years:.1} years at this rate"),
        _ => "; more than 100 years at this rate".to_owned(),
    });
    format!(
        "{written}; {} a day are the budget, {saved}{years}; {} extents refused to spare writes",
        Size(budget),
        life.spared
    )
}

fn dirty(cache: &Cache) -> String {
    let (dirty, units, all) = (Size(cache.dirty_bytes), cache.manager.weus_pinned, cache.manager.weus);
    let told = |(counted, value): (&Counted, u64)| format!("; {} {value}", counted.meaning.replace('.', ":"));
    let waits: String = cache.counters.waits().map(told).collect();
    format!("{dirty}, which keep {units} of {all} write-evict units{waits}")
}

/// The write log, if the cache has one or requires one.
fn log(cache: &Cache) -> Option<String> {
    if let Some(uuid) = &cache.log_needed {
        return Some(format!("{uuid}, which may hold writes that are nowhere else: it is needed at the next start"));
    }
    let log = cache.log.as_ref()?;
    let stalls = match log.stalls {
        0 => String::new(),
        count => format!("; writes waited {count} times for room"),
    };
    Some(match &log.failed {
        Some(reason) => format!("{}: not in use any more, {reason}", log.path),
        None => format!(
            "{}: {} of {} in use; {} in {} batches{stalls}",
            log.path,
            Size(log.used_bytes),
            Size(log.ring_bytes),
            Size(log.written_bytes),
            log.batches
        ),
    })
}

/// The index of fingerprints on the SSD, if there is one.
fn flash_index(cache: &Cache) -> Option<String> {
    let index = cache.flash_index.as_ref()?;
    if !index.open {
        return Some(format!("an index on the SSD that is not open yet; {} failures", index.errors));
    }
    Some(format!(
        "{} in an index of {} on the SSD with {} of RAM; {} duplicates found by it, in {} reads",
        index.entries,
        Size(index.flash_bytes),
        Size(index.ram_bytes),
        index.duplicates,
        index.reads
    ))
}

fn start(cache: &Cache) -> String {
    let Recovered { dirty_bytes, lost_bytes, replayed_bytes, open_regions, outlived } = cache.recovered;
    if cache.recovered == Recovered::default() && !cache.loading {
        return "nothing had to be recovered".to_owned();
    }
    let loading = if cache.loading { "clean data are still being loaded; " } else { "" };
    let again = if outlived {
        "write-intent regions whose extents with writes in progress are read again"
    } else {
        "write-intent regions to be read again"
    };
    let mut text = format!("{loading}{} dirty, {open_regions} {again}", Size(dirty_bytes));
    if replayed_bytes > 0 {
        text += &format!(", {} from the write log", Size(replayed_bytes));
    }
    if lost_bytes > 0 {
        text += &format!(", {} lost", Size(lost_bytes));
    }
    text
}

fn cache(cache: &Cache) -> String {
    let heading = format!("cache {}: {}", cache.name, cache.health);
    if cache.health == "none" {
        return heading + "\n";
    }
    let lines: Vec<_> = faults_of(cache)
        .chain(holdings(cache))
        .chain(work(cache))
        .chain(traffic(cache))
        .chain([("faults", failures(cache)), ("RAM", ram_of(cache))])
        .chain(pinned(cache).map(|text| ("pinned", text)))
        .chain(flash_index(cache).map(|text| ("fingerprints", text)))
        .chain(by_class(cache).map(|text| ("by class", text)))
        .collect();
    block(&heading, &lines)
}

/// The faults of a cache.
fn faults_of(cache: &Cache) -> impl Iterator<Item = (&'static str, String)> {
    faults::of_cache(cache).into_iter().map(|fault| (fault.severity.as_str(), fault.what))
}

/// The content of a cache.
fn holdings(cache: &Cache) -> impl Iterator<Item = (&'static str, String)> {
    let used = (cache.manager.weus - cache.manager.weus_free) as f64 / cache.manager.weus.max(1) as f64;
    let lines = [
        ("capacity", format!("{}, {:.1} % in use", Size(cache.capacity_bytes), 100.0 * used)),
        ("holds", format!("{}, {:.2} times the space it takes", Size(cache.cached_bytes), cache.effective_capacity)),
        ("space", space(&cache.space)),
        ("dirty", dirty(cache)),
    ];
    let log = log(cache).map(|text| ("write log", text));
    let devices = cache.devices.iter().map(|device| ("device", device.line()));
    lines.into_iter().chain(devices).chain(log).chain([("at the start", start(cache))])
}

/// Hits, deduplication and insertions of a cache.
fn work(cache: &Cache) -> impl Iterator<Item = (&'static str, String)> {
    let looked_up = cache.manager.hits + cache.manager.misses;
    let others = format!(
        "{} RAM cache, {} being inserted, {} read ahead",
        cache.counters.ram_hits, cache.counters.pending_hits, cache.counters.readahead_hits
    );
    let what_if: Vec<_> =
        cache.what_if.iter().map(|point| format!("{:.1} % at {} x", 100.0 * point.hit_ratio, point.size)).collect();
    let what_if = (!what_if.is_empty())
        .then(|| ("LRU would hit", format!("{} the size, of the extents read recently", what_if.join(", "))));
    let lines = [
        ("index hits", format!("{} of {looked_up} ({})", cache.manager.hits, percent(cache.manager.hits, looked_up))),
        ("other hits", others),
        ("deduplication", deduplication(cache)),
        ("compression", format!("{:.2} : 1", cache.compression_ratio)),
        ("inserted", format!("{} in {} extents", Size(cache.manager.inserted_bytes), cache.manager.insertions)),
    ];
    lines.into_iter().chain(what_if)
}

/// The traffic of the SSD.
fn traffic(cache: &Cache) -> impl Iterator<Item = (&'static str, String)> {
    let written = format!(
        "{} (payload {}, headers {}, padding {}, journal {}, superblocks {})",
        Size(cache.counters.ssd_written_bytes()),
        Size(cache.counters.ssd_written_payload_bytes),
        Size(cache.counters.ssd_written_header_bytes),
        Size(cache.counters.ssd_written_padding_bytes),
        Size(cache.counters.ssd_written_journal_bytes),
        Size(cache.counters.ssd_written_superblock_bytes),
    );
    let journal = format!(
        "{} commits, {} snapshots, {} regions opened for writing, {} open",
        cache.counters.commits, cache.counters.journal_snapshots, cache.counters.regions_opened, cache.regions_open
    );
    let lines = [
        ("SSD written", written),
        ("SSD life", endurance(&cache.endurance)),
        ("TRIM", format!("{}; {} discarded", cache.discard, Size(cache.counters.ssd_discarded_bytes))),
        ("journal", journal),
        ("SSD read", format!("{} in {} reads", Size(cache.counters.ssd_read_bytes), cache.counters.ssd_reads)),
        (
            "dropped fills",
            format!(
                "{} queue full, {} overwritten meanwhile",
                cache.counters.fills_dropped, cache.counters.fills_voided
            ),
        ),
        (
            "evicted",
            format!(
                "{} write-evict units; {} extents copied forward",
                cache.manager.weus_evicted, cache.manager.forwarded
            ),
        ),
    ];
    lines.into_iter()
}

fn failures(cache: &Cache) -> String {
    above_zero(cache.counters.losses()).unwrap_or_else(|| "none".to_owned())
}

/// Counters with their values, of those that are above 0.
fn above_zero(counters: impl Iterator<Item = (&'static Counted, u64)>) -> Option<String> {
    let each: Vec<_> = counters.map(|(counted, value)| format!("{value} {}", counted.name.replace('_', " "))).collect();
    (!each.is_empty()).then(|| each.join(", "))
}

fn store(store: &Store) -> String {
    let counters = &store.counters;
    let mut lines = vec![
        (
            "stored",
            format!(
                "{} in {} chunks; {} duplicates",
                Size(counters.stored_bytes),
                counters.stored_chunks,
                counters.duplicate_chunks
            ),
        ),
        ("commits", format!("{}; {} collections", counters.commits, counters.collections)),
        ("size", sizes(store.size_bytes, store.max_bytes)),
    ];
    lines.extend(store.operations.iter().map(|operation| ("under way", operation.clone())));
    let shares = &store.shares;
    let waits = [
        ("random", shares.random_waits, shares.random_waited_us),
        ("streams", shares.stream_waits, shares.stream_waited_us),
        ("background", shares.background_waits, shares.background_waited_us),
    ];
    let waited: Vec<_> = waits
        .into_iter()
        .filter(|(_, waits, _)| *waits > 0)
        .map(|(work, waits, us)| format!("{work} {waits} times, {:.1} ms each", us as f64 / 1e3 / waits as f64))
        .collect();
    if !waited.is_empty() {
        lines.push(("waited for", format!("their share of the disk: {}", waited.join("; "))));
    }
    lines.extend(store.poisoned.as_ref().map(|reason| ("refuses changes", reason.clone())));
    lines.extend(store.ssd.as_ref().map(|ssd| {
        let failed = ssd.failed.as_ref().map_or_else(String::new, |reason| format!("; not used any more: {reason}"));
        let text = format!(
            "{} written, {} failed reads, {} damaged pieces{failed}",
            Size(ssd.written_bytes),
            ssd.read_errors,
            ssd.damaged
        );
        ("SSD", text)
    }));
    block(&format!("store {}, since it was opened", store.path), &lines)
}

fn ram_of(cache: &Cache) -> String {
    format!(
        "indexes {}, RAM cache {}, insertion queue {}",
        Size(cache.manager.index_ram_bytes),
        Size(cache.ram_cache_bytes),
        Size(cache.insert_queue_bytes)
    )
}

/// The pinned ranges, if there are any.
fn pinned(cache: &Cache) -> Option<String> {
    let (cached, all) = (Size(cache.pins_cached_bytes), Size(cache.pins_bytes));
    (all.0 > 0).then(|| format!("{all} in {} ranges, {cached} of them cached", cache.pins.len()))
}

/// The cached bytes of each class, if any data are classified.
fn by_class(cache: &Cache) -> Option<String> {
    let held = |held: &ClassOfContents| format!("{}: {}", held.name, Size(held.cached_bytes));
    let holding: Vec<_> = cache.classes.iter().filter(|held| held.cached_bytes > 0).map(held).collect();
    (!holding.is_empty()).then(|| holding.join(", "))
}

fn deduplication(cache: &Cache) -> String {
    let compared = match (cache.counters.duplicates_compared, cache.counters.duplicate_mismatches) {
        (0, _) => String::new(),
        (compared, 0) => format!(", {compared} duplicates compared"),
        (compared, others) => format!(", {compared} duplicates compared, of which {others} were different content"),
    };
    format!("{:.2} : 1{compared}", cache.dedup_ratio)
}

fn clients(volume: &Volume) -> String {
    let device = volume.block_device.as_ref().map_or_else(String::new, |path| format!("; one of them is {path}"));
    format!("{}{device}", volume.clients)
}

fn volume(volume: &Volume) -> String {
    let access = if volume.read_only { ", read-only" } else { "" };
    let domain = volume.dedup_domain.as_ref().map_or_else(String::new, |domain| format!(", shares within {domain:?}"));
    let Volume { name, mode, cache, .. } = volume;
    let detached = if volume.attached { "" } else { ", detached" };
    // 512 is what is expected.
    let in_blocks =
        if volume.block_bytes > 512 { format!(" in blocks of {}", volume.block_bytes) } else { String::new() };
    let size = Size(volume.size_bytes);
    let heading = format!("volume {name}: {size}{in_blocks} behind cache {cache}, {mode}{detached}{access}{domain}");
    let extents = volume.counters.read_extents();
    let mut lines = vec![
        ("origin at", volume.origin.clone()),
        ("clients", clients(volume)),
        (
            "dirty",
            format!(
                "{}; {} destaged in {} writes",
                Size(volume.dirty_bytes),
                Size(volume.destaged_bytes),
                volume.counters.destage_writes
            ),
        ),
        ("reads", format!("{}, {}", volume.counters.reads, Size(volume.counters.read_bytes))),
        ("writes", format!("{}, {}", volume.counters.writes, Size(volume.counters.write_bytes))),
        (
            "other",
            format!(
                "{} flushes, {} trims, {} write-zeroes, {} failed",
                volume.counters.flushes, volume.counters.trims, volume.counters.write_zeroes, volume.counters.errors
            ),
        ),
        (
            "hits",
            format!(
                "{} of {extents} extents ({})",
                volume.counters.read_hit_extents,
                percent(volume.counters.read_hit_extents, extents)
            ),
        ),
        ("misses", missed(&volume.missed)),
        (
            "sequential",
            format!(
                "{} extents read ahead, {} kept off the SSD",
                volume.counters.readahead_extents, volume.counters.bypassed_extents
            ),
        ),
        (
            "origin",
            format!(
                "{} reads of {}, {} writes of {}",
                volume.counters.origin_reads,
                Size(volume.counters.origin_read_bytes),
                volume.counters.origin_writes,
                Size(volume.counters.origin_written_bytes)
            ),
        ),
    ];
    lines.extend(volume.point.as_ref().map(|point| ("point", point_text(point))));
    lines.extend(limits(volume).map(|text| ("limits", text)));
    lines.extend(waits(volume).map(|text| ("waits", text)));
    if let Some(error) = &volume.destage_error {
        let (seconds, times) = (volume.destage_failing_seconds, volume.counters.destage_failures);
        lines.push(("destage fails", format!("{error}; for {seconds:.0} s, {times} failures since the start")));
    }
    if volume.origin_owes_seconds >= SILENCE_SECONDS {
        let paused = if volume.dirty_bytes > 0 { "; destage waits for it" } else { "" };
        lines.push(("not answering", format!("the origin, for {:.0} s{paused}", volume.origin_owes_seconds)));
    }
    if volume.counters.origin_timeouts > 0 {
        lines.push((
            "given up",
            format!("{} requests that the origin did not answer in time", volume.counters.origin_timeouts),
        ));
    }
    lines.extend(elsewhere(volume));
    if !volume.attached {
        lines.push(("cache", "detached: the origin serves alone".to_owned()));
    }
    if volume.lost_bytes > 0 {
        let listed: Vec<_> = volume.lost_ranges.iter().map(|(offset, len)| format!("{len} at {offset}")).collect();
        lines.push((
            "lost",
            format!("{} that only the cache had: bytes {}", Size(volume.lost_bytes), listed.join(", ")),
        ));
    }
    if let Some(detection) = volume.detection.as_ref().filter(|detection| detection.file_systems > 0) {
        lines.push(("blocks", blocks(detection)));
    }
    lines.extend(volume.detection.as_ref().and_then(|detection| detection.scan).map(|scan| ("scan", scanned(scan))));
    lines.extend(volume.poisoned.iter().map(|reason| ("writes refused", reason.clone())));
    let classes = if volume.classes.is_empty() { String::new() } else { indented(&classes(volume).aligned()) };
    block(&heading, &lines) + &classes + &indented(&latencies(volume).aligned())
}

/// What was asked of another machine, where the origin is.
fn elsewhere(volume: &Volume) -> impl Iterator<Item = (&'static str, String)> {
    let nbd = volume.origin_counters.nbd.filter(|nbd| nbd.reconnections + nbd.failed_connects > 0).map(|nbd| {
        let resent = Size(nbd.resent_bytes);
        format!(
            "connected again {} times, {resent} sent again; {} attempts failed",
            nbd.reconnections, nbd.failed_connects
        )
    });
    let s3 = volume.origin_counters.s3.map(|s3| {
        let (sent, received) = (Size(s3.put_bytes), Size(s3.got_bytes));
        format!(
            "{} puts ({sent}), {} gets ({received}), {} lists, {} deletes; {} generations, {} retries",
            s3.puts, s3.gets, s3.lists, s3.deletes, s3.generations, s3.retries
        )
    });
    let bill = volume.origin_counters.s3_bill.map(|bill| {
        let S3Prices { source, date, .. } = S3Prices::AWS;
        let (sent, received) = (Size(bill.put_bytes_per_day as u64), Size(bill.got_bytes_per_day as u64));
        let S3Bill { requests_per_day, dollars_per_month, transfer_dollars_per_month, .. } = bill;
        format!(
            "{requests_per_day:.0} requests a day ({sent} sent, {received} received): ${dollars_per_month:.2} in 30 days, \
             and ${transfer_dollars_per_month:.2} if it crosses the internet ({source}, {date})"
        )
    });
    [("server", nbd), ("bucket", s3), ("costs", bill)].into_iter().filter_map(|(what, told)| Some((what, told?)))
}

/// How fast requests may begin, if that is limited.
fn limits(volume: &Volume) -> Option<String> {
    let requests = volume.iops.map(|iops| format!("{iops} requests/s"));
    let bytes = volume.bandwidth_bytes.map(|bytes| format!("{}/s", Size(bytes)));
    let limits: Vec<_> = requests.into_iter().chain(bytes).collect();
    (!limits.is_empty()).then(|| format!("{}; {} s of it may be saved up", limits.join(", "), volume.burst_seconds))
}

/// The last consistent point of an origin, and how far it is behind.
fn point_text(point: &Point) -> String {
    let behind = match point.age_seconds {
        0.0 => "nothing is newer".to_owned(),
        age => format!(
            "writes of the last {age:.0} s are newer (writes are slowed from {:.0} s on)",
            point.max_age_seconds
        ),
    };
    match point.number {
        0 => format!("none yet; {behind}"),
        number => format!("number {number}; {behind}"),
    }
}

/// How clients have waited before their requests began, if they have.
fn waits(volume: &Volume) -> Option<String> {
    let WaitCounters { limit_waits, dirty_waits, journal_waits, ram_waits, point_waits, .. } = volume.waits;
    let told = |count: u64, us: u64, what: &str| {
        (count > 0).then(|| format!("{count} requests {what}, {:.1} s in total", us as f64 / 1e6))
    };
    let now = |count: u64, what: &str| (count > 0).then(|| format!("{count} {what} now"));
    let all = [
        told(limit_waits, volume.waits.limit_waited_us, "for the limits"),
        now(volume.waiting_limit, "wait for the limits"),
        told(dirty_waits, volume.waits.dirty_waited_us, "for room for dirty data"),
        told(journal_waits, volume.waits.journal_waited_us, "for the journal"),
        told(ram_waits, volume.waits.ram_waited_us, "for RAM"),
        told(point_waits, volume.waits.point_waited_us, "for a point"),
        now(volume.waiting_room, "writes are slowed"),
    ];
    let all: Vec<_> = all.into_iter().flatten().collect();
    (!all.is_empty()).then(|| all.join("; "))
}

/// The results of block detection in a volume.
fn blocks(detection: &Detection) -> String {
    let Detection { file_systems, inodes, ranges, forgotten, ram_bytes, scan: _ } = *detection;
    let left_out = if forgotten > 0 { format!(", {forgotten} not kept for lack of room") } else { String::new() };
    format!(
        "{file_systems} file systems, {inodes} inodes read, {ranges} ranges known{left_out}; {} of RAM",
        Size(ram_bytes)
    )
}

/// The progress of the scan of a volume's metadata.
fn scanned(scan: Scan) -> String {
    let read = Size(scan.read_bytes);
    if scan.done { format!("done: {read} read") } else { format!("{read} read, {} to go", Size(scan.left_bytes)) }
}

/// The requests by class.
fn classes(volume: &Volume) -> Table {
    let mut table = Table::new(["class", "reads", "read", "hits", "writes", "written", "around the cache"]);
    for ClassOfRequests { name, counters: asked, .. } in &volume.classes {
        let (read, written) = (Size(asked.read_bytes), Size(asked.write_bytes));
        table.row(vec![
            name.clone(),
            asked.reads.to_string(),
            read.to_string(),
            percent(asked.read_hit_extents, asked.read_extents),
            asked.writes.to_string(),
            written.to_string(),
            format!("{} extents", asked.around_extents()),
        ]);
    }
    table
}

fn latencies(volume: &Volume) -> Table {
    let mut table = Table::new(["latency, µs", "requests", "mean", "p50", "p90", "p99", "p99.9", "max"]);
    for (name, latency) in [
        ("read hit", &volume.read_hit_latency),
        ("read miss", &volume.read_miss_latency),
        ("write", &volume.write_latency),
        ("flush", &volume.flush_latency),
    ] {
        let Latency { count, mean_us, p50_us, p90_us, p99_us, p999_us, max_us, at_most: _ } = latency;
        let mut row = vec![name.to_owned(), count.to_string()];
        row.extend([mean_us.round() as u64, *p50_us, *p90_us, *p99_us, *p999_us, *max_us].map(|us| match us {
            _ if *count == 0 => "–".to_owned(),
            0 => "<1".to_owned(),
            us => us.to_string(),
        }));
        table.row(row);
    }
    table
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}\n")).collect()
}
