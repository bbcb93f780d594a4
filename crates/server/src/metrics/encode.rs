//! The metrics as text: OpenMetrics 1.0, or Prometheus' older format (0.0.4) for those that ask for it.

use super::table::{Kind, METRICS, Metric, NAMES_MAX, Samples, Scope, Unit};
use crate::control::protocol::{CacheDevice, Latency, Status};
use nitro_engine::metrics::LATENCY_BOUNDS_US;
use nitro_units::Counted;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{self, Registry};
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

/// A format of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextFormat {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// Prometheus 0.0.4.
    Prometheus,
}

impl TextFormat {
    /// The media type.
    pub(crate) const fn media_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// All metrics of a server.
pub(crate) fn encode(status: &Arc<Status>, format: TextFormat) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Told(Arc::clone(status))));
    let mut text = String::new();
    text::encode(&mut text, &registry)?;
    Ok(if format == TextFormat::OpenMetrics { text } else { older(&text) })
}

/// Converts OpenMetrics to the older format: families of counters have the names of their samples, and there are
/// neither units nor an end marker.
fn older(text: &str) -> String {
    let counters = METRICS.iter().filter(|metric| metric.kind == Kind::Counter);
    let families: HashSet<String> = counters.map(|metric| format!("{}{}", metric.name, metric.unit.suffix())).collect();
    let mut out = String::with_capacity(text.len());
    for line in text.lines().filter(|line| !line.starts_with("# UNIT") && *line != "# EOF") {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some(what), Some(family), Some(rest)) if families.contains(family) => {
                out += &format!("# {what} {family}_total {rest}\n");
            }
            _ => {
                out += line;
                out.push('\n');
            }
        }
    }
    out
}

/// The status of a server.
#[derive(Debug)]
struct Told(Arc<Status>);

impl Collector for Told {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        METRICS.iter().try_for_each(|metric| family(&mut encoder, metric, &self.0))
    }
}

/// A sample's labels: names and values.
type Labels<'a> = Vec<(&'static str, &'a str)>;

/// A metric's samples, and its description if there are any.
fn family(encoder: &mut DescriptorEncoder<'_>, metric: &Metric, status: &Status) -> Result<(), fmt::Error> {
    let (samples, latencies) = (samples(metric, status), latencies(metric, status));
    if samples.is_empty() && latencies.is_empty() {
        return Ok(());
    }
    let (kind, unit) = match (metric.kind, metric.unit) {
        (Kind::Counter, unit) => (MetricType::Counter, unit),
        (Kind::Gauge, unit) => (MetricType::Gauge, unit),
        (Kind::Histogram, unit) => (MetricType::Histogram, unit),
    };
    let unit = match unit {
        Unit::None => None,
        Unit::Bytes => Some(registry::Unit::Bytes),
        Unit::Seconds => Some(registry::Unit::Seconds),
        Unit::Ratio => Some(registry::Unit::Other("ratio".to_owned())),
    };
    let mut encoder = encoder.encode_descriptor(&metric.name, metric.help, unit.as_ref(), kind)?;
    for (labels, value) in samples {
        if labels.is_empty() {
            value_of(encoder, metric.kind, value)?;
            return Ok(());
        }
        value_of(encoder.encode_family(&labels)?, metric.kind, value)?;
    }
    for (labels, latency) in latencies {
        let bounds = LATENCY_BOUNDS_US.map(|us| us as f64 / 1e6);
        let infinite = std::iter::once((f64::INFINITY, latency.count));
        let mut below = 0;
        // The encoder adds up.
        let each = bounds.into_iter().zip(latency.at_most).chain(infinite).map(|(bound, at_most)| {
            let count = at_most.saturating_sub(below);
            below = at_most.max(below);
            (bound, count)
        });
        let each: Vec<_> = each.collect();
        let sum = latency.mean_us * latency.count as f64 / 1e6;
        encoder.encode_family(&labels)?.encode_histogram::<NoLabelSet>(sum, latency.count, &each, None)?;
    }
    Ok(())
}

fn value_of(encoder: MetricEncoder<'_>, kind: Kind, value: f64) -> Result<(), fmt::Error> {
    match kind {
        Kind::Counter => ConstCounter::new(value).encode(encoder),
        Kind::Gauge | Kind::Histogram => ConstGauge::new(value).encode(encoder),
    }
}

