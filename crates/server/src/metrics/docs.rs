//! docs/METRICS.md is generated from the table.

#[cfg(test)]
mod tests {
    use crate::metrics::table::Scope;
    use crate::metrics::{Kind, METRICS, Metric};
    use nitro_engine::metrics::LATENCY_BOUNDS_US;
    use std::path::Path;
    use std::{env, fs};

    const HEAD: &str = "\
# Metrics

`nitro serve --http 127.0.0.1:9470` serves these metrics at `/metrics`: as OpenMetrics 1.0 if the client asks for it, otherwise in
Prometheus' text format 0.0.4. Counters start at 0 with the server. `packaging/prometheus/nitro.rules.yml` has alerts,
`packaging/grafana/nitro.json` is a dashboard. The labels `cache` and `volume` are names from the configuration, the first 256 of each;
`class` is one of at most 32; the meaning lists the values of other labels.

This page is generated from `crates/server/src/metrics/table.rs` and the declarations of counters (`counters!`) by `NITRO_WRITE_DOCS=1 cargo test -p nitro-server metrics`.

| metric | kind | labels | meaning |
|---|---|---|---|
";

    fn page() -> String {
        let mut page = HEAD.to_owned();
        for metric in &*METRICS {
            let kind = match metric.kind {
                Kind::Counter => "counter",
                Kind::Gauge => "gauge",
                Kind::Histogram => "histogram",
            };
            let labels = metric.labels().iter().map(|label| format!("`{label}`")).collect::<Vec<_>>().join(", ");
            page += &format!("| `{}` | {kind} | {labels} | {} |\n", metric.full_name(), metric.help);
        }
        let bounds = LATENCY_BOUNDS_US.map(|us| format!("{}", us as f64 / 1e6)).join(", ");
        page += &format!("\nBounds of the histogram's buckets, in seconds: {bounds}.\n");
        page
    }

    #[test]
    fn every_loss_has_an_alert() {
        let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/prometheus/nitro.rules.yml");
        let rules = fs::read_to_string(rules).unwrap();
        let expressions: Vec<_> =
            rules.split("- alert:").skip(1).filter_map(|alert| alert.split("annotations:").next()).collect();
        let metric = |scope, counted| METRICS.iter().find(|metric| metric.has(scope, counted)).unwrap().full_name();
        let losses = |scope: Scope| scope.counters().filter(|counted| counted.is_loss).map(move |c| metric(scope, c));
        let counters = Scope::ALL.into_iter().flat_map(losses);
        // An alert shows for how long destage has failed, rather than how often.
        let by_time = |name: String| name.replace("destage_failures_total", "destage_failing_seconds");
        let others = [
            "nitro_volume_lost_bytes",
            "nitro_cache_recovered_lost_bytes",
            "nitro_store_poisoned",
            "nitro_store_ssd_errors_total",
            "nitro_recording_dropped_total",
            "nitro_log_lines_left_out_total",
        ];
        for what in counters.map(by_time).chain(others.map(str::to_owned)) {
            assert!(expressions.iter().any(|alert| alert.contains(&what)), "no alert has {what}");
        }
    }

    #[test]
    fn names_have_base_units() {
        for name in METRICS.iter().map(Metric::full_name) {
            let is_base =
                |word: &str| !["us", "ms", "ns", "microseconds", "milliseconds", "kib", "mib"].contains(&word);
            assert!(name.split('_').all(is_base), "{name}");
        }
    }

    #[test]
    fn the_page_says_what_the_table_says() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/METRICS.md");
        if env::var_os("NITRO_WRITE_DOCS").is_some() {
            fs::write(&path, page()).unwrap();
        }
        let written = fs::read_to_string(&path).unwrap_or_default();
        assert!(written == page(), "docs/METRICS.md is not what the table makes of it: NITRO_WRITE_DOCS=1 writes it");
    }

    /// The words of an expression of Prometheus, without its strings.
    fn words(expression: &str) -> impl Iterator<Item = &str> {
        let outside = expression.split('"').step_by(2);
        outside.flat_map(|part| part.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '$'))
    }

    /// The metric that a word of an expression names, if need be without the suffix of a histogram's parts.
    fn metric_of(word: &str) -> Option<&'static Metric> {
        METRICS.iter().find(|metric| {
            let rest = word.strip_prefix(&metric.full_name());
            rest == Some("") || metric.kind == Kind::Histogram && matches!(rest, Some("_bucket" | "_count" | "_sum"))
        })
    }

    #[test]
    fn each_panel_of_the_dashboard_has_a_metric_and_its_labels() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/grafana/nitro.json");
        let dashboard: serde_json::Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
        let panels = dashboard["panels"].as_array().unwrap();
        assert!(panels.len() > 20, "{} panels", panels.len());
        for panel in panels.iter().filter(|panel| panel["type"] != "row") {
            let (title, targets) = (&panel["title"], panel["targets"].as_array().unwrap());
            assert!(!targets.is_empty(), "panel {title} shows nothing");
            for target in targets {
                let expression = target["expr"].as_str().unwrap();
                let metrics: Vec<_> = words(expression).filter_map(metric_of).collect();
                assert!(!metrics.is_empty(), "panel {title}: {expression} names no metric");
                let known = |label: &str| {
                    ["instance", "le"].contains(&label) || metrics.iter().any(|metric| metric.labels().contains(&label))
                };
                let groups = ["by (", "on("].into_iter().flat_map(|begin| expression.split(begin).skip(1));
                let by = groups.filter_map(|rest| rest.split(')').next()).flat_map(|list| list.split(','));
                let matched = expression.match_indices("=~").chain(expression.match_indices("=\""));
                let matched = matched.filter_map(|(at, _)| expression[..at].rsplit(['{', ',']).next());
                let legend = target["legendFormat"].as_str().unwrap_or_default();
                let shown = legend.split("{{").skip(1).filter_map(|rest| rest.split("}}").next());
                for label in by.chain(matched).chain(shown) {
                    assert!(known(label.trim()), "panel {title}: {expression} has no label {label}");
                }
            }
        }
    }

    #[test]
    fn dashboard_and_alerts_name_metrics_that_there_are() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging");
        let mut names: Vec<String> = METRICS.iter().map(|metric| metric.full_name()).collect();
        let histograms =
            METRICS.iter().filter(|metric| metric.kind == Kind::Histogram).map(|metric| metric.full_name());
        names.extend(histograms.flat_map(|name| ["_bucket", "_count", "_sum"].map(|end| format!("{name}{end}"))));
        for file in ["prometheus/nitro.rules.yml", "prometheus/nitro.rules.test.yml", "grafana/nitro.json"] {
            let text = fs::read_to_string(folder.join(file)).unwrap();
            let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let told: Vec<_> = words.filter(|word| word.starts_with("nitro_")).collect();
            assert!(told.len() > 10, "{file} names {told:?}");
            for word in told {
                assert!(names.iter().any(|name| name == word), "{file} names {word}, which is no metric");
            }
        }
    }
}
