//! Outcomes as Parquet: a row for each period of an outcome, or one row for an outcome without periods.

use crate::{Error, Latency, Measures, Outcome, Pace};
use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::Result as ParquetResult;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

/// A column of the table.
enum Column {
    Text(Vec<String>),
    Count(Vec<u64>),
    Real(Vec<f64>),
}

/// Writes outcomes to a file, which is created or replaced.
///
/// # Errors
/// [`Error::Results`]: the file cannot be written.
pub fn write_parquet(path: &Path, outcomes: &[Outcome]) -> Result<(), Error> {
    let failed = |reason: String| Error::Results { path: path.display().to_string(), reason };
    let file = File::create(path).map_err(|error| failed(error.to_string()))?;
    write(file, &columns(outcomes)).map_err(|error| failed(error.to_string()))
}

fn columns(outcomes: &[Outcome]) -> Vec<(&'static str, Column)> {
    let windows = |outcome: &Outcome| -> Vec<Measures> {
        if outcome.periods.is_empty() { vec![outcome.measured.clone()] } else { outcome.periods.clone() }
    };
    let rows: Vec<(&Outcome, Measures)> =
        outcomes.iter().flat_map(|outcome| windows(outcome).into_iter().map(move |window| (outcome, window))).collect();
    let text = |get: &dyn Fn(&Outcome) -> String| Column::Text(rows.iter().map(|(outcome, _)| get(outcome)).collect());
    let set = |get: &dyn Fn(&Outcome) -> u64| Column::Count(rows.iter().map(|(outcome, _)| get(outcome)).collect());
    let count = |get: &dyn Fn(&Measures) -> u64| Column::Count(rows.iter().map(|(_, window)| get(window)).collect());
    let real = |get: &dyn Fn(&Measures) -> f64| Column::Real(rows.iter().map(|(_, window)| get(window)).collect());
    // Values that were not modelled are NaN.
    let pace = |get: &dyn Fn(&Pace) -> f64| {
        Column::Real(rows.iter().map(|(_, window)| window.pace.as_ref().map_or(f64::NAN, get)).collect())
    };
    let read = |get: &dyn Fn(&Latency) -> f64| pace(&|pace| get(&pace.read_response));
    vec![
        ("settings", text(&|o| serde_json::to_string(&o.settings).unwrap_or_default())),
        ("variant", text(&|o| o.settings.variant.to_string())),
        ("cache_bytes", set(&|o| o.settings.cache_bytes)),
        ("extent_bytes", set(&|o| o.settings.extent_bytes.into())),
        ("dedup", set(&|o| o.settings.dedup.into())),
        ("compress", set(&|o| o.settings.compress.into())),
        ("fingerprint_index_percent", set(&|o| o.settings.fingerprint_index_percent.into())),
        ("ram_bytes", set(&|o| o.ram_bytes)),
        ("begin_s", real(&|m| m.begin_s)),
        ("end_s", real(&|m| m.end_s)),
        ("requests", count(&|m| m.requests)),
        ("reads", count(&|m| m.reads)),
        ("read_hits", count(&|m| m.read_hits)),
        ("read_hit_ratio", real(&|m| m.read_hit_ratio)),
        ("writes", count(&|m| m.writes)),
        ("read_extents", count(&|m| m.read_extents)),
        ("read_extent_hits", count(&|m| m.read_extent_hits)),
        ("read_extent_hit_ratio", real(&|m| m.read_extent_hit_ratio)),
        ("ram_hits", count(&|m| m.ram_hits)),
        ("readahead_hits", count(&|m| m.readahead_hits)),
        ("readahead_extents", count(&|m| m.readahead_extents)),
        ("missed_cold", count(&|m| m.missed.cold)),
        ("missed_evicted", count(&|m| m.missed.evicted)),
        ("missed_overwritten", count(&|m| m.missed.overwritten)),
        ("missed_refused", count(&|m| m.missed.refused)),
        ("missed_stream", count(&|m| m.missed.stream)),
        ("dedup_ratio", real(&|m| m.dedup_ratio)),
        ("compression_ratio", real(&|m| m.compression_ratio)),
        ("inserted_bytes", count(&|m| m.inserted_bytes)),
        ("unique_bytes", count(&|m| m.unique_bytes)),
        ("stored_bytes", count(&|m| m.stored_bytes)),
        ("ssd_bytes_written", count(&|m| m.ssd_bytes_written)),
        ("write_amplification", real(&|m| m.write_amplification)),
        ("erasures", count(&|m| m.erasures)),
        ("evictions", count(&|m| m.evictions)),
        ("forwarded_extents", count(&|m| m.forwarded_extents)),
        ("cached_extents", count(&|m| m.cached_extents)),
        ("iops", pace(&|p| p.iops)),
        ("read_response_mean_us", read(&|l| l.mean_us)),
        ("read_response_p50_us", read(&|l| l.p50_us)),
        ("read_response_p90_us", read(&|l| l.p90_us)),
        ("read_response_p99_us", read(&|l| l.p99_us)),
        ("read_response_p999_us", read(&|l| l.p999_us)),
        ("write_response_mean_us", pace(&|p| p.write_response.mean_us)),
        ("disks_busy", pace(&|p| p.disks_busy)),
        ("ram_bytes_per_extent", Column::Real(rows.iter().map(|(outcome, _)| outcome.ram_bytes_per_extent).collect())),
    ]
}

fn write(file: File, columns: &[(&'static str, Column)]) -> ParquetResult<()> {
    let mut fields = Vec::new();
    for (name, column) in columns {
        let (physical, logical) = match column {
            Column::Text(_) => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            Column::Count(_) => (Physical::INT64, None),
            Column::Real(_) => (Physical::DOUBLE, None),
        };
        let field = Type::primitive_type_builder(name, physical).with_logical_type(logical);
        fields.push(Arc::new(field.with_repetition(Repetition::REQUIRED).build()?));
    }
    let schema = Arc::new(Type::group_type_builder("outcome").with_fields(fields).build()?);
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?))
        .set_created_by(format!("nitro-sim {}", env!("CARGO_PKG_VERSION")));
    let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties.build()))?;
    let mut group = writer.next_row_group()?;
    for (_, values) in columns {
        let Some(mut column) = group.next_column()? else { break };
        match values {
            Column::Text(values) => {
                let values: Vec<ByteArray> = values.iter().map(|text| text.as_str().into()).collect();
                column.typed::<ByteArrayType>().write_batch(&values, None, None)?;
            }
            Column::Count(values) => {
                let values: Vec<i64> = values.iter().map(|value| *value as i64).collect();
                column.typed::<Int64Type>().write_batch(&values, None, None)?;
            }
            Column::Real(values) => {
                column.typed::<DoubleType>().write_batch(values, None, None)?;
            }
        }
        column.close()?;
    }
    group.close()?;
    writer.close().map(drop)
}
