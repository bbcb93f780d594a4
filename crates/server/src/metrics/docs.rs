//! docs/METRICS.md is generated from the table.

#[cfg(test)]
mod tests {
    use crate::metrics::{Kind, METRICS};
    use nitro_engine::metrics::LATENCY_BOUNDS_US;
    use std::path::Path;
    use std::{env, fs};

    const HEAD: &str = "\
# Metrics

`nitro serve --http 127.0.0.1:9470` serves these metrics at `/metrics`: as OpenMetrics 1.0 if the client asks for it, otherwise in
Prometheus' text format 0.0.4. Counters start at 0 with the server. `packaging/prometheus/nitro.rules.yml` has alerts,
`packaging/grafana/nitro.json` is a dashboard. The labels `cache` and `volume` are names from the configuration, the first 256 of each;
`class` is one of at most 32; the meaning lists the values of other labels.

This page is generated from `crates/server/src/metrics/table.rs` by `NITRO_WRITE_DOCS=1 cargo test -p nitro-server metrics`.

| metric | kind | labels | meaning |
|---|---|---|---|
";

    fn page() -> String {
        let mut page = HEAD.to_owned();
        for metric in METRICS {
            let kind = match metric.kind {
                Kind::Counter => "counter",
                Kind::Gauge => "gauge",
                Kind::Histogram => "histogram",
            };
            let labels = metric.labels().iter().map(|label| format!("`{label}`")).collect::<Vec<_>>().join(", ");
            page += &format!("| `{}` | {kind} | {labels} | {} |\n", metric.full_name(), metric.help);
        }
        let bounds = LATENCY_BOUNDS_US.map(|us| format!("{}", us as f64 / 1e6)).join(", ");
        page + &format!("\nBounds of the histogram's buckets, in seconds: {bounds}.\n")
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