/// All samples of a metric that is not a histogram.
fn samples<'a>(metric: &Metric, status: &'a Status) -> Vec<(Labels<'a>, f64)> {
    // One that stands for there being none has no name in a file either.
    let caches = || status.caches.iter().filter(|cache| cache.health != "none").take(NAMES_MAX);
    let volumes = || status.volumes.iter().take(NAMES_MAX);
    let stores = || status.stores.iter().take(NAMES_MAX);
    match &metric.samples {
        Samples::Server(value) => vec![(Vec::new(), value(status))],
        Samples::Version => vec![(vec![("version", &*status.server.version)], 1.0)],
        Samples::Cache(value) => caches().map(|c| (vec![("cache", &*c.name)], value(c))).collect(),
        Samples::SomeCaches(value) => caches().filter_map(|c| Some((vec![("cache", &*c.name)], value(c)?))).collect(),
        Samples::CacheParts(label, values) => {
            let of = |c| move |(part, value)| (vec![("cache", name_of(c)), (label, part)], value);
            caches().flat_map(|c| values(c).into_iter().map(of(c))).collect()
        }
        Samples::CacheDevice(value) => caches()
            .flat_map(|c| {
                let labels = |d: &'a CacheDevice| vec![("cache", &*c.name), ("device", &*d.path)];
                c.devices.iter().map(move |device| (labels(device), value(device)))
            })
            .collect(),
        Samples::CacheClass(value) => caches()
            .flat_map(|c| {
                c.classes.iter().map(move |class| (vec![("cache", &*c.name), ("class", &*class.name)], value(class)))
            })
            .collect(),
        Samples::Volume(value) => volumes().map(|v| (vec![("volume", &*v.name)], value(v))).collect(),
        Samples::SomeVolumes(value) => {
            volumes().filter_map(|v| Some((vec![("volume", &*v.name)], value(v)?))).collect()
        }
        Samples::Counted(Scope::Cache, values) => {
            caches().flat_map(|c| counted(&[&c.name], Scope::Cache, values, c.counted())).collect()
        }
        Samples::Counted(Scope::Volume, values) => {
            volumes().flat_map(|v| counted(&[&v.name], Scope::Volume, values, v.counted())).collect()
        }
        Samples::Counted(Scope::VolumeClass, values) => volumes()
            .flat_map(|v| v.classes.iter().map(move |class| (v, class)))
            .flat_map(|(v, class)| counted(&[&v.name, &class.name], Scope::VolumeClass, values, class.counters.each()))
            .collect(),
        Samples::Counted(Scope::VolumeNbd, values) => volumes()
            .filter_map(|v| Some((v, v.origin_counters.nbd?)))
            .flat_map(|(v, nbd)| counted(&[&v.name], Scope::VolumeNbd, values, nbd.each()))
            .collect(),
        Samples::Counted(Scope::VolumeS3, values) => volumes()
            .filter_map(|v| Some((v, v.origin_counters.s3?)))
            .flat_map(|(v, s3)| counted(&[&v.name], Scope::VolumeS3, values, s3.each()))
            .collect(),
        Samples::Counted(Scope::Store, values) => {
            stores().flat_map(|s| counted(&[&s.path], Scope::Store, values, s.counted())).collect()
        }
        Samples::Store(value) => stores().map(|s| (vec![("store", &*s.path)], value(s))).collect(),
        Samples::StoreParts(label, values) => stores()
            .flat_map(|s| {
                values(s).into_iter().map(move |(part, value)| (vec![("store", &*s.path), (label, part)], value))
            })
            .collect(),
        Samples::Latencies(..) => Vec::new(),
    }
}

/// The samples of counters of a thing with the names of its labels, of which `all` are known.
fn counted<'a>(
    names: &[&'a str],
    scope: Scope,
    values: &[&'static Counted],
    all: impl Iterator<Item = (&'static Counted, u64)>,
) -> Vec<(Labels<'a>, f64)> {
    let all: Vec<_> = all.collect();
    let sample = |wanted: &&'static Counted| {
        let (_, value) = all.iter().find(|(counted, _)| counted == wanted)?;
        let part = wanted.part.map(|part| (part.label, part.value));
        let labels = scope.labels().iter().copied().zip(names.iter().copied()).chain(part).collect();
        let scale = if Unit::of(wanted).1 == Unit::Seconds { 1e-6 } else { 1.0 };
        Some((labels, *value as f64 * scale))
    };
    values.iter().filter_map(sample).collect()
}

fn name_of(cache: &crate::control::protocol::Cache) -> &str {
    &cache.name
}

fn latencies<'a>(metric: &Metric, status: &'a Status) -> Vec<(Labels<'a>, Latency)> {
    let Samples::Latencies(label, values) = &metric.samples else { return Vec::new() };
    let volumes = status.volumes.iter().take(NAMES_MAX);
    let of = |v: &'a crate::control::protocol::Volume| {
        values(v).into_iter().map(move |(kind, latency)| (vec![("volume", &*v.name), (label, kind)], latency))
    };
    volumes.flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::protocol::{Cache, ClassOfRequests, Volume};
    use crate::export::WaitCounters;
    use nitro_cache::Stats;
    use nitro_engine::metrics::{ClassCounters, VolumeCounters};

    fn status() -> Arc<Status> {
        let mut read_hit_latency = Latency { count: 3, mean_us: 2_000.0, ..Latency::default() };
        read_hit_latency.at_most[12..].fill(2);
        Arc::new(Status {
            caches: vec![Cache {
                name: "fast".into(),
                health: "caching".into(),
                manager: Stats { hits: 7, ..Stats::default() },
                ..Cache::default()
            }],
            volumes: vec![Volume {
                name: "v\"m".into(),
                counters: VolumeCounters { reads: 5, ..VolumeCounters::default() },
                waits: WaitCounters { limit_waited_us: 1_500_000, ..WaitCounters::default() },
                read_hit_latency,
                classes: vec![ClassOfRequests {
                    name: "meta".into(),
                    counters: ClassCounters { reads: 2, writes: 1, ..ClassCounters::default() },
                    ..ClassOfRequests::default()
                }],
                ..Volume::default()
            }],
            ..Status::default()
        })
    }

    #[test]
    fn open_metrics_and_the_older_format_have_the_same_samples() {
        let (new, old) =
            (encode(&status(), TextFormat::OpenMetrics).unwrap(), encode(&status(), TextFormat::Prometheus).unwrap());
        let samples =
            |text: &str| text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(samples(&new), samples(&old));
        assert!(new.ends_with("# EOF\n") && !old.contains("# EOF") && !old.contains("# UNIT"));
        assert!(new.contains("# TYPE nitro_cache_lookups counter\n"), "{new}");
        assert!(old.contains("# TYPE nitro_cache_lookups_total counter\n"), "{old}");
        assert!(old.contains("# HELP nitro_cache_lookups_total Extents looked up"), "{old}");
    }

    #[test]
    fn samples_have_their_labels_and_values() {
        let text = encode(&status(), TextFormat::OpenMetrics).unwrap();
        for line in [
            "nitro_cache_lookups_total{cache=\"fast\",result=\"hit\"} 7.0",
            "nitro_volume_requests_total{volume=\"v\\\"m\",operation=\"read\"} 5.0",
            "nitro_volume_waited_seconds_total{volume=\"v\\\"m\",cause=\"limit\"} 1.5",
            "nitro_volume_class_requests_total{volume=\"v\\\"m\",class=\"meta\",operation=\"read\"} 2.0",
            "nitro_volume_request_duration_seconds_bucket{le=\"0.001\",volume=\"v\\\"m\",kind=\"read_hit\"} 2",
            "nitro_volume_request_duration_seconds_bucket{le=\"0.0007\",volume=\"v\\\"m\",kind=\"read_hit\"} 0",
            "nitro_volume_request_duration_seconds_bucket{le=\"+Inf\",volume=\"v\\\"m\",kind=\"read_hit\"} 3",
            "nitro_volume_request_duration_seconds_sum{volume=\"v\\\"m\",kind=\"read_hit\"} 0.006",
        ] {
            assert!(text.lines().any(|told| told == line), "{line} is not in {text}");
        }
    }

    #[test]
    fn series_are_bounded() {
        let volume = |i| Volume { name: format!("v{i:04}"), ..Volume::default() };
        let status = Arc::new(Status { volumes: (0..400).map(volume).collect(), ..Status::default() });
        let text = encode(&status, TextFormat::OpenMetrics).unwrap();
        assert_eq!(text.lines().filter(|line| line.starts_with("nitro_volume_size_bytes{")).count(), NAMES_MAX);
        assert!(text.contains("\nnitro_names_left_out 144.0\n"));
    }
}
